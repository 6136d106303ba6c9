"""Which commits emptied chunks, and which of them found these in one state."""

from meltline.domain.chunks.kept_deletes import counts_before, emptying, kept_together
from meltline.domain.chunks.layout import SnapshotChange
from tests.unit.chunks.chunks import DAYS, a_change

DAY_1, DAY_2, DAY_3 = (f"2026-01-0{day}" for day in (1, 2, 3))


def removal(place: int, *days: str) -> SnapshotChange:
    return a_change(place, removed=days, operation="delete")


def together(*changes: SnapshotChange) -> list[tuple[int, list[str]]]:
    """The groups of deletes, each by its first commit, with what it emptied; all are kept."""
    kept = {change.snapshot_id for change in changes if change.operation == "delete"}
    groups = kept_together(DAYS, changes, kept)
    return [(group.first.place, sorted(group.chunks)) for group in groups]


def test_deletes_of_other_chunks_are_kept_by_one_copy() -> None:
    between = a_change(2, added=[DAY_3])
    assert together(removal(1, DAY_1), between, removal(3, DAY_2)) == [(1, [DAY_1, DAY_2])]


def test_a_write_to_a_chunk_that_is_emptied_later_begins_another() -> None:
    between = a_change(2, added=[DAY_2])
    groups = together(removal(1, DAY_1), between, removal(3, DAY_2))
    assert groups == [(1, [DAY_1]), (3, [DAY_2])]


def test_a_late_row_of_a_chunk_that_was_emptied_begins_another() -> None:
    between = a_change(2, added=[DAY_1])
    groups = together(removal(1, DAY_1), between, removal(3, DAY_1))
    assert groups == [(1, [DAY_1]), (3, [DAY_1])]


def test_a_write_that_may_be_anywhere_begins_another() -> None:
    between = a_change(2, added=["everywhere"])
    assert len(together(removal(1, DAY_1), between, removal(3, DAY_2))) == 2


def test_a_compaction_begins_none() -> None:
    between = a_change(2, added=[DAY_2], removed=[DAY_2], operation="replace")
    assert together(removal(1, DAY_1), between, removal(3, DAY_2)) == [(1, [DAY_1, DAY_2])]


def test_a_delete_that_leaves_a_file_empties_nothing() -> None:
    changes = [removal(1, DAY_1, DAY_2)]
    assert emptying(DAYS, changes, {DAY_1: 0, DAY_2: 1}, in_parts=True) == {}
    assert emptying(DAYS, changes, {DAY_1: 0, DAY_2: 0}, in_parts=True).keys() == {1001}


def test_a_row_that_comes_after_the_delete_is_none_that_it_left() -> None:
    changes = [removal(1, DAY_1), a_change(2, added=[DAY_1])]
    assert emptying(DAYS, changes, {DAY_1: 1}, in_parts=False).keys() == {1001}


def test_deletes_may_empty_a_chunk_in_parts_where_nothing_comes_between() -> None:
    parts = [removal(1, DAY_1), removal(2, DAY_1)]
    assert emptying(DAYS, parts, {}, in_parts=True).keys() == {1001, 1002}
    assert emptying(DAYS, parts, {}, in_parts=False).keys() == {1002}
    update = a_change(2, added=[DAY_1], removed=[DAY_1], operation="overwrite")
    apart = [removal(1, DAY_1), update, removal(3, DAY_1)]
    assert emptying(DAYS, apart, {}, in_parts=True).keys() == {1003}


def test_counts_go_back_over_commits() -> None:
    changes = [a_change(1, added=[DAY_1, f"{DAY_1}..{DAY_2}"]), removal(2, DAY_2)]
    assert counts_before(DAYS, {DAY_1: 3, DAY_2: 1}, changes) == {DAY_1: 1, DAY_2: 1}
