"""The archive over a lake in memory: what it copies, in which order, and what a kill leaves."""

import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import fastavro
import pytest

from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.batches import BatchLimits
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.rewriting.manifests import TOTALS
from meltline.adapters.archive.workers import LocalCrew
from meltline.domain.archive.archive import COLD_OF, Validity, read_archived
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.errors import CommitConflict
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.ports import ChosenSnapshot, HandedOver, HandoffRequest
from tests.lake.lake import COLD_WAREHOUSE, WAREHOUSE, Lake, Table
from tests.lives.kills import Killed, Process

Ask = Callable[[], bool]


class Watched:
    """A port whose calls are counted by name, and which may die with a process."""

    def __init__(self, target: Any, process: Process) -> None:
        self._target, self._process = target, process

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            subject = args[0] if args and isinstance(args[0], str) else ""
            return self._process.call(f"{name} {subject}", lambda: found(*args, **named))

        return call


@dataclass
class Tiers:
    """A lake with an archive beside it."""

    lake: Lake = field(default_factory=Lake)
    limits: BatchLimits = field(default_factory=BatchLimits)
    few: int = 500

    def table(self, name: str = "t", **more: Any) -> Table:
        return self.lake.table(name, **more)

    def archive(self, process: Process | None = None) -> ColdArchive:
        seen = process or Process()
        store: Any = Watched(self.lake.store, seen)
        stores = Stores(store, store, COLD_WAREHOUSE)
        crew = partial(LocalCrew, threads=1, few=self.few)
        catalog: Any = Watched(self.lake.cold, seen)
        return ColdArchive(
            stores, catalog, crew, self.lake.control.copies, self.lake.clock, self.limits
        )

    def request(self, table: Table, *snapshots: int, cold: str = "") -> HandoffRequest:
        location = table.metadata_location
        state = parse_table(table.name, location, 1, table.document)
        chosen = (
            ChosenSnapshot(state.snapshots[one], Validity(self.lake.clock.now(), None))
            for one in snapshots or table.snapshots
        )
        name = TableName.parse(cold) if cold else replace(table.name, catalog="ice")
        return HandoffRequest(state, name, tuple(chosen))

    def hand_off(
        self,
        *requests: HandoffRequest,
        may_go_on: Ask = lambda: True,
        process: Process | None = None,
    ) -> dict[int, HandedOver]:
        done = self.archive(process).hand_off(requests, may_go_on)
        return {one.snapshot_id: one for _, one in done}

    def cold(self, name: str = "ice.air.t") -> dict[str, Any]:
        return self.lake.document(self.lake.cold.location(TableName.parse(name)))

    def copies(self) -> dict[str, bytes]:
        """Every file of cold but metadata files."""
        paths = self.lake.paths(COLD_WAREHOUSE)
        return {p: self.lake.store.read(p) for p in paths if not p.endswith(".json")}

    def reachable(self) -> set[str]:
        """Everything that the cold tables' snapshots name, by a walk of its own."""
        found: set[str] = set()
        for entry in self.lake.cold.listing().entries:
            for snapshot in self.lake.document(entry.metadata_location)["snapshots"]:
                found.add(snapshot["manifest-list"])
                for row in self.avro(snapshot["manifest-list"]):
                    found.add(row["manifest_path"])
                    live = (e for e in self.avro(row["manifest_path"]) if e["status"] != 2)
                    found.update(entry["data_file"]["file_path"] for entry in live)
        return found

    def avro(self, path: str) -> list[Any]:
        return list(fastavro.reader(io.BytesIO(self.lake.store.read(path))))


def cold_path(path: str) -> str:
    return mirrored(path, COLD_WAREHOUSE)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_snapshot_is_whole_in_cold_and_nothing_else_is_there(version: int) -> None:
    # AR-32, AR-35
    tiers = Tiers()
    table = tiers.table(version=version)
    for commit in (("a", "b"), ("c",), ("d",)):
        table.append(*commit)
    table.overwrite("e")
    kept = table.snapshots[:-1]
    done = tiers.hand_off(tiers.request(table, *kept))
    assert [one.error for one in done.values()] == [""] * 3
    assert tiers.reachable() == tiers.copies().keys()
    hot = {cold_path(p): tiers.lake.store.read(p) for p in map(table.data, "abcd")}
    assert hot.items() <= tiers.copies().items()
    assert cold_path(table.data("e")) not in tiers.copies()
    assert [s["snapshot-id"] for s in tiers.cold()["snapshots"]] == kept
    assert [one.files for one in done.values()] == [4, 6, 8]
    assert [one.files_copied for one in done.values()] == [4, 3, 3]
    assert [one.rows for one in done.values()] == [2, 3, 4]
    bytes_in_cold = sum(map(len, tiers.copies().values()))
    assert sum(one.bytes_copied for one in done.values()) == bytes_in_cold


