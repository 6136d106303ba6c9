"""Builders for tests of chunks: a layout, files by day, commits and policies."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from meltline.domain.chunks.chunk import Chunk, stamped
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import EVERYWHERE, ChunkFile, ChunkLayout, SnapshotChange, Times
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.ranges import UNBOUNDED, Horizon, TimeRange, Unit
from meltline.domain.chunks.sync import Position, SyncState, TableSync
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName

UUID = "t1"
TABLE = TableName.parse("lake.air.t")
COLUMN = TimeColumn("ts", 3, ColumnKind.TIMESTAMPTZ, type="timestamptz")
DAYS = ChunkLayout(COLUMN, Unit.DAY)
NOW = datetime(2026, 4, 1, 6, tzinfo=UTC)


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times_of(where: str) -> Times:
    """A chunk's times by its name; `everywhere`, `unbounded`, and `A..B` for from A through B."""
    if where == "everywhere":
        return EVERYWHERE
    if where == UNBOUNDED:
        return Times(None)
    first, _, last = where.partition("..")
    return Times(TimeRange(Unit.DAY.range(first).start, Unit.DAY.range(last or first).end))


def a_file(
    where: str, kind: FileKind = FileKind.DATA, path: str = "f", rows: int = 10
) -> ChunkFile:
    """A file whose rows lie there."""
    return ChunkFile(path, kind, bytes=100, rows=rows, times=times_of(where), spec_id=0)


def a_change(
    place: int,
    added: Sequence[str | ChunkFile] = (),
    removed: Sequence[str | ChunkFile] = (),
    operation: str = "append",
) -> SnapshotChange:
    """A commit at a place, by where its files lie."""
    sides = [[a_file(f) if isinstance(f, str) else f for f in files] for files in (added, removed)]
    return SnapshotChange(1000 + place, operation, place, {}, sides[0], sides[1])


def after(
    *changes: SnapshotChange,
    chunks: Mapping[str, Chunk] | None = None,
    generation: int = 1,
    own_drops: Collection[int] = (),
) -> dict[str, Chunk]:
    """The chunks after some commits."""
    return stamped(DAYS, UUID, chunks or {}, changes, generation=generation, own_drops=own_drops)


def a_chunk(name: str, **facts: Any) -> Chunk:
    """A day's chunk with rows, last written at place 5 of the first sync."""
    times = None if name == UNBOUNDED else Unit.DAY.range(name)
    start, end = (times.start, times.end) if times else (None, None)
    plain = Chunk(UUID, name, start, end, rows=10, bytes=100, files=1, last_write=5, generation=1)
    return replace(plain, **facts)


def by_name(*chunks: Chunk) -> dict[str, Chunk]:
    """Chunks as a table has them."""
    return {chunk.name: chunk for chunk in chunks}


def a_sync(**facts: Any) -> TableSync:
    """A sync that streams, was heard a minute ago, and has everything up to place 5."""
    plain = TableSync(
        UUID,
        TABLE,
        TableName.parse("ice.live.t"),
        generation=1,
        state=SyncState.STREAMING,
        started_at=NOW - timedelta(days=9),
        committed=Position(1, 5, 1005),
        heartbeat=NOW - timedelta(minutes=1),
    )
    return replace(plain, **facts)


def a_policy(type: PolicyType, tier: str = "", drop: str = "", **facts: Any) -> ChunkPolicy:
    """A policy with these ages."""
    ages = [Horizon.parse(text) if text else None for text in (tier, drop)]
    return ChunkPolicy(1, UUID, type, ages[0], ages[1], NOW, **facts)
