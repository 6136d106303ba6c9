"""TABLE_all in statements: all rows of a table that is cut into chunks, of hot and of cold."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex

from meltline.app.chunks.reading.complete_rows import CompleteRows, complete_rows
from meltline.app.services import ReadContext
from meltline.app.sql.naming import full_table_name
from meltline.domain.errors import StatementUnsupported, TableNotFound, UsageInvalid
from meltline.domain.iceberg.names import TableName, quoted
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar.references import TableReference, tables_read
from meltline.grammar.statements import Name
from meltline.grammar.tables import Edit
from meltline.grammar.writes import BEGINNINGS, writes_of

_READING = BEGINNINGS | {"SELECT", "TABLE", "CREATE", "EXPLAIN", "("}


@dataclass(frozen=True)
class CompleteTable:
    """A table of which a statement reads all rows.

    Attributes:
        references: Where the statement names it.
        rows: What that stands for; every mention of a table stands for the same rows.
        view: What it is called instead; nobody else's name.
    """

    references: Sequence[TableReference]
    rows: CompleteRows
    view: str

    @property
    def edits(self) -> Iterator[Edit]:
        """What stands in the statement instead."""
        for reference in self.references:
            alias = f" AS {quoted(reference.table[-1])}" if reference.needs_alias else ""
            yield reference.start, reference.end, f"{self.view}{alias}"


def complete_tables(
    context: ReadContext,
    standing: ObjectName,
    text: str,
    kind: str,
    is_there: Callable[[Name], bool],
) -> list[CompleteTable]:
    """The tables of which a statement reads all rows; a table or view of that name goes first.

    Args:
        context: Where the tables are.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.
        is_there: Whether the session itself knows a table or view of a name; asked only where a
            table without the suffix is there.

    Raises:
        StatementUnsupported: It writes to such a name.
        MeltlineError: Whatever `complete_rows` raises, NotChunked of a table that has no chunks.
    """
    suffix = context.config.chunks.all_suffix
    if not suffix or kind not in _READING or suffix not in text:
        return []
    named = _Names(context, standing, suffix, is_there)
    for write in writes_of(text) if kind in BEGINNINGS else ():
        if named.table(write.target) is not None:
            raise _read_only(write.target)
    references: dict[TableName, list[TableReference]] = {}
    for reference in tables_read(text):
        if (table := named.table(reference.table)) is not None:
            references.setdefault(table, []).append(reference)
    unique = token_hex(4)
    return [
        CompleteTable(of_table, complete_rows(context, table), f"meltline_all_{unique}_{number}")
        for number, (table, of_table) in enumerate(references.items())
    ]


@dataclass(frozen=True)
class _Names:
    """What names with the suffix stand for."""

    context: ReadContext
    standing: ObjectName
    suffix: str
    is_there: Callable[[Name], bool]

    def table(self, name: Name) -> TableName | None:
        """The table of which a name means all rows; None where it means something else."""
        plain = name[-1].removesuffix(self.suffix) if name else ""
        if not plain or plain == name[-1]:
            return None
        table = self._standing_table((*name[:-1], plain))
        return None if table is None or self.is_there(name) else table

    def _standing_table(self, name: Name) -> TableName | None:
        try:
            table = full_table_name(self.context, self.standing, name)
            self.context.catalogs[table.catalog].location(table)
        except (KeyError, TableNotFound, UsageInvalid):
            return None  # Spark says what it makes of the name
        return table


def notices(tables: Collection[CompleteTable]) -> tuple[str, ...]:
    """What readers of these might miss."""
    return tuple(table.rows.notice for table in tables if table.rows.notice)


def _read_only(name: Name) -> StatementUnsupported:
    written = ".".join(name)
    return StatementUnsupported(
        f"{written} is what hot and cold have together, and is only read",
        object=written,
        expected="the table itself",
        found="its name for all rows",
        next="write to the table; docs/chunks.md says what late rows can do",
    )
