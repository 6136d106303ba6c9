"""Protocols of catalogs: listing tables, editing their metadata, committing expirations.

`app` calls them; `adapters/catalogs` and `adapters/spark` implement them. Reading and changing are
separate protocols, so a signature shows which steps can change a catalog.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import (
    CatalogReadOnly,
    CatalogUnlistable,
    MetadataUnreadable,
    NameConflict,
    StoreRefused,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor, NextMetadata
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.stated_policies import Stated


@dataclass(frozen=True)
class CatalogEntry:
    """One table as its catalog lists it."""

    name: TableName
    metadata_location: str


@dataclass(frozen=True)
class CatalogListing:
    """The tables of a catalog at one moment, and its namespaces of every level with properties.

    Attributes:
        server: Distinguishes one server from another; empty for a catalog without a server.
        half_seen: Locations of its tables, if it shows only a part of them, as Nessie does of one
            of its own branches; empty if it shows all.
        hidden: Storage tables of materialized views, under the names of their views. They have no
            names of their own, and are observed, never changed.
    """

    entries: tuple[CatalogEntry, ...]
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]]
    server: str = ""
    half_seen: tuple[str, ...] = ()
    hidden: frozenset[TableName] = frozenset()

    def of(self, name: TableName) -> CatalogEntry | None:
        """Returns the table with a name; indexed, because a run asks for many tables one by one."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[TableName, CatalogEntry]:
        return {listed.name: listed for listed in self.entries}


@dataclass(frozen=True)
class OtherOwner:
    """A view, or a table of another format, that a listing of Iceberg tables leaves out.

    Attributes:
        name: Its name.
        kind: `view`, `materialized view`, or the format that the catalog says it has.
        location: The folder that it owns; empty if only its metadata file names it.
        metadata_location: Its current metadata file; empty if it has none.
        uuid: The UUID in its metadata; empty if the catalog does not report it.
    """

    name: TableName
    kind: str
    location: str = ""
    metadata_location: str = ""
    uuid: str = ""


NOT_REGISTERED = (
    NameConflict,
    CatalogReadOnly,
    CatalogUnlistable,
    MetadataUnreadable,
    StoreRefused,
)
"""Errors of `register` and `create` that prove that nothing was registered.

After any other failure the table may exist under the name: its files must be kept.
"""

TableEdit = Callable[[MetadataEditor], None]
"""Changes an open document, or raises if its content forbids the change.

It is called again, on the table's new metadata, whenever another commit comes first.
"""


@dataclass(frozen=True)
class TableMove:
    """A rename of a table and an edit of its metadata, in one step.

    It stays the same table: UUID, history and files are untouched.
    """

    source: TableName
    target: TableName
    edit: TableEdit


@dataclass(frozen=True)
class NewTable:
    """A table that is to be registered under a name for the first time.

    Attributes:
        name: A free name.
        first: Builds its first metadata file, dated by the clock of the catalog's commits.
    """

    name: TableName
    first: Callable[[datetime], NextMetadata]


class Catalog(Protocol):
    """Reads one configured catalog. Changes go through `CatalogEditor` and `CatalogRegistrar`."""

    @property
    def name(self) -> str: ...

    @property
    def observe_only(self) -> bool: ...

    @property
    def hindrance(self) -> str:
        """Returns why its tables cannot be changed safely, and the way out; empty if they can.

        A table that cannot be changed cannot be guarded: nothing of it is expired or purged.
        """
        ...

    def listing(self) -> CatalogListing:
        """Lists every namespace level and table; leaves out views and non-Iceberg tables.

        Raises:
            CatalogUnlistable: A part of it could not be listed.
        """
        ...

    def other_owners(self) -> Sequence[OtherOwner]:
        """Lists views and tables of other formats, with locations. Raises CatalogUnlistable."""
        ...

    def location(self, name: TableName) -> str:
        """Returns the location of a table's current metadata. Raises TableNotFound."""
        ...


class PolicyStore(Protocol):
    """Reads the policies that a catalog's server keeps beside its tables."""

    def of(self, tables: Sequence[TableName], *, anew: bool = False) -> Mapping[TableName, Stated]:
        """Returns what applies to each table, inherited or not; a result for each.

        Args:
            tables: Tables that the catalog has.
            anew: Whether to ask the server now; otherwise an answer of some minutes ago may do.
        """
        ...