def test_tombstones_are_kept_as_entries_and_their_files_left_where_they_are() -> None:
    tiers = Tiers()
    table = tiers.table()
    table.append("a", "b")
    after = table.replace(remove=["a"])
    tiers.hand_off(tiers.request(table, after))
    (manifest,) = (
        row["manifest_path"] for row in tiers.avro(cold_path(table.manifest_list(after)))
    )
    found = {e["data_file"]["file_path"]: e["status"] for e in tiers.avro(manifest)}
    assert found == {cold_path(table.data("a")): 2, cold_path(table.data("b")): 0}
    assert cold_path(table.data("a")) not in tiers.copies()


def test_the_next_night_reads_and_copies_the_change_alone() -> None:
    tiers = Tiers()
    table = tiers.table()
    for number in range(20):
        table.append(f"f{number}")
    tiers.hand_off(tiers.request(table))
    table.append("new")
    (new,) = set(table.manifests(table.head)) - set(table.manifests(table.snapshots[-2]))
    night = Process()
    done = tiers.hand_off(tiers.request(table, table.head), process=night)
    assert done[table.head].files_copied == 3
    touched = Counter(call.split()[0] for call in night.calls)
    of_hot = {call.split()[1] for call in night.calls if call.startswith(f"read {WAREHOUSE}")}
    assert of_hot == {table.metadata_location, table.manifest_list(table.head), new}
    assert touched["write_stream"] == 3
    assert sum(touched.values()) < 25


@pytest.mark.parametrize("few", [0, 1000])
def test_a_merged_manifest_asks_for_no_file_that_those_it_replaced_name(few: int) -> None:
    tiers = Tiers(few=few)
    table = tiers.table()
    for number in range(10):
        table.append(f"f{number}")
    tiers.hand_off(tiers.request(table))
    table.append("new", merge=True)
    night = Process()
    done = tiers.hand_off(tiers.request(table, table.head), process=night)
    assert done[table.head].files_copied == 3
    asked = {call.split()[1] for call in night.calls if call.startswith("measure")}
    old = {cold_path(table.data(f"f{number}")) for number in range(10)}
    assert (old & asked) == (old if few else set())
    assert tiers.reachable() <= tiers.copies().keys()


def test_a_batch_asks_for_no_file_that_an_earlier_one_of_its_night_has_brought() -> None:
    tiers = Tiers(limits=BatchLimits(snapshots=1), few=0)
    table = tiers.table()
    for number in range(4):
        table.append(f"f{number}", merge=True)
    night = Process()
    done = tiers.hand_off(tiers.request(table), process=night)
    assert [one.error for one in done.values()] == [""] * 4
    asked = Counter(call.split()[1] for call in night.calls if call.startswith("measure"))
    once = asked[cold_path(table.data("f3"))]
    assert {asked[cold_path(table.data(f"f{number}"))] for number in range(4)} == {once}
    assert tiers.reachable() <= tiers.copies().keys()


def test_a_damaged_manifest_in_cold_vouches_for_no_file() -> None:
    tiers = Tiers(few=0)
    table = tiers.table()
    first = table.append("a", "b")
    tiers.hand_off(tiers.request(table))
    (manifest,) = table.manifests(first)
    tiers.lake.store.write(cold_path(manifest), b"damaged")
    tiers.lake.store.delete([cold_path(table.data("a"))])
    table.append("c", merge=True)
    assert tiers.hand_off(tiers.request(table, table.head))[table.head].error == ""
    assert cold_path(table.data("a")) in tiers.copies()


def test_a_tag_that_comes_late_is_registered_where_it_belongs() -> None:
    tiers = Tiers()
    table = tiers.table()
    first, second, third = (table.append(name) for name in "abc")
    tiers.hand_off(tiers.request(table, third))
    before = tiers.cold()
    done = tiers.hand_off(tiers.request(table, first))
    assert done[first].files_copied == 1  # its list; the rest is named by the newer one
    after = tiers.cold()
    assert [one["snapshot-id"] for one in after["snapshots"]] == [first, third]
    assert after["current-snapshot-id"] == third
    assert after["last-sequence-number"] == before["last-sequence-number"]
    assert second not in {one["snapshot-id"] for one in after["snapshots"]}


