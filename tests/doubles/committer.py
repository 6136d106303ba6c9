"""Expiration commits on metadata documents, as Iceberg's own builder makes them."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from meltline.domain.archive.pruning import without
from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.table_metadata import MAIN, STATISTICS
from meltline.ports import CommitOutcome, ObjectReader
from tests.doubles.catalog import MemoryCatalog


class MemoryCommitter:
    """The port `Committer` over in-memory catalogs."""

    def __init__(self, catalogs: Mapping[str, MemoryCatalog], store: ObjectReader) -> None:
        self._catalogs = catalogs
        self._store = store

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        """One compare-and-set on the whole base metadata. See the port."""
        catalog = self._catalogs[plan.table.catalog]
        if catalog.location(plan.table) != base_location:
            return None
        document = json.loads(self._store.read(base_location))
        remove_refs(document, plan.refs)
        remove_snapshots(document, frozenset(plan.snapshots))
        new = catalog.commit(plan.table, base_location, document)
        return None if new is None else CommitOutcome(base_location, new)

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        """No ref can have come meanwhile. See the port."""
        return CommitOutcome(plan.committed_base, "")

    def withdraw(self, plan: Plan) -> bool:
        """Whoever comes late fails by the base. See the port."""
        return False


def remove_refs(document: dict[str, Any], names: Collection[str]) -> None:
    """Takes branches and tags out of a metadata document."""
    refs = document.get("refs") or {}
    for name in names:
        if refs.pop(name, None) and name == MAIN:
            document["current-snapshot-id"] = -1
            document["snapshot-log"] = []


def remove_snapshots(document: dict[str, Any], ids: frozenset[int]) -> None:
    """Takes snapshots out, with their statistics and with the refs that would dangle.

    The snapshot log loses everything up to its last entry of a removed snapshot: a gap would
    make time travel answer from another snapshot.
    """
    for key in document.keys() & {"snapshots", *STATISTICS}:
        document[key] = without(document[key], ids)
    dangling = [n for n, ref in (document.get("refs") or {}).items() if ref["snapshot-id"] in ids]
    remove_refs(document, dangling)
    log = document.get("snapshot-log") or []
    cut = max((at for at, logged in enumerate(log, 1) if logged["snapshot-id"] in ids), default=0)
    document["snapshot-log"] = log[cut:]