class CatalogEditor(Protocol):
    """Changes the metadata of existing tables and the properties of namespaces."""

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table's metadata in one compare-and-swap, without a JVM.

        Returns:
            The location of the metadata afterwards; an edit without changes commits nothing.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot be edited from here.
            TableNotFound: It has no such table.
            MetadataUnreadable: The table cannot be read, so it is not written either.
            CommitConflict: Other commits came first each time, or the outcome is unknown.
        """
        ...

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Edits properties alone. Raises as `edit_table` does."""
        ...

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        """Sets and removes properties of a namespace, and creates the namespace if it is missing.

        Args:
            namespace: Its levels.
            updates: New values.
            removals: Keys to remove; a missing key is no error.
            expected: Values that must be current for the change to happen; None for a missing key.
                REST, Hive and Glue catalogs have no compare-and-swap here: they read first.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a namespace.
            CommitConflict: A current value differs; nothing was changed.
        """
        ...


class CatalogRegistrar(Protocol):
    """Adds tables to a catalog, renames and removes them."""

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Mapping[tuple[str, ...], Mapping[str, str]] | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Renames tables, and creates and removes namespaces: all or nothing.

        Only a SQL catalog can promise that. With REST, Hive and Glue the tables move one by one;
        an error half-way says how far the move got, and it can be repeated. A table that keeps
        its name is edited and stays. With REST it is unregistered and registered again, so engines
        do not find it for a moment.

        Args:
            moves: The tables. Missing namespaces of their new names are created.
            create: Further namespaces to create, with their properties; none may exist yet.
            remove: Namespaces to remove; they must be empty by then.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            TableNotFound: One of the tables does not exist.
            MetadataUnreadable: One of them cannot be read.
            NameConflict: A name, or a namespace to create, is taken.
            NamespaceNotEmpty: A namespace to remove is not empty.
            CommitConflict: Other commits came first each time, or the outcome is unknown.
        """
        ...

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        """Registers an existing metadata file under a name; creates a missing namespace.

        Args:
            name: A free name.
            metadata_location: The file.
            edit: A change to it; the changed successor is registered instead.

        Raises:
            MetadataUnreadable: An edit was requested and the file cannot be read.
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            NameConflict: The name is taken.
        """
        ...

    def create(
        self,
        tables: Sequence[NewTable],
        namespaces: Mapping[tuple[str, ...], Mapping[str, str]] | None = None,
    ) -> Mapping[TableName, str]:
        """Writes the first metadata files of new tables and registers them: all or nothing.

        Only a SQL catalog does it in one step. Others register the tables one by one, and
        unregister them if a later one fails.

        Args:
            tables: The tables. Their missing namespaces are created.
            namespaces: Further namespaces to create, with their properties; none may exist yet.

        Returns:
            The location of each table's metadata.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            MetadataUnreadable: A table asks for metadata files that Iceberg does not know.
            NameConflict: A name, or a namespace to create, is taken; nothing was changed.
            CommitConflict: The outcome is unknown.
        """
        ...

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Removes a table from the catalog if this is its current metadata; keeps its files.

        Returns:
            False if its metadata is another file, or there is no such table; nothing was changed.

        Raises:
            CatalogReadOnly: The catalog is only observed.
        """
        ...


@dataclass(frozen=True)
class CommitOutcome:
    """The result of an expiration commit.

    Attributes:
        base_location: The metadata file that it replaced.
        new_location: The one that it wrote, or a later one.
        restored: Refs that others set to removed snapshots during the commit, where the catalog
            cannot refuse that. They have their snapshots again.
    """

    base_location: str
    new_location: str
    restored: tuple[str, ...] = ()


class Committer(Protocol):
    """Commits an expiration: one metadata-only compare-and-swap per table."""

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        """Removes exactly the plan's snapshots and refs if the base is still current.

        With REST the server may have moved on; a ref that was added meanwhile is never lost.

        Returns:
            The result, or None if the table has moved on and nothing was committed.

        Raises:
            MeltlineError: The outcome is unknown: `confirm` finds out.
        """
        ...

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        """Returns the outcome of an earlier commit whose snapshots the table no longer has.

        Its run died, or the answer was lost. Remaining work of the commit is finished now.

        Returns:
            None if it was not made: another commit removed the snapshots.

        Raises:
            CommitUnproven: It is unknown which refs were added during the commit.
        """
        ...

    def withdraw(self, plan: Plan) -> bool:
        """Prevents a commit that was begun and is not visible from still being applied later.

        Returns:
            Whether that was necessary: the plan cannot be committed any more.

        Raises:
            CommitUnproven: The commit was applied meanwhile.
        """
        ...
