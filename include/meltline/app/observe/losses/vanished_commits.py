"""Detects vanished commits: a branch's head is gone, but no commit moved or removed the branch.

Two engines that replace a table concurrently can cause it, and so can a catalog that reverts its
pointer. Iceberg itself never removes a snapshot while a branch points at it. First a commit moves
the branch (rollback, fast-forward, replace) or removes it, then another one expires the snapshot.
So the metadata files since the last observation show which of them happened.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, pairwise

from meltline.app.catalog.metadata import (
    load_concurrently,
    load_if_readable,
    recalled,
    ref_targets,
)
from meltline.app.catalog.recovery_hints import recovery_of
from meltline.app.safety.incidents import end_incidents, standing_incidents
from meltline.app.services import ReadContext, RunContext
from meltline.domain.clone.shares import is_of_share
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata
from meltline.ports import (
    CatalogEntry,
    Incident,
    KnownTable,
    ObjectReader,
    RememberedMetadata,
)

KIND = "CommitVanished"


@dataclass(frozen=True)
class MovedTable:
    """A table that moved since the last observation, as it was then.

    Attributes:
        document: Its metadata then; None if the ledger never cached it.
    """

    row: KnownTable
    document: RememberedMetadata | None

    def state(self, store: ObjectReader) -> TableMetadata | None:
        """Returns the table as it was; None if that is not known any more."""
        with suppress(MeltlineError):
            if self.document and (state := recalled(self.row.name, self.document)):
                return replace(state, uuid=self.row.uuid)
        state = load_if_readable(store, self.row.name, self.row.metadata_location)
        is_its = state is not None and state.table_uuid == self.row.table_uuid
        return replace(state, uuid=self.row.uuid) if state and is_its else None

    def keeps_its_heads(self, state: TableMetadata) -> bool:
        """Returns whether the table still has each snapshot that a ref pointed at."""
        if self.document is None:
            return False
        return ref_targets(self.document) - {None, -1} <= state.snapshots.keys()


def moved_tables(context: RunContext, entries: Iterable[CatalogEntry]) -> list[MovedTable]:
    """Returns tables that moved, from the ledger, before an observation overwrites its record."""
    current = {pointer.name: pointer.metadata_location for pointer in entries}
    rows = [row for row in context.control.registrations.all() if _has_moved(row, current)]
    documents = context.control.observations.documents([row.metadata_location for row in rows])
    return [MovedTable(row, documents.get(row.metadata_location)) for row in rows]


def _has_moved(row: KnownTable, current: Mapping[TableName, str]) -> bool:
    """Returns whether another metadata file is current; dropped tables are emptied on purpose."""
    now = current.get(row.name, row.metadata_location)
    is_aside = row.is_ended or is_dropped_name(row.name.namespace)
    return now != row.metadata_location and not is_aside


def note_vanished(
    context: RunContext, before: Iterable[MovedTable], states: Sequence[TableMetadata]
) -> None:
    """Raises an incident for each head that vanished from its table.

    Args:
        context: The ports.
        before: Tables that moved since the last observation.
        states: Every readable table, as it is now.
    """
    now = {(state.name, state.table_uuid): state for state in states}
    pairs = [
        (moved, state)
        for moved in before
        if (state := now.get((moved.row.name, moved.row.table_uuid)))
        and not is_of_share(state.properties)
    ]
    answers = load_concurrently(lambda pair: list(_vanished(context.store, *pair)), pairs)
    lost = list(chain.from_iterable(answers))
    if lost:
        present = _present(states, {seen.uuid: seen.table_uuid for seen, _ in lost})
        context.control.incidents.add(
            [
                _incident(context, seen, snapshot)
                for seen, snapshot in lost
                if _id(seen.uuid, snapshot) not in present
            ]
        )


def still_vanished(
    context: RunContext,
    rows: Iterable[KnownTable],
    states: Sequence[TableMetadata],
    *,
    ended: Iterable[str],
) -> dict[str, str]:
    """Returns why tables with vanished commits are kept, by registration.

    An incident is over in four cases: a table of the same lineage has the snapshot again, it was
    recovered, its manifest list is gone, or the registration's drop is finalized. A table that left
    its name stays among the dropped tables for its retention, and its incident ends with that.
    """
    incidents, now = context.control.incidents, context.clock.now()
    standing = standing_incidents(incidents, KIND)
    uuids = {incident.table_uuid for incident in standing}
    lineages = {row.uuid: row.table_uuid for row in rows if row.uuid in uuids}
    present = _present(states, lineages)
    its = [state for state in states if state.uuid in uuids]
    over = {state.uuid for state in its if _is_over(state, now)}.union(ended)
    reasons = end_incidents(
        incidents,
        standing,
        lambda i: i.id in present or i.table_uuid in over or _is_lost(context.store, i),
    )
    stands = {state.uuid for state in its if not is_dropped_name(state.name.namespace)}
    return {uuid: reason for uuid, reason in reasons.items() if uuid in stands}


def _is_over(state: TableMetadata, now: datetime) -> bool:
    """Returns whether it is a dropped table whose retention has ended."""
    is_aside = is_dropped_name(state.name.namespace)
    drop = read_drop(state.name.catalog, state.properties) if is_aside else None
    return drop is not None and not drop.is_restorable(now)


def end_vanished(context: ReadContext, uuid: str, snapshot: Snapshot) -> None:
    """Ends the incident of a snapshot that an operator has recovered."""
    standing = standing_incidents(context.control.incidents, KIND)
    end_incidents(context.control.incidents, standing, lambda i: i.id == _id(uuid, snapshot))


def _present(states: Iterable[TableMetadata], lineages: Mapping[str, str]) -> set[str]:
    """Returns the ids of incidents that current snapshots would end."""
    heirs: dict[str, list[str]] = {}
    for uuid, table_uuid in lineages.items():
        heirs.setdefault(table_uuid, []).append(uuid)
    return {
        _id(uuid, snapshot)
        for state in states
        if state.table_uuid in heirs and not is_dropped_name(state.name.namespace)
        for snapshot in state.snapshots.values()
        for uuid in heirs[state.table_uuid]
    }


# --- what happened between two observations -------------------------------------------------------


def _vanished(
    store: ObjectReader, moved: MovedTable, state: TableMetadata
) -> Iterator[tuple[TableMetadata, Snapshot]]:
    """Yields heads that a table lost since the last observation without a commit of its own.

    If the metadata log was truncated in between, the cause is unknown, and nothing is reported: a
    busy table outgrows its log every day.
    """
    seen = None if moved.keeps_its_heads(state) else moved.state(store)
    if seen is None:
        return
    missing = set(seen.heads.values()) & seen.snapshots.keys() - state.snapshots.keys()
    line = _line(seen, state) if missing else []
    if not line:
        return
    states = [_at(store, path, seen, state) for path in line]
    base, steps = states[0], [step for step in states if step is not None]
    for snapshot_id in sorted(missing):
        # A head that the common base lacks was committed on the abandoned history.
        is_left = base is None or snapshot_id not in base.snapshots
        if is_left or any(_loses(*step, snapshot_id) for step in pairwise(steps)):
            yield seen, seen.snapshots[snapshot_id]


def _line(seen: TableMetadata, state: TableMetadata) -> list[str]:
    """Returns metadata files from the newest common one of both states; empty if none is common."""
    line = [*state.metadata_log, state.metadata_location]
    earlier = {location_key(path) for path in (*seen.metadata_log, seen.metadata_location)}
    shared = [place for place, path in enumerate(line) if location_key(path) in earlier]
    return line[shared[-1] :] if shared else []


def _at(
    store: ObjectReader, path: str, seen: TableMetadata, state: TableMetadata
) -> TableMetadata | None:
    """Returns a table at one of its metadata files; None if that cannot be read."""
    at_hand = (each for each in (seen, state) if each.metadata_location == path)
    return next(at_hand, None) or load_if_readable(store, state.name, path)


def _loses(before: TableMetadata, after: TableMetadata, head: int) -> bool:
    """Returns whether a commit removes the head of a branch and keeps the branch."""
    branches = [name for name, snapshot_id in before.heads.items() if snapshot_id == head]
    stay = any(name == MAIN or name in after.refs for name in branches)
    return stay and head in before.snapshots and head not in after.snapshots


def _is_lost(store: ObjectReader, incident: Incident) -> bool:
    """Returns whether another tool has deleted a snapshot's manifest list or inline manifests."""
    *_, place = incident.id.split(" ", 3)
    try:
        return any(store.size(path) is None for path in place.split("\n"))
    except MeltlineError:
        return False


# --- incidents ------------------------------------------------------------------------------------


def _id(uuid: str, snapshot: Snapshot) -> str:
    return f"{KIND} {uuid} {snapshot.snapshot_id} {snapshot.place}"


def _incident(context: RunContext, seen: TableMetadata, snapshot: Snapshot) -> Incident:
    subject = f"{seen.name}@{snapshot.snapshot_id}"
    branches = ", ".join(n for n, head in seen.heads.items() if head == snapshot.snapshot_id)
    return Incident(
        id=_id(seen.uuid, snapshot),
        kind=KIND,
        object=subject,
        table=str(seen.name),
        table_uuid=seen.uuid,
        at=context.clock.now(),
        message=f"snapshot {snapshot.snapshot_id} was the head of {branches}, and has vanished: "
        f"no commit moved the branch away from it (last seen in {seen.metadata_location})",
        next=f"{recovery_of(subject)} makes a table of it, which may be dropped where nobody "
        "misses it; or register the metadata file that was last seen",
    )
