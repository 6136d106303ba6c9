"""One suite for every file ledger: what departs with some snapshots, and what is referred to."""

from meltline.domain.iceberg.files import (
    FileKind,
    SideFile,
)
from meltline.ports import IngestRequest, SnapshotKey
from tests.contract.index.file_shelf import CANCELLED, NOW, Shelf

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
