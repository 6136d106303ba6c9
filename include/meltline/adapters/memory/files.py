"""The file ledger in memory, for tests and dry runs. One object is one ledger."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from meltline.adapters.hashing import key_hash
from meltline.adapters.memory.index import MemoryIndex
from meltline.domain.files import (
    Departure,
    DepartureState,
    FileKind,
    PlannedFile,
    SnapshotRecord,
)
from meltline.domain.locations import location_key
from meltline.ports import (
    IndexedFile,
    IndexedSnapshot,
    LedgerContents,
    SnapshotKey,
)


class MemoryFileLedger(MemoryIndex):
    """The port `FileLedger` in this process's memory, safe for its threads."""

    def prepare(self) -> None:
        """Nothing to create."""

    def upkeep(self) -> Sequence[str]:
        """Nothing to compact."""
        return ()

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
        """The newest row of each departed path, where it is in one of the states."""
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

    def contents(self) -> LedgerContents:
        """Everything, as the port `LedgerReader` gives it."""
        with self._guard:
            reads = list(self._manifests.values())
            return LedgerContents(
                snapshots=[_indexed(key, record) for key, record in self._snapshots.items()],
                manifests=[
                    IndexedFile(key_hash(r.path), r.path, FileKind.MANIFEST, r.bytes) for r in reads
                ],
                entries=[
                    IndexedFile(key_hash(read.path), entry.path, entry.kind, entry.bytes)
                    for read in reads
                    for entry in read.live
                ],
                side_files=list(self._side_files.values()),
                departures=sorted(self._newest.values(), key=_by_path),
            )


class MemoryLedgerReader:
    """The port `LedgerReader` over a file ledger in memory."""

    def __init__(self, files: MemoryFileLedger) -> None:
        self._files = files

    def contents(self) -> LedgerContents:
        """Everything; of departures the newest row of each path."""
        return self._files.contents()

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        return self._files.items([plan_id])[plan_id]


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
