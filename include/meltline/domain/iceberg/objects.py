"""Names of objects with policies, holds and drops: table, schema, database, account.

The database is the first level of a namespace, the schema the levels below it, the account the hot
catalog.
"""

from dataclasses import dataclass
from enum import StrEnum

from meltline.domain.iceberg.names import TableName, quote_part

DROPPED_NAMESPACE = "meltline_dropped"

ACCOUNT = "account"
"""The name of the account, above all catalogs."""


class ObjectKind(StrEnum):
    """The kind of object that a name refers to."""

    TABLE = "table"
    SCHEMA = "schema"
    DATABASE = "database"
    ACCOUNT = "account"


@dataclass(frozen=True)
class ObjectName:
    """A table, a namespace or the account, by name.

    Attributes:
        catalog: The catalog's name.
        namespace: The levels of the namespace that it is or is in; none for the account.
        table: The table's own name; empty for all others.
    """

    catalog: str
    namespace: tuple[str, ...] = ()
    table: str = ""

    @property
    def kind(self) -> ObjectKind:
        """Its kind."""
        if self.table:
            return ObjectKind.TABLE
        if not self.namespace:
            return ObjectKind.ACCOUNT
        return ObjectKind.DATABASE if len(self.namespace) == 1 else ObjectKind.SCHEMA

    @property
    def table_name(self) -> TableName:
        """The table's name; only valid for a table."""
        return TableName(self.catalog, self.namespace, self.table)

    @classmethod
    def readings(cls, parts: tuple[str, ...]) -> list["ObjectName"]:
        """Returns the possible meanings: a table, if the name has three parts, or a namespace."""
        table = [cls(parts[0], parts[1:-1], parts[-1])] if len(parts) > 2 else []
        return [*table, cls(parts[0], parts[1:])]

    def covers(self, name: TableName) -> bool:
        """Whether a table is it, or is in it."""
        if self.table:
            return name == self.table_name
        within = name.namespace[: len(self.namespace)] == self.namespace
        return name.catalog == self.catalog and within

    def __str__(self) -> str:
        if self.kind is ObjectKind.ACCOUNT:
            return ACCOUNT
        parts = (self.catalog, *self.namespace, *([self.table] if self.table else []))
        return ".".join(map(quote_part, parts))
