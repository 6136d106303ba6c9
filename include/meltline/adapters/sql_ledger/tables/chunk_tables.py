"""Tables of the control ledger for chunks, their replication and their policies."""

from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Table, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from meltline.adapters.sql_ledger.tables.columns import (
    Choice,
    Json,
    Name,
    count,
    instant,
    plain,
    prose,
    sequence,
)
from meltline.adapters.sql_ledger.tables.schema import metadata
from meltline.domain.chunks.chunk import ChunkDrop, ChunkStatus, DropStatus
from meltline.domain.chunks.cold.row_digests import ColdDigest
from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import Horizon, Unit
from meltline.domain.chunks.sync import SyncState

_MILLISECOND = timedelta(milliseconds=1)


class Age(TypeDecorator[Horizon]):
    """The minimum age of a chunk, as operators write it: months stay months."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, horizon: Horizon | None, dialect: Dialect) -> str | None:
        """Writes `7d`."""
        return None if horizon is None else horizon.text

    def process_result_value(self, text: str | None, dialect: Dialect) -> Horizon | None:
        """Parses it."""
        return None if text is None else Horizon.parse(text)


class Duration(TypeDecorator[timedelta]):
    """A duration, in whole milliseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, span: timedelta | None, dialect: Dialect) -> int | None:
        """Returns its milliseconds."""
        return None if span is None else span // _MILLISECOND

    def process_result_value(self, millis: int | None, dialect: Dialect) -> timedelta | None:
        """Returns the duration."""
        return None if millis is None else millis * _MILLISECOND


def _dump_drops(drops: tuple[ChunkDrop, ...]) -> list[tuple[object, ...]]:
    return [
        (d.snapshot_id, d.sequence_number, d.base, d.standing, d.rows, _dump_digest(d.digest))
        for d in drops
    ]


def _load_drops(rows: list[list[Any]]) -> tuple[ChunkDrop, ...]:
    return tuple(
        ChunkDrop(id, number, base, DropStatus(standing), counted, _load_digest(digest))
        for id, number, base, standing, counted, digest in rows
    )


def _dump_digest(digest: ColdDigest | None) -> list[object] | None:
    return None if digest is None else [digest.rows, digest.checksum, digest.columns]


def _load_digest(facts: list[Any] | None) -> ColdDigest | None:
    return None if facts is None else ColdDigest(*facts)


def _maybe(name: str) -> "Column[int]":
    return Column(name, BigInteger, nullable=True)


def _snapshots(name: str) -> "Column[tuple[int, ...]]":
    return Column(name, Json[tuple[int, ...]](list, tuple), nullable=False)


# `column` to `unit` are the layout, `walked_*` the position up to which chunks are stamped.
chunked_tables = Table(
    "chunked_tables",
    metadata,
    plain("table_uuid", primary_key=True),
    Column("table", Name, nullable=False),
    prose("column"),
    count("field_id"),
    Column("kind", Choice(ColumnKind), nullable=False),
    prose("pattern"),
    plain("type"),
    Column("unit", Choice(Unit), nullable=False),
    _maybe("walked_generation"),
    _maybe("walked_place"),
    _maybe("walked_snapshot"),
    instant("last_run_at", nullable=True),
    prose("last_run"),
    _maybe("judged"),
)

chunks = Table(
    "chunks",
    metadata,
    plain("table_uuid", primary_key=True),
    plain("name", primary_key=True),
    instant("start", nullable=True),
    instant("end", nullable=True),
    Column("status", Choice(ChunkStatus), nullable=False),
    count("rows"),
    count("bytes"),
    count("files"),
    count("spans"),
    _maybe("last_write"),
    _maybe("last_write_snapshot"),
    count("generation"),
    instant("tiered_at", nullable=True),
    instant("dropped_at", nullable=True),
    plain("drop_plan"),
    _maybe("cold_base"),
    _maybe("cold_rows"),
    Column("cold_digest", Json(_dump_digest, _load_digest), nullable=True),
    count("dropped_rows"),
    count("dropped_bytes"),
    Column("drops", Json(_dump_drops, _load_drops), nullable=False),
    # Has every column that the sums over a million chunks need, in the order of their groups.
    Index("ix_chunks_sums", "table_uuid", "status", "rows", "bytes", "last_write", "dropped_bytes"),
)

table_syncs = Table(
    "table_syncs",
    metadata,
    plain("table_uuid", primary_key=True),
    Column("table", Name, nullable=False),
    Column("cold", Name, nullable=False),
    count("generation"),
    Column("state", Choice(SyncState), nullable=False),
    instant("started_at"),
    plain("reason"),
    prose("detail"),
    _maybe("committed_generation"),
    _maybe("committed_place"),
    _maybe("committed_snapshot"),
    _maybe("cold_snapshot"),
    _maybe("cold_compared"),
    instant("heartbeat", nullable=True),
    _snapshots("allowed_deletes"),
    _snapshots("kept_deletes"),
)

# A number is never reused, so that an old answer never identifies another policy.
chunk_policies = Table(
    "chunk_policies",
    metadata,
    sequence(),
    plain("table_uuid"),
    Column("type", Choice(PolicyType), nullable=False),
    Column("tier_after", Age, nullable=True),
    Column("drop_after", Age, nullable=True),
    instant("created_at"),
    plain("who"),
    Column("max_lateness", Duration, nullable=True),
    count("keep_latest"),
    UniqueConstraint("table_uuid", "type"),
    sqlite_autoincrement=True,
)
