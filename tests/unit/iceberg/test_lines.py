"""Lines: which snapshots are known by what they changed, and what their files are then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.index_tables.lifetimes import CHANGES, Points, spans_of
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.linear_history import SnapshotDelta, steps_of
from meltline.domain.iceberg.table_metadata import Snapshot

TABLE = "a-table"
T0 = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Line:
    """A history of one line, commit by commit: manifests, and what each snapshot refers to."""

    snapshots: list[Snapshot] = field(default_factory=list)
    listed: dict[int, tuple[ManifestFile, ...]] = field(default_factory=dict)
    files: dict[str, tuple[str, int]] = field(default_factory=dict)  # manifest and since when
    holds: dict[str, int] = field(default_factory=dict)  # live files of each manifest
    content: dict[int, frozenset[str]] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)

    @property
    def tip(self) -> int:
        return self.snapshots[-1].snapshot_id

    def commit(self, added: int, removed: Sequence[str] = ()) -> Snapshot:
        """Adds files, and removes others: whoever held those is written anew."""
        number = len(self.snapshots) + 1
        parent = self.snapshots[-1].snapshot_id if self.snapshots else None
        snapshot = Snapshot(100 + number, T0, parent, number, f"list{number}")
        manifests = {m.path: m for m in self.listed[parent]} if parent else {}
        for old in {self.files[file][0] for file in removed}:
            gone = [file for file in removed if self.files[file][0] == old]
            manifests.pop(old)
            self.holds[f"{old}.{number}"] = self.holds.pop(old) - len(gone)
            manifests[f"{old}.{number}"] = _manifest(
                f"{old}.{number}", snapshot, existing=self.holds[f"{old}.{number}"],
                deleted=len(gone),
            )  # fmt: skip
            for file, (place, since) in list(self.files.items()):
                if place == old:
                    self.files[file] = (f"{old}.{number}", since)
        for file in removed:
            self.rows.append(_row(file, snapshot, self.files.pop(file)[1], number))
        if added:
            manifests[f"m{number}"] = _manifest(f"m{number}", snapshot, added=added)
            self.holds[f"m{number}"] = added
        for n in range(added):
            self.files[f"f{number}-{n}"] = (f"m{number}", number)
            self.rows.append(_row(f"f{number}-{n}", snapshot, number, None))
        # Lists name no manifest that holds nothing, once the commit after has come.
        kept = [m for m in manifests.values() if m.added_snapshot_id == snapshot.snapshot_id
                or (m.added_files or 0) + (m.existing_files or 0)]  # fmt: skip
        self.snapshots.append(snapshot)
        self.listed[snapshot.snapshot_id] = tuple(kept)
        self.content[snapshot.snapshot_id] = frozenset(self.files)
        return snapshot

    def steps(self, tip: int | None = None) -> list[SnapshotDelta]:
        return steps_of(self.snapshots, self.listed, tip)

    def told(self) -> list[int]:
        """The snapshots that are known by their changes, from the first one on."""
        return [step.snapshot.snapshot_id for step in self.steps()]

    def spoil(self, snapshot_id: int, **changes: object) -> None:
        """Changes the last manifest of a snapshot's list."""
        *others, last = self.listed[snapshot_id]
        spoiled = replace(last, **changes)  # type: ignore[arg-type]
        self.listed[snapshot_id] = (*others, spoiled)


def _manifest(
    path: str, snapshot: Snapshot, *, added: int = 0, existing: int = 0, deleted: int = 0
) -> ManifestFile:
    return ManifestFile(
        path, 1, added, existing, deleted, snapshot.snapshot_id, snapshot.sequence_number
    )


def _row(file: str, snapshot: Snapshot, since: int, until: int | None) -> dict[str, object]:
    values = (TABLE, snapshot.snapshot_id, file, hash(file), None, "data", 1, since, until)
    return dict(zip(CHANGES, values, strict=True))


def rows_of(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    texts = ("table_uuid", "path", "kind")
    fields = [(name, pa.string() if name in texts else pa.int64()) for name in CHANGES]
    return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))


def recorded(*ids: int) -> pa.Table:
    tables = pa.array([TABLE] * len(ids), pa.string())
    return pa.table({"table_uuid": tables, "snapshot_id": pa.array(ids, pa.int64())})


def referred_to(spans: pa.Table, *numbers: int) -> set[str]:
    """Files that snapshots of the line with these sequence numbers refer to."""
    points = Points(pa.array([TABLE] * len(numbers), pa.string()), pa.array(numbers, pa.int64()))
    return set(spans.filter(points.meets(spans)).column("path").to_pylist())


@st.composite
def lines(draw: st.DrawFn) -> Line:
    line = Line()
    for _ in range(draw(st.integers(1, 8))):
        present = sorted(line.files)
        removed = draw(st.lists(st.sampled_from(present), unique=True)) if present else []
        line.commit(draw(st.integers(0, 3)), removed)
    return line


