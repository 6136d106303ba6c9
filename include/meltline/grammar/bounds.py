"""Bounds that a condition sets on a column, as far as its top-level conjuncts state them.

The guard of late data uses it to find the chunks that a statement may write.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from meltline.grammar.tokens import Kind, Token

Tokens = Sequence[Token]
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "==": "=", "<=>": "="}
_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "DATE")
_NO_CONJUNCTS = ("OR", "CASE", "XOR")


@dataclass(frozen=True)
class LiteralKind:
    """A constant: a text or a number, and the type that precedes it."""

    text: str
    type: str = ""
    is_number: bool = False


@dataclass(frozen=True)
class Bound:
    """The bound of one conjunct: a list of values, or a range.

    Attributes:
        values: The column has one of the values; None for a range.
        low: The column is not below this; `high`, not above it; None if not stated.
        is_open: Whether `high` itself is excluded.
    """

    values: tuple[LiteralKind, ...] | None = None
    low: LiteralKind | None = None
    high: LiteralKind | None = None
    is_open: bool = False


def bounds_of(tokens: Tokens, column: str, qualifiers: Collection[str]) -> list[Bound]:
    """Returns the bounds that a condition's top-level conjuncts set on a column.

    Args:
        tokens: The condition.
        column: The column's name.
        qualifiers: Dotted names that may precede it, in lower case.
    """
    inner = _unwrapped(tokens)
    if any(token.is_word(*_NO_CONJUNCTS) or token.is_symbol("||") for token in _top(inner)):
        return []
    parts = _conjuncts(inner)
    if len(parts) > 1:
        return [bound for part in parts for bound in bounds_of(part, column, qualifiers)]
    bound = _Reader(inner, column.lower(), qualifiers).bound()
    return [bound] if bound else []


def _top(tokens: Tokens) -> list[Token]:
    found, depth = [], 0
    for token in tokens:
        depth -= token.is_symbol(")")
        if depth == 0:
            found.append(token)
        depth += token.is_symbol("(")
    return found


def _unwrapped(tokens: Tokens) -> Tokens:
    while len(tokens) > 1 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        if len(_top(tokens)) != 2:  # `(a) AND (b)`
            break
        tokens = tokens[1:-1]
    return tokens


def _conjuncts(tokens: Tokens) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth, between = 0, 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        between += depth == 0 and token.is_word("BETWEEN")
        if depth == 0 and token.is_word("AND"):
            if not between:
                parts.append([])
                continue
            between -= 1
        parts[-1].append(token)
    return parts


class _Reader:
    """Reads one conjunct from left to right."""

    def __init__(self, tokens: Tokens, column: str, qualifiers: Collection[str]) -> None:
        self._tokens = tokens
        self._column = column
        self._qualifiers = qualifiers
        self._at = 0

    def bound(self) -> Bound | None:
        """Returns the bound; None unless it is a comparison with constants."""
        found = self._compared() if self._is_column() else self._turned()
        return found if self._at == len(self._tokens) else None

    def _compared(self) -> Bound | None:
        word = self._next()
        if word is None:
            return None
        if word.is_word("BETWEEN"):
            low, joint, high = self._literal(), self._next(), self._literal()
            is_right = low and high and joint and joint.is_word("AND")
            return Bound(low=low, high=high) if is_right else None
        if word.is_word("IN"):
            values = self._list()
            return Bound(values) if values else None
        sign = word.text if word.kind is Kind.SYMBOL else ""
        return _bound(sign, self._literal())

    def _turned(self) -> Bound | None:
        literal, sign = self._literal(), self._next()
        if literal is None or sign is None or sign.kind is not Kind.SYMBOL:
            return None
        return _bound(_TURNED.get(sign.text, ""), literal) if self._is_column() else None

    def _list(self) -> tuple[LiteralKind, ...]:
        opening = self._next()
        values: list[LiteralKind] = []
        while opening is not None and not opening.is_symbol(")"):
            if not (opening.is_symbol("(") or opening.is_symbol(",")):
                return ()
            value = self._literal()
            if value is None:
                return ()
            values.append(value)
            opening = self._next()
        return tuple(values)

    def _is_column(self) -> bool:
        """Takes the column's name, if it comes next."""
        parts, at = [], self._at
        while at < len(self._tokens) and self._tokens[at].is_name:
            parts.append(self._tokens[at].text.lower())
            at += 1
            if not (at < len(self._tokens) and self._tokens[at].is_symbol(".")):
                break
            at += 1
        if not parts or parts[-1] != self._column:
            return False
        if len(parts) > 1 and ".".join(parts[:-1]) not in self._qualifiers:
            return False
        self._at = at
        return True

    def _literal(self) -> LiteralKind | None:
        token = self._next()
        if token is None:
            return None
        if token.kind is Kind.STRING:
            return LiteralKind(token.text)
        if token.kind is Kind.NUMBER:
            return LiteralKind(token.text, is_number=True)
        after = self._next()
        if after is None:
            return None
        if token.is_symbol("-") and after.kind is Kind.NUMBER:
            return LiteralKind(f"-{after.text}", is_number=True)
        if token.is_word(*_TYPES) and after.kind is Kind.STRING:
            return LiteralKind(after.text, token.text.upper())
        return None

    def _next(self) -> Token | None:
        if self._at >= len(self._tokens):
            return None
        self._at += 1
        return self._tokens[self._at - 1]


def _bound(sign: str, literal: LiteralKind | None) -> Bound | None:
    if literal is None:
        return None
    if sign in ("=", "==", "<=>"):
        return Bound((literal,))
    if sign in (">", ">="):
        return Bound(low=literal)
    return Bound(high=literal, is_open=sign == "<") if sign in ("<", "<=") else None
