"""Stamping chunks with commits: on both sides of what moves, and on nothing else (LT-2, LT-14)."""

import pytest

from meltline.domain.chunks.chunk import Chunk, ChunkStatus, new_chunk
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.iceberg.files import FileKind
from tests.unit.chunks.chunks import DAYS, NOW, UUID, a_change, a_chunk, a_file, after, at, by_name

DELETES = [FileKind.POSITION_DELETE, FileKind.EQUALITY_DELETE, FileKind.DELETION_VECTOR]
FIRST, SECOND, THIRD = "2026-01-05", "2026-01-06", "2026-01-07"


def places(chunks: dict[str, Chunk]) -> dict[str, int | None]:
    return {name: chunk.last_write for name, chunk in chunks.items()}


def counts(chunk: Chunk) -> tuple[int, int, int, int]:
    return chunk.rows, chunk.bytes, chunk.files, chunk.spans


def test_an_append_makes_its_chunks_and_stamps_no_other() -> None:
    chunks = after(a_change(1, [FIRST]), a_change(2, [SECOND, SECOND]))
    assert places(chunks) == {FIRST: 1, SECOND: 2}
    assert (counts(chunks[FIRST]), counts(chunks[SECOND])) == ((10, 100, 1, 0), (20, 200, 2, 0))
    written = chunks[SECOND]
    assert (written.start, written.end) == (at(SECOND), at(THIRD))
    assert (written.last_write_snapshot, written.generation) == (1002, 1)
    assert written.status is ChunkStatus.ACTIVE


def test_h3_a_row_that_moves_from_chunk_to_chunk_stamps_both() -> None:
    before = after(a_change(1, [FIRST, SECOND, THIRD]))
    chunks = after(a_change(2, [SECOND], [FIRST], "overwrite"), chunks=before)
    assert places(chunks) == {FIRST: 2, SECOND: 2, THIRD: 1}
    assert (chunks[FIRST].files, chunks[SECOND].files) == (0, 2)


def test_h3_a_row_that_moves_by_a_delete_file_stamps_both() -> None:
    before = after(a_change(1, [FIRST, SECOND]))
    deletes = a_file(FIRST, FileKind.POSITION_DELETE)
    chunks = after(a_change(2, [SECOND, deletes], operation="overwrite"), chunks=before)
    assert places(chunks) == {FIRST: 2, SECOND: 2}


def test_lt_14_a_delete_without_an_insert_stamps_too() -> None:
    chunks = after(a_change(1, [FIRST]), a_change(2, [], [FIRST], "delete"))
    assert places(chunks) == {FIRST: 2}
    assert counts(chunks[FIRST]) == (0, 0, 0, 0)


@pytest.mark.parametrize("kind", DELETES)
def test_row_deletes_stamp_and_are_not_counted(kind: FileKind) -> None:
    chunks = after(a_change(1, [FIRST, SECOND]), a_change(2, [a_file(FIRST, kind)]))
    assert places(chunks) == {FIRST: 2, SECOND: 1}
    assert counts(chunks[FIRST]) == counts(chunks[SECOND])


def test_a_delete_of_unknown_reach_stamps_all() -> None:
    deletes = a_file("everywhere", FileKind.EQUALITY_DELETE)
    chunks = after(a_change(1, [FIRST, SECOND, UNBOUNDED]), a_change(2, [deletes]))
    assert places(chunks) == {FIRST: 2, SECOND: 2, UNBOUNDED: 2}
    assert not any(chunk.spans for chunk in chunks.values())


def test_h7_a_late_write_makes_a_tiered_chunk_active_again() -> None:
    tiered = a_chunk(FIRST, status=ChunkStatus.TIERED, tiered_at=NOW)
    other = a_chunk(SECOND, status=ChunkStatus.TIERED, tiered_at=NOW)
    chunks = after(a_change(6, [FIRST]), chunks=by_name(tiered, other))
    assert (chunks[FIRST].status, chunks[FIRST].tiered_at) == (ChunkStatus.ACTIVE, None)
    assert chunks[FIRST].last_write == 6
    assert chunks[SECOND] == other


def test_lt_14_a_compaction_stamps_nothing_and_counts() -> None:
    tiered = a_chunk(FIRST, status=ChunkStatus.TIERED, tiered_at=NOW, files=3, rows=30, bytes=300)
    merged = a_file(FIRST, rows=30)
    change = a_change(6, [merged], [FIRST, FIRST, FIRST], "replace")
    chunks = after(change, chunks=by_name(tiered))
    assert counts(chunks[FIRST]) == (30, 100, 1, 0)
    assert (chunks[FIRST].status, chunks[FIRST].last_write) == (ChunkStatus.TIERED, 5)


