"""Catalogs: what they hold, how a table's metadata is edited, how an expiration is committed."""

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
    """Everything a catalog holds at one moment; namespaces of every level with properties.

    Attributes:
        server: What tells one server from another, where one stands behind the catalog.
        half_seen: Where its tables may lie, if it shows only a part of them, as Nessie does of one
            of its own branches; none where it shows all.
        hidden: Tables without a name of their own, under that of the materialized view that they
            store. They are observed, never changed.
    """

    entries: tuple[CatalogEntry, ...]
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]]
    server: str = ""
    half_seen: tuple[str, ...] = ()
    hidden: frozenset[TableName] = frozenset()

    def of(self, name: TableName) -> CatalogEntry | None:
        """The table of that name; a run over many tables asks for each of them."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[TableName, CatalogEntry]:
        return {listed.name: listed for listed in self.entries}


@dataclass(frozen=True)
class OtherOwner:
    """A view, or a table of another format, that a catalog has and a listing of tables passes over.

    Attributes:
        name: Its name.
        kind: `view`, `materialized view`, or the format that the catalog says it has.
        location: The folder that it owns; empty where only its metadata file says.
        metadata_location: Its current metadata file; empty where it has none.
        uuid: Its UUID as its metadata has it; empty where the catalog does not say.
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
"""What `register` and `create` raise when they have surely registered nothing.

After any other failure a table may stand where it was to stand: its files must be kept.
"""

TableEdit = Callable[[MetadataEditor], None]
"""Changes an open document, or raises when what it finds forbids the change.

It is called anew, on what the table has become, whenever somebody else commits first.
"""


@dataclass(frozen=True)
class TableMove:
    """A table that is given another name, and its metadata an edit, in one step.

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
        first: Makes its first metadata file, dated by the clock of the catalog's commits.
    """

    name: TableName
    first: Callable[[datetime], NextMetadata]


class Catalog(Protocol):
    """One configured catalog, read. Those who change it take one of the next two as well."""

    @property
    def name(self) -> str: ...

    @property
    def observe_only(self) -> bool: ...

    @property
    def hindrance(self) -> str:
        """Why its tables cannot be changed safely, and the way out; empty where they can.

        What cannot be changed cannot be held: nothing of it is expired or purged either.
        """
        ...

    def listing(self) -> CatalogListing:
        """Lists every namespace level and table; views and non-Iceberg tables are passed over.

        Raises:
            CatalogUnlistable: Any part of it could not be listed.
        """
        ...

    def other_owners(self) -> Sequence[OtherOwner]:
        """Views and tables of other formats: they own their locations. Raises CatalogUnlistable."""
        ...

    def location(self, name: TableName) -> str:
        """Where a table's metadata lies now. Raises TableNotFound."""
        ...


class PolicyStore(Protocol):
    """The policies that a catalog's server keeps beside its tables, read only."""

    def of(self, tables: Sequence[TableName], *, anew: bool = False) -> Mapping[TableName, Stated]:
        """What applies to each of these tables, inherited or not; an answer for every one.

        Args:
            tables: Which; they stand in the catalog.
            anew: Whether the server is asked now, else what it said some minutes ago may do.
        """
        ...


