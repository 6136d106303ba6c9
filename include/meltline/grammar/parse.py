"""Which statement it is, by its first words."""

from collections.abc import Callable, Mapping

from meltline.grammar import branches, objects
from meltline.grammar.calls import function_call
from meltline.grammar.queries import information_view, query
from meltline.grammar.statements import Statement
from meltline.grammar.tables import create_table
from meltline.grammar.tokens import Cursor, Kind, tokens_of

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
    """Reads one statement.

    Returns:
        What it says; a `Query` of everything that is for Spark.

    Raises:
        SqlUnreadable: It is one of ours and not right; says where, and what was expected.
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
