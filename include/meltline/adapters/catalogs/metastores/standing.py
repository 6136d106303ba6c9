"""What stands under a table's name in a metastore, and whether a change of it came through."""

import json
from dataclasses import dataclass
from functools import cached_property

from meltline.adapters.catalogs.metastores.flat_names import database_of, held_table
from meltline.adapters.catalogs.metastores.moves import Fences
from meltline.adapters.catalogs.metastores.rows import Document, Metastore, Row
from meltline.adapters.catalogs.table_commits import a_view, fate_unknown, no_table
from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.names import TableName
from meltline.ports import MetadataFiles


@dataclass(frozen=True)
class StandingRows:
    """The rows of a metastore by the tables' names.

    Attributes:
        catalog: Its name.
        store: Where the tables' metadata files lie.
    """

    catalog: str
    store: MetadataFiles
    metastore: Metastore

    @cached_property
    def fences(self) -> Fences:
        """What moves and removes rows here."""
        return Fences(self.catalog, self.metastore)

    def row(self, name: TableName, *, hidden: bool = False) -> Row:
        """A table's row. Raises TableNotFound.

        Args:
            name: The table.
            hidden: Whether the hidden table of a materialized view counts. It is read, not changed.
        """
        row = self._at(name)
        if row is not None and row.is_storage and hidden:
            return row
        if row is not None and (row.is_view or row.is_storage):
            raise a_view(name)
        if row is None or not row.is_table:
            raise no_table(self.catalog, name)
        return row

    def _at(self, name: TableName) -> Row | None:
        """What stands under a name, also under one that only others give.

        What is listed must be found, or it could be purged and not be held. A metastore that folds
        names may answer with a table of another one.
        """
        try:
            place = database_of(self.catalog, name.namespace), held_table(name)
        except CatalogReadOnly:
            if len(name.namespace) != 1:
                return None
            place = name.namespace[0], name.name
        row = self.metastore.row(*place)
        return row if row is not None and (row.database, row.table) == place else None

    def standing(self, name: TableName) -> Row:
        """A row that is not on its way elsewhere; one that a killed process left is brought on.

        Raises:
            TableNotFound: There is none, or it has arrived under another name now.
        """
        row = self.row(name)
        if not row.is_moving:
            return row
        self.fences.settle(row)
        return self.standing(name)

    def clear(self, database: str, table: str) -> None:
        """Settles what a killed process left under a name that is to be given anew."""
        row = self.metastore.row(database, table)
        if row is not None and row.is_moving:
            self.fences.settle(row)

    def document(self, location: str) -> Document:
        """A metadata file."""
        document: Document = json.loads(self.store.read(location))
        return document

    def is_done(self, source: TableName, target: TableName, new: str) -> bool:
        """Whether a change was made whose answer says that somebody else was first.

        A Hive metastore that loses its database in the middle tries again by itself, and then
        meets its own change.

        Args:
            source: Where the table stood.
            target: Where it was to stand.
            new: The metadata file that it was to point at, and that no other change has.

        Raises:
            CommitConflict: Nobody knows: no table stands there any more, or it is half way.
        """
        if new in self._history(target):
            return True
        history = self._history(source)
        if not history or new in history:
            raise fate_unknown(source, "somebody was first, and the table has gone or is moving")
        return False

    def _history(self, name: TableName) -> list[str]:
        """The metadata files that a table points at or has pointed at, as far as its log goes."""
        row = self._at(name)
        if row is None or not row.is_table:
            return []
        log = self.document(row.location).get("metadata-log") or []
        return [row.location, *(str(former["metadata-file"]) for former in log)]
