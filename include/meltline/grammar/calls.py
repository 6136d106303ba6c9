"""Parses SELECT lakets.function(…) as a whole statement, with its arguments.

`parse` calls it, and `app/sql/lakets` reads the arguments. They are literals in Postgres' syntax;
the functions themselves are unknown here (LT-34).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from meltline.grammar.statements import FunctionCall
from meltline.grammar.tokens import Cursor, Kind, tokens_of, unreadable

LAKETS = "LAKETS"


class Literal(StrEnum):
    """Kind of a literal. A text without a type may represent a value of any type."""

    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "TRUE or FALSE"
    NULL = "NULL"
    INTERVAL = "an interval"
    TIMESTAMP = "a timestamp"
    ARRAY = "an array"


_TYPES: Mapping[str, Literal] = {
    "INTERVAL": Literal.INTERVAL,
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP", "DATE"), Literal.TIMESTAMP),
    **dict.fromkeys(("TEXT", "VARCHAR", "STRING", "NAME", "REGCLASS"), Literal.TEXT),
    **dict.fromkeys(("BOOLEAN", "BOOL"), Literal.BOOLEAN),
    **dict.fromkeys(("INT", "INTEGER", "BIGINT"), Literal.NUMBER),
}
_EXPECTED = "a literal: a text, a number, TRUE, FALSE, NULL, INTERVAL, TIMESTAMPTZ or ARRAY"


@dataclass(frozen=True)
class Argument:
    """An argument of a function call.

    Attributes:
        name: Its parameter, in lower case; empty if positional.
        value: The value as written; the texts of an array, None for NULL.
        start: Offset of its begin in the statement.
    """

    name: str
    literal: Literal
    value: str | tuple[str, ...] | None
    start: int


def function_call(cursor: Cursor) -> FunctionCall | None:
    """SELECT lakets.f(…), or SELECT * FROM lakets.f(…), and nothing more; otherwise None.

    Raises:
        SqlUnreadable: The parenthesis is not closed.
    """
    if not cursor.take("SELECT"):
        return None
    is_source = cursor.take_symbol("*")
    if is_source and not cursor.take("FROM"):
        return None
    if not (cursor.take(LAKETS) and cursor.take_symbol(".") and cursor.current.is_name):
        return None
    name, opened = cursor.next().text.lower(), cursor.current.start
    if not cursor.take_symbol("("):
        return None
    closed = _closed(cursor)
    alias = _alias(cursor)
    columns = _columns(cursor) if is_source and alias else ()
    while cursor.take_symbol(";"):
        continue
    if not cursor.is_at_end:
        return None
    return FunctionCall(name, cursor.text, opened, closed, alias, columns)


def _closed(cursor: Cursor) -> int:
    """Moves past the closing parenthesis and returns its offset."""
    depth = 1
    while not cursor.is_at_end:
        token = cursor.next()
        depth += token.is_symbol("(") - token.is_symbol(")")
        if not depth:
            return token.start
    cursor.fail("`)`")


def _alias(cursor: Cursor) -> str:
    is_told = cursor.take("AS")
    if cursor.current.is_name:
        return cursor.next().text
    if is_told:
        cursor.fail("a name")
    return ""


def _columns(cursor: Cursor) -> tuple[str, ...]:
    names: list[str] = []
    if cursor.take_symbol("("):
        while not names or cursor.take_symbol(","):
            if not cursor.current.is_name:
                cursor.fail("a column's name")
            names.append(cursor.next().text)
        cursor.expect_symbol(")")
    return tuple(names)


# --- arguments ------------------------------------------------------------------------------------


def arguments_of(call: FunctionCall) -> tuple[Argument, ...]:
    """Returns a call's arguments in the order in which they are written.

    Raises:
        SqlUnreadable: An argument is not a literal, or a positional one follows a named one.
    """
    tokens = tokens_of(call.text)
    cursor = Cursor(call.text, tokens, [token.start for token in tokens].index(call.opened) + 1)
    arguments: list[Argument] = []
    while not cursor.take_symbol(")"):
        if arguments:
            cursor.expect_symbol(",")
        argument = _argument(cursor)
        if not argument.name and any(earlier.name for earlier in arguments):
            expected = "a parameter's name and `=>`, for one stands before it"
            raise unreadable(call.text, argument.start, expected, "a value without")
        arguments.append(argument)
    return tuple(arguments)


def _argument(cursor: Cursor) -> Argument:
    start, name = cursor.current.start, ""
    if any(cursor.ahead(1).is_symbol(sign) for sign in ("=>", ":=")):
        if not cursor.current.is_name:
            cursor.fail("a parameter's name")
        name = cursor.next().text.lower()
        cursor.next()
    literal, value = _literal(cursor)
    while cursor.take_symbol("::"):
        literal = _cast(cursor, literal, value)
    return Argument(name, literal, value, start)


def _literal(cursor: Cursor) -> tuple[Literal, str | tuple[str, ...] | None]:
    token = cursor.current
    if token.kind is Kind.STRING:
        return Literal.TEXT, cursor.string("a text")
    if cursor.take("NULL"):
        return Literal.NULL, None
    if token.is_word("TRUE", "FALSE"):
        return Literal.BOOLEAN, cursor.next().text.lower()
    if cursor.take("ARRAY"):
        return Literal.ARRAY, _texts(cursor)
    if cursor.take("INTERVAL"):
        return Literal.INTERVAL, _interval(cursor)
    if token.is_word(*_TYPES):
        literal = _type(cursor)
        return literal, cursor.string("a text in quotes")
    if token.kind is Kind.NUMBER or token.is_symbol("-"):
        return Literal.NUMBER, _number(cursor)
    cursor.fail(_EXPECTED)


def _number(cursor: Cursor) -> str:
    sign = "-" if cursor.take_symbol("-") else ""
    if cursor.current.kind is not Kind.NUMBER:
        cursor.fail("a number")
    return sign + cursor.next().text


def _interval(cursor: Cursor) -> str:
    """INTERVAL '7 days', INTERVAL '7' DAY, INTERVAL 7 DAYS."""
    is_number = cursor.current.kind is Kind.NUMBER
    text = cursor.next().text if is_number else cursor.string("a text in quotes, or a number")
    if cursor.current.kind is Kind.WORD:
        text = f"{text} {cursor.next().text.lower()}"
    return text


def _texts(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_symbol("[")
    texts: list[str] = []
    while not cursor.take_symbol("]"):
        if texts:
            cursor.expect_symbol(",")
        texts.append(cursor.string("a text in quotes"))
    return tuple(texts)


def _type(cursor: Cursor) -> Literal:
    if not cursor.current.is_word(*_TYPES):
        cursor.fail(f"a type: {', '.join(_TYPES).lower()}")
    literal = _TYPES[cursor.next().text.upper()]
    if literal is Literal.TIMESTAMP and cursor.take("WITH"):
        cursor.expect("TIME", "ZONE")
    return literal


def _cast(cursor: Cursor, before: Literal, value: str | tuple[str, ...] | None) -> Literal:
    """Kind of a value after `::type`. Only a text can become another kind."""
    start = cursor.current.start
    literal = _type(cursor)
    if cursor.take_symbol("["):
        cursor.expect_symbol("]")
        literal = Literal.ARRAY
    if before not in (Literal.TEXT, Literal.NULL, literal):
        raise unreadable(cursor.text, start, f"a type of {before}", f"one of {literal}")
    return Literal.NULL if value is None else literal