def test_tables_that_share_files_share_their_copies() -> None:
    tiers = Tiers()
    source = tiers.table("source")
    source.append("a", "b")
    clone = tiers.lake.clone(source, "lake.air.clone")
    archive = tiers.archive()
    done = list(archive.hand_off([tiers.request(source), tiers.request(clone)], lambda: True))
    assert [one.error for _, one in done] == ["", ""]
    assert [one.files_copied for _, one in done] == [4, 0]
    assert [name.name for name, _ in done] == ["source", "clone"]
    documents = [tiers.cold("ice.air.source"), tiers.cold("ice.air.clone")]
    assert len({document["table-uuid"] for document in documents}) == 2
    assert [d["properties"][COLD_OF] for d in documents] == [source.uuid, clone.uuid]


# --- what stays hot ------------------------------------------------------------------------------


def test_an_unreadable_manifest_keeps_its_snapshots_hot_and_no_other() -> None:
    tiers = Tiers()
    table = tiers.table()
    first, second = table.append("a"), table.append("b")
    (broken,) = set(table.manifests(second)) - set(table.manifests(first))
    content = tiers.lake.spoil(broken)
    done = tiers.hand_off(tiers.request(table))
    assert done[first].error == ""
    assert broken in done[second].error
    assert tiers.reachable() <= tiers.copies().keys()
    tiers.lake.mend(broken, content)
    assert tiers.hand_off(tiers.request(table, second))[second].error == ""


@pytest.mark.parametrize("change", [None, b"longer than its manifest says"])
def test_a_file_that_is_not_what_its_manifest_says_keeps_its_snapshots_hot(
    change: bytes | None,
) -> None:
    tiers = Tiers()
    table = tiers.table()
    first, second = table.append("a"), table.append("b")
    tiers.lake.store.delete([table.data("b")])
    if change:
        tiers.lake.store.write(table.data("b"), change)
    done = tiers.hand_off(tiers.request(table))
    assert done[first].error == ""
    assert table.data("b") in done[second].error
    assert [one["snapshot-id"] for one in tiers.cold()["snapshots"]] == [first]


def test_a_missing_list_or_metadata_file_is_said() -> None:
    tiers = Tiers()
    table = tiers.table()
    first, second = table.append("a"), table.append("b")
    request = tiers.request(table)
    tiers.lake.store.delete([table.manifest_list(first)])
    done = tiers.hand_off(request)
    assert "not there" in done[first].error
    assert done[second].error == ""
    tiers.lake.store.delete([request.hot.metadata_location])
    assert all("not there" in one.error for one in tiers.hand_off(request).values())


def test_a_cold_table_of_another_uuid_is_left_alone() -> None:
    tiers = Tiers()
    other, table = tiers.table("other"), tiers.table("t")
    other.append("a")
    mine = table.append("b")
    tiers.hand_off(tiers.request(other, cold="ice.air.t"))
    before = tiers.cold()
    done = tiers.hand_off(tiers.request(table))
    assert "ice.air.t does not hold the history of lake.air.t" in done[mine].error
    assert tiers.cold() == before


def test_what_lies_in_a_copys_place_is_never_replaced() -> None:
    tiers = Tiers()
    table = tiers.table()
    snapshot = table.append("a")
    places = {
        cold_path(table.data("a")): b"of another length",
        cold_path(table.manifests(snapshot)[0]): b"no manifest",
        cold_path(table.manifest_list(snapshot)): tiers.lake.store.read(
            table.manifests(snapshot)[0]
        ),
    }
    for place, content in places.items():
        tiers.lake.store.write(place, content)
        done = tiers.hand_off(tiers.request(table))
        assert done[snapshot].error
        assert tiers.lake.store.read(place) == content
        tiers.lake.store.delete([place])
    assert tiers.hand_off(tiers.request(table))[snapshot].error == ""


def test_position_deletes_that_are_none_keep_their_snapshot_hot() -> None:
    tiers = Tiers()
    table = tiers.table()
    first = table.append("a")
    second = table.delete_rows("deletes", kind=FileKind.POSITION_DELETE)
    done = tiers.hand_off(tiers.request(table))
    assert done[first].error == ""
    assert "deletes" in done[second].error


def test_a_commit_that_fails_is_said_of_each_snapshot_of_its_batch() -> None:
    tiers = Tiers()
    table = tiers.table()
    table.append("a")
    table.append("b")
    archive = tiers.archive()

    def refuse(*args: Any) -> None:
        raise CommitConflict("nobody knows")

    tiers.lake.cold.create = refuse  # type: ignore[method-assign, assignment]
    done = list(archive.hand_off([tiers.request(table)], lambda: True))
    assert ["nobody knows" in one.error for _, one in done] == [True, True]


# --- mending -------------------------------------------------------------------------------------


