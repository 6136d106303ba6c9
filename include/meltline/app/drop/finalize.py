"""What the chain does with dropped tables: notices them, and lets them go when their time is up.

A dropped table whose frozen retention has ended is planned, gated and expired like any other; all
of its snapshots leave. Once nothing of it waits in failsafe any more, its registration goes, and
its metadata files depart as the last of it (TT-45). Deleting those takes
a purge plan and its gate, as ever.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from meltline.app.catalog.dropped import dropped_namespaces, is_let_go
from meltline.app.catalog.registrations import heirs, known_table
from meltline.app.catalog.tables import ObservedTable, observed_table, retention_of
from meltline.app.drop.external_drops import GoneTable, gone_tables, keep_gone_table
from meltline.app.expire.plan_expiration import untouchable
from meltline.app.observe.observe import Observation
from meltline.app.observe.recording import side_files_of
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.audit import audit
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import PlanState
from meltline.domain.drop.drops import LET_GO, read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, SideFile
from meltline.domain.iceberg.locations import is_odd, location_key
from meltline.domain.iceberg.names import selected
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.ports import DepartedFiles, FileReferences, ObjectReader, RegistrationReader


def process_drops(
    context: RunContext, observation: Observation, as_of: datetime, tables: tuple[str, ...] = ()
) -> bool:
    """Keeps tables that have left their catalog, and lets go those whose time is up.

    Nothing happens while a catalog cannot be listed or a table was never read: a UUID that seems
    gone may stand there under another name. While `meltline stop` is in force, or the catalog is
    not armed, nothing is let go.

    Args:
        context: The ports.
        observation: Every catalog as it was just seen.
        as_of: The logical date, which decides retention.
        tables: Globs; only tables that one of them fits are let go. None is all.

    Returns:
        Whether anything changed, so that what was observed is out of date.
    """
    if observation.purge_blocked:
        return False
    missing = [(table, table.state) for table in gone_tables(context) if table.state is not None]
    unfinished = [state for _, state in missing if is_let_go(state, as_of)]
    changed = [
        _keep(context, observation, table)
        for table, state in missing
        if not is_let_go(state, as_of)
    ]
    if _may_let_go(context, observation):
        after = _let_go_ended(context, observation, _ended(observation, as_of, tables))
        after = _finish(context, after, unfinished)
        changed += [after is not observation, *_forget_namespaces(context, after, as_of)]
    return any(changed)


def _may_let_go(context: RunContext, observation: Observation) -> bool:
    if context.control.switch.stopped() is not None:
        return False
    return not ArmingCheck.of(context).refusal(observation.listings[context.config.hot])


def due_drops(
    context: RunContext, observation: Observation, as_of: datetime, tables: tuple[str, ...] = ()
) -> list[ObservedTable]:
    """Dropped tables whose time is up, and of which nothing is left: what would be let go."""
    if observation.purge_blocked:
        return []
    return _settled(context, observation, _ended(observation, as_of, tables))


def _ended(
    observation: Observation, as_of: datetime, globs: tuple[str, ...]
) -> list[ObservedTable]:
    """Dropped tables whose time is up, and of which an expiration has taken everything."""
    ended = (t for t in observation.tables if t.managed and is_let_go(t.state, as_of))
    return [table for table in ended if selected(table.state.name, globs)]


def _let_go_ended(
    context: RunContext, observation: Observation, tables: Sequence[ObservedTable]
) -> Observation:
    """Lets tables go whose time is up, as far as it can be. Returns what is there then."""
    for table in _settled(context, observation, tables):
        if _let_go(context, observation, table):
            observation = _without(observation, table.state)
    return observation


def _finish(
    context: RunContext, observation: Observation, states: Iterable[TableMetadata]
) -> Observation:
    """Goes on with tables that an earlier run has begun to let go. Returns what is there then."""
    for state in states:
        if _lies_with_untouchable(observation, state):
            continue
        listing = observation.listings[state.name.catalog]
        _depart_metadata(context, observation, observed_table(context, state, listing))
        observation = _without(observation, state)
    return observation


def _without(observation: Observation, state: TableMetadata) -> Observation:
    """What is there once a table was let go: it names no file any more that another one has too."""
    remaining = tuple(table for table in observation.tables if table.state.name != state.name)
    row = replace(known_table(state, LET_GO, observation.at), incomplete=False)
    return replace(observation, tables=remaining, let_go={**observation.let_go, state.uuid: row})


def _keep(context: RunContext, observation: Observation, gone_table: GoneTable) -> bool:
    name = gone_table.row.name
    try:
        place = keep_gone_table(context, gone_table, observation.listings[name.catalog])
    except MeltlineError as error:  # its files stay where they are, as those of a gone table do
        context.progress(f"observe: {name} was dropped and cannot be kept: {error.message}")
        return False
    if place is not None:
        context.progress(f"observe: {name} was dropped; it is kept as {place}")
    return place is not None


def _settled(
    context: RunContext, observation: Observation, tables: Sequence[ObservedTable]
) -> list[ObservedTable]:
    """Those of which nothing waits in failsafe: until then `recover` needs their metadata.

    What an expiration took that was killed before it could record so, does not even wait yet, nor
    does what others took and what lies outside every root: nobody would plan it without the name.
    """
    if not tables:
        return []
    waiting = context.files.departures.waiting_plans()
    to_depart = _to_depart(
        context.files.references, observation, {table.state.uuid for table in tables}
    )
    return [
        table
        for table in tables
        if table.state.uuid not in to_depart
        and not any(
            plan.id in waiting or plan.state is PlanState.APPLYING
            for plan in context.control.plans.find(table_uuid=table.state.uuid)
        )
    ]


def _to_depart(references: FileReferences, observation: Observation, uuids: set[str]) -> set[str]:
    """Those of some empty tables of which files stay that no table refers to any more."""
    if not any(key.table_uuid in uuids for key in observation.dead):
        return set()
    beside = observation.groups.together(uuids)
    files = references.departing([k for k in observation.dead if k.table_uuid in beside])
    owners = (
        observation.owners.owners_or(file.path, uuids.intersection(file.table_uuids))
        for file in files
        if not is_odd(file.path)
    )
    return uuids & set[str]().union(*owners)


def _let_go(context: RunContext, observation: Observation, table: ObservedTable) -> bool:
    """Takes the registration away, then has the metadata files depart, then says so.

    A kill in between leaves a table that is gone from its catalog, empty and past its time: the
    next run goes on from there.
    """
    state = table.state
    if _lies_with_untouchable(observation, state):
        return False
    try:
        with group_locks(context, [state.uuid], f"let go {state.name}"):
            registrar = context.registrars[state.name.catalog]
            if not registrar.unregister(state.name, state.metadata_location):
                return False
            _depart_metadata(context, observation, table)
    except MeltlineError as stop:
        context.progress(f"observe: {state.name} is not let go today: {stop.message}")
        return False
    return True


def _lies_with_untouchable(observation: Observation, state: TableMetadata) -> bool:
    """Whether a table to leave alone owns its metadata too: let go, nothing would delete that."""
    owners = {o for file in side_files_of(state) for o in observation.owners.owners(file.path)}
    return not owners.isdisjoint(untouchable(observation))


def _depart_metadata(context: RunContext, observation: Observation, table: ObservedTable) -> None:
    state, now = table.state, context.clock.now()
    failsafe = retention_of(context.config.account, table, context.control.policies.all()).failsafe
    drop = read_drop(state.name.catalog, state.properties)
    assert drop is not None  # only such tables are let go
    marker = f"let-go-{drop.batch}-{state.uuid}"
    rows = [
        Departure(
            path=file.path,
            kind=file.kind,
            bytes=file.bytes or context.store.size(file.path) or 0,
            owner=state.uuid,
            plan_id=marker,
            departed_at=now,
            due_at=now + failsafe,
            state=DepartureState.FAILSAFE,
            recorded_at=now,
        )
        for file in _last_files(context, observation, state)
    ]
    context.files.departures.record({marker: rows})
    context.control.registrations.save([replace(known_table(state, LET_GO, now), incomplete=False)])
    detail = f"{state.name}: {len(rows)} metadata files depart"
    audit(context, LET_GO, str(drop.object), "its retention has ended", detail)


def _last_files(
    context: RunContext, observation: Observation, state: TableMetadata
) -> Iterable[SideFile]:
    """Files that the table alone has named, under its own prefix, and that are there."""
    recorded = context.files.side_files.known()
    own = [file for file in recorded if file.table_uuid == state.uuid]
    files = {location_key(file.path): file for file in (*side_files_of(state), *own)}
    needed = _named_by_others(context.control.registrations, observation, state, recorded)
    needed |= _departed(context.files.departures, files.values())
    hands_off = untouchable(observation)
    for key, file in files.items():
        owners = frozenset(observation.owners.owners(file.path))
        is_own = state.uuid in owners and not owners & hands_off
        if is_own and key not in needed and _is_there(context.store, file):
            yield file


def _named_by_others(
    registrations: RegistrationReader,
    observation: Observation,
    state: TableMetadata,
    recorded: Iterable[SideFile],
) -> set[str]:
    """Keys of the files that other tables name directly, or may name, under whatever name."""
    tables = (*observation.tables, *observation.left_behind)
    states = [table.state for table in tables if table.state.name != state.name]
    over = _read_or_over(registrations, observation, state)
    unsure = [file for file in recorded if file.table_uuid not in over]
    named = chain(unsure, *map(side_files_of, states))
    return {location_key(file.path) for file in named}


def _departed(departures: DepartedFiles, files: Iterable[SideFile]) -> set[str]:
    states = frozenset({DepartureState.FAILSAFE, DepartureState.DELETED})
    paths = [file.path for file in files]
    return {location_key(row.path) for row in departures.in_states(states, paths=paths)}


def _is_there(store: ObjectReader, file: SideFile) -> bool:
    """Whether there is a file of a kind that goes with its table; odd paths are left alone."""
    kinds = (FileKind.METADATA, FileKind.STATISTICS)
    return file.kind in kinds and not is_odd(file.path) and store.size(file.path) is not None


def _read_or_over(
    registrations: RegistrationReader, observation: Observation, state: TableMetadata
) -> Collection[str]:
    """Registrations that name no more than what was read of tables, by their ids.

    What one names that cannot be read now, or has gone, stays named. One that a table goes on from,
    as where that was set back for a while, has nothing of its own.
    """
    standing = [*(table.state for table in observation.tables), state]
    before = heirs(registrations.all(), standing).keys()
    return before | observation.let_go.keys() | {metadata.uuid for metadata in standing}


def _forget_namespaces(
    context: RunContext, observation: Observation, as_of: datetime
) -> Iterable[bool]:
    """Removes what remembers a dropped schema or database, after the last of its tables."""
    hot = context.config.hot
    dropped = [t.drop.object for t in observation.tables if t.drop and t.state.name.catalog == hot]
    for stone in dropped_namespaces(hot, observation.listings[hot]):
        empty = not any(stone.drop.object.covers(name.table_name) for name in dropped)
        held = is_held(stone.properties, context.clock.now())
        if not stone.drop.is_over(as_of) or not empty or held:
            continue
        context.registrars[hot].move([], remove=[stone.stands])
        audit(context, LET_GO, str(stone.drop.object), "its retention has ended")
        yield True
