"""Drop and rename: moves a registration in the catalog, and copies or deletes no file.

A dropped table stays registered under its UUID in `meltline_dropped`, so that its files stay
referenced for every tool that reads the catalog. After its frozen retention has ended, a run
finalizes it (`app/drop/finalize.py`). The CLI and SQL statements call this module (TT-40 to TT-46).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from secrets import token_hex

from meltline.app.catalog.commit import follow, same_table
from meltline.app.catalog.dropped import dropped_place
from meltline.app.catalog.new_names import is_in, require_free, require_outer, target_name
from meltline.app.catalog.recovery_hints import recovery_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.resolve import find_object, load_table, require_changeable
from meltline.app.catalog.share_namespaces import follow_source, refuse_share
from meltline.app.catalog.tables import levels_around, observed_table, remembered, retention_of
from meltline.app.safety.audit import audit
from meltline.app.safety.preconditions import require_not_behind
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import PlanState
from meltline.domain.drop.drops import KEYS, Drop
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import Retention, effective_retention
from meltline.domain.units import format_instant
from meltline.ports import CatalogListing, CatalogRegistrar, PlanReader, TableEdit, TableMove

Namespaces = Mapping[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class DropDone:
    """Result of a drop.

    Attributes:
        drop: The facts that the object carries from now on.
        tables: The dropped tables, by their old names.
        recoverable: Tables that `recover` can restore after undrop no longer can: all with a
            commit. No purge deletes their files before `recoverable_until`.
    """

    drop: Drop
    tables: tuple[TableName, ...]
    recoverable: tuple[TableName, ...]
    recoverable_until: datetime

    def ways_back(self, undrop: str) -> str:
        """Explains how to restore it, and until when; `undrop` is the command to show."""
        name, end = self.drop.object, self.drop.ends_at
        if self.drop.is_restorable(self.drop.at):
            until = f", until {format_instant(end)}" if end else ", for ever"
            return f"`{undrop} {name}` brings it back{until}."
        refused = "Its retention is 0 days: no undrop brings it back"
        if not self.recoverable:
            return f"{refused}, and it has no commit to recover."
        until = format_instant(self.recoverable_until)
        which = self.recoverable[0] if name.table else "TABLE"
        return f"{refused}. {recovery_of(which)} makes a new table, until {until} at least."


@dataclass(frozen=True)
class Renamed:
    """An object under its new name, and the number of tables that moved."""

    before: ObjectName
    after: ObjectName
    tables: int


def drop(
    context: ReadContext, text: str, kind: ObjectKind | None = None, *, dry_run: bool = False
) -> DropDone:
    """Drops a table, or a schema or database with its content; `undrop` restores it.

    The tables of a container take the container's retention, shorter or longer than their own
    (TT-24); tables that were dropped before keep theirs (TT-25).

    Args:
        context: The ports.
        text: The name of the object.
        kind: Its kind, if both a table and a schema have this name.
        dry_run: Check everything and change nothing.

    Raises:
        ClockRefused: The clock is behind: the retention would end too early.
        TableNotFound: There is no such object, or, NamespaceNotFound, no such namespace.
        CatalogReadOnly: It cannot be changed from here.
        ObjectDropped: It has been dropped already.
        UsageInvalid: It is a share.
        MetadataUnreadable: One of its tables cannot be read.
        NamespaceNotEmpty: The container has a view, or an object was created in it meanwhile.
        LockHeld: A run works on one of its tables.
        CommitConflict: Every attempt lost to another commit.
    """
    require_not_behind(context)
    name = find_object(context, text, kind)
    catalog = require_changeable(context, name)
    listing = catalog.listing()
    refuse_share(name, listing, "drop")
    states = _tables_of(context, name, listing)
    require_not_ledger(context, name)
    done = _planned_drop(context, name, states, listing)
    if not dry_run:
        within = levels_within(name, listing)
        _carry_out(context, done, states, listing, within, _tombstones(done.drop, within, listing))
    return done


def drop_for_good(
    context: ReadContext,
    name: ObjectName,
    states: Sequence[TableMetadata],
    listing: CatalogListing,
    remove: Sequence[tuple[str, ...]] = (),
) -> None:
    """Drops tables permanently, without undrop: the next run begins to finalize them.

    Args:
        context: The ports.
        name: The object that they belong to.
        states: The tables, as they were read.
        listing: The listing of their catalog.
        remove: Namespaces to remove with them.

    Raises:
        NamespaceNotEmpty: One of the namespaces has other objects; nothing was changed.
        LockHeld: A run works on one of them.
        CommitConflict: Every attempt lost to another commit.
    """
    done = _planned_drop(context, name, states, listing)
    for_good = replace(done, drop=replace(done.drop, retention_days=0))
    _carry_out(context, for_good, states, listing, remove, {})


def _planned_drop(
    context: ReadContext, name: ObjectName, states: Sequence[TableMetadata], listing: CatalogListing
) -> DropDone:
    retention = _retention(context, name, states, listing)
    fact = Drop(
        object=name,
        at=context.clock.now(),
        retention_days=retention.days,
        failsafe_days=retention.failsafe // timedelta(hours=24),
        batch=f"{time.time_ns():016x}{token_hex(6)}",  # later drops sort later (TT-43)
        who=context.who,
    )
    return DropDone(
        fact,
        tuple(state.name for state in states),
        tuple(state.name for state in states if state.snapshots),
        fact.at + fact.retention(context.config.account.reader_grace).failsafe,
    )


def _carry_out(
    context: ReadContext,
    done: DropDone,
    states: Sequence[TableMetadata],
    listing: CatalogListing,
    remove: Sequence[tuple[str, ...]],
    stones: Namespaces,
) -> None:
    name = done.drop.object
    with group_locks(context, busy(context.control.plans, name, states), f"drop {name}"):
        places = _places(states, listing, done.drop)
        moves = [TableMove(s.name, places[s.name], _mark(s, done.drop)) for s in states]
        context.registrars[name.catalog].move(moves, create=stones, remove=remove)
        follow(context.control.registrations, states)
    _audit_drop(context, done)


def _tombstones(
    fact: Drop, within: Sequence[tuple[str, ...]], listing: CatalogListing
) -> dict[tuple[str, ...], dict[str, str]]:
    """Builds the namespaces that record dropped ones, with their properties."""
    return {
        (DROPPED_NAMESPACE, f"{fact.batch}-{number}"): {
            **listing.namespaces[levels],
            **replace(fact, object=ObjectName(fact.object.catalog, levels)).written(),
        }
        for number, levels in enumerate(sorted(within))
    }


def _audit_drop(context: ReadContext, done: DropDone) -> None:
    fact = done.drop
    until = format_instant(fact.ends_at) if fact.ends_at else "for ever"
    detail = f"batch {fact.batch}: {len(done.tables)} tables, restorable until {until}"
    audit(context, "drop", str(fact.object), detail=detail)
    if not fact.object.table:
        for table in done.tables:
            audit(context, "drop", str(table), detail=f"batch {fact.batch}: with {fact.object}")


def _tables_of(
    context: ReadContext, name: ObjectName, listing: CatalogListing
) -> list[TableMetadata]:
    if name.table:
        return [load_table(context, name.table_name)]
    entries = [pointer for pointer in listing.entries if name.covers(pointer.name)]
    states: list[TableMetadata] = []
    for state in load_tables(context, entries, open_in=context).values():
        if not isinstance(state, TableMetadata):
            raise state
        states.append(state)
    return states


def require_not_ledger(context: ReadContext, name: ObjectName) -> None:
    """Refuses a namespace that contains the ledger's own tables. Raises CatalogReadOnly."""
    ledger = ObjectName(context.config.hot, (context.config.ledger_namespace,))
    if not name.table and name.covers(TableName(ledger.catalog, ledger.namespace, "-")):
        require_changeable(context, ledger)


