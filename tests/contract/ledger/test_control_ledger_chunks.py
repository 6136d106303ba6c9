"""Every control ledger: chunks, how they are stamped, moved and added up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from meltline.domain.chunks.chunk import Chunk, ChunkDrop, ChunkStatus, DropStatus
from meltline.domain.chunks.cold.row_digests import ColdDigest
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import UNBOUNDED, Unit
from meltline.domain.chunks.sync import Position, TrackedTable
from meltline.domain.errors import CommitConflict, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports import ChunkSum, ControlLedger, DropSum
from tests.contract.ledger.chunk_rows import (
    DAYS,
    ELSEWHERE,
    HEAD,
    NEXT,
    TIERED,
    a_chunk,
    a_tracked_table,
    at_once,
    statements,
    track,
)
from tests.contract.ledger.control_ledgers import (
    HUGE,
    MANY,
    NOW,
    ODD_NAMES,
    OpenSql,
    Shop,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize(
    "layout",
    [
        DAYS,
        ChunkLayout(TimeColumn("it's ж", 2**31 - 1, ColumnKind.TEXT, "%Y-%m", "string"), Unit.YEAR),
        ChunkLayout(TimeColumn("t", 1, ColumnKind.INTEGER, "ms", "long"), Unit.HOUR),
        ChunkLayout(TimeColumn("d", 1, ColumnKind.DATE, "", "date"), Unit.MONTH),
    ],
)
def test_a_table_comes_back_with_what_its_chunks_are(
    shop: Shop, ledger: ControlLedger, layout: ChunkLayout, name: str
) -> None:
    table = TableName.parse(name)
    tracked = TrackedTable("u-1", table, layout, HEAD, NOW, "2 dropped, it's ж")
    fresh = TrackedTable("u-2", table, layout)
    for new in (fresh, tracked):
        ledger.chunks.advance(None, new, [])
    assert list(shop.handle().chunks.tracked()) == [tracked, fresh]
    assert list(ledger.chunks.tracked(["u-2", "u-9"])) == [fresh]
    assert list(ledger.chunks.tracked([])) == []


def test_a_chunk_comes_back_as_it_was_stored(shop: Shop, ledger: ControlLedger) -> None:
    full = a_chunk(
        status=ChunkStatus.REOPENED,
        rows=HUGE,
        spans=2,
        last_write=HUGE,
        last_write_snapshot=-HUGE - 1,
        generation=3,
        tiered_at=NOW,
        dropped_at=NOW,
        drop_plan="d1",
        cold_base=9,
        cold_rows=HUGE,
        cold_digest=ColdDigest(HUGE, HUGE * HUGE, "c0ffee"),
        drops=(
            ChunkDrop(HUGE, 3, 4, DropStatus.UNDONE),
            ChunkDrop(5, 6, 7, rows=HUGE, digest=ColdDigest(2, -HUGE * HUGE, "c0ffee")),
        ),
    )
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
    edges = [
        Chunk("u-1", UNBOUNDED, None, None),
        Chunk("u-1", "0001-01-01", first, first + timedelta(days=1)),
        Chunk("u-1", "9999-12-30", last, last + timedelta(days=1)),
    ]
    track(ledger, full, *edges)
    track(ledger, a_chunk(uuid="u-2"), uuid="u-2")
    stored = shop.handle().chunks.of("u-1")
    assert stored == {chunk.name: chunk for chunk in [full, *edges]}
    assert list(stored) == sorted(stored)
    assert ledger.chunks.of("u-9") == {}


def test_what_a_walk_did_not_change_stays_unless_all_is_told_anew(ledger: ControlLedger) -> None:
    before = track(ledger, a_chunk(0), a_chunk(1))
    after = replace(before, walked=NEXT)
    ledger.chunks.advance(before, after, [a_chunk(1, rows=9), a_chunk(2)])
    assert list(ledger.chunks.of("u-1").values()) == [a_chunk(0), a_chunk(1, rows=9), a_chunk(2)]
    ledger.chunks.advance(after, after, [a_chunk(1), a_chunk(3)], anew=True)
    assert list(ledger.chunks.of("u-1").values()) == [a_chunk(1), a_chunk(3)]
    ledger.chunks.advance(after, replace(after, walked=None), [], anew=True)
    assert ledger.chunks.of("u-1") == {}
    assert list(ledger.chunks.tracked()) == [replace(after, walked=None)]


@pytest.mark.parametrize("walked", [None, NEXT, replace(HEAD, generation=2)])
def test_a_walk_from_where_no_chunks_are_stamped_stores_nothing(
    ledger: ControlLedger, walked: Position | None
) -> None:
    stored = track(ledger, a_chunk())
    for before in (replace(stored, walked=walked), None):
        with pytest.raises(CommitConflict):
            ledger.chunks.advance(before, a_tracked_table(walked=NEXT), [a_chunk(1)], anew=True)
    assert list(ledger.chunks.tracked()) == [stored]
    assert ledger.chunks.of("u-1") == {a_chunk().name: a_chunk()}


def test_a_table_that_was_forgotten_meanwhile_is_not_walked_on(ledger: ControlLedger) -> None:
    before = track(ledger, a_chunk())
    track(ledger, a_chunk(uuid="u-2"), uuid="u-2")
    ledger.chunks.forget("u-1")
    with pytest.raises(CommitConflict):
        ledger.chunks.advance(before, replace(before, walked=NEXT), [a_chunk()])
    assert ledger.chunks.of("u-1") == {} and ledger.chunks.of("u-2")
    assert [tracked.table_uuid for tracked in ledger.chunks.tracked()] == ["u-2"]
    assert list(ledger.chunks.move([(a_chunk(), a_chunk(status=ChunkStatus.TIERED))])) == [False]
    ledger.chunks.forget("u-1")


def test_a_walk_that_read_a_chunk_before_cold_was_told_to_keep_it_stores_nothing(
    ledger: ControlLedger,
) -> None:
    """LT-36: what cold alone will have is never forgotten by a run that came too late."""
    read = track(ledger, a_chunk(0), a_chunk(1))
    kept = a_chunk(0, cold_base=9)
    assert list(ledger.chunks.move([(a_chunk(0), kept)])) == [True]
    late = replace(read, walked=NEXT)
    with pytest.raises(CommitConflict):
        ledger.chunks.advance(read, late, [a_chunk(1, files=2), a_chunk(0, files=2)])
    assert list(ledger.chunks.of("u-1").values()) == [kept, a_chunk(1)]
    assert list(ledger.chunks.tracked()) == [read]
    ledger.chunks.advance(read, late, [replace(kept, last_write=11), a_chunk(2)])
    chunks = [replace(kept, last_write=11), a_chunk(1), a_chunk(2)]
    assert list(ledger.chunks.of("u-1").values()) == chunks
    ledger.chunks.advance(late, late, [a_chunk(0)], anew=True)
    assert list(ledger.chunks.of("u-1").values()) == [a_chunk(0)]


@pytest.mark.parametrize("is_new", [True, False])
def test_of_two_runs_that_walk_one_table_one_stores_all_and_one_nothing(
    shop: Shop, ledger: ControlLedger, is_new: bool
) -> None:
    before = None if is_new else track(ledger)

    def walk(to: Position, days: Sequence[int]) -> Callable[[ControlLedger], None]:
        chunks = [a_chunk(day, last_write_snapshot=to.snapshot_id) for day in days]
        after = a_tracked_table(walked=to)
        return lambda handle: handle.chunks.advance(before, after, chunks)

    days = range(300)
    answers = at_once(shop, walk(NEXT, days), walk(ELSEWHERE, days[::-1]))
    assert sorted(map(str, map(type, answers))) == sorted(map(str, (CommitConflict, type(None))))
    winner = NEXT if answers[0] is None else ELSEWHERE
    assert [tracked.walked for tracked in ledger.chunks.tracked()] == [winner]
    chunks = ledger.chunks.of("u-1").values()
    assert {chunk.last_write_snapshot for chunk in chunks} == {winner.snapshot_id}


def test_ten_thousand_chunks_are_stored_read_and_moved_with_few_statements(
    shop: Shop, ledger: ControlLedger
) -> None:
    chunks = [a_chunk(day) for day in range(10_000)]
    with statements() as texts:
        track(ledger, *chunks)
        assert list(ledger.chunks.of("u-1").values()) == chunks
    assert len(texts) <= 6
    moves = [(chunk, replace(chunk, status=ChunkStatus.TIERED)) for chunk in chunks[:MANY]]
    with statements() as texts:
        assert all(ledger.chunks.move(moves))
    assert len(texts) <= 5 + MANY // 500
    stored = shop.handle().chunks.of("u-1").values()
    assert list(stored) == [after for _, after in moves] + chunks[MANY:]


@pytest.mark.parametrize(
    "stamp",
    [
        {"status": ChunkStatus.DROPPED},
        {"last_write": 8},
        {"last_write": None},
        {"generation": 2},
        {"drop_plan": "d2"},
    ],
    ids=str,
)
def test_a_chunk_that_was_written_meanwhile_is_not_moved(
    ledger: ControlLedger, stamp: dict[str, Any]
) -> None:
    """H7, LT-36: what a run has proved is the chunk that it has read."""
    before = track(ledger, a_chunk(0), a_chunk(1))
    stamped = a_chunk(0, **stamp)
    ledger.chunks.advance(before, replace(before, walked=NEXT), [stamped])
    moves = [(a_chunk(day), a_chunk(day, **TIERED)) for day in (0, 1, 2)]
    assert list(ledger.chunks.move(moves)) == [False, True, False]
    assert list(ledger.chunks.of("u-1").values()) == [stamped, a_chunk(1, **TIERED)]


def test_a_move_takes_over_what_it_changes_and_leaves_what_a_compaction_counted(
    ledger: ControlLedger,
) -> None:
    before = track(ledger, a_chunk(files=4, bytes=80))
    ledger.chunks.advance(before, replace(before, walked=NEXT), [a_chunk(files=1, bytes=30)])
    read = a_chunk(files=4, bytes=80)
    assert list(ledger.chunks.move([(read, replace(read, **TIERED))])) == [True]
    assert list(ledger.chunks.of("u-1").values()) == [a_chunk(files=1, bytes=30, **TIERED)]


def test_a_chunk_moves_several_times_in_one_call_and_chunks_of_many_tables_do(
    ledger: ControlLedger,
) -> None:
    track(ledger, a_chunk(0), a_chunk(1))
    track(ledger, a_chunk(0, "u-2"), uuid="u-2")
    tiered = a_chunk(0, **TIERED)
    dropped = replace(tiered, status=ChunkStatus.DROPPED, dropped_at=NOW, drop_plan="d1")
    other = a_chunk(0, "u-2", **TIERED)
    moves = [(a_chunk(), tiered), (tiered, dropped), (a_chunk(), tiered)]
    moves.append((a_chunk(0, "u-2"), other))
    assert list(ledger.chunks.move(moves)) == [True, True, False, True]
    assert list(ledger.chunks.of("u-1").values()) == [dropped, a_chunk(1)]
    assert list(ledger.chunks.of("u-2").values()) == [other]
    assert list(ledger.chunks.move([])) == []


def test_of_two_runs_that_move_the_same_chunks_in_other_orders_one_gets_each(
    shop: Shop, ledger: ControlLedger
) -> None:
    chunks = [a_chunk(day, uuid) for day in range(150) for uuid in ("u-1", "u-2")]
    for uuid in ("u-1", "u-2"):
        track(ledger, *(chunk for chunk in chunks if chunk.table_uuid == uuid), uuid=uuid)

    def drop(plan: str, order: Sequence[Chunk]) -> Callable[[ControlLedger], set[Chunk]]:
        def work(handle: ControlLedger) -> set[Chunk]:
            moves = [(c, replace(c, status=ChunkStatus.DROPPED, drop_plan=plan)) for c in order]
            moved = handle.chunks.move(moves)
            return {after for (_, after), is_moved in zip(moves, moved, strict=True) if is_moved}

        return work

    one, other = at_once(shop, drop("d1", chunks), drop("d2", chunks[::-1]))
    assert not isinstance(one, MeltlineError) and not isinstance(other, MeltlineError)
    stored = {c for uuid in ("u-1", "u-2") for c in ledger.chunks.of(uuid).values()}
    assert one | other == stored and len(one) + len(other) == len(chunks)


def test_a_walk_and_a_move_at_once_never_lose_a_stamp(shop: Shop, ledger: ControlLedger) -> None:
    before = track(ledger, *(a_chunk(day) for day in range(200)))
    stamped = [a_chunk(day, last_write=11) for day in range(200)]

    def walk(handle: ControlLedger) -> list[bool]:
        handle.chunks.advance(before, replace(before, walked=NEXT), stamped, anew=True)
        return []

    def move(handle: ControlLedger) -> list[bool]:
        return list(
            handle.chunks.move([(a_chunk(d), a_chunk(d, **TIERED)) for d in reversed(range(200))])
        )

    _, moved = at_once(shop, walk, move)
    assert moved in ([True] * 200, [False] * 200)
    assert list(ledger.chunks.of("u-1").values()) == stamped


def test_chunks_are_added_up_by_table_and_status_in_one_statement(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert list(ledger.chunks.sums()) == []
    dropped = a_chunk(4, status=ChunkStatus.DROPPED, rows=0, bytes=0, last_write=None)
    track(ledger, a_chunk(0), a_chunk(1, rows=HUGE - 5, last_write=HUGE), a_chunk(3, **TIERED))
    track(ledger, dropped, a_chunk(5, status=ChunkStatus.DROPPED), uuid="u-0")
    track(
        ledger,
        *(replace(c, table_uuid="u-2") for c in (dropped, a_chunk(5, status=ChunkStatus.DROPPED))),
        uuid="u-2",
    )
    with statements() as texts:
        sums = list(shop.handle().chunks.sums())
    expected = [
        ChunkSum("u-1", ChunkStatus.ACTIVE, 2, HUGE, 100, HUGE),
        ChunkSum("u-1", ChunkStatus.DROPPED, 2, 5, 50, None),
        ChunkSum("u-1", ChunkStatus.TIERED, 1, 5, 50, 7),
        ChunkSum("u-2", ChunkStatus.DROPPED, 2, 5, 50, None),
    ]
    assert sums == expected
    assert sum("FROM chunks" in text for text in texts) <= 1


def test_what_was_dropped_is_added_up_by_table_and_plan_and_rolled_back_drops_are_left_out(
    ledger: ControlLedger,
) -> None:
    assert list(ledger.chunks.drop_sums()) == []
    dropped, by = {"status": ChunkStatus.DROPPED, "dropped_bytes": 50}, ("d-1", "d-2", "")
    gone = [a_chunk(day, drop_plan=plan, **dropped) for day, plan in enumerate(by)]
    late = a_chunk(3, drop_plan="d-1", status=ChunkStatus.REOPENED, dropped_bytes=7)
    back = a_chunk(4, drop_plan="d-1", status=ChunkStatus.ACTIVE, dropped_bytes=1000)
    track(ledger, *gone, late, back)
    track(ledger, a_chunk(0, "u-2", drop_plan="d-3", **dropped), uuid="u-2")
    assert list(ledger.chunks.drop_sums()) == [
        DropSum("u-1", "", 50),
        DropSum("u-1", "d-1", 57),
        DropSum("u-1", "d-2", 50),
        DropSum("u-2", "d-3", 50),
    ]
    assert list(ledger.chunks.of("u-1", resident=True).values()) == [late, back]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_the_sums_are_answered_from_an_index_alone(url: str, open_sql: OpenSql) -> None:
    """A million chunks, of a thousand tables, are added up without a look at their rows."""
    ledger = open_sql(url)
    ledger.database.prepare()
    with statements() as texts:
        ledger.chunks.sums()
    (query,) = [text for text in texts if "FROM chunks" in text]
    engine = create_engine(url)
    with engine.connect() as connection:
        steps = connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
    engine.dispose()
    assert [step[-1] for step in steps] == ["SCAN chunks USING COVERING INDEX ix_chunks_sums"]
