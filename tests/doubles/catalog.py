"""A catalog in memory: names that point at metadata files in an object store, moved by CAS."""

import json
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any
from uuid import uuid4

from meltline.adapters.catalogs.table_commits import commit_edit, not_as_expected, require_writable
from meltline.adapters.catalogs.table_renames import (
    MoveStep,
    Namespaces,
    commit_moves,
    first_files,
    name_taken,
    namespace_taken,
    not_empty,
    registrable,
)
from meltline.domain.clock import Clock, WallClock
from meltline.domain.errors import CatalogUnlistable, TableNotFound
from meltline.domain.iceberg.metadata_editor import next_number
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA
from meltline.domain.units import to_millis
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    MetadataFiles,
    NewTable,
    OtherOwner,
    TableEdit,
    TableMove,
)

_DEFAULT_LOG_LENGTH = 100


class MemoryCatalog:
    """The port `Catalog` over a dict, with the commits that an engine makes on its tables.

    Args:
        name: What the tables' names begin with.
        store: Where the metadata files lie.
        observe_only: Whether it is read for reachability and never changed.
        clock: Gives commits their time.
        new_id: Makes the unique part of a new metadata file's name.
    """

    def __init__(
        self,
        name: str,
        store: MetadataFiles,
        *,
        observe_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._name = name
        self._store = store
        self._observe_only = observe_only
        self._clock = clock or WallClock()
        self._new_id = new_id
        self._tables: dict[TableName, str] = {}
        self._namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        self._guard = RLock()
        self._edits = 0
        self.others: dict[TableName, OtherOwner] = {}  # views and tables of other formats
        self.hidden: set[TableName] = set()  # tables that store materialized views
        self.unlistable = ""  # why a part of it cannot be listed, while it cannot
        self.half_seen: tuple[str, ...] = ()  # where its tables lie, if it shows only a part
        self.unholdable = ""  # why no table can be changed, while none can

    @property
    def name(self) -> str:
        """The catalog's name in `meltline.yaml`."""
        return self._name

    @property
    def observe_only(self) -> bool:
        """Whether it is read for reachability and never changed."""
        return self._observe_only

    @property
    def hindrance(self) -> str:
        """Why nothing in it can be held, while it is told to say so. See the port."""
        return self.unholdable

    def listing(self) -> CatalogListing:
        """All tables and namespaces at one moment. Raises CatalogUnlistable while told to."""
        self._require_listable()
        with self._guard:
            entries = [CatalogEntry(name, at) for name, at in sorted(self._tables.items())]
            namespaces = {levels: dict(texts) for levels, texts in self._namespaces.items()}
        for listed in entries:
            for depth in range(1, len(listed.name.namespace) + 1):
                namespaces.setdefault(listed.name.namespace[:depth], {})
        hidden = frozenset(self.hidden)
        return CatalogListing(tuple(entries), namespaces, half_seen=self.half_seen, hidden=hidden)

    def other_owners(self) -> Sequence[OtherOwner]:
        """Views and tables of other formats that a test put in. See the port."""
        self._require_listable()
        return sorted(self.others.values(), key=lambda owner: owner.name)

    def add_owner(self, owner: OtherOwner) -> None:
        """Puts in a view or a table of another format, in place of one of its name."""
        self.others[owner.name] = owner

    def _require_listable(self) -> None:
        if self.unlistable:
            raise CatalogUnlistable(
                f"catalog {self._name} could not be listed completely",
                object=self._name,
                expected="every namespace and table",
                found=self.unlistable,
                next="nothing is deleted anywhere until it can be listed",
            )

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table's metadata and swaps it in. See the port."""
        require_writable(self)
        return commit_edit(
            self, self._store, name, edit, self._clock, unique=self._next_edit, pause=_at_once
        )

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Sets and removes table properties. See the port."""
        self.edit_table(name, lambda document: document.set_properties(updates, removals))

    def swap(self, name: TableName, base: str, new: str) -> bool:
        """Points a table at a new metadata file if it still stands at the base."""
        with self._guard:
            if self._tables.get(name) != base:
                return False
            self._tables[name] = new
            return True

    def _next_edit(self) -> str:
        # Unlike `new_id`, never the same twice: a loser must not take the winner's file away.
        with self._guard:
            self._edits += 1
            return f"edit-{self._edits}"

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        """Sets and removes properties of a namespace. See the port."""
        require_writable(self)
        with self._guard:
            before = self._namespaces.get(namespace, {})
            for key, text in (expected or {}).items():
                if before.get(key) != text:
                    actual = before.get(key, "none")
                    raise not_as_expected(".".join(namespace), key, text, actual)
            remaining = {key: text for key, text in before.items() if key not in removals}
            self._namespaces[namespace] = {**remaining, **updates}

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Namespaces | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Gives tables other names, all or none. See the port."""
        require_writable(self)
        commit_moves(
            self,
            self._store,
            moves,
            create or {},
            remove,
            self._clock,
            unique=self._next_edit,
            pause=_at_once,
        )

    def apply(
        self, steps: Sequence[MoveStep], create: Namespaces, remove: Sequence[tuple[str, ...]]
    ) -> bool:
        """All of some moves at once. See `table_moves.Rows`."""
        with self._guard:
            tables = self._without_sources(steps)
            if tables is None:
                return False
            for step in steps:
                if step.target in tables:
                    raise name_taken(step.target)
                tables[step.target] = step.new
            self._namespaces = self._changed_namespaces(tables, create, remove)
            self._tables = tables
            return True

    def _without_sources(self, steps: Sequence[MoveStep]) -> dict[TableName, str] | None:
        """The tables without those that move; None where one is not what it was."""
        tables = dict(self._tables)
        for step in steps:
            if tables.pop(step.source, None) != step.base:
                return None
        return tables

    def _changed_namespaces(
        self,
        tables: Mapping[TableName, str],
        create: Namespaces,
        remove: Sequence[tuple[str, ...]],
    ) -> dict[tuple[str, ...], dict[str, str]]:
        for levels in create.keys() & self._namespaces.keys():
            raise namespace_taken(self._name, levels)
        for levels in remove:
            within = [n for n in tables if n.namespace[: len(levels)] == levels]
            if within:
                raise not_empty(self._name, levels, str(within[0]))
        staying = {k: v for k, v in self._namespaces.items() if k not in remove}
        return staying | {k: dict(v) for k, v in create.items()}

    def create(
        self, tables: Sequence[NewTable], namespaces: Namespaces | None = None
    ) -> Mapping[TableName, str]:
        """Registers new tables, all or none. See the port."""
        require_writable(self)
        created = {levels: dict(properties) for levels, properties in (namespaces or {}).items()}
        with first_files(self._store, tables, self._clock) as at, self._guard:
            for name in at.keys() & self._tables.keys():
                raise name_taken(name)
            for levels in created.keys() & self._namespaces.keys():
                raise namespace_taken(self._name, levels)
            self._tables = self._tables | at
            self._namespaces = self._namespaces | created
        return at

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Takes a table out of the catalog if it still stands there. See the port."""
        require_writable(self)
        with self._guard:
            if self._tables.get(name) != metadata_location:
                return False
            del self._tables[name]
            return True

    # --- what engines do ---------------------------------------------------------------------

    def location(self, name: TableName) -> str:
        """Where a table's metadata lies now. Raises TableNotFound."""
        with self._guard:
            if name not in self._tables:
                raise TableNotFound(
                    f"catalog {self._name} has no table {name}",
                    object=str(name),
                    expected="a table of that name",
                    found="none",
                    next="`meltline storage` lists the tables",
                )
            return self._tables[name]

    def find(self, name: TableName) -> str | None:
        """Where a table's metadata lies now; None where there is no such table."""
        with self._guard:
            return self._tables.get(name)

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        """Puts an existing metadata file under a name. See the port."""
        with (
            self._guard,
            registrable(self._store, name, metadata_location, edit, self._clock) as location,
        ):
            if name in self._tables:
                raise name_taken(name)
            self._tables[name] = location

    def drop(self, name: TableName) -> str:
        """Takes a table out of the catalog and leaves its files. Returns its last metadata."""
        with self._guard:
            location = self.location(name)
            del self._tables[name]
            return location

    def commit(self, name: TableName, base: str, document: dict[str, Any]) -> str | None:
        """Writes a new metadata file over a base and swaps it in, if the table still stands there.

        Returns:
            The new metadata file, or None when the table has moved on; then nothing was written.
        """
        with self._guard:
            if self._tables.get(name) != base:
                return None
            forgotten = self._log_base(base, document)
            folder = base.rpartition("/")[0]
            new = f"{folder}/{next_number(base):05d}-{self._new_id()}.metadata.json"
            self._store.write(new, json.dumps(document).encode())
            self._tables[name] = new
        if (document.get("properties") or {}).get(ENGINE_DELETES_METADATA) == "true":
            self._store.delete(forgotten)
        return new

    def _log_base(self, base: str, document: dict[str, Any]) -> list[str]:
        """Appends the base to the metadata log, and returns what the log forgets for it."""
        log = document.setdefault("metadata-log", [])
        log.append({"timestamp-ms": document["last-updated-ms"], "metadata-file": base})
        properties = document.get("properties") or {}
        length = int(properties.get("write.metadata.previous-versions-max", _DEFAULT_LOG_LENGTH))
        surplus = max(0, len(log) - max(1, length))
        forgotten = [logged["metadata-file"] for logged in log[:surplus]]
        del log[:surplus]
        now = to_millis(self._clock.now())
        document["last-updated-ms"] = max(document["last-updated-ms"], now)
        return forgotten


def _at_once(seconds: float) -> None:
    """Does not wait: nobody else works between two attempts here."""