def test_our_own_drop_stamps_nothing_and_counts() -> None:
    before = by_name(a_chunk(FIRST), a_chunk(SECOND))
    drop = a_change(6, [], [FIRST], "overwrite")
    chunks = after(drop, chunks=before, own_drops=[drop.snapshot_id])
    assert places(chunks) == {FIRST: 5, SECOND: 5}
    assert counts(chunks[FIRST]) == (0, 0, 0, 0)
    stamped = after(drop, chunks=before, own_drops=[1])
    assert places(stamped) == {FIRST: 6, SECOND: 5}


@pytest.mark.parametrize("where", [FIRST, "2026-01-05..2026-01-06", "everywhere"])
def test_rows_that_come_after_a_drop_reopen_the_chunk(where: str) -> None:
    dropped = a_chunk(
        FIRST, status=ChunkStatus.DROPPED, dropped_at=NOW, drop_plan="plan", files=0, rows=0
    )
    chunk = after(a_change(6, [where]), chunks=by_name(dropped))[FIRST]
    assert (chunk.status, chunk.last_write) == (ChunkStatus.REOPENED, 6)
    assert chunk.is_resident and chunk.was_dropped
    assert (chunk.drop_plan, chunk.dropped_at) == ("plan", NOW)


@pytest.mark.parametrize("kind", DELETES)
def test_a_delete_alone_does_not_reopen_a_dropped_chunk(kind: FileKind) -> None:
    dropped = a_chunk(FIRST, status=ChunkStatus.DROPPED, files=0)
    chunk = after(a_change(6, [a_file(FIRST, kind)]), chunks=by_name(dropped))[FIRST]
    assert (chunk.status, chunk.last_write) == (ChunkStatus.DROPPED, 6)


def test_a_reopened_chunk_stays_so_when_it_is_written_again() -> None:
    reopened = a_chunk(FIRST, status=ChunkStatus.REOPENED)
    chunk = after(a_change(6, [FIRST]), chunks=by_name(reopened))[FIRST]
    assert (chunk.status, chunk.last_write) == (ChunkStatus.REOPENED, 6)


def test_a_file_of_several_chunks_is_counted_as_a_span_in_each() -> None:
    chunks = after(a_change(1, ["2026-01-05..2026-01-07", FIRST]))
    assert [counts(chunks[name]) for name in (FIRST, SECOND, THIRD)] == [
        (10, 100, 1, 1),
        (0, 0, 0, 1),
        (0, 0, 0, 1),
    ]
    gone = after(a_change(2, [], ["2026-01-05..2026-01-07"], "delete"), chunks=chunks)
    assert [chunk.spans for chunk in gone.values()] == [0, 0, 0]


def test_rows_without_a_time_are_a_chunk_of_their_own() -> None:
    chunks = after(a_change(1, [UNBOUNDED, FIRST]))
    assert chunks[UNBOUNDED].range is None
    assert counts(chunks[UNBOUNDED]) == (10, 100, 1, 0)
    assert chunks[FIRST].spans == 0


@pytest.mark.parametrize("together", [True, False])
def test_a_file_of_unknown_reach_counts_for_chunks_that_come_later_too(together: bool) -> None:
    if together:
        chunks = after(a_change(1, ["everywhere"]), a_change(2, [FIRST]))
    else:
        chunks = after(a_change(2, [FIRST]), chunks=after(a_change(1, ["everywhere"])))
    assert (chunks[FIRST].files, chunks[FIRST].spans, chunks[FIRST].last_write) == (1, 1, 2)
    gone = after(a_change(3, [], ["everywhere"], "delete"), chunks=chunks)
    assert [chunk.spans for chunk in gone.values()] == [0, 0]
    assert places(gone) == {FIRST: 3, UNBOUNDED: 3}


def test_a_chunk_that_a_compaction_makes_known_was_written_when_its_rows_were() -> None:
    before = after(a_change(1, ["everywhere"]), a_change(2, [SECOND]))
    chunks = after(a_change(3, [FIRST, SECOND], ["everywhere"], "replace"), chunks=before)
    assert (chunks[FIRST].last_write, chunks[FIRST].last_write_snapshot) == (1, 1001)
    assert chunks[FIRST].generation == 1
    assert not any(chunk.spans for chunk in chunks.values())
    assert places(chunks)[SECOND] == 2


def test_a_file_that_came_and_went_in_one_commit_counts_for_nothing() -> None:
    chunks = after(a_change(1, ["everywhere", FIRST], ["everywhere"]))
    assert [chunk.spans for chunk in chunks.values()] == [0, 0]


def test_what_was_known_before_is_not_changed_in_place() -> None:
    before = by_name(a_chunk(FIRST))
    after(a_change(6, [FIRST, SECOND]), chunks=before)
    assert before == by_name(a_chunk(FIRST))


def test_a_chunk_of_no_name_is_refused() -> None:
    assert new_chunk(DAYS, UUID, UNBOUNDED) == Chunk(UUID, UNBOUNDED, None, None)
    with pytest.raises(ValueError):
        new_chunk(DAYS, UUID, "2026-01")
