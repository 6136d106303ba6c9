"""Reconciles external drops, and finalizes drops whose retention has ended.

The observe step calls it. A dropped table past its frozen retention is planned, gated and expired
like any other, with all of its snapshots. Once none of its files is in failsafe, its registration
is removed and its metadata files depart (TT-45). Deleting those takes a purge plan and its gate, as
always. It is apart from `drop/drop.py`, which runs at a user's command.
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
    """Keeps tables that have left their catalog, and finalizes those past their retention.

    It does nothing while a catalog cannot be listed or a table was never read: a UUID that seems
    gone may be registered there under another name. While `meltline stop` is in force, or the
    catalog is not armed, no drop is finalized.

    Args:
        context: The ports.
        observation: The current observation of every catalog.
        as_of: The logical date, which decides retention.
        tables: Globs; only matching tables are finalized. None is all.

    Returns:
        Whether anything changed, so that the observation is out of date.
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
    """Dropped tables that a run would finalize: past their retention, with no file left."""
    if observation.purge_blocked:
        return []
    return _settled(context, observation, _ended(observation, as_of, tables))


def _ended(
    observation: Observation, as_of: datetime, globs: tuple[str, ...]
) -> list[ObservedTable]:
    """Dropped tables past their retention whose snapshots have all expired."""
    ended = (t for t in observation.tables if t.managed and is_let_go(t.state, as_of))
    return [table for table in ended if selected(table.state.name, globs)]


def _let_go_ended(
    context: RunContext, observation: Observation, tables: Sequence[ObservedTable]
) -> Observation:
    """Finalizes tables past their retention, where possible. Returns the new observation."""
    for table in _settled(context, observation, tables):
        if _let_go(context, observation, table):
            observation = _without(observation, table.state)
    return observation


def _finish(
    context: RunContext, observation: Observation, states: Iterable[TableMetadata]
) -> Observation:
    """Resumes finalizing tables that an earlier run began. Returns the new observation."""
    for state in states:
        if _lies_with_untouchable(observation, state):
            continue
        listing = observation.listings[state.name.catalog]
        _depart_metadata(context, observation, observed_table(context, state, listing))
        observation = _without(observation, state)
    return observation


def _without(observation: Observation, state: TableMetadata) -> Observation:
    """Returns the observation without a finalized table, which references no file now."""
    remaining = tuple(table for table in observation.tables if table.state.name != state.name)
    row = replace(known_table(state, LET_GO, observation.at), incomplete=False)
    return replace(observation, tables=remaining, let_go={**observation.let_go, state.uuid: row})


def _keep(context: RunContext, observation: Observation, gone_table: GoneTable) -> bool:
    name = gone_table.row.name
    try:
        place = keep_gone_table(context, gone_table, observation.listings[name.catalog])
    except MeltlineError as error:  # its files stay, like those of any table that is gone
        context.progress(f"observe: {name} was dropped and cannot be kept: {error.message}")
        return False
    if place is not None:
        context.progress(f"observe: {name} was dropped; it is kept as {place}")
    return place is not None


def _settled(
    context: RunContext, observation: Observation, tables: Sequence[ObservedTable]
) -> list[ObservedTable]:
    """Tables without files in failsafe: until then `recover` needs their metadata.

    Files of an expiration that was killed before it recorded their departures are not in failsafe
    yet. Nor are files removed by other tools, and those outside every root: without the
    registration no run would plan them. Such tables are not finalized either.
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
    """Empty tables that still have files which no table references any more."""
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
    """Removes the registration, then records the departure of the metadata files.

    A kill in between leaves a table that is gone from its catalog, empty and past its retention:
    the next run resumes from there.
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
    """Whether a protected table owns its metadata too, so that no run would delete it."""
    owners = {o for file in side_files_of(state) for o in observation.owners.owners(file.path)}
    return not owners.isdisjoint(untouchable(observation))


def _depart_metadata(context: RunContext, observation: Observation, table: ObservedTable) -> None:
    state, now = table.state, context.clock.now()
    failsafe = retention_of(context.config.account, table, context.control.policies.all()).failsafe
    drop = read_drop(state.name.catalog, state.properties)
    assert drop is not None  # only tables with these facts are finalized
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
    """Existing files that only this table has referenced, under its own prefix."""
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
    """Keys of files that other registrations reference directly, or may reference."""
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
    """Whether a side file exists that goes with its table; implausible paths are left alone."""
    kinds = (FileKind.METADATA, FileKind.STATISTICS)
    return file.kind in kinds and not is_odd(file.path) and store.size(file.path) is not None


def _read_or_over(
    registrations: RegistrationReader, observation: Observation, state: TableMetadata
) -> Collection[str]:
    """Ids of registrations that reference nothing beyond what was read of the tables.

    Files of a registration that cannot be read now, or is gone, stay referenced. A registration
    that a table continues, as after a temporary reset, has nothing of its own.
    """
    standing = [*(table.state for table in observation.tables), state]
    before = heirs(registrations.all(), standing).keys()
    return before | observation.let_go.keys() | {metadata.uuid for metadata in standing}


def _forget_namespaces(
    context: RunContext, observation: Observation, as_of: datetime
) -> Iterable[bool]:
    """Removes the record of a dropped schema or database, after the last of its tables."""
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
