"""A catalog in memory: names that point at metadata files in an object store, moved by CAS."""

import json
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any
from uuid import uuid4

from meltline.domain.clock import Clock, WallClock
from meltline.domain.errors import CatalogUnlistable, MeltlineError, TableNotFound
from meltline.domain.names import TableName
from meltline.domain.quantities import to_millis
from meltline.ports import CatalogEntry, CatalogListing, ObjectStore

_DEFAULT_LOG_LENGTH = 100
_ENGINE_DELETES = "write.metadata.delete-after-commit.enabled"


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
        store: ObjectStore,
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
        self.unlistable = ""  # why a part of it cannot be listed, while it cannot

    @property
    def name(self) -> str:
        """The catalog's name in `meltline.yaml`."""
        return self._name

    @property
    def observe_only(self) -> bool:
        """Whether it is read for reachability and never changed."""
        return self._observe_only

    def listing(self) -> CatalogListing:
        """All tables and namespaces at one moment. Raises CatalogUnlistable while told to."""
        if self.unlistable:
            raise CatalogUnlistable(
                f"catalog {self._name} could not be listed completely",
                object=self._name,
                expected="every namespace and table",
                found=self.unlistable,
                next="nothing is deleted anywhere until it can be listed",
            )
        with self._guard:
            entries = [CatalogEntry(name, at) for name, at in sorted(self._tables.items())]
            namespaces = {levels: dict(found) for levels, found in self._namespaces.items()}
        for entry in entries:
            for depth in range(1, len(entry.name.namespace) + 1):
                namespaces.setdefault(entry.name.namespace[:depth], {})
        return CatalogListing(tuple(entries), namespaces)

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Sets and removes table properties in one commit."""
        while True:
            base = self.location(name)
            document = json.loads(self._store.read(base))
            properties = document.setdefault("properties", {})
            properties.update(updates)
            for key in removals:
                properties.pop(key, None)
            if self.commit(name, base, document) is not None:
                return

    def set_namespace_properties(
        self, namespace: tuple[str, ...], updates: Mapping[str, str]
    ) -> None:
        """Sets properties on a namespace and creates it when it is not there."""
        with self._guard:
            self._namespaces.setdefault(namespace, {}).update(updates)

    # --- what engines do ---------------------------------------------------------------------

    def location(self, name: TableName) -> str:
        """Where a table's metadata lies now. Raises TableNotFound."""
        with self._guard:
            if name not in self._tables:
                raise TableNotFound(f"catalog {self._name} has no table {name}", object=str(name))
            return self._tables[name]

    def register(self, name: TableName, metadata_location: str) -> None:
        """Puts an existing metadata file under a name.

        Raises:
            MeltlineError: The name is taken.
        """
        with self._guard:
            if name in self._tables:
                raise MeltlineError(f"{name} exists already", object=str(name))
            self._tables[name] = metadata_location

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
            new = _next_location(base, self._new_id())
            self._store.write(new, json.dumps(document).encode())
            self._tables[name] = new
        if (document.get("properties") or {}).get(_ENGINE_DELETES) == "true":
            self._store.delete(forgotten)
        return new

    def _log_base(self, base: str, document: dict[str, Any]) -> list[str]:
        """Appends the base to the metadata log, and returns what the log forgets for it."""
        log = document.setdefault("metadata-log", [])
        log.append({"timestamp-ms": document["last-updated-ms"], "metadata-file": base})
        properties = document.get("properties") or {}
        length = int(properties.get("write.metadata.previous-versions-max", _DEFAULT_LOG_LENGTH))
        surplus = max(0, len(log) - max(1, length))
        forgotten = [entry["metadata-file"] for entry in log[:surplus]]
        del log[:surplus]
        now = to_millis(self._clock.now())
        document["last-updated-ms"] = max(document["last-updated-ms"], now)
        return forgotten


def _next_location(base: str, unique: str) -> str:
    folder, _, file = base.rpartition("/")
    version = file.split("-", 1)[0]
    number = int(version) + 1 if version.isdecimal() else 0
    return f"{folder}/{number:05d}-{unique}.metadata.json"
