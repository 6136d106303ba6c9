"""References at an instant: the stage that each snapshot and side file gives its files.

`storage/file_status.py` and `storage/report.py` read it. It decides per snapshot what is active,
historical, or expired, by the ledger and the tables' metadata. A snapshot references its manifest
list, its manifests, and all files in these. The consequences for each file are in the two callers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.metadata import Loaded, metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.tables import is_ledger
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import PlanState
from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, SideFile
from meltline.domain.iceberg.locations import OwnerIndex, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata
from meltline.ports import IndexedSnapshot, SnapshotKey

METADATA_KINDS = frozenset({FileKind.MANIFEST_LIST, FileKind.METADATA, FileKind.STATISTICS})
"""With these kinds of departures the lookup recognizes deleted snapshots and side files."""


@dataclass(frozen=True)
class Lookup:
    """One read of the ledgers and catalogs, which answers for any instant.

    Attributes:
        states: Every readable table of every catalog, except the ledger's own.
        names: Names of all tables ever known, by UUID.
        metadata_departures: Departures of metadata, or of the requested paths: at least
            `METADATA_KINDS`.
        unloaded: Errors of tables whose metadata could not be loaded, by name.
    """

    states: Sequence[TableMetadata]
    names: Mapping[str, TableName]
    snapshots: Sequence[IndexedSnapshot]
    side_files: Sequence[SideFile]
    metadata_departures: Sequence[Departure]
    unloaded: Mapping[TableName, MeltlineError] = field(default_factory=dict)

    @classmethod
    def at_all(cls, context: ReadContext) -> "Lookup":
        """Reads the state that totals need. Raises CatalogUnlistable."""
        return cls.with_departures(context, context.reader.departures(METADATA_KINDS))

    @classmethod
    def with_departures(cls, context: ReadContext, departures: Sequence[Departure]) -> "Lookup":
        """Reads the state, with departures that the caller has read. Raises CatalogUnlistable."""
        loaded = _loaded(context)
        states = metadata_of(loaded.values())
        names = {table.uuid: table.name for table in context.control.registrations.all()}
        names.update({state.uuid: state.name for state in states})
        return cls(
            states,
            names,
            context.reader.snapshots(),
            context.reader.side_files(),
            departures,
            {at.name: why for at, why in loaded.items() if isinstance(why, MeltlineError)},
        )


def _loaded(context: ReadContext) -> Loaded:
    """Loads every table of every catalog, or its error; omits the ledger's own."""
    entries = [
        pointer
        for catalog in context.catalogs.values()
        for pointer in catalog.listing().entries
        if not is_ledger(context, pointer.name)
    ]
    return load_tables(context, entries)


def left_by(at: datetime, departures: Iterable[Departure]) -> dict[str, Departure]:
    """Files that had departed by an instant and were not cancelled, by location key."""
    return {
        location_key(departure.path): departure
        for departure in departures
        if departure.state is not DepartureState.CANCELLED and departure.departed_at <= at
    }


