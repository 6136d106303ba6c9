"""Changes of rows that could be meant for dropped ranges too: they must say that they are not.

`DELETE FROM t WHERE user = 5` takes that user's rows out of hot, and would leave those in cold that
were dropped from hot before, without a word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from meltline.app.chunks.late_data import Dropped, earliest_accepted
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.ranges import TimeRange, merged
from meltline.domain.errors import LateDataRejected
from meltline.domain.iceberg.names import quote_part
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.grammar.bounds import Bound, Literal, bounds_of
from meltline.grammar.writes import Write

_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(Z|[+-]\d\d:\d\d)?"
)
_ZONES = timedelta(hours=18)  # so far may the session's zone lie from UTC
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Span:
    """Times that a column may have, both ends included unless it is open."""

    first: datetime
    last: datetime
    is_open: bool = False

    def meets(self, range: TimeRange) -> bool:
        ends_before = self.last < range.start or (self.is_open and self.last == range.start)
        return not ends_before and self.first < range.end


def require_bounded(table: TableMetadata, write: Write, dropped: Dropped) -> None:
    """Refuses a change of rows that may be meant for dropped chunks.

    Each of its conditions must keep the column of times out of all of them, by a comparison with
    constants that stands for itself or is joined by AND.

    Raises:
        LateDataRejected: One does not; says which bound to add.
    """
    layout, names = dropped
    qualifiers = _qualifiers(table, write)
    ranges = merged(times for name in names if (times := layout.range(name)))
    for condition in write.conditions:
        bounds = bounds_of(condition, layout.column.name, qualifiers)
        if not _keeps_out(layout.column, bounds, ranges):
            raise _unbounded(table, write, dropped)


def _qualifiers(table: TableMetadata, write: Write) -> frozenset[str]:
    if write.alias:
        return frozenset({write.alias.lower()})
    full = (table.name.catalog, *table.name.namespace, table.name.name)
    named = {full[-1:], write.target}
    return frozenset(".".join(parts).lower() for parts in named)


def _keeps_out(column: TimeColumn, bounds: Sequence[Bound], ranges: Sequence[TimeRange]) -> bool:
    first, last, is_open = _FIRST, _LAST, False
    for bound in bounds:
        if bound.values is not None:
            spans = [_value(column, literal) for literal in bound.values]
            if all(span and not any(map(span.meets, ranges)) for span in spans):
                return True
            continue
        if bound.low and (low := _value(column, bound.low)):
            first = max(first, low.first)
        if bound.high and (high := _value(column, bound.high)) and high.last < last:
            last, is_open = high.last, bound.is_open and high.first == high.last
    span = _Span(first, last, is_open)
    return not any(map(span.meets, ranges))


def _value(column: TimeColumn, literal: Literal) -> _Span | None:
    """When a constant is, as Spark compares it with the column; None where that is not sure."""
    if column.kind is ColumnKind.INTEGER:
        moment = column.instant(int(literal.text)) if _is_whole(literal) else None
        return _Span(moment, moment) if moment else None
    if literal.is_number:
        return None
    if column.kind is ColumnKind.TEXT:
        moment = None if literal.type else column.instant(literal.text)
        return _Span(moment, moment) if moment else None
    match = _INSTANT.fullmatch(literal.text)
    if not match:
        return None
    try:
        moment = datetime.fromisoformat(literal.text)
    except ValueError:
        return None
    if column.kind is ColumnKind.TIMESTAMPTZ and match[3] and literal.type != "DATE":
        return _Span(moment.astimezone(UTC), moment.astimezone(UTC))
    if match[3]:
        return None
    moment = moment.replace(tzinfo=UTC)
    if column.kind is ColumnKind.DATE and match[2]:
        return None
    if column.kind is ColumnKind.TIMESTAMPTZ or literal.type in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        # It is read in the session's zone, which nobody here knows.
        try:
            return _Span(moment - _ZONES, moment + _ZONES)
        except OverflowError:
            return None
    return _Span(moment, moment)


def _is_whole(literal: Literal) -> bool:
    return literal.is_number and literal.text.lstrip("-").isdecimal()


def _unbounded(table: TableMetadata, write: Write, dropped: Dropped) -> LateDataRejected:
    column, since = dropped[0].column, earliest_accepted(dropped)
    assert since is not None  # every dropped chunk has a range
    bound = f"{quote_part(column.name)} >= {_written(column, since)}"
    return LateDataRejected(
        f"{write.verb} on {table.name} may be meant for rows that were dropped from it, and they"
        " would stay in cold: nothing was changed",
        object=str(table.name),
        expected=f"a condition with AND {bound}, or another one that keeps out of what was dropped",
        found="a condition that every row's time can meet",
        next="add it; rows that were dropped can be changed in cold alone",
    )


def _written(column: TimeColumn, moment: datetime) -> str:
    """A constant that is the same instant in every session."""
    value = column.value(moment)
    if column.kind is ColumnKind.TIMESTAMPTZ:
        return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}Z'"
    if column.kind is ColumnKind.TIMESTAMP:
        return f"TIMESTAMP_NTZ '{moment:%Y-%m-%d %H:%M:%S}'"
    if column.kind is ColumnKind.DATE:
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
