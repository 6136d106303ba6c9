"""A metastore's rows: what points at a table's metadata file, and how it may change."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
SPARK_PATH = "path"
"""Where Spark says that its own tables are: their location can be a placeholder."""
_COMMENT, _TRINO_MATERIALIZED = "comment", "Presto Materialized View"
_VIEW, _MATERIALIZED = "VIRTUAL_VIEW", "MATERIALIZED_VIEW"
_FORMATS = (TABLE_TYPE, "spark.sql.sources.provider", "classification")
_MOVING = "MELTLINE-MOVING"
_MOVING_TO = "meltline.moving-to"
_MOVING_FROM = "meltline.moving-from"
_FENCE = re.compile("^meltline-moving:[0-9a-f]*:")
MOVE = "meltline.move"

Document = Mapping[str, Any]
"""A metadata file's content."""

Edit = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Makes a database's properties of those that it has, or raises where they forbid the change."""


@dataclass(frozen=True)
class Row:
    """One table or view of a metastore.

    Attributes:
        entity: What the metastore's own client calls it, with every field that we do not know.
        kind: The metastore's type of it: `VIRTUAL_VIEW`, `EXTERNAL_TABLE` and others.
        folder: Where its storage descriptor says that its files are; empty for most views.
    """

    database: str
    table: str
    parameters: Mapping[str, str]
    entity: Any
    kind: str = ""
    folder: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it is an Iceberg table, or one that is on its way to another name."""
        return self.parameters.get(TABLE_TYPE, "").upper() in {ICEBERG, _MOVING}

    @property
    def is_view(self) -> bool:
        """Whether it is an Iceberg view."""
        return self.parameters.get(TABLE_TYPE, "").upper() == "ICEBERG-VIEW"

    @property
    def other_kind(self) -> str:
        """The kind of a row that is no Iceberg table: a view, or the format of a table."""
        if self._is_materialized or self.kind.upper() == _MATERIALIZED:
            return "materialized view"
        if self.is_view or self.kind.upper() == _VIEW:
            return "view"
        named = (self.parameters.get(key, "") for key in _FORMATS)
        return next(filter(None, named), "table").lower()

    @property
    def _is_materialized(self) -> bool:
        """Whether it is a materialized view of Trino."""
        is_trino = self.parameters.get(_COMMENT) == _TRINO_MATERIALIZED
        return is_trino and self.kind.upper() == _VIEW

    @property
    def is_storage(self) -> bool:
        """Whether it points at the hidden table of a materialized view, which has no other row.

        Older releases of Trino gave that table a row and a name: it is listed as any table is.
        """
        return self._is_materialized and bool(self.location)

    @property
    def is_moving(self) -> bool:
        """Whether it is fenced: engines find no table in it, and none can commit to it."""
        return self.parameters.get(TABLE_TYPE) == _MOVING

    @property
    def location(self) -> str:
        """The metadata file; of a fenced row the one that it pointed at."""
        return _FENCE.sub("", self.parameters.get(LOCATION, ""), count=1)

    @property
    def move(self) -> str:
        """Which move made the row, or is under way with it; empty where none ever was."""
        return self.parameters.get(MOVE, "")

    @property
    def moving_to(self) -> tuple[str, str] | None:
        """Database and table to which a fenced row goes; None where it is to be taken out."""
        database, _, table = self.parameters.get(_MOVING_TO, "").partition(".")
        return (database, table) if table else None


class Metastore(Protocol):
    """The tables of one metastore."""

    def rows(self, database: str) -> Iterable[Row]:
        """Everything in a database."""
        ...

    def row(self, database: str, table: str) -> Row | None:
        """What stands under a name."""
        ...

    def replace(
        self, row: Row, parameters: Mapping[str, str], document: Document | None = None
    ) -> bool:
        """Changes a row if it still is what was read: the compare-and-set.

        Args:
            row: What was read.
            parameters: All of its parameters from now on.
            document: The metadata, where its columns may have changed.

        Returns:
            False when the row surely is another by now, and nothing was changed.

        Raises:
            CommitConflict: Nobody knows whether it was done.
        """
        ...

    def insert(
        self, database: str, table: str, parameters: Mapping[str, str], like: "Row | Document"
    ) -> bool:
        """Makes a row, like another one or for a table's metadata; False where one has the name."""
        ...

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        """Renames and changes a row in one compare-and-set, as `replace` does.

        Returns:
            None where the metastore cannot: rows are then moved behind a fence.

        Raises:
            NameConflict: The name is taken; nothing was changed.
        """
        ...

    def delete(self, row: Row) -> None:
        """Takes a row away, and no file. One that is not there is no error."""
        ...

    def hindrance(self) -> str:
        """Why it has no compare-and-set for us, and what to do; empty where it has one."""
        ...


class Databases(Protocol):
    """The databases of one metastore."""

    def properties(self) -> dict[str, dict[str, str]]:
        """All databases, each with its properties."""
        ...

    def make(self, database: str, properties: Mapping[str, str]) -> bool:
        """Makes one; False where it is there."""
        ...

    def change(self, database: str, edit: Edit) -> None:
        """Gives one other properties, made of those that it has at this moment."""
        ...

    def remove(self, database: str) -> None:
        """Takes an empty one away. Raises NamespaceNotEmpty."""
        ...


def repointed(row: Row, new: str, before: Document, after: Document) -> dict[str, str]:
    """A row's parameters once it points at a new metadata file.

    What a row repeats of the table's properties follows them; nothing is added to it.
    """
    was, now = before.get("properties") or {}, after.get("properties") or {}
    parameters = {k: v for k, v in row.parameters.items() if k not in was or k in now}
    parameters |= {k: str(v) for k, v in now.items() if k in parameters}
    parameters |= {k: v for k, v in _state_of(after).items() if k in parameters}
    return parameters | {LOCATION: new, PREVIOUS: row.location, TABLE_TYPE: ICEBERG}


def _state_of(document: Document) -> dict[str, str]:
    """What Java's clients repeat of a table's state."""
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
    """Parameters of a row that let nobody commit to it any more: type and location are others.

    Args:
        row: As it was read.
        parameters: What it is to say under its new name.
        to: Database and table; None where it is to be taken out.
        move: What tells this move from every other one. It stands in the location too, which is
            all that Hive compares: a fence of another move at the same file is another fence.
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
    """The parameters of a fenced row under its new name, where it still says which move it was."""
    parameters = {k: v for k, v in row.parameters.items() if k not in {_MOVING_TO, _MOVING_FROM}}
    return {**parameters, TABLE_TYPE: ICEBERG, LOCATION: row.location}


def taken_back(row: Row) -> dict[str, str]:
    """The parameters of a fenced row that stays where it is: at the file that it came from."""
    parameters = {k: v for k, v in unfenced(row).items() if k != MOVE}
    return {**parameters, LOCATION: row.parameters.get(_MOVING_FROM, row.location)}
