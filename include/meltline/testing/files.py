"""The file ledger in memory, for tests. One object is one ledger."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from meltline.adapters.file_index.storage_usage import (
    DEPARTURES,
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
    SnapshotRecord,
)
from meltline.domain.iceberg.locations import location_key
from meltline.ports import (
    IndexedFile,
    IndexedSnapshot,
    IndexedSpan,
    SnapshotKey,
    UsageQuery,
    UsageTotals,
)
from meltline.testing.index import MemoryIndex


@dataclass(frozen=True)
class MemoryContents:
    """A file ledger whole: snapshots, manifests and their live entries, the rest as it is."""

    snapshots: Sequence[IndexedSnapshot]
    manifests: Sequence[IndexedFile]
    entries: Sequence[IndexedFile]
    side_files: Sequence[SideFile]
    departures: Sequence[Departure]


class MemoryFileLedger(MemoryIndex):
    """The port `FileLedger` in this process's memory, safe for its threads."""

    def prepare(self) -> None:
        """Nothing to create."""

    def upkeep(self) -> Sequence[str]:
        """Nothing to compact."""
        return ()

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Sets aside what was deleted before then: here it always pays."""
        with self._guard:
            tips = {SnapshotKey(uuid, tip.snapshot_id) for uuid, tip in self.lines().items()}
            lists = {location_key(self._snapshots[key].manifest_list) for key in tips}
            over = {
                at: departure
                for at, departure in self._newest.items()
                if departure.state is DepartureState.DELETED
                and departure.recorded_at < before
                and departure.plan_id not in unfinished
                and at not in lists
            }
            gone = {at for at, one in over.items() if one.kind is FileKind.MANIFEST_LIST}
            for key, record in list(self._snapshots.items()):
                if record.manifest_list and location_key(record.manifest_list) in gone:
                    self._settled_snapshots[key] = self._snapshots.pop(key)
            for side in [side for side in self._side_files if side[1] in over]:
                self._settled_side_files[side] = self._side_files.pop(side)
            self._settled |= {at: self._newest.pop(at) for at in over}
            return f"{len(over)} deleted files set aside" if over else ""

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that were deleted and set aside."""
        with self._guard:
            return {path for path in paths if location_key(path) in self._settled}

    # --- plan items and departures -------------------------------------------------------------

    def store_items(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans; those of a plan that has some stay as they are."""
        with self._guard:
            new = {
                plan: files for plan, files in plans.items() if files and plan not in self._items
            }
            self._items.update({plan: tuple(files) for plan, files in new.items()})
            self.commits["plan_items"] += bool(new)

    def items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path; a plan without any has an empty list."""
        with self._guard:
            return {plan: sorted(self._items.get(plan, ()), key=_by_path) for plan in plan_ids}

    def edit_items(
        self, plan_id: str, edit: Callable[[Sequence[PlannedFile]], Sequence[PlannedFile]]
    ) -> None:
        """Changes stored items behind everybody's back, which nobody should."""
        with self._guard:
            self._items[plan_id] = tuple(edit(self._items.get(plan_id, ())))

    def record_departures(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Keeps states of departures, by marker; a known marker adds nothing."""
        with self._guard:
            new = {m: rows for m, rows in departures.items() if rows and m not in self._markers}
            for marker, rows in new.items():
                self._markers.add(marker)
                self._newest.update({location_key(row.path): row for row in rows})
            self.commits["departures"] += bool(new)

    def departures(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path that is not settled, in one of the states."""
        asked = None if paths is None else {location_key(path) for path in paths}
        with self._guard:
            found = [
                departure
                for key, departure in self._newest.items()
                if departure.state in states
                and (due_by is None or departure.due_at <= due_by)
                and (asked is None or key in asked)
            ]
        return sorted(found, key=_by_path)

    def waiting_plans(self) -> set[str]:
        """Plans of which files wait in failsafe."""
        return {d.plan_id for d in self.departures(frozenset({DepartureState.FAILSAFE}))}

    # --- reading it whole ----------------------------------------------------------------------

    def contents(self) -> MemoryContents:
        """Everything there is."""
        with self._guard:
            reads = list(self._manifests.values())
            snapshots = {**self._settled_snapshots, **self._snapshots}
            departures = {**self._settled, **self._newest}
            return MemoryContents(
                snapshots=[_indexed(key, record) for key, record in snapshots.items()],
                manifests=[
                    IndexedFile(key_hash(r.path), r.path, FileKind.MANIFEST, r.bytes) for r in reads
                ],
                entries=[
                    IndexedFile(key_hash(read.path), entry.path, entry.kind, entry.bytes)
                    for read in reads
                    for entry in read.live
                ],
                side_files=list({**self._settled_side_files, **self._side_files}.values()),
                departures=sorted(departures.values(), key=_by_path),
            )


class MemoryLedgerReader:
    """The port `LedgerReader` over a file ledger in memory."""

    def __init__(self, files: MemoryFileLedger) -> None:
        self._files = files

    def registrations(self) -> set[str]:
        """The ids of registrations of which a snapshot was ever recorded."""
        return {snapshot.key.table_uuid for snapshot in self._files.contents().snapshots}

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Every snapshot ever recorded."""
        return self._files.contents().snapshots

    def side_files(self) -> Sequence[SideFile]:
        """Every metadata file and statistics file ever recorded."""
        return self._files.contents().side_files

    def departures(
        self, kinds: Collection[FileKind] | None = None, path: str | None = None
    ) -> Sequence[Departure]:
        """The newest row of each departed path: of all, or of some kinds and of one path."""
        at = None if path is None else location_key(path)
        return [
            one
            for one in self._files.contents().departures
            if kinds is None or one.kind in kinds or location_key(one.path) == at
        ]

    def files(self, path: str | None = None) -> Iterator[IndexedFile]:
        """Every manifest and every live entry, or those that are this path."""
        contents = self._files.contents()
        at = None if path is None else location_key(path)
        for file in (*contents.manifests, *contents.entries):
            if at is None or location_key(file.path) == at:
                yield file

    def spans(self, path: str | None = None) -> Iterator[IndexedSpan]:
        """None: every manifest is read wholly here."""
        return iter(())

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Bytes by owner and stage, summed as the real ledger's are."""
        contents = self._files.contents()
        return weigh(
            weighing,
            pa.table(_entries(contents.entries), list(ENTRY_COLUMNS)).to_batches(),
            pa.table(_entries(contents.manifests)[:3], list(MANIFEST_COLUMNS)),
            pa.table(_departed(contents.departures), schema=DEPARTURES),
        )

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        return self._files.items([plan_id])[plan_id]


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
        "key_hash": [key_hash(one.path) for one in departures],
        "bytes": [one.bytes for one in departures],
        "owner": [one.owner for one in departures],
        "state": [str(one.state) for one in departures],
        "departed_at": [one.departed_at for one in departures],
        "recorded_at": [one.recorded_at for one in departures],
        "written_ns": [0] * len(departures),
    }


def _by_path(found: Departure | PlannedFile) -> str:
    return found.path


def _indexed(key: SnapshotKey, record: SnapshotRecord) -> IndexedSnapshot:
    return IndexedSnapshot(
        key,
        record.committed_at,
        record.manifest_list,
        record.manifest_list_bytes,
        tuple(key_hash(manifest.path) for manifest in record.manifests),
    )
