"""Finds the tables that a statement reads, and where it names them.

`app/sql` rewrites these names. It scans tokens instead of a full parse, so that every statement of
Spark is supported.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from meltline.grammar.statements import Name
from meltline.grammar.tokens import Kind, Token, tokens_of

BEFORE_TABLES = ("FROM", "JOIN", "USING", "TABLE")
# Words that may follow a table instead of its alias, in Spark's grammar.
_AFTER_TABLES = frozenset(
    {
        "ANTI",
        "CLUSTER",
        "CROSS",
        "DISTRIBUTE",
        "EXCEPT",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INSERT",
        "INTERSECT",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIMIT",
        "MAP",
        "MINUS",
        "NATURAL",
        "OFFSET",
        "ON",
        "ORDER",
        "PIVOT",
        "QUALIFY",
        "REDUCE",
        "RIGHT",
        "SELECT",
        "SEMI",
        "SETMINUS",
        "SORT",
        "UNION",
        "UNPIVOT",
        "USING",
        "WHEN",
        "WHERE",
        "WINDOW",
    }
)
# Words that may begin a query in parentheses.
_QUERIES = ("SELECT", "FROM", "WITH", "TABLE", "VALUES")
# Words that end a list of tables, or begin a new one.
_ENDS = frozenset(
    {
        "CLUSTER",
        "DISTRIBUTE",
        "EXCEPT",
        "GROUP",
        "HAVING",
        "INTERSECT",
        "LIMIT",
        "MINUS",
        "OFFSET",
        "ORDER",
        "QUALIFY",
        "SELECT",
        "SET",
        "SORT",
        "UNION",
        "WHEN",
        "WHERE",
        "WINDOW",
    }
)


@dataclass(frozen=True)
class TableReference:
    """A table that is read, by the name that the statement gives it.

    Attributes:
        table: The name.
        start: Offset of its begin in the statement; `end` is the offset after it.
        needs_alias: Whether nothing else names the table in the rest of the statement.
    """

    table: Name
    start: int
    end: int
    needs_alias: bool


def tables_read(text: str) -> Iterator[TableReference]:
    """Yields the tables of FROM, JOIN, USING and TABLE, without the names of WITH queries.

    For a statement that writes, the target of DELETE FROM is included.
    """
    tokens = tokens_of(text)
    common = common_tables(tokens)
    groups = [_Group(is_query=True)]
    for at, token in enumerate(tokens[:-1]):
        group = groups[-1]
        if token.is_symbol("("):
            opened = tokens[at + 1]
            is_query = opened.is_word(*_QUERIES)
            is_join = group.expects and not is_query and not tokens[at - 1].is_word("USING")
            is_nested = group.is_query and opened.is_symbol("(")
            groups.append(_Group(is_query or is_nested or is_join, is_join))
        elif token.is_symbol(")") and len(groups) > 1:
            groups.pop()
        elif group.expects and token.is_name and not tokens[at - 1].is_symbol("."):
            reference = _reference(tokens, at)
            if reference and (reference.table[1:] or reference.table[0].upper() not in common):
                yield reference
        groups[-1].pass_over(tokens, at)


class _Group:
    """State of one parenthesis level during the scan."""

    def __init__(self, is_query: bool, expects: bool = False) -> None:
        """Takes whether it is a query, and whether a table may come first, as in joins."""
        self.is_query = is_query
        self.expects = expects
        self._in_list = expects

    def pass_over(self, tokens: Sequence[Token], at: int) -> None:
        """Advances by one token and decides whether a table's name may come next."""
        token = tokens[at]
        if token.is_symbol("("):
            return
        begins = token.is_word(*BEFORE_TABLES) and self.is_query and not _compares(tokens, at)
        if begins:
            self._in_list = True
        elif token.is_word(*_ENDS) or (token.is_word("LATERAL") and tokens[at + 1].is_word("VIEW")):
            self._in_list = False
        self.expects = begins or (token.is_symbol(",") and self._in_list)


