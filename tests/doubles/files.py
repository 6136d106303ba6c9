"""The file ledger in memory, for tests."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from meltline.adapters.file_index.storage_usage import (
    DEPARTURES,
    DUE,
    ENTRY_COLUMNS,
    MANIFEST_COLUMNS,
    weigh,
)
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    FileKind,
    PlannedFile,
    SideFile,
)
from meltline.domain.iceberg.locations import location_key
from meltline.ports import (
    FileLedger,
    IndexedFile,
    IndexedSnapshot,
    IndexedSpan,
    SnapshotKey,
    UsageQuery,
    UsageTotals,
)
from tests.doubles.file_tables import MemoryTables
from tests.doubles.index import (
    MemoryManifests,
    MemoryReferences,
    MemorySideFiles,
    MemorySnapshots,
)

K = TypeVar("K")
V = TypeVar("V")


class MemoryItems:
    """The port `PlanItems`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def store(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans; those of a plan that has some stay as they are."""
        with self._tables.guard:
            new = {
                plan: files
                for plan, files in plans.items()
                if files and plan not in self._tables.items
            }
            self._tables.items.update({plan: tuple(files) for plan, files in new.items()})
            self._tables.commits["plan_items"] += bool(new)

    def of(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path; a plan without any has an empty list."""
        with self._tables.guard:
            return {
                plan: sorted(self._tables.items.get(plan, ()), key=_by_path) for plan in plan_ids
            }


class MemoryDepartures:
    """The port `DepartureLog`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def record(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Keeps states of departures, by marker; a known marker adds nothing."""
        with self._tables.guard:
            new = {
                m: rows for m, rows in departures.items() if rows and m not in self._tables.markers
            }
            for marker, rows in new.items():
                self._tables.markers.add(marker)
                self._tables.newest.update({location_key(row.path): row for row in rows})
            self._tables.commits["departures"] += bool(new)

    def in_states(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path that is not settled, in one of the states."""
        keys = None if paths is None else {location_key(path) for path in paths}
        with self._tables.guard:
            matching = [
                departure
                for key, departure in self._tables.newest.items()
                if departure.state in states
                and (due_by is None or departure.due_at <= due_by)
                and (keys is None or key in keys)
            ]
        return sorted(matching, key=_by_path)

    def waiting_plans(self) -> set[str]:
        """Plans of which files are on their way."""
        waiting = self.in_states(frozenset({DepartureState.FAILSAFE}))
        return {departure.plan_id for departure in waiting if departure.is_on_its_way}

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that were deleted and set aside."""
        with self._tables.guard:
            return {path for path in paths if location_key(path) in self._tables.settled}


class MemoryUpkeep:
    """The port `LedgerUpkeep`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def prepare(self) -> Sequence[str]:
        """Nothing to create."""
        return ()

    def maintain(self) -> Sequence[str]:
        """Nothing to compact."""
        return ()

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Sets aside what was deleted before then: here it always pays."""
        tables = self._tables
        with tables.guard:
            over = self._deleted(before, unfinished)
            lists = {at for at, d in over.items() if d.kind is FileKind.MANIFEST_LIST}
            _set_aside(
                tables.snapshots,
                tables.settled_snapshots,
                [k for k, r in tables.snapshots.items() if location_key(r.manifest_list) in lists],
            )
            _set_aside(
                tables.side_files,
                tables.settled_side_files,
                [side for side in tables.side_files if side[1] in over],
            )
            _set_aside(tables.newest, tables.settled, over)
            return f"{len(over)} deleted files set aside" if over else ""

    def _deleted(self, before: datetime, unfinished: Collection[str]) -> dict[str, Departure]:
        """What was deleted before then, but for lists of the heads that are known by changes."""
        deleted = {
            at: departure
            for at, departure in self._tables.newest.items()
            if departure.state is DepartureState.DELETED
            and departure.recorded_at < before
            and departure.plan_id not in unfinished
        }
        for uuid, tip in MemorySnapshots(self._tables).tips().items():
            record = self._tables.snapshots[SnapshotKey(uuid, tip.snapshot_id)]
            deleted.pop(location_key(record.manifest_list), None)
        return deleted

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        with self._tables.guard:
            unaffected = {
                k: r for k, r in self._tables.snapshots.items() if k.table_uuid not in readable
            }
            keys = {
                location_key(m.path) for record in unaffected.values() for m in record.manifests
            }
            self._tables.manifests = {
                k: read for k, read in self._tables.manifests.items() if k in keys
            }
            self._tables.snapshots = unaffected
            self._tables.side_files = {
                k: f for k, f in self._tables.side_files.items() if k[0] not in readable
            }


def _set_aside(rows: dict[K, V], settled: dict[K, V], keys: Iterable[K]) -> None:
    settled.update({key: rows.pop(key) for key in keys})


def memory_file_ledger(tables: MemoryTables) -> FileLedger:
    """The parts of one file ledger."""
    return FileLedger(
        manifests=MemoryManifests(tables),
        snapshots=MemorySnapshots(tables),
        references=MemoryReferences(tables),
        side_files=MemorySideFiles(tables),
        items=MemoryItems(tables),
        departures=MemoryDepartures(tables),
        upkeep=MemoryUpkeep(tables),
    )


class MemoryLedgerReader:
    """The port `LedgerReader` over a file ledger in memory."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def registrations(self) -> set[str]:
        """The ids of registrations of which a snapshot was ever recorded."""
        return {snapshot.key.table_uuid for snapshot in self._tables.contents().snapshots}

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Every snapshot ever recorded."""
        return self._tables.contents().snapshots

    def side_files(self) -> Sequence[SideFile]:
        """Every metadata file and statistics file ever recorded."""
        return self._tables.contents().side_files

    def departures(
        self, kinds: Collection[FileKind] | None = None, *paths: str
    ) -> Sequence[Departure]:
        """The newest row of each departed path: of all, or of some kinds and of some paths."""
        keys = set(map(location_key, paths))
        return [
            d
            for d in self._tables.contents().departures
            if kinds is None or d.kind in kinds or location_key(d.path) in keys
        ]

    def files(self, *paths: str) -> Iterator[IndexedFile]:
        """Every manifest and every live entry, or those that are one of some paths."""
        contents = self._tables.contents()
        keys = set(map(location_key, paths))
        for file in (*contents.manifests, *contents.entries):
            if not keys or location_key(file.path) in keys:
                yield file

    def spans(self, *paths: str) -> Iterator[IndexedSpan]:
        """None: every manifest is read wholly here."""
        return iter(())

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Bytes by owner and stage, summed as the real ledger's are."""
        contents = self._tables.contents()
        return weigh(
            weighing,
            pa.table(_entries(contents.entries), list(ENTRY_COLUMNS)).to_batches(),
            pa.table(_entries(contents.manifests)[:3], list(MANIFEST_COLUMNS)),
            pa.table(_departed(contents.departures), schema=DEPARTURES.append(DUE)),
        )

    def items(self, *plan_ids: str) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path."""
        return MemoryItems(self._tables).of(plan_ids)


def _entries(files: Sequence[IndexedFile]) -> list[pa.Array]:
    return [
        pa.array((file.manifest_id for file in files), pa.int64()),
        pa.array((file.path for file in files), pa.string()),
        pa.array((file.bytes for file in files), pa.int64()),
        pa.array((key_hash(file.path) for file in files), pa.int64()),
    ]


def _departed(departures: Sequence[Departure]) -> dict[str, list[object]]:
    """Columns as the ledger has them; of each file there is one row, so that none is newer."""
    return {
        "key_hash": [key_hash(d.path) for d in departures],
        "bytes": [d.bytes for d in departures],
        "owner": [d.owner for d in departures],
        "state": [str(d.state) for d in departures],
        "departed_at": [d.departed_at for d in departures],
        "recorded_at": [d.recorded_at for d in departures],
        "written_ns": [0] * len(departures),
        "due_at": [d.due_at for d in departures],
    }


def _by_path(file: Departure | PlannedFile) -> str:
    return file.path
