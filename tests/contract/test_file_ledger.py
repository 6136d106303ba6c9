"""One suite for every file ledger: in memory, and on Spark with real Iceberg tables.

The histories are staged once per ledger, from real manifests in all three formats; most tests
only ask. Each table has a UUID and a folder of its own, so that no test sees another's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    EntryStatus,
    FileKind,
    ManifestFile,
    PlannedFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.locations import Ownership
from meltline.ports import FileLedger, IngestRequest, SnapshotKey
from meltline.testing.file_tables import MemoryTables
from meltline.testing.files import memory_file_ledger
from tests.contract.collisions import colliding
from tests.unit.avro_files import Entry, manifest_bytes

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


@pytest.fixture(
    scope="module",
    params=["memory", *(pytest.param(kind, marks=pytest.mark.spark) for kind in SPARK)],
)
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    root = tmp_path_factory.mktemp(request.param)
    store = ObjectStores({})
    made = Shelf(_ledger(request.param, root, store), store, f"file://{root}/data")
    made.ledger.upkeep.prepare()
    stage(made)
    return made


def _ledger(kind: str, root: Path, store: ObjectStores) -> FileLedger:
    if kind == "memory":
        return memory_file_ledger(MemoryTables(store))
    from meltline.adapters.file_index.file_index import spark_file_ledger
    from meltline.adapters.index_tables.tables_io import LedgerTables
    from meltline.adapters.ingest.ingest import ReadingLimits
    from tests.spark.warehouse import Warehouse

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


# --- what departs ------------------------------------------------------------------------------


def test_the_oldest_snapshot_takes_what_only_it_refers_to(shelf: Shelf) -> None:
    assert shelf.departing(linear=[1]) == {"linear/list1", "linear/m1", "linear/a"}


def test_a_tombstone_keeps_no_file(shelf: Shelf) -> None:
    # AR-7
    gone = shelf.departing(linear=[1, 2])
    assert {"linear/a", "linear/b", "linear/m1x", "linear/m2", "linear/list2"} <= gone
    assert not {"linear/c", "linear/m3", "linear/m2x"} & gone


def test_a_snapshot_in_the_middle_takes_its_own_and_no_neighbours(shelf: Shelf) -> None:
    assert shelf.departing(linear=[2]) == {
        "linear/list2", "linear/m1x", "linear/m2", "linear/b",
    }  # fmt: skip


def test_manifests_that_a_kept_snapshot_shares_stay_with_all_they_name(shelf: Shelf) -> None:
    assert shelf.departing(grows=[1]) == {"grows/list1"}


def test_a_file_that_was_added_again_stays(shelf: Shelf) -> None:
    gone = shelf.departing(again=[1, 2])
    assert gone == {"again/list1", "again/list2", "again/m1", "again/m2"}


def test_an_existing_entry_of_a_rewritten_manifest_keeps_its_file(shelf: Shelf) -> None:
    gone = shelf.departing(rewritten=[1])
    assert gone == {"rewritten/list1", "rewritten/m1", "rewritten/b"}


def test_a_file_that_another_table_refers_to_stays(shelf: Shelf) -> None:
    assert shelf.departing(copy=[1]) == {"copy/list1", "copy/m1", "copy/own"}


def test_a_manifest_that_another_table_refers_to_stays_with_all_it_names(shelf: Shelf) -> None:
    assert shelf.departing(source=[1]) == {"source/list1"}


def test_when_all_tables_let_go_a_shared_file_departs_once_and_names_them_all(shelf: Shelf) -> None:
    # ML-10
    keys = [SnapshotKey("source", 1), SnapshotKey("copy", 1), SnapshotKey("copy", 2)]
    gone = {shelf.short(file.path): file for file in shelf.ledger.references.departing(keys)}
    assert gone["source/shared"].table_uuids == ("copy", "source")
    assert gone["source/m1"].table_uuids == ("copy", "source")
    assert gone["copy/own"].table_uuids == ("copy",)
    assert gone["source/shared"].bytes == 100 + len("source/shared")


def test_a_puffin_file_that_one_entry_still_needs_stays(shelf: Shelf) -> None:
    assert shelf.departing(vectors=[1]) == {"vectors/list1", "vectors/m1"}


def test_a_puffin_file_of_many_entries_departs_once(shelf: Shelf) -> None:
    keys = [SnapshotKey("vectors", 1), SnapshotKey("vectors", 2)]
    gone = {shelf.short(file.path): file for file in shelf.ledger.references.departing(keys)}
    assert gone["vectors/p"].kind == FileKind.DELETION_VECTOR
    assert gone["vectors/p"].bytes == 100 + len("vectors/p")


def test_two_spellings_of_a_location_are_one_file(shelf: Shelf) -> None:
    # AR-10
    assert shelf.departing(spelled=[1]) == {"spelled/list1", "spelled/m1"}
    assert shelf.departing(respelled=[1]) == {"respelled/list1", "respelled/m1"}
    both = [SnapshotKey("spelled", 1), SnapshotKey("respelled", 1)]
    data = [file for file in shelf.ledger.references.departing(both) if file.kind == FileKind.DATA]
    assert len(data) == 1 and data[0].table_uuids == ("respelled", "spelled")


def test_every_kind_of_file_departs_as_what_it_is(shelf: Shelf) -> None:
    gone = shelf.ledger.references.departing([SnapshotKey("kinds", 1)])
    assert {(shelf.short(f.path), FileKind(f.kind)) for f in gone} == {
        ("kinds/list1", FileKind.MANIFEST_LIST),
        ("kinds/m1", FileKind.MANIFEST),
        ("kinds/position", FileKind.POSITION_DELETE),
        ("kinds/equality", FileKind.EQUALITY_DELETE),
    }
    sizes = {shelf.short(file.path): file.bytes for file in gone}
    assert sizes["kinds/list1"] == 1001
    assert sizes["kinds/m1"] == shelf.refs["kinds/m1"].bytes


def test_a_snapshot_without_manifests_takes_its_list_alone(shelf: Shelf) -> None:
    assert shelf.departing(empty=[1]) == {"empty/list1"}


def test_nothing_departs_with_no_snapshot_or_an_unknown_one(shelf: Shelf) -> None:
    assert shelf.ledger.references.departing([]) == ()
    assert shelf.departing(linear=[99], nobody=[1]) == set()


def test_what_waits_in_failsafe_does_not_depart_again(shelf: Shelf) -> None:
    assert "waits/a" in shelf.departing(waits=[1])
    shelf.ledger.departures.record({"waits-1": [shelf.departure("waits/a")]})
    assert shelf.departing(waits=[1]) == {"waits/list1", "waits/m1", "waits/b"}
    back = shelf.departure("waits/a", state=CANCELLED)
    shelf.ledger.departures.record({"waits-2": [back]})
    assert "waits/a" in shelf.departing(waits=[1])


# --- what is referred to -------------------------------------------------------------------------


def test_everything_that_a_known_snapshot_names_is_referred_to(shelf: Shelf) -> None:
    named = [shelf.path(f"linear/{name}") for name in ("a", "b", "c", "m1", "m2x", "list3")]
    assert shelf.ledger.references.among([*named, shelf.path("linear/no")], []) == set(named)
    assert shelf.ledger.references.among([], []) == set()


def test_what_only_dead_snapshots_name_is_not(shelf: Shelf) -> None:
    asked = [shelf.path(f"linear/{name}") for name in ("a", "m1", "list1", "b")]
    kept = shelf.ledger.references.among(asked, [SnapshotKey("linear", 1)])
    assert kept == {shelf.path("linear/b")}


def test_a_reference_counts_however_it_is_spelled(shelf: Shelf) -> None:
    asked = shelf.path("linear/c").replace("file:///", "file:/")
    assert shelf.ledger.references.among([asked], []) == {asked}


def test_live_totals_count_what_a_snapshot_keeps_alive(shelf: Shelf) -> None:
    keys = [SnapshotKey("copy", 2), SnapshotKey("rewritten", 2), SnapshotKey("empty", 1)]
    sizes = 100 + len("source/shared") + 100 + len("source/own")
    assert shelf.ledger.snapshots.live_totals([*keys, SnapshotKey("nobody", 1)]) == {
        keys[0]: (2, sizes),
        keys[1]: (1, 100 + len("rewritten/a")),
        keys[2]: (0, 0),
    }
    assert shelf.ledger.snapshots.live_totals([]) == {}


def test_a_manifest_that_two_runs_have_read_counts_once(shelf: Shelf) -> None:
    twice = shelf.manifest("twice/m1", "twice/a", "twice/b")
    for _ in range(2):  # two observations at once, or a kill between two appends
        shelf.ledger.manifests.ingest([IngestRequest("twice", (twice,))], [])
    shelf.ledger.snapshots.record([shelf.record("twice", 1, twice)] * 2)
    key = SnapshotKey("twice", 1)
    assert shelf.ledger.snapshots.live_totals([key]) == {key: (2, 214)}
    assert shelf.departing(twice=[1]) == {"twice/list1", "twice/m1", "twice/a", "twice/b"}


def test_a_snapshot_whose_manifest_was_never_read_has_no_totals(shelf: Shelf) -> None:
    never = shelf.manifest("never/m1", "never/a")
    shelf.ledger.snapshots.record([shelf.record("never", 1, never)])
    assert shelf.ledger.snapshots.live_totals([SnapshotKey("never", 1)]) == {}


def test_paths_are_known_by_any_row_that_names_them(shelf: Shelf) -> None:
    side = SideFile("linear", shelf.path("linear/stats"), FileKind.STATISTICS, 5, 3)
    shelf.ledger.side_files.record([side], NOW)
    names = ("a", "m1x", "list2", "stats")
    asked = [*(shelf.path(f"linear/{name}") for name in names), shelf.path("linear/stranger")]
    assert shelf.ledger.references.unknown(asked) == {shelf.path("linear/stranger")}
    assert shelf.ledger.references.unknown([]) == set()


# --- ingesting -----------------------------------------------------------------------------------


def test_only_unread_manifests_are_unknown(shelf: Shelf) -> None:
    asked = [shelf.path("linear/m1"), shelf.path("linear/m77")]
    assert shelf.ledger.manifests.unread(asked) == {shelf.path("linear/m77")}
    respelled = shelf.path("linear/m1").replace("file:///", "file:/")
    assert shelf.ledger.manifests.unread([respelled]) == set()
    assert shelf.ledger.manifests.unread([]) == set()


def test_one_bad_manifest_among_good_ones_has_its_own_outcome_and_leaves_no_row(
    shelf: Shelf,
) -> None:
    good = shelf.manifest("mixed/good", "mixed/a", shelf.entry("mixed/x", REMOVED))
    noise = shelf.manifest("mixed/noise", "mixed/b")
    shelf.store.write(noise.path, b"\x00 not what it was")
    cut = shelf.manifest("mixed/cut", "mixed/c")
    shelf.store.write(cut.path, shelf.store.read(cut.path)[:-5])
    lying = replace(shelf.manifest("mixed/lying", "mixed/d"), added_files=2)
    missing = ManifestFile(shelf.path("mixed/missing"), 10, 1, 0, 0)
    request = IngestRequest("mixed", (good, noise, cut, lying, missing))
    outcomes = {shelf.short(o.path): o for o in shelf.ledger.manifests.ingest([request], [])}
    assert (outcomes["mixed/good"].added, outcomes["mixed/good"].deleted) == (1, 1)
    assert [name for name, outcome in outcomes.items() if not outcome.error] == ["mixed/good"]
    assert "missing" in outcomes["mixed/missing"].error
    bad = {manifest.path for manifest in (noise, cut, lying, missing)}
    assert shelf.ledger.manifests.unread([good.path, *sorted(bad)]) == bad
    files = [shelf.path(f"mixed/{name}") for name in "abcd"]
    assert shelf.ledger.references.unknown(files) == set(files[1:])


def test_a_manifest_that_was_mended_is_read_the_next_time(shelf: Shelf) -> None:
    broken = shelf.manifest("mended/m1", "mended/a")
    content = shelf.store.read(broken.path)
    shelf.store.write(broken.path, b"noise")
    assert shelf.ledger.manifests.ingest([IngestRequest("mended", (broken,))], [])[0].error
    shelf.store.write(broken.path, content)
    (outcome,) = shelf.ledger.manifests.ingest([IngestRequest("mended", (broken,))], [])
    assert (outcome.error, outcome.added) == ("", 1)
    assert shelf.ledger.manifests.unread([broken.path]) == set()


def test_an_outcome_names_the_owners_of_the_manifest_and_of_all_it_names(shelf: Shelf) -> None:
    manifest = shelf.manifest("owned/m1", "owned/a", shelf.entry("theirs/b", REMOVED), "foreign/c")
    ownerships = [
        Ownership(f"{shelf.path('owned')}/", "we"),
        Ownership(f"{shelf.path('theirs')}/", "they"),
        Ownership(f"{shelf.path('others')}/", "nobody here"),
    ]
    (outcome,) = shelf.ledger.manifests.ingest([IngestRequest("owned", (manifest,))], ownerships)
    assert outcome.owners == ("they", "we")


def test_places_are_the_folders_of_all_files_and_the_links_among_them(shelf: Shelf) -> None:
    folder = Path(shelf.path("linked").removeprefix("file://"))
    folder.mkdir()
    (folder / "plain").write_bytes(b"rows")
    (folder / "link").symlink_to(folder / "plain")
    manifest = shelf.manifest("listed/m", "linked/plain", "linked/link")
    (outcome,) = shelf.ledger.manifests.ingest([IngestRequest("linked", (manifest,))], [])
    assert not outcome.error
    shelf.ledger.snapshots.record([shelf.record("linked", 1, manifest)])
    places = shelf.ledger.references.places()
    assert {shelf.path(place) for place in ("linked/", "linked/link", "listed/")} <= places
    assert shelf.path("linked/plain") not in places


def test_nothing_to_ingest_is_nothing_done(shelf: Shelf) -> None:
    assert list(shelf.ledger.manifests.ingest([], [])) == []
    assert list(shelf.ledger.manifests.ingest([IngestRequest("linear", ())], [])) == []


# --- snapshots and side files --------------------------------------------------------------------


def test_a_snapshot_is_known_until_its_manifest_list_departs_and_again_when_it_is_back(
    shelf: Shelf,
) -> None:
    assert shelf.known("left") == {1, 2, 3}
    gone = shelf.departure("left/list1", kind=FileKind.MANIFEST_LIST)
    shelf.ledger.departures.record({"left-1": [gone]})
    assert shelf.known("left") == {2, 3}
    shelf.ledger.departures.record({"left-2": [replace(gone, state=DELETED)]})
    assert shelf.known("left") == {2, 3}
    shelf.ledger.departures.record({"left-3": [replace(gone, state=CANCELLED)]})
    assert shelf.known("left") == {1, 2, 3}


def test_a_snapshot_lies_where_it_was_read_by_its_list_or_by_its_manifests_in_order(
    shelf: Shelf,
) -> None:
    first, second = shelf.manifest("places/m2", "places/a"), shelf.manifest("places/m1", "places/b")
    listed = shelf.record("places", 1, first, second)
    inline = replace(shelf.record("places", 2, first, second), manifest_list="")
    shelf.ledger.manifests.ingest([IngestRequest("places", (first, second))], [])
    shelf.ledger.snapshots.record([listed, inline])
    assert dict(shelf.ledger.snapshots.places(["places", "nobody"])) == {
        SnapshotKey("places", 1): listed.manifest_list,
        SnapshotKey("places", 2): f"{first.path}\n{second.path}",
    }
    assert list(shelf.ledger.snapshots.places([])) == []


def test_a_side_file_is_there_once_until_it_departs(shelf: Shelf) -> None:
    file = SideFile("side", shelf.path("side/v1.metadata.json"), FileKind.METADATA, 11)
    statistics = SideFile("side", shelf.path("side/1.stats"), FileKind.STATISTICS, 12, 1)
    for _ in range(2):
        shelf.ledger.side_files.record([file, statistics], NOW)
    assert _side_files(shelf, "side") == {file, statistics}
    gone = shelf.departure("side/1.stats", kind=FileKind.STATISTICS)
    shelf.ledger.departures.record({"side-1": [gone]})
    assert _side_files(shelf, "side") == {file}
    shelf.ledger.departures.record({"side-2": [replace(gone, state=CANCELLED)]})
    assert _side_files(shelf, "side") == {file, statistics}


def _side_files(shelf: Shelf, table: str) -> set[SideFile]:
    found = [file for file in shelf.ledger.side_files.known() if file.table_uuid == table]
    assert len(found) == len(set(found))
    return set(found)


def test_rebuilding_forgets_what_can_be_read_again_and_keeps_what_others_need(
    shelf: Shelf,
) -> None:
    own, shared = shelf.refs["forgets/m1"], shelf.refs["forgets/m2"]
    side = SideFile("forgets", shelf.path("forgets/v1.metadata.json"), FileKind.METADATA, 9)
    shelf.ledger.side_files.record([side], NOW)
    shelf.ledger.upkeep.rebuild(["forgets"])
    assert shelf.known("forgets") == set() and shelf.known("remembers") == {1}
    assert shelf.ledger.manifests.unread([own.path, shared.path]) == {own.path}
    assert _side_files(shelf, "forgets") == set()
    assert shelf.ledger.references.among([shelf.path("forgets/b")], []) == {shelf.path("forgets/b")}
    shelf.ledger.manifests.ingest([IngestRequest("forgets", (own,))], [])
    shelf.ledger.snapshots.record([shelf.record("forgets", 1, own, shared)])
    assert shelf.known("forgets") == {1}
    assert shelf.departing(forgets=[1]) == {"forgets/list1", "forgets/m1", "forgets/a"}


def test_rebuilding_takes_whatever_stands_for_a_table_as_text(shelf: Shelf) -> None:
    """A location with a quote in it stands for a table of format 1 that has no UUID."""
    own, other = shelf.manifest("it's/m1", "it's/a"), shelf.manifest("bystander/m1", "bystander/a")
    names = ("location:/x' OR '1'='1", "bystander")
    for name, ref in zip(names, (own, other), strict=True):
        shelf.ledger.manifests.ingest([IngestRequest(name, (ref,))], [])
        shelf.ledger.snapshots.record([shelf.record(name, 1, ref)])
    shelf.ledger.upkeep.rebuild(names[:1])
    assert shelf.known(names[0]) == set() and shelf.known("bystander") == {1}
    assert shelf.ledger.manifests.unread([own.path, other.path]) == {own.path}


# --- plan items ----------------------------------------------------------------------------------


def test_items_come_back_as_they_were_sorted_by_path(shelf: Shelf) -> None:
    files = [
        PlannedFile(shelf.path("i/ж b"), FileKind.DATA, 2**40, "o", NOW),
        PlannedFile(shelf.path("i/a"), FileKind.MANIFEST_LIST, 0, "o"),
        PlannedFile(shelf.path("i/B"), FileKind.DELETION_VECTOR, 1, "p", NOW + MS),
    ]
    shelf.ledger.items.store({"items-1": files, "items-2": files[:1]})
    found = shelf.ledger.items.of(["items-1", "items-2", "items-none"])
    assert list(found["items-1"]) == sorted(files, key=lambda file: file.path)
    assert list(found["items-2"]) == files[:1]
    assert list(found["items-none"]) == []
    assert shelf.ledger.items.of([]) == {}


def test_items_are_stored_once_and_never_changed(shelf: Shelf) -> None:
    first = PlannedFile(shelf.path("i/first"), FileKind.DATA, 1, "o")
    other = replace(first, path=shelf.path("i/other"))
    shelf.ledger.items.store({"once": [first]})
    shelf.ledger.items.store({"once": [first, other], "once-b": [other], "once-empty": []})
    found = shelf.ledger.items.of(["once", "once-b", "once-empty"])
    assert [list(found[plan]) for plan in found] == [[first], [other], []]


# --- departures ----------------------------------------------------------------------------------


def _states(shelf: Shelf, *shorts: str) -> dict[str, DepartureState]:
    paths = [shelf.path(short) for short in shorts]
    found = shelf.ledger.departures.in_states(frozenset(DepartureState), paths=paths)
    return {shelf.short(departure.path): departure.state for departure in found}


def test_a_departure_comes_back_as_it_was_recorded(shelf: Shelf) -> None:
    full = shelf.departure("d/full", kind=FileKind.MANIFEST, bytes=2**40, recorded_at=NOW + MS)
    shelf.ledger.departures.record({"full": [full]})
    found = shelf.ledger.departures.in_states(frozenset({FAILSAFE}), paths=[full.path])
    assert list(found) == [full]


def test_a_marker_is_recorded_once_whatever_comes_under_it(shelf: Shelf) -> None:
    first = shelf.departure("d/once")
    later = replace(first, due_at=first.due_at + timedelta(days=9), recorded_at=NOW + MS)
    shelf.ledger.departures.record({"marker": [first]})
    shelf.ledger.departures.record({"marker": [later, shelf.departure("d/extra")]})
    found = shelf.ledger.departures.in_states(
        frozenset(DepartureState), paths=[first.path, shelf.path("d/extra")]
    )
    assert list(found) == [first]


def test_a_known_marker_does_not_hold_back_a_new_one_beside_it(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"beside-1": [shelf.departure("d/one")]})
    shelf.ledger.departures.record(
        {"beside-1": [shelf.departure("d/one", state=DELETED)],
         "beside-2": [shelf.departure("d/two")]}
    )  # fmt: skip
    assert _states(shelf, "d/one", "d/two") == {"d/one": FAILSAFE, "d/two": FAILSAFE}


def test_the_newest_state_wins_whatever_its_times_say(shelf: Shelf) -> None:
    path = "d/moves"
    for number, state in enumerate((FAILSAFE, CANCELLED, FAILSAFE, DELETED)):
        # A clock that was set back does not bring an older state to the top.
        moved = shelf.departure(path, state=state, recorded_at=NOW - number * MS)
        shelf.ledger.departures.record({f"moves-{number}": [moved]})
        assert _states(shelf, path) == {path: state}
    assert shelf.ledger.departures.in_states(frozenset({FAILSAFE}), paths=[shelf.path(path)]) in (
        [],
        (),
    )


def test_one_file_under_two_spellings_has_one_state(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"spell-1": [shelf.departure("d/s")]})
    other = shelf.path("d/s").replace("file:///", "file:/")
    moved = shelf.departure("d/s", path=other, state=DELETED)
    shelf.ledger.departures.record({"spell-2": [moved]})
    for asked in (shelf.path("d/s"), other):
        found = shelf.ledger.departures.in_states(frozenset(DepartureState), paths=[asked])
        assert [departure.state for departure in found] == [DELETED]


def test_a_file_is_due_exactly_at_its_time(shelf: Shelf) -> None:
    one = shelf.departure("d/due")
    shelf.ledger.departures.record({"due": [one]})
    for late, expected in ((-MS, []), (0 * MS, [one]), (MS, [one])):
        found = shelf.ledger.departures.in_states(
            frozenset({FAILSAFE}), due_by=one.due_at + late, paths=[one.path]
        )
        assert list(found) == expected


def test_no_paths_asked_for_is_no_answer_and_none_given_is_all(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"all": [shelf.departure("d/all")]})
    assert list(shelf.ledger.departures.in_states(frozenset(DepartureState), paths=[])) == []
    everything = shelf.ledger.departures.in_states(frozenset(DepartureState))
    assert shelf.path("d/all") in {departure.path for departure in everything}
    assert [d.path for d in everything] == sorted(d.path for d in everything)


def test_departures_without_rows_change_nothing(shelf: Shelf) -> None:
    shelf.ledger.departures.record({})
    shelf.ledger.departures.record({"no-rows": []})
    shelf.ledger.departures.record({"no-rows": [shelf.departure("d/after-all")]})
    assert _states(shelf, "d/after-all") == {"d/after-all": FAILSAFE}


# --- paths with one hash -------------------------------------------------------------------------


def test_a_manifest_whose_paths_hash_another_one_has_is_never_taken_for_it(shelf: Shelf) -> None:
    first, second = map(shelf.short, colliding(shelf.path("hashes"), "-m0.avro"))
    for name, files in ((first, ["hashes/a"]), (second, ["hashes/b", "hashes/c"])):
        shelf.manifest(name, *files)
    one, other = shelf.refs[first], shelf.refs[second]
    (read,) = shelf.ledger.manifests.ingest([IngestRequest("hashes", (one,))], [])
    assert not read.error
    shelf.ledger.snapshots.record([shelf.record("hashes", 1, one)])
    assert shelf.ledger.manifests.unread([one.path, other.path]) == {other.path}
    (read,) = shelf.ledger.manifests.ingest([IngestRequest("hashes", (other,))], [])
    if read.error:  # its table is skipped by name, and what it refers to is kept
        assert other.path in read.error and "hash" in read.error
        assert shelf.ledger.manifests.unread([other.path]) == {other.path}
    assert shelf.departing(hashes=[1]) == {"hashes/list1", first, "hashes/a"}
