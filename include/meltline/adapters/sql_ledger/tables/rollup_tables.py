"""Table of the control ledger for rollups."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Table, UniqueConstraint

from meltline.adapters.sql_ledger.tables.columns import (
    Json,
    Name,
    instant,
    plain,
    prose,
    sequence,
)
from meltline.adapters.sql_ledger.tables.schema import metadata
from meltline.domain.chunks.ranges import TimeRange


def _dump_ranges(ranges: tuple[TimeRange, ...]) -> list[list[str]]:
    return [[times.start.isoformat(), times.end.isoformat()] for times in ranges]


def _load_ranges(raw: list[list[str]]) -> tuple[TimeRange, ...]:
    return tuple(TimeRange(*map(datetime.fromisoformat, ends)) for ends in raw)


def _ranges(name: str) -> "Column[Any]":
    return Column(name, Json(_dump_ranges, _load_ranges), nullable=False)


# A number is never reused, so that an old answer never identifies another rollup.
rollups = Table(
    "rollups",
    metadata,
    sequence(),
    plain("name"),
    Column("table", Name, nullable=False),
    plain("table_uuid"),
    Column("source", Name, nullable=False),
    plain("source_uuid"),
    prose("query"),
    plain("width"),
    plain("bucket_column"),
    Column("depends_on", Json[tuple[str, ...]](list, tuple), nullable=False),
    instant("created_at"),
    plain("who"),
    _ranges("invalidated"),
    _ranges("missed"),
    instant("last_refreshed_at", nullable=True),
    prose("problem"),
    plain("realtime_view"),
    UniqueConstraint("name"),
    sqlite_autoincrement=True,
)
