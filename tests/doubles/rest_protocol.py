"""A catalog in memory behind the REST protocol: its server applies updates to what it has then."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meltline.adapters.catalogs.rest.protocol import (
    CommitRaced,
    Json,
    LoadedTable,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import STATISTICS
from meltline.ports import ObjectReader
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.committer import remove_refs, remove_snapshots


class MemoryProtocol:
    """The server's part of the protocol, as far as an expiration needs it.

    Args:
        catalog: Where the tables stand.
        store: Where their metadata files lie.
        interrupt: Called between what a client knows and its commit: others act there.
        answering: Called once it is made, before the client hears of it: that may die there, and
            others act. The server looks again before it answers, as Iceberg's own does.
    """

    def __init__(
        self,
        catalog: MemoryCatalog,
        store: ObjectReader,
        interrupt: Callable[[TableName], object] = lambda table: None,
        answering: Callable[[TableName], object] = lambda table: None,
    ) -> None:
        self._served = catalog
        self._store = store
        self._interrupt, self._answering = interrupt, answering

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        """A table as it stands now. See `Documents`."""
        location = self._served.location(name)
        return LoadedTable(location, json.loads(self._store.read(location)), {})

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        """Carries out updates on what stands there now. See `Documents`."""
        self._interrupt(name)
        table = self.load(name)
        document = dict(table.metadata)
        for requirement in requirements:
            if not _holds(requirement, document):
                raise CommitRaced(str(requirement))
        for update in updates:
            APPLY[update["action"]](document, update)
        if self._served.commit(name, table.metadata_location, document) is None:
            raise CommitRaced(str(name))
        self._answering(name)
        return self.load(name)


def _holds(requirement: Json, document: Json) -> bool:
    if requirement["type"] == "assert-table-uuid":
        return bool(requirement["uuid"] == document["table-uuid"])
    ref = (document.get("refs") or {}).get(requirement["ref"])
    return bool((ref or {}).get("snapshot-id") == requirement["snapshot-id"])


def _set_properties(document: dict[str, Any], update: Json) -> None:
    document["properties"] = {**(document.get("properties") or {}), **update["updates"]}


def _set_ref(document: dict[str, Any], update: Json) -> None:
    ref = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
    known = {snapshot["snapshot-id"] for snapshot in document["snapshots"]}
    assert ref["snapshot-id"] in known, "a server refuses a ref to a snapshot that is not there"
    document["refs"] = {**(document.get("refs") or {}), update["ref-name"]: ref}


def _add_snapshot(document: dict[str, Any], update: Json) -> None:
    snapshot = update["snapshot"]
    if document["format-version"] > 1:
        number = snapshot["sequence-number"]
        assert number > document["last-sequence-number"], "a server refuses an old number"
        document["last-sequence-number"] = number
    document["snapshots"] = [*document["snapshots"], dict(snapshot)]


def _set_statistics(kind: str) -> Callable[[dict[str, Any], Json], None]:
    def apply(document: dict[str, Any], update: Json) -> None:
        document[kind] = [*(document.get(kind) or ()), update[kind]]

    return apply


APPLY: Mapping[str, Callable[[dict[str, Any], Json], None]] = {
    "set-properties": _set_properties,
    "remove-snapshots": lambda d, u: remove_snapshots(d, frozenset(u["snapshot-ids"])),
    "remove-snapshot-ref": lambda d, u: remove_refs(d, [u["ref-name"]]),
    "set-snapshot-ref": _set_ref,
    "add-snapshot": _add_snapshot,
    **{f"set-{kind}": _set_statistics(kind) for kind in STATISTICS},
}
