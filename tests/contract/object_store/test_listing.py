"""Listing the store: one level of a folder, and a whole sweep's listing held against the ledger.

The sweeper's suite runs in memory and on Spark; both list real local files.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.folder_listing import FolderLister, FolderStores
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.deletion.orphans import OrphanCandidate, OrphanObservation, SweptPlaces
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    EntryStatus,
    FileKind,
    ManifestFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.locations import claim_prefix
from meltline.ports import FileLedger, IngestRequest, StoredObject, Sweeper
from tests.contract.object_store.s3proxy import S3Server, running_s3proxy
from tests.doubles.file_tables import MemoryTables
from tests.doubles.files import memory_file_ledger
from tests.doubles.sweeper import MemorySweeper
from tests.lake.avro_files import Entry, manifest_bytes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODIFIED = datetime(2026, 2, 1, 3, 4, 5, 600000, tzinfo=UTC)

# --- one level of a folder -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@dataclass(frozen=True)
class Place:
    """A store and an empty folder in it."""

    store: FolderLister
    objects: ObjectStores
    root: str


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(FolderStores({}), ObjectStores({}), f"file://{tmp_path}/root")
    server: S3Server = request.getfixturevalue("s3_server")
    objects = ObjectStores(server.properties)
    return Place(FolderStores(server.properties), objects, f"s3://{server.bucket}/{tmp_path.name}")


def files(place: Place, folder: str) -> dict[str, StoredObject | None]:
    """The files right in a folder; where only names are listed, each is measured."""
    level, base = place.store.level(folder), folder.rstrip("/") + "/"
    assert not (level.files and level.names)
    measured = [place.store.measure(base + name) for name in level.names]
    return {one.path: one for one in (*level.files, *measured) if one is not None}


def test_a_level_has_files_and_folders_and_nothing_that_lies_deeper(place: Place) -> None:
    for name in ("a", "d/x", "d/e/y", "a b#1?%20/z", ".hidden/h", "día/ключ"):
        place.objects.write(f"{place.root}/t/{name}", b"x")
    place.objects.write(f"{place.root}/t2/sibling", b"x")
    folders = [f"{place.root}/t/{name}/" for name in (".hidden", "a b#1?%20", "d", "día")]
    for spelled in (f"{place.root}/t", f"{place.root}/t/"):
        assert sorted(place.store.level(spelled).folders) == sorted(folders)
        assert list(files(place, spelled)) == [f"{place.root}/t/a"]
    none = place.store.level(f"{place.root}/none")
    assert (none.files, none.names, none.folders) == ((), (), ())


def test_levels_one_by_one_come_to_what_a_whole_listing_shows(place: Place) -> None:
    for name in ("a", "b/c", "b/d/e", "b/d/f", "g/h/i/j"):
        place.objects.write(f"{place.root}/{name}", b"x")
    found: dict[str, StoredObject | None] = {}
    folders = [place.root]
    while folders:
        at = folders.pop()
        found |= files(place, at)
        folders += place.store.level(at).folders
    assert found == {stored.path: stored for stored in place.store.list(place.root)}


def test_on_a_disk_names_alone_are_listed_and_measured_when_they_matter(tmp_path: Path) -> None:
    store, root = FolderStores({}), f"file://{tmp_path}"
    ObjectStores({}).write(f"{root}/a", b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "folder").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).touch()
    assert store.level(root).names == ("a",)
    assert not store.measures(root)
    (listed,) = store.list(root)
    assert store.measure(f"{root}/a") == listed
    for other in ("link", "folder", "none", "a/b"):
        assert store.measure(f"{root}/{other}") is None


def test_a_level_that_cannot_be_listed_is_refused_not_empty(s3_server: S3Server) -> None:
    wrong = FolderStores({**s3_server.properties, "s3.secret-access-key": "hush-hush"})
    with pytest.raises(StoreRefused, match="denied") as caught:
        wrong.level(f"s3://{s3_server.bucket}/denied")
    assert "hush-hush" not in str(caught.value.as_json())
    assert s3_server.request("PUT", f"/{s3_server.bucket}/odd/a//x") == 200
    with pytest.raises(StoreRefused, match="odd/a"):
        FolderStores(s3_server.properties).level(f"s3://{s3_server.bucket}/odd/a")


# --- a sweep's listing ---------------------------------------------------------------------------


@dataclass
class Yard:
    """A sweeper, its ledger, and a folder of local files that only one test uses."""

    sweeper: Sweeper
    ledger: FileLedger
    tables: Any
    root: str = ""

    def write(self, *names: str) -> list[str]:
        """Writes files of three bytes; returns their locations."""
        for name in names:
            file = Path(self.root.removeprefix("file://"), name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"abc")
            os.utime(file, (MODIFIED.timestamp(), MODIFIED.timestamp()))
        return [f"{self.root}/{name}" for name in names]

    def places(self, *prefixes: str, others: tuple[str, ...] = ()) -> SweptPlaces:
        return SweptPlaces(
            [claim_prefix(f"{self.root}/{prefix}") for prefix in prefixes or ("",)],
            [claim_prefix(f"{self.root}/{prefix}") for prefix in others],
        )

    def strays(self, places: SweptPlaces | None = None) -> dict[str, OrphanCandidate]:
        found = self.sweeper.list_files(places or self.places(), NOW).strays()
        return {stray.path: stray for stray in found}

    def depart(
        self, path: str, state: DepartureState, at: datetime, due: datetime | None = None
    ) -> None:
        row = Departure(path, FileKind.DATA, 3, "u", "p", at, due or at, state, at)
        self.ledger.departures.record({f"{path} {state} {at}": [row]})

    def commit(self, name: str, entries: dict[str, EntryStatus]) -> str:
        """A manifest that names files, read into the index; returns its location."""
        (path,) = self.write(name)
        rows = [Entry(p, 3, FileKind.DATA, status, 1, 1) for p, status in entries.items()]
        content = manifest_bytes(2, rows)
        Path(path.removeprefix("file://")).write_bytes(content)
        counts = [sum(s is status for s in entries.values()) for status in
                  (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)]  # fmt: skip
        ref = ManifestFile(path, len(content), *counts, added_snapshot_id=1)
        (outcome,) = self.ledger.manifests.ingest([IngestRequest("u", (ref,))], [])
        assert outcome.error == ""
        return path

    def change(self, *paths: str, until: int | None = None) -> None:
        """Rows of what a snapshot added, or removed; no manifest was read wholly for them."""
        if isinstance(self.tables, MemoryTables):
            pytest.skip("a ledger in memory reads every manifest wholly")
        rows = [
            {"table_uuid": "u", "snapshot_id": 9, "manifest_id": 9, "path": path, "bytes": 3,
             "key_hash": key_hash(path), "kind": "data", "since": 1, "until": until}
            for path in paths
        ]  # fmt: skip
        self.tables.append("changes", rows, f"{self.root} {paths} {until}")


@pytest.fixture(scope="module", params=["memory", pytest.param("spark", marks=pytest.mark.spark)])
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    if request.param == "memory":
        store = ObjectStores({})
        tables = MemoryTables(store)
        return Yard(MemorySweeper(store, tables), memory_file_ledger(tables), tables)
    from tests.spark.setups.warehouse import TODAY, Warehouse

    warehouse = Warehouse.empty(tmp_path_factory.mktemp("listing"), "listing")
    warehouse.init()
    services = warehouse.services(TODAY)
    manifests: Any = services.files.manifests
    return Yard(services.sweeper, services.files, manifests._tables)


@pytest.fixture
def yard(swept: Yard, tmp_path: Path) -> Yard:
    return Yard(swept.sweeper, swept.ledger, swept.tables, f"file://{tmp_path}/yard")


def test_an_unknown_file_is_a_stray_with_its_size_and_time(yard: Yard) -> None:
    (path,) = yard.write("t/data/a b#1.parquet")
    listing = yard.sweeper.list_files(yard.places(), NOW)
    assert (listing.listed_at, listing.files) == (NOW, 1)
    assert listing.unlisted == {}
    assert list(listing.strays()) == [OrphanCandidate(path, 3, MODIFIED, None)]


def test_nothing_at_all_may_lie_there(yard: Yard) -> None:
    listing = yard.sweeper.list_files(yard.places("nowhere"), NOW)
    assert (listing.files, list(listing.strays())) == (0, [])
    assert yard.sweeper.sightings([]) == {}
    assert yard.sweeper.namesakes([]) == {}


def test_only_the_places_are_listed_and_the_innermost_decides(yard: Yard) -> None:
    mine = yard.write("top", "t/a", "t/in/mine/b", "t/in/mine/deep/er/c")
    yard.write("tt/sibling", "t/in/theirs", "t/.hidden/h", "t/_staging/s", "t/.a.crc",
               "t/in/mine/_x", "version-hint.text")  # fmt: skip
    places = yard.places("", "t", "t/in/mine", others=("tt", "t/in"))
    listing = yard.sweeper.list_files(places, NOW)
    assert sorted(stray.path for stray in listing.strays()) == sorted(mine)
    assert listing.files == len(mine)


def test_what_was_recorded_after_the_listing_counts(yard: Yard) -> None:
    paths = yard.write("live", "removed", "side", "waiting", "list", "rest")
    live, removed, side, waiting, manifest_list, rest = paths
    listing = yard.sweeper.list_files(yard.places(), NOW)
    manifest = yard.commit(
        "m.avro",
        {live: EntryStatus.ADDED, removed: EntryStatus.DELETED,
         f"{yard.root}/not/there": EntryStatus.EXISTING},
    )  # fmt: skip
    yard.ledger.side_files.record([SideFile("u", side, FileKind.METADATA, 3)], NOW)
    yard.depart(waiting, DepartureState.FAILSAFE, NOW)
    yard.ledger.snapshots.record([SnapshotRecord("u", 1, NOW, None, manifest_list, 3, ())])
    assert {stray.path for stray in listing.strays()} == {removed, rest}
    assert manifest not in yard.strays()


def test_what_a_snapshot_added_is_kept_whether_or_not_it_was_recorded_or_has_lost_it_since(
    yard: Yard,
) -> None:
    paths = yard.write("added", "lost again", "deleted since", "only ever removed", "rest")
    added, lost, deleted, removed, rest = paths
    listing = yard.sweeper.list_files(yard.places(), NOW)
    yard.change(added, lost, deleted)
    yard.change(lost, removed, until=2)
    yard.depart(deleted, DepartureState.DELETED, NOW)
    for found in (listing, yard.sweeper.list_files(yard.places(), NOW)):
        assert {stray.path for stray in found.strays()} == {deleted, removed, rest}


def test_a_file_that_was_deleted_taken_back_or_left_alone_is_one_with_a_past(yard: Yard) -> None:
    paths = yard.write("deleted", "named", "taken back", "kept", "left", "waiting")
    deleted, named, taken_back, kept, left, waiting = paths
    yard.commit("m.avro", dict.fromkeys([named, kept, left], EntryStatus.ADDED))
    later = NOW + timedelta(hours=1)
    for path in (deleted, named):
        yard.depart(path, DepartureState.FAILSAFE, NOW)
        yard.depart(path, DepartureState.DELETED, later)
    for path in (taken_back, kept):
        yard.depart(path, DepartureState.FAILSAFE, NOW)
        yard.depart(path, DepartureState.CANCELLED, later)
    for path in (left, waiting):
        yard.depart(path, DepartureState.FAILSAFE, NOW)
    yard.depart(left, DepartureState.FAILSAFE, later, due=NOW)
    found = {path: stray.left_at for path, stray in yard.strays().items()}
    assert found == dict.fromkeys([deleted, named, taken_back, left], later)


def test_other_spellings_of_a_location_are_the_same_file(yard: Yard) -> None:
    paths = yard.write("d/plain", "d/a%20b", "e f/x", "100%")
    bare = [path.removeprefix("file://") for path in paths]
    spelled = (
        f"file:{bare[0]}",
        bare[1].replace("%20", " "),
        f"file:{bare[2]}".replace(" ", "%20"),
        bare[3].replace("/100", "//./100"),
    )
    yard.commit("m.avro", dict.fromkeys(spelled, EntryStatus.EXISTING))
    assert yard.strays() == {}


def test_the_newest_sighting_of_a_file_is_found_by_any_spelling(yard: Yard) -> None:
    seen, other = yard.write("seen", "other")
    old = OrphanObservation(seen, 2, MODIFIED, "u", NOW)
    new = OrphanObservation(
        seen.replace("file://", "file:"), 3, MODIFIED, "u", NOW + timedelta(days=1)
    )
    yard.sweeper.record([new])
    yard.sweeper.record([old])
    yard.sweeper.record([])
    asked = [OrphanCandidate(seen, 3, MODIFIED), OrphanCandidate(other, 3, MODIFIED)]
    assert yard.sweeper.sightings(asked) == {seen: new}


def test_namesakes_are_what_the_ledger_knows_by_the_same_last_name(yard: Yard) -> None:
    name = f"{yard.root.rpartition('/')[0].rpartition('/')[2]}.parquet"
    known = f"s3://elsewhere/t/data/{name}"
    yard.commit("m.avro", {known: EntryStatus.ADDED, f"{yard.root}/z{name}": EntryStatus.ADDED})
    asked = [f"{yard.root}/data/{name}", f"{yard.root}/data/unheard-of"]
    found = yard.sweeper.namesakes(asked)
    assert {path: list(others) for path, others in found.items() if others} == {asked[0]: [known]}


def test_namesakes_are_found_among_what_snapshots_added(yard: Yard) -> None:
    known = f"{yard.root}/t/data/by-changes.parquet"
    yard.change(known)
    yard.change(f"{yard.root}/t/gone/by-changes.parquet", until=2)
    asked = f"{yard.root}/elsewhere/by-changes.parquet"
    assert yard.sweeper.namesakes([asked]) == {asked: [known]}


def test_a_folder_that_cannot_be_listed_is_named_and_the_rest_is_there(yard: Yard) -> None:
    (path,) = yard.write("t/a")
    places = SweptPlaces([f"{yard.root}/t/", "hdfs://nobody/t/"])
    listing = yard.sweeper.list_files(places, NOW)
    assert [stray.path for stray in listing.strays()] == [path]
    assert list(listing.unlisted) == ["hdfs://nobody/t/"]
