"""Tables of a metastore catalog, edited by a new metadata file and a compare-and-swap on the row.

Works on any `Metastore` and `Databases`: Glue and Hive differ only in those.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from meltline.adapters.catalogs.connection_errors import no_answer, unlistable
from meltline.adapters.catalogs.metastores.flat_names import (
    database_of,
    held_table,
    levels_of,
    table_name,
)
from meltline.adapters.catalogs.metastores.moves import Fences, parameters_of
from meltline.adapters.catalogs.metastores.rows import (
    Databases,
    Document,
    Metastore,
    Row,
    repointed,
)
from meltline.adapters.catalogs.table_commits import (
    a_view,
    always_others,
    commit_edit,
    fate_unknown,
    no_table,
    not_as_expected,
    require_writable,
    write_edited,
)
from meltline.adapters.catalogs.table_renames import (
    Namespaces,
    first_files,
    name_taken,
    namespace_taken,
    registrable,
)
from meltline.config.load import CatalogConfig
from meltline.domain.clock import WallClock
from meltline.domain.errors import CatalogReadOnly, CatalogUnlistable, NameConflict, TableNotFound
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    MetadataFiles,
    NewTable,
    OtherOwner,
    TableEdit,
    TableMove,
)
from meltline.retries import until_done


@dataclass(frozen=True)
class StandingRows:
    """The rows of a metastore by the tables' names.

    Attributes:
        catalog: Its name.
        store: The store of the tables' metadata files.
    """

    catalog: str
    store: MetadataFiles
    metastore: Metastore

    @cached_property
    def fences(self) -> Fences:
        """Moves and removes rows here."""
        return Fences(self.catalog, self.metastore)

    def row(self, name: TableName, *, hidden: bool = False) -> Row:
        """Returns a table's row. Raises TableNotFound.

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
        """Returns the row under a name, even a name that only other tools can give.

        Every listed table must be found, or it could be purged and not be held. A metastore that
        folds names may answer with another table; that row is ignored.
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
        """Returns a row that is not being moved; finishes the move of a killed process first.

        Raises:
            TableNotFound: It does not exist, or now has another name.
        """
        row = self.row(name)
        if not row.is_moving:
            return row
        self.fences.settle(row)
        return self.standing(name)

    def clear(self, database: str, table: str) -> None:
        """Finishes the move of a killed process whose fence occupies a name that is needed."""
        row = self.metastore.row(database, table)
        if row is not None and row.is_moving:
            self.fences.settle(row)

    def document(self, location: str) -> Document:
        """Reads a metadata file."""
        document: Document = json.loads(self.store.read(location))
        return document

    def is_done(self, source: TableName, target: TableName, new: str) -> bool:
        """Returns whether a change succeeded although the answer reports a concurrent change.

        A Hive metastore that loses its database in the middle retries, and then meets its own
        change.

        Args:
            source: The table's name before.
            target: The table's name after.
            new: Its new metadata file, which no other change has.

        Raises:
            CommitConflict: The outcome is unknown: no table is found, or a move is half done.
        """
        if new in self._history(target):
            return True
        history = self._history(source)
        if not history or new in history:
            raise fate_unknown(source, "somebody was first, and the table has gone or is moving")
        return False

    def _history(self, name: TableName) -> list[str]:
        """Returns a table's metadata files, current and former, as far as its log reaches."""
        row = self._at(name)
        if row is None or not row.is_table:
            return []
        log = self.document(row.location).get("metadata-log") or []
        return [row.location, *(str(former["metadata-file"]) for former in log)]


_EXPECTED = "every database and table"
_FIELDS = {"comment", "location"}  # of a database; a metastore may normalize them