def levels_within(name: ObjectName, listing: CatalogListing) -> list[tuple[str, ...]]:
    """A namespace and all namespaces below it; empty for a table."""
    return [] if name.table else [n for n in listing.namespaces if is_in(n, name.namespace)]


def _retention(
    context: ReadContext, name: ObjectName, states: Sequence[TableMetadata], listing: CatalogListing
) -> Retention:
    policies = context.control.policies.all()
    if name.table:
        table = observed_table(context, states[0], listing)
        if isinstance(table.stated, MeltlineError):
            raise table.stated  # the retention is frozen now until the drop is finalized
        return retention_of(context.config.account, table, policies)
    around = levels_around(context, name, listing)
    remembered_policy = remembered(policies, around, str(name))
    return effective_retention(context.config.account, around, remembered_policy)


def busy(plans: PlanReader, name: ObjectName, states: Sequence[TableMetadata]) -> set[str]:
    """Tables to lock. In a container, only those that a run is about to change: not thousands."""
    uuids = {state.uuid for state in states}
    if name.table:
        return uuids
    applying = plans.find(states=[PlanState.PASSED, PlanState.APPLYING])
    return uuids & {plan.table_uuid for plan in applying}


def _places(
    states: Sequence[TableMetadata], listing: CatalogListing, fact: Drop
) -> dict[TableName, TableName]:
    """Maps tables to their names among the dropped ones. Both names of one table may be dropped."""
    occupied = {pointer.name for pointer in listing.entries}
    places: dict[TableName, TableName] = {}
    for number, state in enumerate(states):
        place = dropped_place(state.uuid, state.name.catalog)
        if place in occupied:
            place = replace(place, name=f"{place.name}-{fact.batch}-{number}")
        occupied.add(place)
        places[state.name] = place
    return places


