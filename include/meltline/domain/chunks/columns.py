"""Time columns: the time of a row, a partition or a file's bounds.

`layout`, and the adapters that read manifests and rows, use it.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from meltline.domain.chunks.ranges import EPOCH, TimeRange, Unit

_PATTERN = re.compile(r"%Y(?:[^%\w]?%m(?:[^%\w]?%d(?:(?:[^%\w]|T)?%H)?)?)?")
_SCALES = {
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_LETTERS = ((Unit.HOUR, "%H"), (Unit.DAY, "%d"), (Unit.MONTH, "%m"), (Unit.YEAR, "%Y"))
_MICROSECOND = timedelta(microseconds=1)
_UNITS = frozenset(unit.value for unit in Unit)


class ColumnKind(StrEnum):
    """Type of the values in a time column."""

    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    DATE = "date"
    INTEGER = "integer"
    TEXT = "text"


_KINDS = {
    "timestamp": ColumnKind.TIMESTAMP,
    "timestamptz": ColumnKind.TIMESTAMPTZ,
    "date": ColumnKind.DATE,
    "int": ColumnKind.INTEGER,
    "long": ColumnKind.INTEGER,
    "string": ColumnKind.TEXT,
}


@dataclass(frozen=True)
class TimeColumn:
    """The column that holds a row's time. Times without a zone are taken as UTC.

    Attributes:
        name: Its current name.
        field_id: The id that identifies it after a rename.
        kind: The type of its values.
        pattern: For integers and strings: a scale (`s`, `ms`, `us`, `h`, `d` since 1970) or a
            pattern whose order is that of time (`%Y%m%d`, `%Y-%m-%dT%H`).
        type: The type in Iceberg's schema: `int` and `long` have different encodings.
    """

    name: str
    field_id: int
    kind: ColumnKind
    pattern: str = ""
    type: str = ""

    @classmethod
    def of(cls, field: Mapping[str, Any], pattern: str = "") -> "TimeColumn":
        """Creates the column from a schema's field.

        Raises:
            ValueError: Its type holds no time, or needs a pattern, or the pattern does not fit.
        """
        kind = _KINDS.get(str(field["type"]))
        name = str(field["name"])
        if kind is None:
            raise ValueError(f"column {name} has type {field['type']}, which tells no time")
        if kind in (ColumnKind.INTEGER, ColumnKind.TEXT):
            if not _fits(kind, pattern):
                raise ValueError(
                    f"column {name} is {field['type']}: say what its values are, "
                    "a scale (s, ms, us, h, d) or a pattern such as %Y%m%d"
                )
        elif pattern:
            raise ValueError(f"column {name} is {field['type']}: it needs no pattern")
        return cls(name, int(field["id"]), kind, pattern, str(field["type"]))

    @property
    def finest(self) -> Unit:
        """The shortest chunk that its values can distinguish."""
        if self.kind is ColumnKind.DATE or self.pattern == "d":
            return Unit.DAY
        letters = (unit for unit, letter in _LETTERS if letter in self.pattern)
        return next(letters, Unit.HOUR)

    def instant(self, value: object) -> datetime | None:
        """Returns the time of a value; None for null and for times beyond the calendar."""
        try:
            return self._instant(value)
        except (ValueError, OverflowError, TypeError):
            return None

    def _instant(self, value: object) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if self.kind is ColumnKind.DATE:
            return EPOCH + timedelta(days=int(str(value)))
        if self.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMPTZ):
            return EPOCH + timedelta(microseconds=int(str(value)))
        if self.pattern in _SCALES:
            return EPOCH + int(str(value)) * _SCALES[self.pattern]
        moment = datetime.strptime(str(value), self.pattern).replace(tzinfo=UTC)
        # A value that formats back differently would not sort by its time.
        return moment if str(value) == self._written(moment) else None

    def value(self, moment: datetime) -> datetime | date | int | str:
        """Returns the first value at or after an instant, in the column's own domain."""
        if self.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMPTZ):
            return moment
        if self.kind is ColumnKind.DATE:
            return moment.date()
        if self.pattern in _SCALES:
            return -((EPOCH - moment) // _SCALES[self.pattern])
        written = self._written(moment)
        return int(written) if self.kind is ColumnKind.INTEGER else written

    def _written(self, moment: datetime) -> str:
        letters = {"%Y": f"{moment.year:04d}", "%m": f"{moment.month:02d}"}
        letters |= {"%d": f"{moment.day:02d}", "%H": f"{moment.hour:02d}"}
        return re.sub("%[YmdH]", lambda letter: letters[letter[0]], self.pattern)

    def bound(self, packed: bytes | None) -> datetime | None:
        """Decodes a lower or upper bound of a file's values from its encoding in manifests."""
        if packed is None:
            return None
        if self.kind is ColumnKind.TEXT:
            return None  # bounds of strings are truncated: they hold no time
        # An integer column promoted to long keeps bounds of the width they were written with.
        is_short = self.kind is ColumnKind.INTEGER and len(packed) == 4
        width = "i" if self.kind is ColumnKind.DATE or is_short else "q"
        if len(packed) != struct.calcsize(width):
            return None
        return self.instant(struct.unpack(f"<{width}", packed)[0])


def _fits(kind: ColumnKind, pattern: str) -> bool:
    if kind is ColumnKind.INTEGER:
        is_digits = not set(pattern) - set("%YmdH")
        return pattern in _SCALES or bool(is_digits and _PATTERN.fullmatch(pattern))
    return bool(_PATTERN.fullmatch(pattern))


def partition_range(column: TimeColumn, transform: str, value: object) -> TimeRange | None:
    """Returns the times of a partition; None for null, void and times beyond the calendar.

    Args:
        column: The partition field's source.
        transform: The spec's transform: hour, day, month, year or identity.
        value: The partition's value in the manifest.
    """
    if value is None or transform == "void":
        return None
    try:
        if transform in _UNITS:
            if isinstance(value, date):  # Avro's logical type of day partitions
                value = (value - EPOCH.date()).days
            return Unit(transform).ordinal_range(int(str(value)))
        start = column.instant(value)
        if transform != "identity" or start is None:
            return None
        if column.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMPTZ) or column.pattern in (
            set(_SCALES) - {"h", "d"}
        ):
            return TimeRange(start, start + _MICROSECOND)
        return TimeRange(start, column.finest.after(start))
    except (OverflowError, ValueError):
        return None


def bounds_range(
    column: TimeColumn, lower: bytes | None, upper: bytes | None, nulls: int | None
) -> TimeRange | None:
    """Returns a file's times by its column's bounds; None if they do not cover all rows."""
    first, last = column.bound(lower), column.bound(upper)
    if first is None or last is None or nulls != 0 or last < first:
        return None
    step = timedelta(days=1) if column.finest is Unit.DAY else _MICROSECOND
    try:
        return TimeRange(first, last + step)
    except OverflowError:
        return None
