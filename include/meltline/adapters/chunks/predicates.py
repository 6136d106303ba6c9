"""Spark SQL expressions of chunks: the chunk of a value, and predicates for the values of chunks.

All adapters of chunks share them. They always use UTC, whatever the session's time zone: instants
are counted from 1970, and times without a zone are used unchanged.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import EPOCH, UNBOUNDED, TimeRange, Unit, merged

_HOUR, _DAY = 3_600_000_000, 86_400_000_000  # microseconds
_SCALES = {"s": 1_000_000, "ms": 1_000, "us": 1, "h": _HOUR, "d": _DAY}
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2}
_MOST_RANGES = 200
_LAST = datetime.max.replace(tzinfo=EPOCH.tzinfo)


def ordinal(unit: Unit, moment: datetime) -> int:
    """Returns the number of a moment's chunk, counted from 1970 as in Iceberg's transforms."""
    if unit is Unit.HOUR:
        return (moment - EPOCH) // timedelta(hours=1)
    if unit is Unit.DAY:
        return (moment - EPOCH) // timedelta(days=1)
    years = moment.year - EPOCH.year
    return years if unit is Unit.YEAR else years * 12 + moment.month - 1


def chunk_name(unit: Unit, number: int | None) -> str:
    """Returns the name of a chunk by number; null is the chunk without a time."""
    return UNBOUNDED if number is None else unit.label(unit.ordinal_range(number).start)


def ordinals(unit: Unit, chunks: Iterable[str]) -> list[int]:
    """Returns the numbers of some chunks, in order, without the chunk without a time."""
    return sorted({ordinal(unit, unit.parse(name)) for name in chunks if name != UNBOUNDED})


# --- the chunk of a value ------------------------------------------------------------------------


@dataclass(frozen=True)
class PredicateTime:
    """A date and an hour, in Spark SQL."""

    day: str
    hour: str = "0"


def chunk_ordinal(layout: ChunkLayout, value: str) -> str:
    """Returns SQL for the number of a value's chunk; null without a time or beyond the calendar.

    Args:
        layout: The definition of the chunks.
        value: Spark SQL of the column's type.
    """
    column, unit = layout.column, layout.unit
    if column.kind is ColumnKind.DATE:
        return moment_ordinal(unit, PredicateTime(value))
    if column.kind is ColumnKind.TIMESTAMP:
        return moment_ordinal(unit, PredicateTime(f"CAST({value} AS DATE)", f"hour({value})"))
    if column.kind is ColumnKind.TIMESTAMPTZ:
        return _counted_ordinal(unit, f"unix_micros({value})", 1)
    if column.pattern in _SCALES:
        return _counted_ordinal(unit, f"CAST({value} AS BIGINT)", _SCALES[column.pattern])
    return moment_ordinal(unit, _written_moment(column.pattern, f"CAST({value} AS STRING)"))


def moment_ordinal(unit: Unit, moment: PredicateTime) -> str:
    """Returns SQL for the chunk number of a date and hour; null beyond the calendar."""
    day = moment.day
    number = {
        Unit.HOUR: f"CAST(unix_date({day}) AS BIGINT) * 24 + {moment.hour}",
        Unit.DAY: f"CAST(unix_date({day}) AS BIGINT)",
        Unit.MONTH: f"CAST((year({day}) - 1970) * 12 + month({day}) - 1 AS BIGINT)",
        Unit.YEAR: f"CAST(year({day}) - 1970 AS BIGINT)",
    }[unit]
    first, last = _calendar(unit)
    return f"CASE WHEN {number} BETWEEN {first} AND {last} THEN {number} END"


def floored(number: str, by: int) -> str:
    """Returns SQL of a floored division; it cannot overflow, as others do at the limits."""
    if by == 1:
        return number
    return f"({number} div {by}L - CASE WHEN {number} % {by}L < 0 THEN 1L ELSE 0L END)"


def _counted_ordinal(unit: Unit, count: str, length: int) -> str:
    """Returns SQL for a count of units of some length since 1970; null beyond the calendar."""
    start, end = _limits(unit)
    first, last = (_count(moment, length) for moment in (start, end))
    if unit is Unit.HOUR:
        number = floored(count, _HOUR // length)
    else:
        days = floored(count, _DAY // length)
        number = moment_ordinal(unit, PredicateTime(f"date_from_unix_date(CAST({days} AS INT))"))
    return f"CASE WHEN {count} >= {first}L AND {count} < {last}L THEN {number} END"


def _count(moment: datetime, length: int) -> int:
    """Returns the first count at or after an instant."""
    return -((EPOCH - moment) // timedelta(microseconds=length))


def _written_moment(pattern: str, text: str) -> PredicateTime:
    """Parses digits at fixed offsets; null if the text is not exactly what the pattern writes.

    A value that is parsed but written in another way would not sort by its time.
    """
    parts: dict[str, str] = {}
    written, at = [], 1
    for piece in re.findall(r"%[YmdH]|[^%]", pattern):
        if piece in _WIDTHS:
            parts[piece] = f"substr({text}, {at}, {_WIDTHS[piece]})"
            written.append(parts[piece])
        else:
            written.append(quoted_text(piece))
        at += _WIDTHS.get(piece, 1)
    digits = sum(_WIDTHS[letter] for letter in parts)
    holds = [f"{text} = concat({', '.join(written)})"]
    holds.append(f"concat({', '.join(parts.values())}) RLIKE '^[0-9]{{{digits}}}$'")
    if "%H" in parts:
        holds.append(f"{parts['%H']} < '24'")
    day = ", '-', ".join((parts["%Y"], parts.get("%m", "'01'"), parts.get("%d", "'01'")))
    # A day that the month does not have becomes null, however the session treats bad casts.
    moment = f"TRY_CAST(CASE WHEN {' AND '.join(holds)} THEN concat({day}) END AS DATE)"
    hour = f"TRY_CAST({parts['%H']} AS BIGINT)" if "%H" in parts else "0"
    return PredicateTime(moment, hour)


def _limits(unit: Unit) -> tuple[datetime, datetime]:
    """Returns from when until when there are chunks: the calendar's last chunk has no end."""
    return datetime.min.replace(tzinfo=EPOCH.tzinfo), unit.floor(_LAST)