class References:
    """References to files at an instant.

    Attributes:
        at: The instant.
        owners: The owners of locations.
    """

    def __init__(self, context: ReadContext, look: Lookup, as_of: datetime | None) -> None:
        """Takes a lookup, and the instant; None is now."""
        now = context.clock.now()
        self._past = as_of if as_of is not None and as_of < now else None
        self.at = self._past or now
        self.owners = OwnerIndex(context.control.registrations.ownerships())
        self._look = look
        self._live = [state for state in look.states if not _is_dropped(state, self.at)]
        self._in_metadata = {SnapshotKey(s.uuid, sid) for s in look.states for sid in s.snapshots}
        self._unregistered = let_go_tables(context.control.registrations.all()).keys()
        self._expired = {
            SnapshotKey(plan.table_uuid, snapshot_id): plan.created_at
            for plan in context.control.plans.find(states=[PlanState.APPLIED])
            for snapshot_id in (*plan.snapshots, *plan.gone_snapshots)
        }
        self._left = left_by(self.at, look.metadata_departures)
        self._indexed = {snapshot.key for snapshot in look.snapshots}
        self._current_heads = set(chain.from_iterable(map(self._heads_of, self._live)))

    def of_snapshots(self) -> Iterator[tuple[IndexedSnapshot, FileReference]]:
        """Yields every snapshot that references files, with the kind of reference."""
        heads, present = self._heads(), self._present()
        readable = {state.uuid for state in self._look.states} | self._unregistered
        for snapshot in self._look.snapshots:
            if snapshot.key not in present:
                continue
            # A snapshot in no table's metadata keeps no file that has departed since.
            in_metadata = snapshot.key in self._in_metadata
            yield (
                snapshot,
                FileReference(
                    snapshot.key.table_uuid,
                    Stage.ACTIVE if snapshot.key in heads else Stage.HISTORICAL,
                    None if in_metadata else snapshot.committed_at,
                    in_metadata or snapshot.key.table_uuid not in readable,
                ),
            )

    def of_side_files(self) -> Iterator[tuple[SideFile, FileReference]]:
        """Yields every referenced metadata file and statistics file, with the kind of reference."""
        since = {
            location_key(path): moment
            for state in self._look.states
            for path, moment in (
                *state.metadata_times.items(),
                (state.metadata_location, state.last_updated),
            )
        }
        current = self._current_metadata(since)
        for file in self._look.side_files:
            at = location_key(file.path)
            if at in self._left or (self._past and since.get(at, self._past) > self._past):
                continue
            active = at in current or (
                file.snapshot_id is not None
                and SnapshotKey(file.table_uuid, file.snapshot_id) in self._current_heads
            )
            yield file, FileReference(file.table_uuid, Stage.ACTIVE if active else Stage.HISTORICAL)
        yield from self._unrecorded()

    def _unrecorded(self) -> Iterator[tuple[SideFile, FileReference]]:
        """Current metadata files that no observation has recorded; commits reference them."""
        if self._past is not None:
            return
        recorded = {(file.table_uuid, location_key(file.path)) for file in self._look.side_files}
        live = {(state.uuid, state.name) for state in self._live}
        for state in self._look.states:
            at = state.metadata_location
            if (state.uuid, location_key(at)) not in recorded:
                stage = Stage.ACTIVE if (state.uuid, state.name) in live else Stage.HISTORICAL
                file = SideFile(state.uuid, at, FileKind.METADATA, state.metadata_bytes)
                yield file, FileReference(state.uuid, stage)

    def _heads(self) -> set[SnapshotKey]:
        if self._past is None:
            return self._current_heads
        heads: set[SnapshotKey] = set()
        for state in self._live:
            then = [log_entry for log_entry in state.snapshot_log if log_entry.at <= self._past]
            heads.update(self._side_heads(state))
            if then:
                heads.add(SnapshotKey(state.uuid, then[-1].snapshot_id))
            else:
                earlier = [
                    s
                    for s in self._look.snapshots
                    if s.key.table_uuid == state.uuid and s.committed_at <= self._past
                ]
                if earlier:  # expiry cut the log: use the newest snapshot by then
                    heads.add(max(earlier, key=lambda s: s.committed_at).key)
        return heads

    def _heads_of(self, state: TableMetadata) -> Iterator[SnapshotKey]:
        """Each branch's head; if no observation has it yet, its newest observed ancestor."""
        for head in state.heads.values():
            line = (SnapshotKey(state.uuid, s.snapshot_id) for s in state.ancestry(head))
            observed = next((key for key in line if key in self._indexed), None)
            yield observed or SnapshotKey(state.uuid, head)

    def _side_heads(self, state: TableMetadata) -> Iterable[SnapshotKey]:
        """Heads of other branches at that time: their newest snapshot by then."""
        for name, head in state.heads.items():
            line = state.ancestry(head) if name != MAIN and self._past else ()
            then = next((s for s in line if self._past and s.committed_at <= self._past), None)
            if then is not None:
                yield SnapshotKey(state.uuid, then.snapshot_id)

    def _present(self) -> set[SnapshotKey]:
        """Snapshots that keep their files: in today's metadata, or not departed at that time.

        A snapshot that others have expired stays until its files depart. But if a clone has the
        same snapshot as its source, which has expired it, the clone keeps the files.
        """
        files_of = {
            s.key: location_key(s.manifest_list) if s.manifest_list else s.key
            for s in self._look.snapshots
            if self._stood(s)
        }
        unregistered = self._let_go(files_of)
        kept_files = {files for key, files in files_of.items() if key not in unregistered}
        present = {
            key
            for key, files in files_of.items()
            if key not in unregistered or files not in kept_files
        }
        return present if self._past else self._in_metadata | present

    def _stood(self, snapshot: IndexedSnapshot) -> bool:
        """Whether it was committed by then, and its manifest list had not departed."""
        if self._past is not None and snapshot.committed_at > self._past:
            return False
        manifest_list = snapshot.manifest_list
        departure = self._left.get(location_key(manifest_list)) if manifest_list else None
        return departure is None or departure.kind is not FileKind.MANIFEST_LIST

    def _let_go(self, keys: Iterable[SnapshotKey]) -> set[SnapshotKey]:
        """Snapshots that their tables had expired by then, whether or not their files departed.

        For a past day, only Meltline's own plans have that information.
        """
        if self._past is not None:
            return {key for key, at in self._expired.items() if at <= self._past}
        read = {state.uuid for state in self._look.states} | self._unregistered
        return {k for k in keys if k not in self._in_metadata and k.table_uuid in read}

    def _current_metadata(self, since: Mapping[str, datetime]) -> set[str]:
        """Each table's metadata file at that moment: the last one of its log by then."""
        current: set[str] = set()
        for state in self._live:
            log = [location_key(path) for path in (*state.metadata_log, state.metadata_location)]
            then = [at for at in log if not self._past or since.get(at, self._past) <= self._past]
            current.update(then[-1:])
        return current


def _is_dropped(state: TableMetadata, at: datetime) -> bool:
    """Whether a table was dropped by that time, so that none of its files is active."""
    drop = read_drop(state.name.catalog, state.properties)
    return is_dropped_name(state.name.namespace) and (drop is None or drop.at <= at)
