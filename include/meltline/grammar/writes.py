"""Finds the tables that a statement writes to, and the conditions on the rows it changes.

The guard of late data uses it, with `bounds` for the conditions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meltline.grammar.statements import Name
from meltline.grammar.tables import Edit
from meltline.grammar.tokens import Cursor, Kind, Token, tokens_of

BEGINNINGS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "WITH", "FROM"})
"""First keywords of statements that may write rows."""
_NO_ALIAS = ("SET", "WHERE", "USING")
Tokens = Sequence[Token]


@dataclass(frozen=True)
class Write:
    """A table that a statement writes to.

    Attributes:
        verb: INSERT, UPDATE, DELETE, MERGE or TRUNCATE.
        target: The table's name as written; empty if Spark computes it.
        start: Offset of the name's begin in the statement; `end` is the offset after it.
        alias: Optional qualifier of its columns, if the statement has one.
        conditions: Rows that meet any of them are changed or deleted; an empty one is every row.
    """

    verb: str
    target: Name
    start: int
    end: int
    alias: str = ""
    conditions: tuple[Tokens, ...] = ()

    def on(self, name: str) -> Edit:
        """Builds the edit that replaces the table's name; columns keep their qualifier."""
        needs_alias = self.verb in ("UPDATE", "DELETE", "MERGE") and not self.alias
        quoted = self.target[-1].replace("`", "``") if self.target else ""
        return self.start, self.end, f"{name} AS `{quoted}`" if needs_alias else name


def writes_of(text: str) -> tuple[Write, ...]:
    """Returns the tables that a statement writes rows to: several for FROM … INSERT … INSERT."""
    tokens = tokens_of(text)
    found = []
    for at, token in _top(tokens):
        cursor = Cursor(text, tokens, at)
        if token.is_word("INSERT") and (insert := _insert(cursor)):
            found.append(insert)
        elif not found and token.is_word("UPDATE", "DELETE", "MERGE", "TRUNCATE"):
            write = _change(cursor)
            return (write,) if write else ()
    return tuple(found)


def _insert(cursor: Cursor) -> Write | None:
    cursor.next()
    if not (cursor.take("INTO") or cursor.take("OVERWRITE")):
        return None
    cursor.take("TABLE")
    if cursor.comes("DIRECTORY") or cursor.comes("LOCAL"):
        return None
    write = _named(cursor, "INSERT")
    following = cursor.tokens[cursor.at :]
    replaces = any(
        token.is_word("REPLACE") and following[at + 1].is_word("WHERE", "USING", "ON")
        for at, token in _top(following)
    )
    if not replaces:
        return write
    return Write("INSERT", write.target, write.start, write.end, conditions=((),))


def _change(cursor: Cursor) -> Write | None:
    verb = cursor.next().text.upper()
    if verb == "MERGE":
        cursor.take("WITH", "SCHEMA", "EVOLUTION")
    word = {"DELETE": "FROM", "MERGE": "INTO", "TRUNCATE": "TABLE"}.get(verb)
    if word and not cursor.take(word):
        return None
    if not cursor.current.is_name:
        return None
    write = _named(cursor, verb)
    is_said = cursor.take("AS")
    alias = ""
    if (
        verb != "TRUNCATE"
        and cursor.current.is_name
        and (is_said or not cursor.current.is_word(*_NO_ALIAS))
    ):
        alias = cursor.next().text
    rest = cursor.tokens[cursor.at :]
    conditions = _of_merge(rest) if verb == "MERGE" else (_after(rest, "WHERE"),)
    return Write(verb, write.target, write.start, write.end, alias, conditions)


def _named(cursor: Cursor, verb: str) -> Write:
    first = cursor.current
    if first.is_word("IDENTIFIER") and cursor.ahead(1).is_symbol("("):
        return Write(verb, (), first.start, first.end)
    name = cursor.name("a table's name")
    return Write(verb, name, first.start, cursor.tokens[cursor.at - 1].end)


def _of_merge(tokens: Tokens) -> tuple[Tokens, ...]:
    """Conditions of each way a row of the target may change: ON, and NOT MATCHED BY SOURCE."""
    clauses = [at for at, token in _top(tokens) if token.is_word("WHEN")]
    on = _after(tokens[: clauses[0]] if clauses else tokens, "ON")
    conditions: list[Tokens] = []
    for start, end in zip(clauses, [*clauses[1:], len(tokens)], strict=True):
        clause = tokens[start:end]
        if clause[1].is_word("MATCHED"):
            conditions.append(on)
        elif [t.text.upper() for t in clause[1:5]] == ["NOT", "MATCHED", "BY", "SOURCE"]:
            then = next((at for at, t in _top(clause) if t.is_word("THEN")), len(clause))
            conditions.append(clause[6:then] if clause[5].is_word("AND") else ())
    return tuple(conditions)


def _after(tokens: Tokens, word: str) -> Tokens:
    for at, token in _top(tokens):
        if token.is_word(word):
            return [t for t in tokens[at + 1 :] if t.kind is not Kind.END and not t.is_symbol(";")]
    return ()


def _top(tokens: Tokens) -> Iterator[tuple[int, Token]]:
    """Yields the tokens outside parentheses, with their indexes."""
    depth = 0
    for at, token in enumerate(tokens):
        depth -= token.is_symbol(")")
        if depth == 0 and not token.is_symbol(")"):
            yield at, token
        depth += token.is_symbol("(")
