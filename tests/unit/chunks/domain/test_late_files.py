"""Which files of cold have late rows, by a record that no upkeep of cold makes wrong."""

import pytest

from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.sides import EVERYTHING, Sides
from meltline.domain.chunks.layout import EVERYWHERE, ChunkFile, Times
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.replication import LeavingFiles, leaving_files
from meltline.domain.chunks.sync import SYNC_LATE
from meltline.domain.iceberg.files import FileKind
from tests.chunks.chunk_tables import DAILY, day_name

A, B, C = (day_name(day) for day in range(3))


def cold(path: str, number: int, *days: str) -> ChunkFile:
    """A file of some days; without one nobody knows how far it reaches."""
    ranges = [span for span in map(DAILY.range, days) if span is not None]
    times = Times(TimeRange(ranges[0].start, ranges[-1].end)) if ranges else EVERYWHERE
    return ChunkFile(path, FileKind.DATA, 1, 1, times, 0, sequence_number=number)


LATE = cold("late", 7, A)
OLD = cold("old", 3, A)
RECORD = LateFiles({}).after([], {}, [(A, LATE)])


def leaving(
    *files: ChunkFile, record: LateFiles = RECORD, replaced: frozenset[str] | None = None, **at: int
) -> LeavingFiles:
    bases = {{"a": A, "b": B, "c": C}[name]: number for name, number in at.items()}
    return leaving_files(Sides(DAILY, bases, record), files, replaced)


# --- the record ----------------------------------------------------------------------------------


def test_what_is_written_is_read_again() -> None:
    assert LateFiles.read({SYNC_LATE: RECORD.written()}) == RECORD
    assert LateFiles.read({SYNC_LATE: "{}"}) == LateFiles({})
    assert LateFiles.read({}) == LateFiles(None)
    for damaged in ("[1]", '{"a":1}', '{"a":{"b":"c"}}', "no json"):
        with pytest.raises(ValueError):
            LateFiles.read({SYNC_LATE: damaged})


def test_a_recorded_file_is_late_only_above_the_base() -> None:
    assert RECORD.has(LATE, A, 6) and not RECORD.has(LATE, A, 7)
    assert not RECORD.has(LATE, B, 6) and not RECORD.has(OLD, A, 2)


def test_an_expired_snapshot_changes_nothing_and_a_taken_file_is_missed() -> None:
    assert RECORD.lost(DAILY, [LATE, OLD], {A: 5}) == frozenset()
    assert RECORD.lost(DAILY, [cold("compacted", 9, A)], {A: 5}) == {A}
    assert RECORD.lost(DAILY, [cold("compacted", 9, A)], {A: 7}) == frozenset()
    assert RECORD.lost(DAILY, [LATE, cold("compacted", 9, A)], {A: 5}) == frozenset()


def test_a_compaction_that_keeps_the_sequence_number_is_missed_as_well() -> None:
    """Spark begins with the number of the snapshot that it reads: it may be the late file's."""
    assert RECORD.lost(DAILY, [cold("compacted", 7, A)], {A: 5}) == {A}


def test_without_a_record_newer_files_may_be_late() -> None:
    none = LateFiles(None)
    assert none.lost(DAILY, [LATE, OLD], {A: 5, B: 5}) == {A}
    assert none.lost(DAILY, [cold("any", 6)], {A: 5, B: 6}) == {A}
    assert none.lost(DAILY, [OLD], {A: 5}) == frozenset()
    assert none.may_have({A: 5}) and not none.may_have({})
    assert RECORD.may_have({A: 5}) and not RECORD.may_have({A: 7})


def test_after_a_copy_what_left_and_what_is_resolved_is_forgotten() -> None:
    more = RECORD.after([], {}, [(A, cold("later", 9, A)), (B, cold("b", 9, B))])
    assert more.after(["late"], {}, []).has(cold("later", 9, A), A, 5)
    assert not more.after(["late"], {}, []).has(LATE, A, 5)
    resolved = more.after([], {A: 8}, [])
    assert resolved.has(LATE, A, 5) and not resolved.has(cold("later", 9, A), A, 5)
    assert resolved.has(cold("b", 9, B), B, 5)


# --- what leaves cold ----------------------------------------------------------------------------


def test_late_files_leave_and_what_was_dropped_stays() -> None:
    found = leaving(LATE, OLD, cold("other", 1, B), a=5)
    assert (found.paths, found.apart) == (("late", "other"), ())
    assert leaving(LATE, OLD, cold("theirs", 9, A), a=5).paths == ("late",)


def test_where_a_recorded_file_is_gone_newer_ones_are_told_apart_by_rows() -> None:
    found = leaving(cold("compacted", 9, A), OLD, a=5)
    assert found == LeavingFiles(("compacted",), None, ("compacted",), frozenset({A}))
    assert leaving(cold("compacted", 9, A), OLD, a=EVERYTHING).paths == ()


def test_other_late_files_of_the_same_chunk_are_told_apart_with_them() -> None:
    record = RECORD.after([], {}, [(A, cold("later", 8, A)), (B, cold("b", 8, B))])
    files = cold("compacted", 9, A), cold("later", 8, A), cold("b", 8, B)
    found = leaving(*files, record=record, a=5, b=5)
    assert set(found.paths) == {"compacted", "later", "b"}
    assert set(found.apart) == {"compacted", "later"} and found.kept == {A}


def test_a_file_that_reaches_into_a_resident_chunk_is_written_anew_without_it() -> None:
    """What cold alone has of it stays, and the other chunk is not there twice."""
    wide = cold("wide", 3, A, B)
    found = leaving(wide, replaced=frozenset({B}), record=LateFiles({}), a=5)
    assert found == LeavingFiles(("wide",), frozenset({A, B}), ("wide",), frozenset({A}))


def test_a_file_of_which_nobody_knows_how_far_it_reaches_has_everything_replaced() -> None:
    found = leaving(cold("any", 3), replaced=frozenset({B}), record=LateFiles({}), a=5)
    assert found == LeavingFiles(("any",), None, ("any",), frozenset({A}))


def test_a_file_of_late_rows_alone_leaves_whole() -> None:
    wide = cold("wide", 9, A, B)
    both = LateFiles({}).after([], {}, [(A, wide), (B, wide)])
    assert leaving(wide, record=both, a=5, b=5) == LeavingFiles(("wide",), None)
    assert leaving(wide, record=both, a=5, b=9).kept == {A, B}
