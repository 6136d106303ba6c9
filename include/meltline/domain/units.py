"""Parses and formats durations, sizes, counts and instants."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"^(\d+)(ms|s|m|h|d)$")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(hours=24),  # C-30: a day is 24 hours, never a calendar day
}
_MAIL_DATE = re.compile(r"^(?:[A-Za-z]{3},\s*)?\d{1,2} [A-Za-z]{3} \d{4} ")
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB|PiB)?$")
_SIZES = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}


def parse_duration(text: str) -> timedelta:
    """Parses `7d`, `6h`, `30m`, `10s`.

    Raises:
        ValueError: The text is not a whole number followed by a unit.
    """
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write a whole number and d, h, m or s")
    try:
        return int(match[1]) * _UNITS[match[2]]
    except OverflowError as far:
        raise ValueError(f"{text!r} is not a duration: it leaves the calendar") from far


def format_duration(span: timedelta) -> str:
    """Formats a duration in the largest unit that represents it exactly: `7d`, `6h`, `90m`."""
    for unit in ("d", "h", "m", "s"):
        if span % _UNITS[unit] == timedelta(0):
            return f"{span // _UNITS[unit]}{unit}"
    return f"{span // _UNITS['ms']}ms"


def parse_size(text: str | int) -> int:
    """Parses `1TiB`, `512 MiB` or a plain number of bytes.

    Raises:
        ValueError: The text is not a number with an optional binary unit.
    """
    match = _SIZE.match(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write bytes, or a number and KiB to PiB")
    return round(Decimal(match[1]) * int(1024 ** _SIZES[match[2] or "B"]))


def format_size(size: int) -> str:
    """Formats bytes for people: `0 B`, `1.5 MiB`."""
    amount = float(size)
    for unit in _SIZES:
        if abs(amount) < 1024 or unit == "PiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable: the last unit always returns")


def counted(number: int, unit: str) -> str:
    """Formats a count: `1 file`, `1,205 files`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def format_files(number: int, size: int) -> str:
    """Formats a number of files and their bytes: `1,205 files, 3.0 MiB`."""
    return f"{counted(number, 'file')}, {format_size(size)}"


def parse_instant(text: str) -> datetime:
    """Parses an ISO 8601 instant with an offset or `Z`; a bare date is midnight UTC.

    Raises:
        ValueError: It is no ISO 8601 time, or a time without offset.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time: write one such as 2026-11-21T06:00:00Z, or a date"
        ) from error
    if moment.tzinfo is None:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()):
            raise ValueError(f"{text!r} has no offset: add Z or, say, +01:00")
        moment = moment.replace(tzinfo=UTC)
    return _in_utc(moment, text)


def parse_moment(text: str) -> datetime:
    """Parses an instant like `parse_instant`, or an RFC 2822 date with any weekday (TT-55).

    `Wed, 26 Jun 2024 09:20:00 -0700` is 16:20 UTC.

    Raises:
        ValueError: It is neither, or a time without offset.
    """
    try:
        return parse_instant(text)
    except ValueError:
        if not _MAIL_DATE.match(text.strip()):
            raise
    try:
        moment = parsedate_to_datetime(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: no calendar has it") from error
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset: add, say, -0700")
    return _in_utc(moment, text)


def _in_utc(moment: datetime, text: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:  # in UTC it is before the first year, or after the last
        raise ValueError(f"{text!r} is not a time: no calendar has it") from error


def format_instant(moment: datetime) -> str:
    """Formats an instant in UTC with `Z`, to the millisecond if it has any.

    An instant and its value in a ledger, which has milliseconds, have the same text.
    """
    moment = moment.astimezone(UTC)
    spec = "milliseconds" if moment.microsecond >= 1000 else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


def from_millis(millis: int) -> datetime:
    """Converts Iceberg's milliseconds since 1970 to an instant, without rounding."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def to_millis(moment: datetime) -> int:
    """Converts an instant to Iceberg's milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
