"""Parses AT | BEFORE clauses: their points in time, and the expressions allowed in them.

`parse` and the parsers of clones and branches use it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from fractions import Fraction

from meltline.domain.errors import UsageInvalid
from meltline.domain.time_travel.timetravel import (
    Moment,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
    moment_of_offset,
)
from meltline.domain.units import parse_moment
from meltline.grammar.tokens import Cursor, Kind, unreadable

SELECTORS = ("TIMESTAMP", "OFFSET", "STATEMENT", "TAG")

_SPANS = {
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(hours=24),
    "WEEK": timedelta(hours=24 * 7),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_TYPES = ("TIMESTAMP_TZ", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP", "DATETIME")
_READERS = ("TO_TIMESTAMP_TZ", "TO_TIMESTAMP_LTZ", "TO_TIMESTAMP")


@dataclass(frozen=True)
class Shift:
    """An offset of whole units; negative for earlier."""

    unit: str
    amount: int

    def of(self, moment: datetime) -> datetime:
        """Shifts a moment. Raises OverflowError beyond the calendar."""
        if self.unit in _SPANS:
            return moment + self.amount * _SPANS[self.unit]
        months = moment.year * 12 + moment.month - 1 + self.amount * _MONTHS[self.unit]
        year, month = divmod(months, 12)
        if not MINYEAR <= year <= MAXYEAR:
            raise OverflowError(f"year {year}")
        for day in range(moment.day, 0, -1):  # the 31st of a shorter month is its last day
            try:
                return moment.replace(year=year, month=month + 1, day=day)
            except ValueError:
                continue
        raise AssertionError("unreachable: every month has a first day")


@dataclass(frozen=True)
class TimestampSelector:
    """A moment, literal or relative to now.

    Attributes:
        base: The start; None is the statement's own time.
        shifts: Offsets added to it, in this order.
    """

    base: datetime | None
    shifts: tuple[Shift, ...] = ()

    def point(self, now: datetime) -> Moment:
        """Returns the moment for a statement that is executed at `now`.

        Raises:
            OverflowError: It is beyond the calendar.
        """
        moment = self.base or now
        for shift in self.shifts:
            moment = shift.of(moment)
        return Moment(moment)


@dataclass(frozen=True)
class OffsetSelector:
    """Seconds from now; negative is the past (TT-29)."""

    seconds: Fraction

    def point(self, now: datetime) -> Moment:
        """Returns the moment. Raises UsageInvalid if it is in the future."""
        return Moment(moment_of_offset(now, float(self.seconds)))


Selector = TimestampSelector | OffsetSelector | StatementPoint | TagPoint


@dataclass(frozen=True)
class PointInTime:
    """A point in time: AT or BEFORE a selector."""

    side: PointSide
    selector: Selector

    def at(self, now: datetime) -> TravelPoint:
        """Resolves the point for a statement executed at `now`, which all its clauses share.

        Raises:
            UsageInvalid: It is in the future, or beyond the calendar.
        """
        try:
            return TravelPoint(self.side, _point(self.selector, now))
        except OverflowError as far:
            raise UsageInvalid(
                "the point leaves the calendar",
                object=f"{self.side.upper()}(…)",
                expected=f"a year from {MINYEAR} to {MAXYEAR}",
                found=str(far),
                next="choose a time in the table's window",
            ) from far


def _point(selector: Selector, now: datetime) -> Moment | StatementPoint | TagPoint:
    if isinstance(selector, StatementPoint | TagPoint):
        return selector
    return selector.point(now)


def begins_point(cursor: Cursor) -> bool:
    """Whether AT | BEFORE with a selector comes next, and not a function or a list of aliases."""
    if not cursor.current.is_word("AT", "BEFORE") or not cursor.ahead(1).is_symbol("("):
        return False
    after = cursor.ahead(3)
    if cursor.ahead(2).is_word(*SELECTORS):
        return not (after.is_symbol(",") or after.is_symbol(")"))
    return cursor.ahead(2).kind is Kind.WORD and after.is_symbol("=>")


def begins_tag(cursor: Cursor) -> bool:
    """Whether FOR TAG '…' comes next."""
    return cursor.comes("FOR", "TAG") and cursor.ahead(2).kind is Kind.STRING


def point_in_time(cursor: Cursor) -> PointInTime:
    """Parses AT | BEFORE ( selector => expression ), or FOR TAG '…'.

    Raises:
        SqlUnreadable: It is none of them.
    """
    if cursor.take("FOR"):
        cursor.expect("TAG")
        return PointInTime(PointSide.AT, _tag(cursor))
    side = PointSide(cursor.choice("AT", "BEFORE").lower())
    cursor.expect_symbol("(")
    word = cursor.choice(*SELECTORS)
    cursor.expect_symbol("=>")
    selector = _READ[word](cursor)
    if not cursor.current.is_symbol(")"):
        cursor.fail("`)` after one point")
    cursor.next()
    return PointInTime(side, selector)


def _statement(cursor: Cursor) -> StatementPoint:
    return StatementPoint(cursor.string("the statement's id in quotes"))


def _tag(cursor: Cursor) -> TagPoint:
    return TagPoint(cursor.string("the tag's name in quotes"))


# --- moments ----------------------------------------------------------------------------------


def _timestamp(cursor: Cursor) -> TimestampSelector:
    """Parses a literal, the current time, or an offset from either, with an optional type."""
    selector = _moment(cursor)
    while cursor.take_symbol("::"):
        _type(cursor)
    return selector


def _moment(cursor: Cursor) -> TimestampSelector:
    if cursor.current.kind is Kind.STRING or cursor.take("TIMESTAMP"):
        return _written(cursor)
    if cursor.take_symbol("("):
        return _closed(cursor, _timestamp(cursor))
    if cursor.take("CURRENT_TIMESTAMP"):
        if cursor.take_symbol("("):
            cursor.expect_symbol(")")
        return TimestampSelector(None)
    if cursor.take("DATEADD"):
        return _dateadd(cursor)
    if cursor.take("CAST"):
        cursor.expect_symbol("(")
        selector = _timestamp(cursor)
        cursor.expect("AS")
        _type(cursor)
        return _closed(cursor, selector)
    if cursor.current.is_word(*_READERS):
        cursor.next()
        cursor.expect_symbol("(")
        return _closed(cursor, _timestamp(cursor))
    cursor.fail("a time in quotes, CURRENT_TIMESTAMP or DATEADD(…)")


def _closed(cursor: Cursor, selector: TimestampSelector) -> TimestampSelector:
    cursor.expect_symbol(")")
    return selector


def _type(cursor: Cursor) -> None:
    if not cursor.current.is_word(*_TYPES):
        cursor.fail("TIMESTAMP_TZ, TIMESTAMP_LTZ or TIMESTAMP")
    cursor.next()


def _written(cursor: Cursor) -> TimestampSelector:
    place = cursor.current.start
    text = cursor.string("a time in quotes")
    try:
        return TimestampSelector(parse_moment(text))
    except (ValueError, OverflowError) as error:
        expected = "a time with its offset, such as '2024-06-26T09:20:00-07:00'"
        raise unreadable(cursor.text, place, expected, repr(text)) from error


def _dateadd(cursor: Cursor) -> TimestampSelector:
    cursor.expect_symbol("(")
    unit = cursor.current.text.upper().removesuffix("S")
    if cursor.current.kind is not Kind.WORD or unit not in {**_SPANS, **_MONTHS}:
        cursor.fail("a unit: " + ", ".join({**_SPANS, **_MONTHS}).lower())
    cursor.next()
    cursor.expect_symbol(",")
    place = cursor.current.start
    amount = _sum(cursor)
    if amount.denominator != 1:
        raise unreadable(cursor.text, place, "a whole number", str(float(amount)))
    cursor.expect_symbol(",")
    selector = _timestamp(cursor)
    cursor.expect_symbol(")")
    return TimestampSelector(selector.base, (*selector.shifts, Shift(unit, int(amount))))


# --- arithmetic -------------------------------------------------------------------------------


def _offset(cursor: Cursor) -> OffsetSelector:
    return OffsetSelector(_sum(cursor))


def _sum(cursor: Cursor) -> Fraction:
    total = _product(cursor)
    while True:
        if cursor.take_symbol("+"):
            total += _product(cursor)
        elif cursor.take_symbol("-"):
            total -= _product(cursor)
        else:
            return total


def _product(cursor: Cursor) -> Fraction:
    total = _factor(cursor)
    while True:
        if cursor.take_symbol("*"):
            total *= _factor(cursor)
        elif cursor.take_symbol("/"):
            place = cursor.current.start
            divisor = _factor(cursor)
            if divisor == 0:
                raise unreadable(cursor.text, place, "a number that is not 0", "0")
            total /= divisor
        else:
            return total


def _factor(cursor: Cursor) -> Fraction:
    sign = 1
    while cursor.current.is_symbol("-") or cursor.current.is_symbol("+"):
        sign = -sign if cursor.next().text == "-" else sign
    if cursor.take_symbol("("):
        total = _sum(cursor)
        cursor.expect_symbol(")")
        return sign * total
    if cursor.current.kind is not Kind.NUMBER:
        cursor.fail("a number of seconds")
    return sign * Fraction(cursor.next().text)


_READ: Mapping[str, Callable[[Cursor], Selector]] = {
    "TIMESTAMP": _timestamp,
    "OFFSET": _offset,
    "STATEMENT": _statement,
    "TAG": _tag,
}
