"""A metastore's row, which points at a table's metadata file, and the protocols to change it.

Glue and Hive implement the protocols; `tables` and `moves` work on them alone.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
SPARK_PATH = "path"
"""Serde parameter with the folder of Spark's own tables, whose location may be a placeholder."""
_COMMENT, _TRINO_MATERIALIZED = "comment", "Presto Materialized View"
_VIEW, _MATERIALIZED = "VIRTUAL_VIEW", "MATERIALIZED_VIEW"
_FORMATS = (TABLE_TYPE, "spark.sql.sources.provider", "classification")
_MOVING = "MELTLINE-MOVING"
_MOVING_TO = "meltline.moving-to"
_MOVING_FROM = "meltline.moving-from"
_FENCE = re.compile("^meltline-moving:[0-9a-f]*:")
MOVE = "meltline.move"

Document = Mapping[str, Any]
"""Content of a metadata file."""

Edit = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Maps a database's current properties to new ones, or raises if they forbid the change."""


@dataclass(frozen=True)
class Row:
    """One table or view of a metastore.

    Attributes:
        entity: The client's own object, with every field that Meltline does not know.
        kind: The metastore's type of it: `VIRTUAL_VIEW`, `EXTERNAL_TABLE` and others.
        folder: The folder of its files by its storage descriptor; empty for most views.
    """

    database: str
    table: str
    parameters: Mapping[str, str]
    entity: Any
    kind: str = ""
    folder: str = ""

    @property
    def is_table(self) -> bool:
        """Returns whether it is an Iceberg table, or one that is being renamed."""
        return self.parameters.get(TABLE_TYPE, "").upper() in {ICEBERG, _MOVING}

    @property
    def is_view(self) -> bool:
        """Returns whether it is an Iceberg view."""
        return self.parameters.get(TABLE_TYPE, "").upper() == "ICEBERG-VIEW"

    @property
    def other_kind(self) -> str:
        """Returns the kind of a row that is no Iceberg table: a view, or the table's format."""
        if self._is_materialized or self.kind.upper() == _MATERIALIZED:
            return "materialized view"
        if self.is_view or self.kind.upper() == _VIEW:
            return "view"
        named = (self.parameters.get(key, "") for key in _FORMATS)
        return next(filter(None, named), "table").lower()

    @property
    def _is_materialized(self) -> bool:
        """Returns whether it is a materialized view of Trino."""
        is_trino = self.parameters.get(_COMMENT) == _TRINO_MATERIALIZED
        return is_trino and self.kind.upper() == _VIEW

    @property
    def is_storage(self) -> bool:
        """Returns whether it points at a materialized view's hidden table, which has no other row.

        Older releases of Trino gave that table a row and a name: it is listed like any other table.
        """
        return self._is_materialized and bool(self.location)

    @property
    def is_moving(self) -> bool:
        """Returns whether it is fenced: engines find no table in it, and none can commit to it."""
        return self.parameters.get(TABLE_TYPE) == _MOVING

    @property
    def location(self) -> str:
        """Returns the metadata file; for a fenced row the one from before the fence."""
        return _FENCE.sub("", self.parameters.get(LOCATION, ""), count=1)

    @property
    def move(self) -> str:
        """Returns the token of the move that created or fences the row; empty if there was none."""
        return self.parameters.get(MOVE, "")

    @property
    def moving_to(self) -> tuple[str, str] | None:
        """Returns the target database and table of a fenced row; None to remove the row."""
        database, _, table = self.parameters.get(_MOVING_TO, "").partition(".")
        return (database, table) if table else None