def test_damaged_copies_of_a_registered_snapshot_are_made_anew_while_hot_has_it() -> None:
    tiers = Tiers()
    table = tiers.table()
    first = table.append("a", "b")
    second = table.append("c")
    original = tiers.hand_off(tiers.request(table))
    whole = tiers.copies()
    manifest, listed = table.manifests(second)[-1], table.manifest_list(second)
    tiers.lake.store.delete([cold_path(table.data("a")), cold_path(manifest)])
    tiers.lake.store.write(cold_path(table.data("b")), b"cut")
    tiers.lake.store.write(cold_path(listed), whole[cold_path(listed)][:-20])
    mended = tiers.hand_off(tiers.request(table))
    assert tiers.copies() == whole
    assert mended[first].files_copied == 2
    assert mended[second].files_copied == 2
    assert (mended[first].files, mended[first].bytes) == (
        original[first].files,
        original[first].bytes,
    )


# --- when to stop, and being stopped -------------------------------------------------------------


def test_after_a_no_nothing_new_is_begun_and_progress_is_kept() -> None:
    tiers = Tiers(limits=BatchLimits(snapshots=2))
    table = tiers.table()
    ids = [table.append(name) for name in "abcdef"]
    answers = iter([True, True, True, False])  # a batch asks before its start and before copying
    done = tiers.hand_off(tiers.request(table), may_go_on=lambda: next(answers))
    assert list(done) == ids[:2]
    assert not any(one.error for one in done.values())
    assert [one["snapshot-id"] for one in tiers.cold()["snapshots"]] == ids[:2]
    rest = tiers.hand_off(tiers.request(table))
    assert sorted(rest) == ids
    assert [one["snapshot-id"] for one in tiers.cold()["snapshots"]] == ids


def test_a_no_at_once_does_nothing_at_all() -> None:
    tiers = Tiers()
    table = tiers.table()
    table.append("a")
    assert tiers.hand_off(tiers.request(table), may_go_on=lambda: False) == {}
    assert tiers.copies() == {}


def history(tiers: Tiers) -> Table:
    table = tiers.table()
    table.append("a", "b")
    table.append("c")
    table.statistics(table.append("d"))
    return table


def what_cold_says(tiers: Tiers) -> Any:
    document = tiers.cold()
    state = parse_table(TableName.parse("ice.air.t"), "x", 1, document)
    facts = [
        replace(one, files_copied=0, bytes_copied=0) for one in read_archived(state, state.name)
    ]
    return facts, {
        key: value
        for key, value in document.items()
        if key not in ("metadata-log", "last-updated-ms", "table-uuid", "properties")
    }


def calls() -> int:
    tiers = Tiers()
    process = Process()
    tiers.hand_off(tiers.request(history(tiers)), process=process)
    return len(process.calls)


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_call_and_repeated_it_ends_the_same(after: bool) -> None:
    undisturbed = Tiers()
    undisturbed.hand_off(undisturbed.request(history(undisturbed)))
    total, deaths = calls(), 0
    for call in range(1, total + 1):
        tiers = Tiers()
        table = history(tiers)
        try:
            tiers.hand_off(tiers.request(table), process=Process(dies_at=call, after=after))
        except Killed:  # a call that finds nothing has no effect after which to die
            deaths += 1
        assert tiers.reachable() <= tiers.copies().keys()
        done = tiers.hand_off(tiers.request(table))
        assert [one.error for one in done.values()] == [""] * 3
        assert tiers.copies() == undisturbed.copies()
        assert what_cold_says(tiers) == what_cold_says(undisturbed)
    assert deaths > 40


def test_what_was_copied_before_a_kill_is_not_copied_again() -> None:
    tiers = Tiers()
    table = history(tiers)
    total = calls()
    with pytest.raises(Killed):
        tiers.hand_off(tiers.request(table), process=Process(dies_at=total - 1))
    there = tiers.copies().keys()
    again = Process()
    tiers.hand_off(tiers.request(table), process=again)
    written = {call.split()[1] for call in again.calls if call.startswith("write_stream")}
    assert not written & there


def test_lists_in_cold_say_what_their_manifests_keep_alive() -> None:
    tiers = Tiers()
    table = tiers.table()
    snapshot = table.append("a", "b")
    tiers.hand_off(tiers.request(table))
    listed = tiers.lake.store.read(cold_path(table.manifest_list(snapshot)))
    reader = fastavro.reader(io.BytesIO(listed))
    size = sum(len(tiers.lake.store.read(table.data(name))) for name in "ab")
    assert json.loads(reader.metadata[TOTALS]) == [[2, size, 2]]
    assert next(iter(reader))["manifest_length"] == len(
        tiers.lake.store.read(cold_path(table.manifests(snapshot)[0]))
    )
