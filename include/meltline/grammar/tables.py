"""Translates CREATE TABLE from the dialects of Snowflake and MotherDuck to Spark's.

`parse` calls it; a CREATE TABLE in Spark's own dialect is left alone.
"""

from meltline.domain.retention.policy import RETENTION, TRANSIENT
from meltline.grammar.objects import PARAMETERS, days
from meltline.grammar.statements import CreateTable
from meltline.grammar.tokens import Cursor, Kind, unreadable

Edit = tuple[int, int, str]
"""Start, end and replacement of a part of a text."""

# Spark has no NUMBER, and its VARCHAR needs a length.
_TYPES = {"NUMBER": "DECIMAL(38, 0)", "VARCHAR": "STRING"}
_TYPES_WITH_LENGTH = {"NUMBER": "DECIMAL"}


def replaced(text: str, edits: list[Edit]) -> str:
    """Applies edits to a text; every other character stays as it is."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def create_table(text: str, cursor: Cursor) -> CreateTable | None:
    """Parses CREATE TABLE with policies or foreign types; None if it is Spark's own.

    Raises:
        SqlUnreadable: The retention is not a number, is given twice, or accompanies TBLPROPERTIES.
    """
    cursor.expect("CREATE")
    cursor.take("OR", "REPLACE")
    edits: list[Edit] = []
    policies: dict[str, str] = {}
    first = cursor.current.start
    if cursor.take("TRANSIENT"):
        edits.append((first, cursor.current.start, ""))
        policies[TRANSIENT] = "true"
    if not cursor.take("TABLE"):
        return None
    cursor.take("IF", "NOT", "EXISTS")
    if not cursor.current.is_name:
        return None
    name = cursor.name()
    edits += _types(cursor) if cursor.current.is_symbol("(") else []
    edits += _properties(cursor, policies)
    if not edits:
        return None
    return CreateTable(replaced(text, edits), name, policies)


def _types(cursor: Cursor) -> list[Edit]:
    """Translates column types that Spark names differently; reads past the list."""
    edits: list[Edit] = []
    depth = 0
    while cursor.current.kind is not Kind.END:
        token = cursor.next()
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            break
        begins = depth == 1 and (token.is_symbol("(") or token.is_symbol(","))
        type = cursor.ahead(1)
        words = _TYPES_WITH_LENGTH if cursor.ahead(2).is_symbol("(") else _TYPES
        if begins and cursor.current.is_name and type.is_word(*words):
            edits.append((type.start, type.end, words[type.text.upper()]))
    return edits


def _properties(cursor: Cursor, policies: dict[str, str]) -> list[Edit]:
    """Writes the policies as table properties; a retention clause becomes one."""
    if cursor.take("USING"):
        cursor.name("a format")
    place = cursor.tokens[cursor.at - 1].end
    start, end, listed = place, place, None
    depth = 0
    while cursor.current.kind is not Kind.END:
        token = cursor.current
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth or not token.is_word("DATA_RETENTION_TIME_IN_DAYS", "TBLPROPERTIES"):
            cursor.next()
            continue
        if RETENTION in policies or (token.is_word("TBLPROPERTIES") and _says_retention(cursor)):
            expected = f"either {token.text.upper()} or '{RETENTION}' in TBLPROPERTIES, once"
            raise unreadable(cursor.text, token.start, expected, "both")
        cursor.next()
        if PARAMETERS.get(token.text.upper()) == RETENTION:
            policies[RETENTION] = days(cursor)
            start, end = token.start, cursor.tokens[cursor.at - 1].end
        else:
            listed = cursor.current.end  # after the parenthesis
    words = ", ".join(f"'{key}' = '{setting}'" for key, setting in policies.items())
    if not words:
        return []
    if listed is not None:
        return [(listed, listed, f"{words}, ")]
    return [(start, end, f"{' ' if start == end else ''}TBLPROPERTIES ({words})")]


def _says_retention(cursor: Cursor) -> bool:
    following = cursor.tokens[cursor.at :]
    return any(token.is_word("DATA_RETENTION_TIME_IN_DAYS") for token in following)
