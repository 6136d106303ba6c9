"""Parser entry point: chooses the statement's parser by its first keywords.

`app/sql` calls `parse`; the other modules each parse a group of statements.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from meltline.grammar import branches, objects
from meltline.grammar.calls import function_call
from meltline.grammar.points import begins_point, begins_tag, point_in_time
from meltline.grammar.references import BEFORE_TABLES, alias_comes, common_tables
from meltline.grammar.statements import Name, Query, ReadView, Statement, TimeClause
from meltline.grammar.tables import create_table
from meltline.grammar.tokens import Cursor, Kind, Token, tokens_of, unreadable

_INFORMATION = "MD_INFORMATION_SCHEMA"
_TIERING = "LAKETS"
# Words that cannot be a table's name: a function call may follow them.
_NO_NAMES = frozenset(
    {
        "ALL",
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "DISTINCT",
        "ELSE",
        "FROM",
        "HAVING",
        "IN",
        "IS",
        "JOIN",
        "LIKE",
        "NOT",
        "ON",
        "OR",
        "SELECT",
        "SET",
        "THEN",
        "USING",
        "VALUES",
        "WHEN",
        "WHERE",
    }
)


def query(text: str, cursor: Cursor) -> Query:
    """Parses any statement for Spark, with its time-travel clauses, views and calls.

    Raises:
        SqlUnreadable: A time-travel clause is invalid, or does not follow a table's name.
    """
    kind = cursor.current.text.upper()
    return Query(text, kind, tuple(_clauses(cursor)), _views(cursor), _calls(cursor))


def information_view(cursor: Cursor) -> ReadView | None:
    """SELECT * FROM MD_INFORMATION_SCHEMA.view; None for any other query."""
    if not (cursor.take("SELECT") and cursor.take_symbol("*") and cursor.take("FROM")):
        return None
    if not (cursor.take(_INFORMATION) and cursor.take_symbol(".") and cursor.current.is_name):
        return None
    view = cursor.next().text.lower()
    while cursor.take_symbol(";"):
        continue
    return ReadView(view) if cursor.is_at_end else None


def _clauses(cursor: Cursor) -> Iterator[TimeClause]:
    common = common_tables(cursor.tokens)
    at = 1
    while at < len(cursor.tokens) - 1:
        position = Cursor(cursor.text, cursor.tokens, at)
        clause = _clause(position, at) if begins_point(position) or begins_tag(position) else None
        if clause is None:
            at += 1
            continue
        if len(clause.table) == 1 and clause.table[0].upper() in common:
            expected = "a table: a WITH query has no past"
            raise unreadable(cursor.text, clause.name_start, expected, clause.table[0])
        yield clause
        at = position.at


def _clause(cursor: Cursor, at: int) -> TimeClause | None:
    """Parses the clause that begins here; None if it is a function call.

    Raises:
        SqlUnreadable: It does not follow a table's name directly.
    """
    tokens, last = cursor.tokens, cursor.tokens[at - 1]
    if not last.is_name or last.is_word(*_NO_NAMES):
        if last.is_symbol(")") or last.is_word("AS"):
            cursor.fail("a table's name before the clause")
        return None
    first = _first_part(tokens, at - 1)
    before = tokens[first - 1] if first else None
    if before is None or not (before.is_word(*BEFORE_TABLES) or before.is_symbol(",")):
        cursor.fail("the clause right after a table's name, and an alias after it")
    name: Name = tuple(token.text for token in tokens[first:at:2])
    start = cursor.current.start
    point = point_in_time(cursor)
    return TimeClause(
        table=name,
        point=point,
        name_start=tokens[first].start,
        name_end=last.end,
        clause_start=start,
        end=cursor.tokens[cursor.at - 1].end,
        needs_alias=not alias_comes(cursor.current),
    )


def _first_part(tokens: Sequence[Token], last: int) -> int:
    """Index of the first part of a dotted name, given that of its last part."""
    while last >= 2 and tokens[last - 1].is_symbol(".") and tokens[last - 2].is_name:
        last -= 2
    return last


def _views(cursor: Cursor) -> tuple[str, ...]:
    tokens = cursor.tokens
    names = [
        tokens[at + 2].text.lower()
        for at in _named_in(tokens, _INFORMATION)
        if at and (tokens[at - 1].is_word(*BEFORE_TABLES) or tokens[at - 1].is_symbol(","))
    ]
    return tuple(dict.fromkeys(names))


def _calls(cursor: Cursor) -> tuple[str, ...]:
    tokens = cursor.tokens
    names = [
        tokens[at + 2].text.lower()
        for at in _named_in(tokens, _TIERING)
        if tokens[at + 3 : at + 4] and tokens[at + 3].is_symbol("(")
    ]
    return tuple(dict.fromkeys(names))


def _named_in(tokens: Sequence[Token], space: str) -> Iterator[int]:
    """Yields the indexes of `space.name`."""
    for at, token in enumerate(tokens[:-2]):
        if token.is_word(space) and tokens[at + 1].is_symbol(".") and tokens[at + 2].is_name:
            yield at


_OURS: Mapping[str, Callable[[Cursor], Statement | None]] = {
    "UNDROP": objects.undrop,
    "DROP": objects.drop,
    "SHOW": objects.show,
    "ALTER": objects.alter,
    "TAG": objects.tag,
    "UPDATE": objects.update,
    "CREATE": objects.create,
    "COMMIT": branches.commit,
    "RESYNC": branches.resync,
    "ROLLBACK": branches.rollback,
    "DIFF": branches.diff,
    "VACUUM": objects.vacuum,
}


def parse(text: str) -> Statement:
    """Parses one statement.

    Returns:
        The statement; a `Query` for everything that is Spark's.

    Raises:
        SqlUnreadable: It is a statement of Meltline's and invalid; names the position and the
            expected text.
    """
    tokens = tokens_of(text)
    cursor = Cursor(text, tokens)
    if cursor.current.kind is Kind.END:
        cursor.fail("a statement")
    first = cursor.current.text.upper() if cursor.current.kind is Kind.WORD else ""
    if first in _OURS:
        statement = _OURS[first](cursor)
        if statement is not None:
            cursor.expect_end()
            return statement
    if first == "CREATE" and (created := create_table(text, Cursor(text, tokens))):
        return created
    if call := function_call(Cursor(text, tokens)):
        return call
    if view := information_view(Cursor(text, tokens)):
        return view
    return query(text, Cursor(text, tokens))