class Metastore(Protocol):
    """The tables of one metastore."""

    def rows(self, database: str) -> Iterable[Row]:
        """Returns every row of a database."""
        ...

    def row(self, database: str, table: str) -> Row | None:
        """Returns the row under a name."""
        ...

    def replace(
        self, row: Row, parameters: Mapping[str, str], document: Document | None = None
    ) -> bool:
        """Changes a row if it is unchanged since it was read: the compare-and-swap.

        Args:
            row: The row as it was read.
            parameters: All of its new parameters.
            document: The metadata, if its columns may have changed.

        Returns:
            False when the row has certainly changed, and nothing was done.

        Raises:
            CommitConflict: The outcome is unknown.
        """
        ...

    def insert(
        self, database: str, table: str, parameters: Mapping[str, str], like: "Row | Document"
    ) -> bool:
        """Creates a row like another one or for a table's metadata; False if the name exists."""
        ...

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        """Renames and changes a row in one compare-and-swap, as `replace` does.

        Returns:
            None where the metastore cannot: rows are then moved behind a fence.

        Raises:
            NameConflict: The name is taken; nothing was changed.
        """
        ...

    def delete(self, row: Row) -> None:
        """Deletes a row, and no file. A missing row is no error."""
        ...

    def hindrance(self) -> str:
        """Returns why compare-and-swap does not work, and what to do; empty if it works."""
        ...


class Databases(Protocol):
    """The databases of one metastore."""

    def properties(self) -> dict[str, dict[str, str]]:
        """Returns all databases, each with its properties."""
        ...

    def make(self, database: str, properties: Mapping[str, str]) -> bool:
        """Creates a database; returns False if it exists."""
        ...

    def change(self, database: str, edit: Edit) -> None:
        """Replaces a database's properties by an edit of its current ones."""
        ...

    def remove(self, database: str) -> None:
        """Deletes an empty database. Raises NamespaceNotEmpty."""
        ...


def repointed(row: Row, new: str, before: Document, after: Document) -> dict[str, str]:
    """Returns a row's parameters once it points at a new metadata file.

    Parameters that repeat the table's properties follow them; nothing is added to the row.
    """
    was, now = before.get("properties") or {}, after.get("properties") or {}
    parameters = {k: v for k, v in row.parameters.items() if k not in was or k in now}
    parameters |= {k: str(v) for k, v in now.items() if k in parameters}
    parameters |= {k: v for k, v in _state_of(after).items() if k in parameters}
    return parameters | {LOCATION: new, PREVIOUS: row.location, TABLE_TYPE: ICEBERG}


def _state_of(document: Document) -> dict[str, str]:
    """Returns the parts of a table's state that Java's clients repeat in a row."""
    current = document.get("current-snapshot-id")
    snapshots = document.get("snapshots") or []
    at = next((s["timestamp-ms"] for s in snapshots if s["snapshot-id"] == current), "")
    return {
        "current-snapshot-id": "" if current in (None, -1) else str(current),
        "current-snapshot-timestamp-ms": str(at),
        "current-snapshot-summary": "",
        "snapshot-count": str(len(snapshots)),
    }


def fenced(
    row: Row, parameters: Mapping[str, str], to: tuple[str, str] | None, move: str
) -> dict[str, str]:
    """Returns a row's parameters with a fence: other type and location, so no commit can succeed.

    Args:
        row: The row as it was read.
        parameters: Its parameters under the new name.
        to: Database and table; None to remove the row.
        move: Token that identifies this move. The location contains it too, which is all that
            Hive compares: a fence of another move with the same file is another fence.
    """
    marks = {
        TABLE_TYPE: _MOVING,
        LOCATION: f"meltline-moving:{move}:{parameters[LOCATION]}",
        MOVE: move,
        _MOVING_FROM: row.location,
        _MOVING_TO: ".".join(to or ("",)),
    }
    return {**parameters, **marks}


def unfenced(row: Row) -> dict[str, str]:
    """Returns the parameters of a fenced row under its new name; they keep the move's token."""
    parameters = {k: v for k, v in row.parameters.items() if k not in {_MOVING_TO, _MOVING_FROM}}
    return {**parameters, TABLE_TYPE: ICEBERG, LOCATION: row.location}


def taken_back(row: Row) -> dict[str, str]:
    """Returns the parameters of a fenced row that keeps its name, with its file from before."""
    parameters = {k: v for k, v in unfenced(row).items() if k != MOVE}
    return {**parameters, LOCATION: row.parameters.get(_MOVING_FROM, row.location)}