class MetastoreTables:
    """A metastore catalog, of any kind.

    Args:
        config: Its name, and whether it may be changed.
        store: The store of the tables' metadata files.
        metastore: Its rows.
        databases: Its databases.
        pause: Waits the given seconds before a retry.
    """

    def __init__(
        self,
        config: CatalogConfig,
        store: MetadataFiles,
        metastore: Metastore,
        databases: Databases,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._store = store
        self._metastore = metastore
        self._databases = databases
        self._pause = pause
        self._rows = StandingRows(config.name, store, metastore)
        self._hindrance: str | None = None

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def observe_only(self) -> bool:
        return self._config.observe_only

    @property
    def hindrance(self) -> str:
        """Returns why no table here can be changed safely; tests it once. See the port."""
        if self._hindrance is None:
            self._hindrance = self._metastore.hindrance()
        return self._hindrance

    def _require_editable(self) -> None:
        require_writable(self)
        if self.hindrance:
            raise CatalogReadOnly(
                f"tables of catalog {self.name} cannot be changed safely",
                object=self.name,
                expected="a compare-and-set",
                found=self.hindrance,
                next="see docs/catalogs-hive-and-glue.md",
            )

    def listing(self) -> CatalogListing:
        """Lists every database and table. See the port.

        Raises:
            CatalogUnlistable: Any part could not be listed.
        """
        namespaces, rows = self._everything()
        entries = [self._entry(row) for row in rows if row.is_table or row.is_storage]
        self._require_different(str(entry.name) for entry in entries)
        self._require_different(".".join(levels_of(database)) for database in namespaces)
        return CatalogListing(
            tuple(sorted(entries, key=lambda entry: entry.name)),
            {levels_of(database): texts for database, texts in namespaces.items()},
            hidden=frozenset(self._name_of(row) for row in rows if row.is_storage),
        )

    def other_owners(self) -> Sequence[OtherOwner]:
        """Returns every row that is no Iceberg table. See the port."""
        _, rows = self._everything()
        return [
            OtherOwner(self._name_of(row), row.other_kind, row.folder, row.location)
            for row in rows
            if not (row.is_table or row.is_storage)
        ]

    def _everything(self) -> tuple[Mapping[str, Mapping[str, str]], Sequence[Row]]:
        """Returns all databases with their properties, and all rows. Raises CatalogUnlistable."""
        try:
            namespaces = self._databases.properties()
            rows = [row for database in namespaces for row in self._metastore.rows(database)]
        except Exception as error:
            raise no_answer(self.name, _EXPECTED, error) from error
        return namespaces, rows

    def _name_of(self, row: Row) -> TableName:
        return table_name(self.name, row.database, row.table)

    def _require_different(self, names: Iterable[str]) -> None:
        """Refuses two rows with one name: the files of one would look unreferenced."""
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise self._unlistable(f"two rows that are both called {twice[0]} here")

    def _entry(self, row: Row) -> CatalogEntry:
        name = self._name_of(row)
        if not row.location:
            raise self._unlistable(f"no metadata location for {name}")
        return CatalogEntry(name, row.location)

    def _unlistable(self, reason: str) -> CatalogUnlistable:
        return unlistable(self.name, _EXPECTED, reason, "look at the catalog")

    def location(self, name: TableName) -> str:
        return self._rows.row(name, hidden=True).location

    # --- properties and metadata of tables --------------------------------------------------------

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table's metadata, unknown fields kept, and swaps it in. See the port."""
        self._require_editable()
        self._rows.row(name)  # refuses a materialized view's hidden table
        return commit_edit(self, self._store, name, edit, WallClock(), pause=self._pause)

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        self.edit_table(name, lambda document: document.set_properties(updates, removals))

    def swap(self, name: TableName, base: str, new: str) -> bool:
        """Points a row at a new metadata file if its current one is still the base."""
        try:
            row = self._rows.standing(name)
        except TableNotFound:
            return False
        if row.location != base:
            return False
        after = self._rows.document(new)
        parameters = repointed(row, new, self._rows.document(base), after)
        return self._metastore.replace(row, parameters, after) or self._rows.is_done(
            name, name, new
        )

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        require_writable(self)
        database = database_of(self.name, namespace)
        self._databases.make(database, {})
        demanded = dict(expected or {})

        def edited(present: Mapping[str, str]) -> Mapping[str, str]:
            for key, text in demanded.items():
                if present.get(key) != text:
                    raise not_as_expected(".".join(namespace), key, text, present.get(key, "none"))
            remaining = {key: text for key, text in present.items() if key not in removals}
            return {**remaining, **updates}

        def attempt() -> bool | None:
            self._databases.change(database, edited)
            after = self._databases.properties()[database]
            ours = {k: v for k, v in updates.items() if k not in _FIELDS}
            is_kept = ours.items() <= after.items() and not after.keys() & set(removals)
            return True if is_kept else None  # a concurrent writer may have overwritten ours

        if not until_done(attempt, self._pause):
            raise always_others(".".join((self.name, *namespace)))

    # --- create, rename and remove tables ---------------------------------------------------------

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Namespaces | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Renames tables one by one. See the port."""
        self._require_editable()
        for levels, properties in (create or {}).items():
            self._create_namespace(levels, properties)
        for move in moves:
            if move.source == move.target:
                self.edit_table(move.source, move.edit)
            elif not until_done(lambda move=move: self._moved(move), self._pause):  # type: ignore[misc]
                raise always_others(move.source)
        for levels in sorted(remove, key=len, reverse=True):
            self._databases.remove(database_of(self.name, levels))

    def _moved(self, move: TableMove) -> bool | None:
        """Attempts one move; on a concurrent change, deletes our file and returns None."""
        target = database_of(self.name, move.target.namespace), held_table(move.target)
        row = self._rows.standing(move.source)
        new = write_edited(self._store, move.source, row.location, move.edit, WallClock())
        written = [new] if new != row.location else []
        parameters = dict(row.parameters)
        if written:
            before, after = self._rows.document(row.location), self._rows.document(new)
            parameters = repointed(row, new, before, after)
        self._databases.make(target[0], {})
        self._rows.clear(*target)
        try:
            done = self._metastore.rename(row, target, parameters)
            if done is None:
                done = self._rows.fences.rename(row, target, parameters)
        except NameConflict:
            self._store.delete(written)
            raise name_taken(move.target) from None
        if done or (written and self._rows.is_done(move.source, move.target, new)):
            return True
        self._store.delete(written)
        return None

    def _create_namespace(self, levels: tuple[str, ...], properties: Mapping[str, str]) -> None:
        if not self._databases.make(database_of(self.name, levels), properties):
            raise namespace_taken(self.name, levels)

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        self._require_editable()
        with registrable(self._store, name, metadata_location, edit, WallClock()) as location:
            self._insert(name, location, is_new=location != metadata_location)

    def _insert(self, name: TableName, location: str, *, is_new: bool) -> None:
        """Inserts a row.

        If it already points at a file that only we have, an earlier try inserted it.
        """
        database, table = database_of(self.name, name.namespace), held_table(name)
        self._databases.make(database, {})
        self._rows.clear(database, table)
        document = self._rows.document(location)
        if self._metastore.insert(database, table, parameters_of(document, location), document):
            return
        row = self._metastore.row(database, table)
        if not (is_new and row is not None and row.location == location):
            raise name_taken(name)

    def create(
        self, tables: Sequence[NewTable], namespaces: Namespaces | None = None
    ) -> Mapping[TableName, str]:
        """Registers new tables one by one, and removes them again if one fails. See the port."""
        self._require_editable()
        with first_files(self._store, tables, WallClock()) as at, ExitStack() as back:
            for levels, properties in (namespaces or {}).items():
                self._create_namespace(levels, properties)
                back.callback(self._databases.remove, database_of(self.name, levels))
            created: dict[TableName, str] = {}
            for name, location in list(at.items()):
                self._insert(name, location, is_new=True)
                created[name] = at.pop(name)
                back.callback(self._withdraw, name, location, at)
            back.pop_all()
        return created

    def _withdraw(self, name: TableName, location: str, at: dict[TableName, str]) -> None:
        """Removes a new table again; its file is deleted only if no other commit built on it."""
        if self.unregister(name, location):
            at[name] = location

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Removes a table that still points at the given file: fenced first. See the port."""
        self._require_editable()
        try:
            row = self._rows.standing(name)
        except TableNotFound:
            return False
        return row.location == metadata_location and self._rows.fences.remove(row)
