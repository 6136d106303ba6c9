"""A drop is in force, or undone, by proof alone: what history shows, or showed in time."""

from dataclasses import replace

import pytest

from meltline.domain.chunks.chunk import (
    UNKNOWN_DROP,
    Chunk,
    ChunkDrop,
    ChunkStatus,
    DropStatus,
    new_chunk,
)
from meltline.domain.chunks.main_history import MainLine, answered, resettled, with_standings
from meltline.domain.iceberg.table_metadata import Snapshot
from tests.chunks.chunk_tables import DAILY, day_name
from tests.lake.lake import T0

DROP = ChunkDrop(20, 2, 5)


def line(*commits: tuple[int, int], is_judged: bool = False, left: int = 0) -> MainLine:
    """A line of snapshots with their sequence numbers."""
    snapshots = {i: Snapshot(i, T0, None, n) for i, n in commits}
    return MainLine(snapshots, frozenset({left}), is_judged)


def chunk(*drops: ChunkDrop, files: int = 0) -> Chunk:
    made = new_chunk(DAILY, "u", day_name(0))
    return replace(made, status=ChunkStatus.DROPPED, drops=drops, files=files)


def test_a_drop_that_the_line_shows_is_in_force_whatever_was_recorded() -> None:
    undone = replace(DROP, standing=DropStatus.UNDONE)
    assert line((30, 3), (20, 2)).standing(undone) is DropStatus.IN_FORCE


@pytest.mark.parametrize("seen", DropStatus)
def test_a_line_with_an_older_commit_and_without_the_drop_has_undone_it(seen: DropStatus) -> None:
    assert line((40, 9), (10, 1)).standing(replace(DROP, standing=seen)) is DropStatus.UNDONE
    assert line((10, 1)).standing(replace(DROP, standing=seen)) is DropStatus.UNDONE


def test_a_drop_whose_commit_leaves_the_line_is_undone_without_any_number() -> None:
    unnumbered = ChunkDrop(20, 0, 5)
    assert line((40, 0), (10, 0), left=20).standing(unnumbered) is DropStatus.UNDONE


@pytest.mark.parametrize("drop", [DROP, ChunkDrop(20, 0, 5), ChunkDrop(UNKNOWN_DROP, 0, 5)])
@pytest.mark.parametrize("seen", DropStatus)
def test_a_line_that_begins_later_shows_nothing_but_what_was_recorded_on_it(
    drop: ChunkDrop, seen: DropStatus
) -> None:
    recorded = replace(drop, standing=seen)
    assert line((40, 9)).standing(recorded) is DropStatus.UNKNOWN
    assert line((40, 9), is_judged=True).standing(recorded) is seen


def test_a_replaced_table_begins_later_and_proves_nothing() -> None:
    """Its first commit has no parent, and a larger number than the drop of the former table."""
    assert line((40, 9)).standing(DROP) is DropStatus.UNKNOWN
    assert line().standing(DROP) is DropStatus.UNKNOWN


def test_a_drop_that_only_cold_tells_of_is_told_by_the_record_alone() -> None:
    unseen = ChunkDrop(UNKNOWN_DROP, 0, 5)
    assert line((40, 9), (10, 1)).standing(unseen) is DropStatus.UNKNOWN
    assert line((40, 9), (10, 1), is_judged=True).standing(unseen) is DropStatus.IN_FORCE


def test_a_chunk_is_unknown_where_hot_has_rows_and_its_last_drop_cannot_be_told() -> None:
    unknown = replace(DROP, standing=DropStatus.UNKNOWN)
    assert resettled(chunk(unknown, files=1)).status is ChunkStatus.UNKNOWN
    later = ChunkDrop(30, 3, 7)
    assert resettled(chunk(unknown, later, files=1)).status is ChunkStatus.REOPENED
    undone = replace(later, standing=DropStatus.UNDONE)
    assert resettled(chunk(unknown, undone, files=1)).status is ChunkStatus.UNKNOWN


def test_where_hot_has_no_row_cold_answers_without_a_question_from_then_on() -> None:
    empty = resettled(chunk(replace(DROP, standing=DropStatus.UNKNOWN)))
    assert (empty.status, empty.drops) == (ChunkStatus.DROPPED, (DROP,))


def test_a_chunk_whose_drops_are_all_undone_is_active() -> None:
    undone = with_standings(chunk(DROP, files=1), line((10, 1)))
    assert resettled(undone).status is ChunkStatus.ACTIVE


def test_an_answer_is_for_the_last_drop_alone() -> None:
    first = replace(DROP, standing=DropStatus.UNKNOWN)
    last = ChunkDrop(30, 3, 7, DropStatus.UNKNOWN, rows=2)
    stands = answered(chunk(first, last), DropStatus.IN_FORCE)
    assert stands.drops == (first, ChunkDrop(30, 3, 7, rows=2)) and stands.is_told
    gone = answered(chunk(first, last), DropStatus.UNDONE)
    assert gone.drops == (first, ChunkDrop(30, 3, 7, DropStatus.UNDONE)) and not gone.is_told
    assert answered(chunk(DROP), DropStatus.UNDONE).drops == (DROP,)