class CatalogEditor(Protocol):
    """Changes what a catalog says of the tables and namespaces that it has."""

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table's metadata in one compare-and-set, without a JVM.

        Returns:
            Where the metadata lies afterwards; an edit that changes nothing commits nothing.

        Raises:
            CatalogReadOnly: The catalog is only observed, or edits of it are out of reach.
            TableNotFound: It has no such table.
            MetadataUnreadable: The table cannot be read, so it is not written either.
            CommitConflict: Others committed first each time, or nobody knows whether it was done.
        """
        ...

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """An edit of properties alone. Raises as `edit_table` does."""
        ...

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        """Sets and removes properties of a namespace, and creates it when it is not there.

        Args:
            namespace: Its levels.
            updates: New values.
            removals: Keys to remove; one that is not there is no error.
            expected: What must stand there for anything to happen; None for no such property.
                A REST, Hive or Glue catalog can only look before, not compare and set.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a namespace.
            CommitConflict: Something else stands there; nothing was changed.
        """
        ...


class CatalogRegistrar(Protocol):
    """Changes which tables a catalog has, and under which names."""

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Mapping[tuple[str, ...], Mapping[str, str]] | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Gives tables other names, and makes and removes namespaces: all of it or nothing.

        Only a SQL catalog can promise that. With REST, Hive and Glue the tables move one by one;
        what fails half-way says how far it came, and can be carried out again. A table that keeps
        its name is edited in its place, whatever the edit is; with REST it is taken out and
        registered anew, so that for a moment engines find none of that name.

        Args:
            moves: The tables. The namespaces of their new names are made where they are missing.
            create: Further namespaces to make, with their properties; none may be there yet.
            remove: Namespaces to remove; nothing may be left in them by then.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            TableNotFound: One of the tables is not there.
            MetadataUnreadable: One of them cannot be read.
            NameConflict: A name, or a namespace to make, is taken.
            NamespaceNotEmpty: A namespace to remove has something left in it.
            CommitConflict: Others committed first each time, or nobody knows whether it was done.
        """
        ...

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        """Puts an existing metadata file under a name. Makes its namespace where it is missing.

        Args:
            name: A free name.
            metadata_location: The file.
            edit: A change of it, so that its successor is registered in its place.

        Raises:
            MetadataUnreadable: An edit was asked for and the file cannot be read.
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            NameConflict: The name is taken.
        """
        ...

    def create(
        self,
        tables: Sequence[NewTable],
        namespaces: Mapping[tuple[str, ...], Mapping[str, str]] | None = None,
    ) -> Mapping[TableName, str]:
        """Writes new tables' first metadata files and registers them: all of it or nothing.

        Only a SQL catalog does it in one step. With others the tables come one by one, and are
        taken out again where a later one fails.

        Args:
            tables: The tables. Their namespaces are made where they are missing.
            namespaces: Further namespaces to make, with their properties; none may be there yet.

        Returns:
            Where each table's metadata lies.

        Raises:
            CatalogReadOnly: The catalog is only observed, or cannot hold such a name.
            MetadataUnreadable: A table asks for metadata files that Iceberg does not know.
            NameConflict: A name, or a namespace to make, is taken; nothing was changed.
            CommitConflict: Nobody knows whether it was done.
        """
        ...

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Takes a table out of the catalog and leaves its files, if it still stands there.

        Returns:
            False when it stands elsewhere, or is not there; then nothing was changed.

        Raises:
            CatalogReadOnly: The catalog is only observed.
        """
        ...


@dataclass(frozen=True)
class CommitOutcome:
    """What became of an expiration commit.

    Attributes:
        base_location: The metadata file that it replaced.
        new_location: The one that it wrote, or a later one.
        restored: Names of refs that came to removed snapshots while it was made, where the
            catalog cannot refuse that. They have their snapshots again.
    """

    base_location: str
    new_location: str
    restored: tuple[str, ...] = ()


class Committer(Protocol):
    """Commits an expiration: one metadata-only compare-and-set per table."""

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        """Removes exactly the plan's snapshots and refs if the table still stands at the base.

        With REST the server may stand elsewhere; no ref that came meanwhile stays lost.

        Returns:
            What was done, or None when the table has moved on and nothing was committed.

        Raises:
            MeltlineError: Nobody knows what became of it: `confirm` finds out.
        """
        ...

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        """What became of a commit that was begun, now that the table has none of its snapshots.

        A run died, or an answer was lost. What is left to do of it is done now.

        Returns:
            None where it was not made: others have taken the snapshots away.

        Raises:
            CommitUnproven: It cannot be told which refs came while it was made.
        """
        ...

    def withdraw(self, plan: Plan) -> bool:
        """Has a commit that was begun and is not there never come, where it still could.

        Returns:
            Whether it had to: the plan cannot be committed any more.

        Raises:
            CommitUnproven: It came meanwhile.
        """
        ...
