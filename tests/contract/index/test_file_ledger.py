"""One suite for every file ledger: manifests, snapshots and side files, and forgetting them."""

from dataclasses import replace
from pathlib import Path

from meltline.domain.iceberg.files import (
    FileKind,
    ManifestFile,
    SideFile,
)
from meltline.domain.iceberg.locations import Ownership
from meltline.ports import IngestRequest, SnapshotKey
from tests.contract.index.collisions import colliding
from tests.contract.index.file_shelf import CANCELLED, DELETED, NOW, REMOVED, Shelf

# --- ingesting -----------------------------------------------------------------------------------


def test_only_unread_manifests_are_unknown(shelf: Shelf) -> None:
    asked = [shelf.path("linear/m1"), shelf.path("linear/m77")]
    assert shelf.unread(asked) == {shelf.path("linear/m77")}
    respelled = shelf.path("linear/m1").replace("file:///", "file:/")
    assert shelf.unread([respelled]) == set()
    assert shelf.unread([]) == set()


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
    assert [name for name, of in outcomes.items() if not of.error] == ["mixed/good", "mixed/lying"]
    assert "missing" in outcomes["mixed/missing"].error
    bad = {manifest.path for manifest in (noise, cut, missing)}
    assert shelf.unread([good.path, *sorted(bad)]) == bad
    files = [shelf.path(f"mixed/{name}") for name in "abcd"]
    assert shelf.ledger.references.unknown(files) == set(files[1:3])
    # What its list counts wrongly is read, and counted rightly ever after.
    assert outcomes["mixed/lying"].counts == (1, 0, 0)
    assert shelf.ledger.manifests.counted([lying.path]) == {lying.path: (1, 0, 0)}


def test_a_manifest_that_was_mended_is_read_the_next_time(shelf: Shelf) -> None:
    broken = shelf.manifest("mended/m1", "mended/a")
    content = shelf.store.read(broken.path)
    shelf.store.write(broken.path, b"noise")
    assert shelf.ledger.manifests.ingest([IngestRequest("mended", (broken,))], [])[0].error
    shelf.store.write(broken.path, content)
    (outcome,) = shelf.ledger.manifests.ingest([IngestRequest("mended", (broken,))], [])
    assert (outcome.error, outcome.added) == ("", 1)
    assert shelf.unread([broken.path]) == set()


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
    assert shelf.unread([own.path, shared.path]) == {own.path}
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
    assert shelf.unread([own.path, other.path]) == {own.path}


# --- paths with one hash -------------------------------------------------------------------------


def test_a_manifest_whose_paths_hash_another_one_has_is_never_taken_for_it(shelf: Shelf) -> None:
    first, second = map(shelf.short, colliding(shelf.path("hashes"), "-m0.avro"))
    for name, files in ((first, ["hashes/a"]), (second, ["hashes/b", "hashes/c"])):
        shelf.manifest(name, *files)
    one, other = shelf.refs[first], shelf.refs[second]
    (read,) = shelf.ledger.manifests.ingest([IngestRequest("hashes", (one,))], [])
    assert not read.error
    shelf.ledger.snapshots.record([shelf.record("hashes", 1, one)])
    assert shelf.unread([one.path, other.path]) == {other.path}
    (read,) = shelf.ledger.manifests.ingest([IngestRequest("hashes", (other,))], [])
    if read.error:  # its table is skipped by name, and what it refers to is kept
        assert other.path in read.error and "hash" in read.error
        assert shelf.unread([other.path]) == {other.path}
    assert shelf.departing(hashes=[1]) == {"hashes/list1", first, "hashes/a"}
