"""Chunks, replication and policies as a ledger stores them, and several people at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any, TypeVar

from sqlalchemy import Engine, event

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.ranges import Horizon, Unit
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.chunks.sync import Position, SyncState, TableSync, TrackedTable
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports import ControlLedger
from tests.contract.ledger.control_ledgers import HUGE, NOW, Shop

DAYS = ChunkLayout(TimeColumn("ts", 3, ColumnKind.TIMESTAMPTZ, "", "timestamptz"), Unit.DAY)
START = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = Position(1, 10, HUGE)
NEXT = Position(1, 11, -HUGE - 1)
ELSEWHERE = Position(1, 11, 5)
TIERED: dict[str, Any] = {"status": ChunkStatus.TIERED, "tiered_at": NOW}


def a_tracked_table(uuid: str = "u-1", **changes: object) -> TrackedTable:
    tracked = TrackedTable(uuid, TableName.parse("lake.air.flights"), DAYS, HEAD)
    return replace(tracked, **changes)  # type: ignore[arg-type]


def a_chunk(day: int = 0, uuid: str = "u-1", **changes: object) -> Chunk:
    start = START + timedelta(days=day)
    chunk = Chunk(uuid, Unit.DAY.label(start), start, start + timedelta(days=1))
    chunk = replace(chunk, rows=5, bytes=50, files=1, last_write=7, last_write_snapshot=HUGE)
    return replace(chunk, **changes)  # type: ignore[arg-type]


def a_sync(uuid: str = "u-1", **changes: object) -> TableSync:
    table, cold = TableName.parse("lake.air.flights"), TableName.parse("cold.synced.flights")
    sync = TableSync(uuid, table, cold, 1, SyncState.STREAMING, NOW, committed=HEAD, heartbeat=NOW)
    return replace(sync, **changes)  # type: ignore[arg-type]


def a_policy(
    type: PolicyType = PolicyType.TIERING, tier: str = "", drop: str = "", uuid: str = "u-1"
) -> ChunkPolicy:
    tier_after, drop_after = (Horizon.parse(age) if age else None for age in (tier, drop))
    return ChunkPolicy(0, uuid, type, tier_after, drop_after, NOW, "me")


def a_rollup(name: str = "hourly", **changes: object) -> Rollup:
    own, source = (TableName.parse(f"lake.air.{n}") for n in (f"_rollup_{name}", "flights"))
    query = "SELECT time_bucket('1 hour', ts) AS b, count(*) AS n FROM flights GROUP BY 1"
    made = Rollup(0, name, own, f"u-{name}", source, "u-1", query, "1 hour", "b", (), NOW)
    return replace(made, **changes)  # type: ignore[arg-type]


def track(ledger: ControlLedger, *chunks: Chunk, uuid: str = "u-1") -> TrackedTable:
    tracked = a_tracked_table(uuid)
    ledger.chunks.advance(None, tracked, chunks)
    return tracked


Answer = TypeVar("Answer")


def at_once(shop: Shop, *works: Callable[[ControlLedger], Answer]) -> list[Answer | MeltlineError]:
    """What several people get who do something at the same moment, each on a handle of theirs."""
    start = Barrier(len(works), timeout=60)

    def outcome(work: Callable[[ControlLedger], Answer]) -> Answer | MeltlineError:
        handle = shop.handle()
        handle.database.is_prepared()
        start.wait()
        try:
            return work(handle)
        except MeltlineError as refused:
            return refused

    with ThreadPoolExecutor(len(works)) as pool:
        runs = [pool.submit(outcome, work) for work in works]
        return [run.result(timeout=60) for run in runs]


@contextmanager
def statements() -> Iterator[list[str]]:
    """What the engines are told meanwhile, without the begin of a transaction."""
    texts: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith(("BEGIN", "SET LOCAL")):
            texts.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield texts
    finally:
        event.remove(Engine, "before_cursor_execute", note)
