"""Function signatures as data, and the binding of a call's arguments to parameters.

`dispatch` binds calls with it; the modules of functions declare their signatures.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from meltline.app.sql.lakets.session import FunctionAnswer, Session
from meltline.domain.errors import SqlUnreadable
from meltline.domain.units import parse_moment
from meltline.grammar.calls import Argument, Literal, arguments_of
from meltline.grammar.statements import FunctionCall
from meltline.grammar.tokens import unreadable
from meltline.ports import ReadColumn

_TRUTHS = {"true": True, "t": True, "false": False, "f": False}
_ELEMENT = re.compile(r'\s*(?:"([^"\\]*)"|([^",{}\s][^",{}]*?))\s*(,|$)')
_WALL_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?")
_SHORT_OFFSET = re.compile(r"(:\d\d(?:\.\d+)?)([+-]\d\d)$")


class Type(Enum):
    """Type of a parameter; the value is its description in errors."""

    TEXT = "a text"
    INTERVAL = "an interval such as '7 days'"
    BOOLEAN = "TRUE or FALSE"
    INSTANT = "a time such as '2026-01-05' or '2026-01-05 06:00:00+00:00'"
    TEXTS = "an array of texts such as ARRAY['a', 'b'] or '{a,b}'"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function.

    Attributes:
        default: Value if it is left out, or NULL.
        choices: The only valid values; empty for any.
    """

    name: str
    type: Type = Type.TEXT
    default: Any = None
    is_required: bool = False
    choices: tuple[str, ...] = ()


def required(name: str, type: Type = Type.TEXT) -> Parameter:
    """Declares a required parameter."""
    return Parameter(name, type, is_required=True)


@dataclass(frozen=True)
class Signature:
    """Parameters and result columns of a LakeTS function.

    Attributes:
        name: Without the schema.
        parameters: In their order.
        columns: Result columns; one with the function's name for a single value.
        is_rows: Whether the result is rows instead of one value.
        older: The parameters of an older LakeTS version; empty if they are the same.
    """

    name: str
    parameters: tuple[Parameter, ...]
    columns: tuple[ReadColumn, ...]
    is_rows: bool = False
    older: tuple[Parameter, ...] = ()


Handler = Callable[[Session, Mapping[str, Any]], FunctionAnswer]
"""Implementation of a function, with values by parameter."""


@dataclass(frozen=True)
class Function:
    """A supported function."""

    signature: Signature
    run: Handler


def of_value(name: str, type: str, *parameters: Parameter) -> Signature:
    """Declares a function of one value; `void` is a string, which Postgres shows as empty."""
    return Signature(name, parameters, (ReadColumn(name, type),))


def of_rows(name: str, columns: Mapping[str, str], *parameters: Parameter) -> Signature:
    """Declares a function of rows, with the type of each column."""
    named = tuple(ReadColumn(column, type) for column, type in columns.items())
    return Signature(name, parameters, named, is_rows=True)


# --- binding of arguments -------------------------------------------------------------------------


def bound(call: FunctionCall, signature: Signature) -> dict[str, Any]:
    """Binds a call's values to parameters; an argument that is left out, or NULL, has its default.

    Raises:
        SqlUnreadable: An argument is unknown, duplicated, missing, or of another type.
    """
    arguments = arguments_of(call)
    try:
        return _bound(call, arguments, signature.parameters)
    except SqlUnreadable:
        if signature.older:
            try:
                return _bound(call, arguments, signature.older)
            except SqlUnreadable:
                pass  # if neither fits, the error is that of the present one
        raise


def _bound(
    call: FunctionCall, arguments: Sequence[Argument], parameters: Sequence[Parameter]
) -> dict[str, Any]:
    values = {parameter.name: parameter.default for parameter in parameters}
    given: set[str] = set()
    for place, argument in enumerate(arguments):
        parameter = _parameter(call, parameters, place, argument)
        if parameter.name in given:
            expected = f"{parameter.name} once"
            raise unreadable(call.text, argument.start, expected, "a second one")
        given.add(parameter.name)
        if argument.literal is not Literal.NULL:
            values[parameter.name] = _value(call, parameter, argument)
    for parameter in parameters:
        if parameter.is_required and values[parameter.name] is None:
            actual = "NULL" if parameter.name in given else "the end of the arguments"
            raise unreadable(call.text, call.closed, parameter.name, actual)
    return values


def _parameter(
    call: FunctionCall, parameters: Sequence[Parameter], place: int, argument: Argument
) -> Parameter:
    names = [parameter.name for parameter in parameters]
    if argument.name and argument.name not in names:
        expected = f"one of {', '.join(names)}" if names else "no argument"
        raise unreadable(call.text, argument.start, expected, argument.name)
    if not argument.name and place >= len(names):
        expected = f"at most {len(names)} arguments" if names else "no argument"
        raise unreadable(call.text, argument.start, expected, "one more")
    return parameters[names.index(argument.name) if argument.name else place]


_LITERALS: Mapping[Type, tuple[Literal, ...]] = {
    Type.TEXT: (Literal.TEXT,),
    Type.INTERVAL: (Literal.TEXT, Literal.INTERVAL),
    Type.BOOLEAN: (Literal.TEXT, Literal.BOOLEAN),
    Type.INSTANT: (Literal.TEXT, Literal.TIMESTAMP),
    Type.TEXTS: (Literal.TEXT, Literal.ARRAY),
}


def _value(call: FunctionCall, parameter: Parameter, argument: Argument) -> Any:
    type, value = parameter.type, argument.value
    wrong = unreadable(
        call.text,
        argument.start,
        f"for {parameter.name} {' or '.join(parameter.choices) or type.value}",
        f"{argument.literal}: {value}",
    )
    if argument.literal not in _LITERALS[type]:
        raise wrong
    try:
        read = _READERS[type](value)
    except (ValueError, KeyError) as error:
        raise wrong from error
    if parameter.choices and read not in parameter.choices:
        raise wrong
    return read


def _truth(text: str) -> bool:
    return _TRUTHS[text.strip().lower()]


def _instant(text: str) -> datetime:
    """Parses a moment in Postgres' format; without an offset it is in UTC, as chunks are."""
    text = text.strip()
    if _WALL_TIME.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return parse_moment(_SHORT_OFFSET.sub(r"\1\2:00", text))


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Returns the elements of an array, or of a text that Postgres would read as one."""
    if isinstance(value, tuple):
        return value
    text = value.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"{value!r} has no braces")
    inner, at = text[1:-1].strip(), 0
    elements: list[str] = []
    while at < len(inner) or (elements and inner.endswith(",")):
        match = _ELEMENT.match(inner, at)
        if match is None:
            raise ValueError(f"{value!r} is not a list of texts")
        elements.append(match[1] if match[1] is not None else match[2])
        at = match.end()
        if not match[3]:
            break
    return tuple(elements)


_READERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.TEXT: str,
    Type.INTERVAL: str,
    Type.BOOLEAN: _truth,
    Type.INSTANT: _instant,
    Type.TEXTS: _texts,
}