@settings(deadline=None)
@given(lines(), st.data())
def test_spans_tell_what_every_set_of_snapshots_of_a_line_refers_to(
    line: Line, data: st.DataObject
) -> None:
    assert line.told() == [snapshot.snapshot_id for snapshot in line.snapshots]
    spans = spans_of(rows_of([*line.rows, *line.rows[:3]]), recorded(*line.told()))  # some twice
    for snapshot in line.snapshots:
        found = referred_to(spans, snapshot.sequence_number)
        assert found == line.content[snapshot.snapshot_id]
    some = data.draw(st.lists(st.sampled_from(line.snapshots)))
    expected = {file for one in some for file in line.content[one.snapshot_id]}
    assert referred_to(spans, *(one.sequence_number for one in some)) == expected


@settings(deadline=None)
@given(lines())
def test_a_line_goes_on_from_any_of_its_snapshots_as_it_would_from_the_first(line: Line) -> None:
    whole = line.steps()
    for at, snapshot in enumerate(line.snapshots):
        assert line.steps(snapshot.snapshot_id) == whole[at + 1 :]


def three_commits() -> Line:
    line = Line()
    line.commit(3)
    line.commit(2, ["f1-0"])
    line.commit(2, ["f1-1", "f2-0"])
    return line


def test_a_step_has_the_manifests_that_its_snapshot_wrote_and_the_first_step_all() -> None:
    first, second, third = three_commits().steps()
    assert first.is_first and [m.path for m in first.manifests] == ["m1"]
    assert not second.is_first and {m.path for m in second.manifests} == {"m1.2", "m2"}
    assert {m.path for m in third.manifests} == {"m1.2.3", "m2.3", "m3"}


@pytest.mark.parametrize(
    "changes",
    [
        {"existing_files": 1},
        {"deleted_files": 1},
        {"added_files": None},
        {"added_snapshot_id": 1},
        {"sequence_number": 1},
    ],
)
def test_a_line_ends_before_a_snapshot_whose_manifests_do_not_follow_from_its_parents(
    changes: dict[str, object],
) -> None:
    line = three_commits()
    line.spoil(102, **changes)
    assert line.told() == [101]


def test_a_line_ends_before_a_snapshot_that_loses_a_file_without_saying_so() -> None:
    line = three_commits()
    line.listed[102] = tuple(m for m in line.listed[102] if m.path != "m1.2")
    assert line.told() == [101]


def test_a_line_does_not_begin_at_a_snapshot_whose_files_nobody_has_counted() -> None:
    line = three_commits()
    line.spoil(101, existing_files=None)
    assert line.told() == []


def test_a_line_ends_where_a_list_could_not_be_read() -> None:
    line = three_commits()
    del line.listed[102]
    assert line.told() == [101]
    assert line.steps(102) == []


def test_a_line_ends_where_sequence_numbers_do_not_grow() -> None:
    line = three_commits()
    line.snapshots[2] = replace(line.snapshots[2], sequence_number=2)
    line.listed[103] = tuple(replace(m, sequence_number=2) for m in line.listed[103])
    assert line.told() == [101, 102]


def test_a_tip_that_main_does_not_go_through_has_nothing_after_it() -> None:
    assert three_commits().steps(tip=999) == []


def test_changes_of_a_snapshot_that_was_never_recorded_count_for_nothing() -> None:
    line = three_commits()
    spans = spans_of(rows_of(line.rows), recorded(101, 102))
    assert referred_to(spans, 2) == line.content[102]
    assert referred_to(spans, 3) == line.content[102], "what 103 did is not known"


def test_a_file_of_several_deletion_vectors_is_needed_until_the_last_of_them_is_removed() -> None:
    one, other = (
        {**_row("v", Snapshot(101, T0, None, 1), 1, None), "part": part} for part in (4, 70)
    )
    gone = {**_row("v", Snapshot(102, T0, 101, 2), 1, 2), "part": 4}
    spans = spans_of(rows_of([one, other, gone]), recorded(101, 102))
    assert referred_to(spans, 2) == {"v"}
    last = {**_row("v", Snapshot(103, T0, 102, 3), 1, 3), "part": 70}
    spans = spans_of(rows_of([one, other, gone, last]), recorded(101, 102, 103))
    assert referred_to(spans, 3) == set()
    assert referred_to(spans, 2) == {"v"}


def test_snapshots_of_one_table_say_nothing_of_anothers_files() -> None:
    line = three_commits()
    spans = spans_of(rows_of(line.rows), recorded(101, 102, 103))
    points = Points(pa.array(["another", "a"]), pa.array([1, 2], pa.int64()))
    assert not any(points.meets(spans).to_pylist())
    nobody = Points(pa.array([], pa.string()), pa.array([], pa.int64()))
    assert not any(nobody.meets(spans).to_pylist())