def _mark(seen: TableMetadata, fact: Drop) -> TableEdit:
    own = ObjectName(seen.name.catalog, seen.name.namespace, seen.name.name)
    written = replace(fact, object=own).written()
    return same_table(seen, lambda document: document.set_properties(written))


def unmarked(seen: TableMetadata) -> TableEdit:
    """Removes the facts of a drop from a table's properties."""
    return same_table(seen, lambda document: document.set_properties({}, KEYS))


# --- rename ---------------------------------------------------------------------------------------


def rename(
    context: ReadContext,
    old: str,
    new: str,
    kind: ObjectKind | None = None,
    *,
    dry_run: bool = False,
) -> Renamed:
    """Renames a table, schema or database in its catalog; its identity does not change (TT-44).

    Args:
        context: The ports.
        old: Its name.
        new: Its new name, in full; it may be in another existing namespace.
        kind: The kind of the object, if both a table and a schema have the old name.
        dry_run: Check everything and change nothing.

    Raises:
        TableNotFound: There is no such object.
        NamespaceNotFound: The namespace of the new name does not exist.
        NameConflict: The new name is taken.
        UsageInvalid: It is not a name, or is in another catalog, or the old name is a share's.
        CatalogReadOnly: It cannot be changed from here.
        LockHeld: A run works on one of its tables.
    """
    name = find_object(context, old, kind)
    catalog = require_changeable(context, name)
    require_not_ledger(context, name)
    target = target_name(name, new, "renamed")
    require_changeable(context, target)
    listing = catalog.listing()
    refuse_share(name, listing, "rename")
    require_free(target, listing)
    require_outer(target, listing)
    states = _tables_of(context, name, listing)
    done = Renamed(name, target, len(states))
    if not dry_run:
        with group_locks(context, busy(context.control.plans, name, states), f"rename {name}"):
            _move(context.registrars[name.catalog], name, target, states, listing)
            follow(context.control.registrations, states)
            follow_source(context.editors[name.catalog], name, target, listing)
        audit(context, "rename", str(name), detail=f"to {target}")
        audit(context, "rename", str(target), detail=f"from {name}")
    return done


def _move(
    registrar: CatalogRegistrar,
    name: ObjectName,
    target: ObjectName,
    states: Sequence[TableMetadata],
    listing: CatalogListing,
) -> None:
    """Moves a table, or a namespace with its content."""

    def target_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
        return target.namespace + levels[len(name.namespace) :]

    moves = [
        TableMove(
            state.name,
            TableName(
                target.catalog, target_levels(state.name.namespace), target.table or state.name.name
            ),
            same_table(state, lambda document: None),
        )
        for state in states
    ]
    within = levels_within(name, listing)
    create = {target_levels(levels): listing.namespaces[levels] for levels in within}
    registrar.move(moves, create=create, remove=within)
