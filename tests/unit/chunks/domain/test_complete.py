"""What of hot and of cold is read, so that every row is there once (LT-33)."""

from dataclasses import replace

from meltline.domain.chunks.chunk import Chunk, ChunkDrop, ChunkStatus, new_chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.sides import EVERYTHING, FileSide, Sides
from meltline.domain.chunks.complete import LateCopies, late_copies
from meltline.domain.chunks.layout import EVERYWHERE, ChunkFile, Times
from meltline.domain.chunks.main_history import MainLine, on_line
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.table_metadata import Snapshot
from tests.chunks.chunk_tables import DAILY, day_name
from tests.lake.lake import T0

A, B, C = (day_name(day) for day in range(3))


def line(*commits: tuple[int, int], is_judged: bool = False) -> MainLine:
    """A line of snapshots with their sequence numbers."""
    return MainLine({i: Snapshot(i, T0, None, n) for i, n in commits}, is_judged=is_judged)


LINE = line((10, 1), (20, 2), (30, 3), is_judged=True)
LATER = line((20, 7), (30, 8))
"""Of which the beginning has expired, and that the ledger has not looked at."""


def chunk(*drops: ChunkDrop, name: str = A, cold_base: int | None = None) -> Chunk:
    made = new_chunk(DAILY, "u", name)
    return replace(made, status=ChunkStatus.DROPPED, drops=drops, cold_base=cold_base)


def bases(
    *chunks: Chunk, line: MainLine = LINE, since: ChunkDrop | None = None, **told: int
) -> dict[str, int]:
    """What cold alone has on a line, and up to where."""
    words = {{"a": A, "b": B, "c": C}[name]: number for name, number in told.items()}
    stood = [on_line(chunk, line, since) for chunk in chunks]
    return dict(Sides.of(DAILY, stood, words, LateFiles({})).bases)


def cold(path: str, number: int, *days: str) -> ChunkFile:
    spans = [DAILY.range(day) for day in days]
    ranges = [span for span in spans if span is not None]
    times = Times(TimeRange(ranges[0].start, ranges[-1].end)) if ranges else EVERYWHERE
    return ChunkFile(path, FileKind.DATA, 1, 1, times, 0, sequence_number=number)


def copies(*files: ChunkFile, **at: int) -> LateCopies:
    """What repeats, where all of these are recorded as late files."""
    names = {"a": A, "b": B, "c": C}
    late = [(name, file) for file in files for name in names.values()]
    record = LateFiles({}).after([], {}, late)
    return late_copies(Sides(DAILY, {names[n]: number for n, number in at.items()}, record), files)


# --- which drops count ---------------------------------------------------------------------------


def test_the_last_drop_of_the_line_says_what_is_late_whatever_the_status_says() -> None:
    twice = chunk(ChunkDrop(20, 2, 5), ChunkDrop(30, 3, 9))
    assert bases(twice) == bases(replace(twice, status=ChunkStatus.ACTIVE)) == {A: 9}
    assert bases(twice, line=line((10, 1), (20, 2))) == {A: 5}
    assert bases(twice, line=line((10, 1))) == bases(chunk()) == {}


def test_of_a_chunk_with_a_drop_of_which_nobody_can_tell_cold_answers() -> None:
    old = chunk(ChunkDrop(5, 4, 6))
    assert bases(old, line=LATER) == {A: 6}
    assert not on_line(old, LATER).is_told
    assert on_line(chunk(ChunkDrop(20, 2, 5)), LATER).is_told
    again = chunk(ChunkDrop(5, 4, 6), ChunkDrop(20, 7, 9))
    assert on_line(again, LATER).is_told and bases(again, line=LATER) == {A: 9}


def test_a_drop_that_no_ledger_has_noted_has_the_base_of_its_preparation() -> None:
    news = ChunkDrop(30, 3, 7)
    assert bases(chunk(), since=news) == bases(chunk(ChunkDrop(20, 2, 5)), since=news) == {A: 7}
    old = chunk(ChunkDrop(5, 4, 6))
    assert on_line(old, LATER, news).is_told and bases(old, line=LATER, since=news) == {A: 7}


def test_where_no_base_is_noted_colds_word_counts_and_else_all_that_it_has() -> None:
    unnoted = chunk(ChunkDrop(20, 2, None))
    assert bases(unnoted) == {A: EVERYTHING}
    assert bases(unnoted, a=4) == {A: 4}


# --- which files repeat what hot has -------------------------------------------------------------


def test_a_file_up_to_the_base_is_the_only_copy_and_a_later_one_repeats() -> None:
    found = copies(cold("old", 5, A), cold("late", 6, A), cold("other", 9, B), a=5)
    assert found == LateCopies(frozenset({"late"}))


def test_a_file_of_several_dropped_chunks_counts_for_each_by_its_own_base() -> None:
    found = copies(cold("wide", 7, A, B, C), a=5, b=9)
    assert found == LateCopies(parts={frozenset({A}): frozenset({"wide"})})
    assert copies(cold("wide", 7, A, B), a=5, b=6).whole == {"wide"}


def test_a_file_of_which_nobody_knows_how_far_it_reaches_may_be_of_any_chunk() -> None:
    assert copies(cold("any", 7), a=5, b=6).whole == {"any"}
    assert copies(cold("any", 6), a=5, b=6).parts == {frozenset({A}): frozenset({"any"})}


def test_a_file_that_is_not_recorded_repeats_nothing_whenever_it_was_written() -> None:
    files = [cold("theirs", 7, A), cold("old", 3, A)]
    assert late_copies(Sides(DAILY, {A: 5}, LateFiles({})), files) == LateCopies()


def test_of_a_chunk_of_which_everything_is_the_only_copy_nothing_repeats() -> None:
    assert copies(cold("late", 9999, A), a=EVERYTHING) == LateCopies()


# --- what a file of cold is to hot ---------------------------------------------------------------


def test_each_file_of_cold_is_a_copy_the_only_one_or_both_together() -> None:
    late, wide, taken = cold("late", 7, A), cold("wide", 7, A, B), cold("taken", 8, A)
    record = LateFiles({}).after([], {}, [(A, late), (A, wide)])
    sides = Sides(DAILY, {A: 5, B: 7}, record)
    expected = {
        late: FileSide.COPY,
        cold("dropped", 5, A): FileSide.ONLY,
        wide: FileSide.MIXED,
        cold("half", 5, B, C): FileSide.MIXED,
        cold("hot", 5, C): FileSide.COPY,
        taken: FileSide.ONLY,
    }
    assert {file: sides.side(file, ()) for file in expected} == expected
    # Once a recorded file is gone, any later one may have its rows.
    assert sides.lost([wide, taken]) == {A}
    assert sides.side(taken, {A}) is FileSide.MIXED
    assert sides.side(cold("dropped", 5, A), {A}) is FileSide.ONLY


def test_hot_has_every_row_of_a_chunk_whose_drops_are_all_undone() -> None:
    undone = on_line(chunk(ChunkDrop(30, 3, 9)), line((10, 1), (20, 2)))
    assert undone.status is ChunkStatus.ACTIVE
    sides = Sides.of(DAILY, [undone], {A: 9}, LateFiles({}))
    assert sides.bases == {} and sides.side(cold("copy", 5, A), ()) is FileSide.COPY
