"""Histories in a file ledger, for the suites of its parts: manifests, snapshots, files that depart.

They are staged once per ledger, from real manifests in all three formats; most tests only ask.
Each table has a UUID and a folder of its own, so that no test sees another's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    EntryStatus,
    FileKind,
    ManifestFile,
    SnapshotRecord,
)
from meltline.ports import FileLedger, IngestRequest, SnapshotKey
from tests.doubles.file_tables import MemoryTables
from tests.doubles.files import memory_file_ledger
from tests.lake.avro_files import Entry, manifest_bytes

NOW = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
MS = timedelta(milliseconds=1)
FAILSAFE, CANCELLED, DELETED = DepartureState
EXISTING, ADDED, REMOVED = EntryStatus


@dataclass
class Shelf:
    """A ledger, a store, and the manifests that have been written but not yet handed over."""

    ledger: FileLedger
    store: ObjectStores
    root: str
    refs: dict[str, ManifestFile] = field(default_factory=dict)
    requests: list[IngestRequest] = field(default_factory=list)
    records: list[SnapshotRecord] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def path(self, short: str) -> str:
        """`linear/a` is the file a in the folder of the table linear."""
        return f"{self.root}/{short}"

    def unread(self, paths: Sequence[str]) -> set[str]:
        """Those of some manifests that were never read wholly."""
        return {*paths} - self.ledger.manifests.counted(paths).keys()

    def short(self, path: str) -> str:
        return path.removeprefix(f"{self.root}/")

    def entry(
        self,
        short: str,
        status: EntryStatus = ADDED,
        kind: FileKind = FileKind.DATA,
        spelled: str = "",
    ) -> Entry:
        return Entry(spelled or self.path(short), 100 + len(short), kind, status, 1, 1)

    def manifest(self, short: str, *entries: Entry | str, version: int = 2) -> ManifestFile:
        """Writes a manifest; of a name alone it holds an added data file."""
        rows = [self.entry(e) if isinstance(e, str) else e for e in entries]
        content = manifest_bytes(version, rows)
        self.store.write(self.path(short), content)
        counts = [
            sum(row.status is status for row in rows) for status in (ADDED, EXISTING, REMOVED)
        ]
        ref = ManifestFile(self.path(short), len(content), *counts, added_snapshot_id=1)
        self.refs[short] = ref
        return ref

    def table(self, name: str, snapshots: dict[int, Sequence[str]]) -> None:
        """A table whose snapshots refer to manifests that are written already."""
        for snapshot_id, manifests in snapshots.items():
            found = tuple(self.refs[manifest] for manifest in manifests)
            self.requests.append(IngestRequest(name, found))
            self.records.append(self.record(name, snapshot_id, *found))

    def record(self, name: str, snapshot_id: int, *manifests: ManifestFile) -> SnapshotRecord:
        at = self.path(f"{name}/list{snapshot_id}")
        return SnapshotRecord(name, snapshot_id, NOW, None, at, 1000 + snapshot_id, manifests)

    def hand_over(self) -> None:
        """All that was written, in one go, each manifest once."""
        once: dict[str, tuple[str, ManifestFile]] = {}
        for request in self.requests:
            for manifest in request.manifests:
                once.setdefault(manifest.path, (request.table_uuid, manifest))
        requests = [IngestRequest(uuid, (manifest,)) for uuid, manifest in once.values()]
        outcomes = self.ledger.manifests.ingest(requests, [])
        assert not [outcome.error for outcome in outcomes if outcome.error]
        self.ledger.snapshots.record(self.records)

    # --- questions -----------------------------------------------------------------------------

    def departing(self, **leaving: Iterable[int]) -> set[str]:
        """What departs with some snapshots of some tables, by short name."""
        keys = [SnapshotKey(table, sid) for table, ids in leaving.items() for sid in ids]
        found = [self.short(file.path) for file in self.ledger.references.departing(keys)]
        assert len(found) == len(set(found)), "a file departs once"
        return set(found)

    def known(self, table: str) -> set[int]:
        keys = self.ledger.snapshots.known()
        return {key.snapshot_id for key in keys if key.table_uuid == table}

    def departure(self, short: str, **changes: object) -> Departure:
        made = Departure(
            path=self.path(short),
            kind=FileKind.DATA,
            bytes=7,
            owner="owner",
            plan_id="p",
            departed_at=NOW,
            due_at=NOW + timedelta(days=7),
            state=FAILSAFE,
            recorded_at=NOW,
        )
        return replace(made, **changes)  # type: ignore[arg-type]


SPARK = ("spark", "spark, files compared on executors")


def open_ledger(kind: str, root: Path, store: ObjectStores) -> FileLedger:
    if kind == "memory":
        return memory_file_ledger(MemoryTables(store))
    from meltline.adapters.file_index.file_index import spark_file_ledger
    from meltline.adapters.index_tables.tables_io import LedgerTables
    from meltline.adapters.ingest.ingest import ReadingLimits
    from tests.spark.setups.warehouse import Warehouse

    catalog = f"shelf{SPARK.index(kind)}"
    warehouse = Warehouse.empty(root, catalog)
    tables = LedgerTables(warehouse.spark, store, warehouse.catalog, "meltline")
    limits = ReadingLimits() if kind == "spark" else ReadingLimits(driver_rows=0)
    return spark_file_ledger(tables, store, limits)


def stage(shelf: Shelf) -> None:
    """The histories that the questions below are about."""
    entry, manifest, table = shelf.entry, shelf.manifest, shelf.table
    manifest("linear/m1", "linear/a", version=1)
    manifest("linear/m1x", entry("linear/a", REMOVED), version=1)
    manifest("linear/m2", "linear/b")
    manifest("linear/m2x", entry("linear/b", REMOVED))
    manifest("linear/m3", "linear/c", version=3)
    table(
        "linear",
        {
            1: ["linear/m1"],
            2: ["linear/m1x", "linear/m2"],
            3: ["linear/m2x", "linear/m3"],
        },
    )
    manifest("grows/m1", "grows/a")
    manifest("grows/m2", "grows/b")
    table("grows", {1: ["grows/m1"], 2: ["grows/m1", "grows/m2"]})
    manifest("again/m1", "again/a")
    manifest("again/m2", entry("again/a", REMOVED))
    manifest("again/m3", "again/a")
    table("again", {1: ["again/m1"], 2: ["again/m2"], 3: ["again/m3"]})
    manifest("rewritten/m1", "rewritten/a", "rewritten/b")
    manifest("rewritten/m2", entry("rewritten/a", EXISTING), entry("rewritten/b", REMOVED))
    table("rewritten", {1: ["rewritten/m1"], 2: ["rewritten/m2"]})
    manifest("source/m1", "source/shared", "source/own")
    manifest("copy/m1", "copy/own", "source/shared")
    table("source", {1: ["source/m1"]})
    table("copy", {1: ["copy/m1"], 2: ["source/m1"]})
    vector = FileKind.DELETION_VECTOR
    manifest("vectors/m1", *[entry("vectors/p", ADDED, vector)] * 3, version=3)
    manifest("vectors/m2", entry("vectors/p", EXISTING, vector), version=3)
    table("vectors", {1: ["vectors/m1"], 2: ["vectors/m2"]})
    spelled = shelf.path("spelled/a").replace("file:///", "file:/")
    manifest("spelled/m1", "spelled/a")
    manifest("respelled/m1", entry("spelled/a", spelled=spelled))
    table("spelled", {1: ["spelled/m1"]})
    table("respelled", {1: ["respelled/m1"]})
    manifest(
        "kinds/m1",
        entry("kinds/position", ADDED, FileKind.POSITION_DELETE),
        entry("kinds/equality", ADDED, FileKind.EQUALITY_DELETE),
    )
    table("kinds", {1: ["kinds/m1"]})
    table("empty", {1: []})
    manifest("waits/m1", "waits/a", "waits/b")
    table("waits", {1: ["waits/m1"], 2: []})
    manifest("left/m1", "left/a")
    table("left", {1: ["left/m1"], 2: ["left/m1"], 3: ["left/m1"]})
    manifest("forgets/m1", "forgets/a")
    manifest("forgets/m2", "forgets/b")
    table("forgets", {1: ["forgets/m1", "forgets/m2"]})
    table("remembers", {1: ["forgets/m2"]})
    shelf.hand_over()
