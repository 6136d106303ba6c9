"""Tables behind a REST server, changed through the protocol itself: without an engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.protocol import Json, LoadedTable, RestProtocol
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.clock import WallClock
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.iceberg.names import TableName
from tests.stacks.rest.iceberg_server import IcebergServer

_SCHEMA = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@dataclass
class RacedTable:
    """One table, with a client of its own.

    Attributes:
        before_commit: Called once between what a committer knew and its commit.
        after_commit: The same, when the commit is made and its answer is not here yet.
        looks_again: Whether the server looks the table up once more before it answers a commit:
            what others did right after it is in the answer then.
        way: How the committer reaches the server, where that is not as people do.
    """

    server: IcebergServer
    name: TableName
    format_version: int = 2
    before_commit: Callable[[], object] | None = None
    after_commit: Callable[[], object] | None = None
    looks_again: bool = False
    way: Mapping[str, str] = field(default_factory=dict)
    protocol: RestProtocol = field(init=False)

    def __post_init__(self) -> None:
        self.protocol = RestProtocol(
            self.name.catalog, lambda: RestCatalog(self.name.catalog, uri=self.server.uri)
        )
        session = self.protocol.catalog._session
        namespaces = self.protocol.catalog.url("namespaces")
        session.post(namespaces, json={"namespace": list(self.name.namespace), "properties": {}})
        body = {
            "name": self.name.name,
            "schema": _SCHEMA,
            "properties": {"format-version": str(self.format_version)},
        }
        answer = session.post(f"{namespaces}/{self.name.namespace[0]}/tables", json=body)
        assert answer.ok, answer.text

    def load(self) -> LoadedTable:
        return self.protocol.load(self.name)

    def commit(self, *updates: Json, requirements: Sequence[Json] = ()) -> LoadedTable:
        """Somebody's commit."""
        return self.protocol.commit(self.name, requirements, updates)

    def append(self, snapshot_id: int) -> None:
        """A snapshot on main; its manifest list is nobody's to read here."""
        table = self.load().metadata
        main = table.get("refs", {}).get("main")
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": max(
                int(datetime.now(UTC).timestamp() * 1000), table["last-updated-ms"]
            ),
            "manifest-list": f"{table['location']}/metadata/snap-{snapshot_id}.avro",
            "summary": {"operation": "append", "total-records": "1"},
            "schema-id": 0,
        }
        if main is not None:
            snapshot["parent-snapshot-id"] = main["snapshot-id"]
        if self.format_version > 1:
            snapshot["sequence-number"] = table["last-sequence-number"] + 1
        if self.format_version > 2:
            snapshot |= {"first-row-id": table["next-row-id"], "added-rows": 1}
        self.commit(
            {"action": "add-snapshot", "snapshot": snapshot}, set_ref("main", snapshot_id, "branch")
        )

    def tag(self, name: str, snapshot_id: int) -> None:
        self.commit(set_ref(name, snapshot_id))

    def untag(self, name: str) -> None:
        self.commit({"action": "remove-snapshot-ref", "ref-name": name})

    def rename(self, name: str) -> None:
        namespace = self.name.namespace
        self.protocol.catalog.rename_table((*namespace, self.name.name), (*namespace, name))

    def refs(self) -> dict[str, int]:
        refs: Mapping[str, Json] = self.load().metadata.get("refs") or {}
        return {name: ref["snapshot-id"] for name, ref in refs.items()}

    def snapshots(self) -> dict[int, Json]:
        return {s["snapshot-id"]: s for s in self.load().metadata.get("snapshots") or ()}

    def plan(self, snapshots: Sequence[int], refs: Sequence[str] = (), id: str = "e1") -> Plan:
        """A plan on the table as it is."""
        table, now = self.load(), datetime.now(UTC)
        location = table.metadata_location
        return Plan(
            id=id,
            run_id="r",
            kind=PlanKind.EXPIRE,
            table=self.name,
            table_uuid=table.metadata["table-uuid"],
            digest="sha256:0",
            as_of=now,
            created_at=now,
            base_location=location,
            snapshots=tuple(sorted(snapshots)),
            refs=tuple(refs),
            committed_base=location,
        )

    @property
    def committer(self) -> RestCommitter:
        """A committer whose first commit meets what the table was told to do."""
        protocols = {self.name.catalog: _Interrupted(self)}
        return RestCommitter(protocols, ObjectStores({}), WallClock())


class Died(Exception):
    """The process that made a commit is no more."""


def die() -> None:
    raise Died


class _Interrupted(RestProtocol):
    """The protocol, with something that happens around its next commit."""

    def __init__(self, table: RacedTable) -> None:
        name = table.name.catalog
        super().__init__(
            name,
            lambda: RestCatalog(name, **table.way) if table.way else table.protocol.catalog,
            pause=lambda seconds: None,
        )
        self._table = table

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        before, self._table.before_commit = self._table.before_commit, None
        if before is not None:
            before()
        done = super().commit(name, requirements, updates)
        after, self._table.after_commit = self._table.after_commit, None
        if after is not None:
            after()
        return self.load(name) if self._table.looks_again else done


def set_ref(name: str, snapshot_id: int, kind: str = "tag") -> Json:
    return {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": kind,
        "snapshot-id": snapshot_id,
    }


def metadata_file(location: str) -> Path:
    return Path(urlsplit(location).path)