def _compares(tokens: Sequence[Token], at: int) -> bool:
    """Whether it is the FROM of IS DISTINCT FROM, or the TABLE of another statement."""
    token = tokens[at]
    if token.is_word("TABLE"):
        return at > 0 and not (tokens[at - 1].is_symbol("(") or tokens[at - 1].is_word("ALL"))
    return at > 1 and tokens[at - 1].is_word("DISTINCT") and not tokens[at - 2].is_word("SELECT")


def _reference(tokens: Sequence[Token], first: int) -> TableReference | None:
    """Parses the name that begins there; None if it is a function's."""
    last = first
    while tokens[last + 1].is_symbol(".") and tokens[last + 2].is_name:
        last += 2
    if tokens[last + 1].is_symbol("("):
        return None
    return TableReference(
        table=tuple(token.text for token in tokens[first : last + 1 : 2]),
        start=tokens[first].start,
        end=tokens[last].end,
        needs_alias=not alias_comes(tokens[last + 1]),
    )


def alias_comes(token: Token) -> bool:
    """Whether the token after a table is its alias; after TABLESAMPLE none can be inserted."""
    if token.is_word("AS", "TABLESAMPLE"):
        return True
    return token.is_name and not (token.kind is Kind.WORD and token.text.upper() in _AFTER_TABLES)


def common_tables(tokens: Sequence[Token]) -> set[str]:
    """Names of WITH queries: `name AS (`, or `name (columns) AS (`."""
    if not any(token.is_word("WITH") for token in tokens):
        return set()
    names = [
        _before_columns(tokens[:at])
        for at, token in enumerate(tokens[:-2])
        if token.is_word("AS") and tokens[at + 1].is_symbol("(")
    ]
    return {name.text.upper() for name in names if name is not None and name.is_name}


def _before_columns(tokens: Sequence[Token]) -> Token | None:
    """Returns the last token, or the one before a closing list of columns."""
    if not (tokens and tokens[-1].is_symbol(")")):
        return tokens[-1] if tokens else None
    opening = [at for at, token in enumerate(tokens) if token.is_symbol("(")]
    return tokens[opening[-1] - 1] if opening and opening[-1] > 0 else None


def names_in(text: str) -> Iterator[tuple[int, Name]]:
    """Yields dotted names of tables, columns and functions in a statement, with their offsets."""
    tokens, at = tokens_of(text), 0
    while at < len(tokens) - 1:
        first = at
        while tokens[at].is_name and tokens[at + 1].is_symbol(".") and tokens[at + 2].is_name:
            at += 2
        if at > first:
            parts = tokens[first : at + 1 : 2]
            yield tokens[first].start, tuple(token.text for token in parts)
        at += 1


def texts_in(text: str) -> Iterator[str]:
    """Yields the quoted texts in a statement."""
    return (token.text for token in tokens_of(text) if token.kind is Kind.STRING)


def is_worked_out(text: str) -> bool:
    """Whether Spark computes a name or a statement from more than one plain quoted text."""
    tokens = tokens_of(text)
    return any(
        not _is_plain(text, tokens, at + 1 if token.is_word("IMMEDIATE") else at + 2)
        for at, token in enumerate(tokens[:-1])
        if (token.is_word("IDENTIFIER") and tokens[at + 1].is_symbol("("))
        or (token.is_word("IMMEDIATE") and tokens[at - 1].is_word("EXECUTE"))
    )


def executed_in(text: str) -> Iterator[str]:
    """Yields the quoted statements of EXECUTE IMMEDIATE."""
    tokens = tokens_of(text)
    for before, said in pairwise(tokens):
        if before.is_word("IMMEDIATE") and said.kind is Kind.STRING:
            yield said.text


def _is_plain(text: str, tokens: Sequence[Token], at: int) -> bool:
    """Whether a quoted text is complete, without escapes that Spark may interpret differently."""
    if tokens[at].kind is not Kind.STRING or "\\" in text[tokens[at].start : tokens[at].end]:
        return False
    after = tokens[at + 1]
    is_whole = after.kind is Kind.END or after.is_symbol(")") or after.is_symbol(";")
    return is_whole or after.is_word("INTO", "USING")