def _calendar(unit: Unit) -> tuple[int, int]:
    start, end = _limits(unit)
    return ordinal(unit, start), ordinal(unit, end) - 1


# --- predicates for the values of chunks ---------------------------------------------------------


def in_chunks(layout: ChunkLayout, value: str, chunks: Collection[str]) -> str:
    """Returns SQL for whether a value lies in one of some chunks: true or false, never null."""
    numbers = ordinals(layout.unit, chunks)
    number = chunk_ordinal(layout, value)
    parts = []
    if numbers:
        parts.append(f"coalesce({number} IN ({', '.join(f'{n}L' for n in numbers)}), FALSE)")
    if UNBOUNDED in chunks:
        parts.append(f"({number}) IS NULL")
    return f"({' OR '.join(parts)})" if parts else "FALSE"


def near_chunks(layout: ChunkLayout, value: str, chunks: Collection[str]) -> str:
    """Returns a predicate to prune files by: true for all values in some chunks, and few others.

    Args:
        layout: The definition of the chunks.
        value: The plain column, not an expression.
        chunks: Their names.
    """
    parts = [within(layout, value, span) for span in pruning_ranges(layout, chunks)]
    if UNBOUNDED in chunks:
        if _is_written(layout):
            return "TRUE"  # a text that does not match the pattern may sort anywhere
        start, end = (_literal(layout, moment) for moment in _limits(layout.unit))
        parts.append(f"({value} IS NULL OR {value} < {start} OR {value} >= {end})")
    return f"({' OR '.join(parts)})" if parts else "FALSE"


def within(layout: ChunkLayout, value: str, times: TimeRange) -> str:
    """Returns SQL for whether a value lies in a time range; null for a value without a time."""
    start, end = _literal(layout, times.start), _literal(layout, times.end)
    return f"({value} >= {start} AND {value} < {end})"


def pruning_ranges(layout: ChunkLayout, chunks: Collection[str]) -> Sequence[TimeRange]:
    """Returns the chunks' times in so few ranges that every file can be compared with all."""
    return few_ranges(merged(layout.unit.range(name) for name in chunks if name != UNBOUNDED))


def few_ranges(ranges: Sequence[TimeRange]) -> Sequence[TimeRange]:
    """Joins ordered ranges over the shortest gaps until there are few of them."""
    if len(ranges) <= _MOST_RANGES:
        return ranges
    gaps = sorted(
        (later.start - earlier.end for earlier, later in pairwise(ranges)),
        reverse=True,
    )
    widest = gaps[_MOST_RANGES - 1]  # only wider gaps stay between ranges
    joined = [ranges[0]]
    for span in ranges[1:]:
        if span.start - joined[-1].end > widest:
            joined.append(span)
        else:
            joined[-1] = TimeRange(joined[-1].start, span.end)
    return joined


def iceberg_filter(layout: ChunkLayout, column: str, ranges: Sequence[TimeRange]) -> dict[str, Any]:
    """Returns times as a filter of Iceberg's, in its JSON; ranges must not be empty.

    The ranges are halved recursively, because a chain of hundreds would be nested too deep.
    """
    if len(ranges) > 1:
        half = len(ranges) // 2
        left, right = (iceberg_filter(layout, column, r) for r in (ranges[:half], ranges[half:]))
        return {"type": "or", "left": left, "right": right}
    ends = (("gt-eq", ranges[0].start), ("lt", ranges[0].end))
    left, right = (
        {"type": type, "term": column, "value": _json_value(layout, moment)}
        for type, moment in ends
    )
    return {"type": "and", "left": left, "right": right}


def quoted_text(text: str) -> str:
    """Returns a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is_written(layout: ChunkLayout) -> bool:
    return bool(layout.column.pattern) and layout.column.pattern not in _SCALES


def _json_value(layout: ChunkLayout, moment: datetime) -> int | str:
    value = layout.column.value(moment)
    if isinstance(value, datetime) and layout.column.kind is ColumnKind.TIMESTAMP:
        value = value.replace(tzinfo=None)
    return value.isoformat() if isinstance(value, date) else value


def _literal(layout: ChunkLayout, moment: datetime) -> str:
    value = layout.column.value(moment)
    if isinstance(value, datetime):
        written = value.replace(tzinfo=None).isoformat(sep=" ")
        if layout.column.kind is ColumnKind.TIMESTAMP:
            return f"TIMESTAMP_NTZ '{written}'"
        return f"TIMESTAMP_LTZ '{written} UTC'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return f"{value}L" if isinstance(value, int) else quoted_text(value)
