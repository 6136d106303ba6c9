"""A small lake in memory: real metadata JSON, manifest lists and manifests, without an engine."""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro

from meltline.adapters.iceberg.manifests import AvroManifests
from meltline.adapters.memory.catalog import MemoryCatalog
from meltline.adapters.memory.committer import MemoryCommitter, remove_snapshots
from meltline.adapters.memory.control import MemoryControlLedger
from meltline.adapters.memory.files import MemoryFileLedger, MemoryLedgerReader
from meltline.adapters.memory.proofs import MemoryProofReader
from meltline.adapters.memory.store import MemoryStore
from meltline.app.init import init
from meltline.app.lifecycle import RunRequest, run_chain
from meltline.app.services import Services
from meltline.app.summary import Summary
from meltline.config import CatalogConfig, Config
from meltline.domain.clock import resolve_as_of
from meltline.domain.files import DepartureState, EntryStatus, FileKind
from meltline.domain.limits import GateSettings, Limits
from meltline.domain.locations import location_key
from meltline.domain.names import TableName
from meltline.domain.policy import PROFILES, AccountPolicy
from meltline.domain.quantities import to_millis
from meltline.ports import DeleteOutcome
from tests.unit.avro_files import Entry, Manifest, list_bytes, manifest_bytes
from tests.unit.plain_gate import PlainGateEngine

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WAREHOUSE = "file:///w"
ROOMY = Limits(max_delete_ratio=1.0, max_growth=1e9, lock_wait=timedelta(0))


@dataclass
class MovingClock:
    """A simulated clock that stands still until a test moves it."""

    moment: datetime = T0
    simulated: bool = True

    def now(self) -> datetime:
        return self.moment


@dataclass
class LeaseTime:
    """Real time for leases; a test lets it pass as if the holder had died."""

    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


class WatchfulDeleter:
    """Deletes, and holds every delete against a walk of all metadata at that very moment."""

    def __init__(self, lake: "Lake") -> None:
        self._lake = lake
        self.deleted: list[str] = []

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        assert keys_per_second > 0
        needed = self._lake.needed()
        doomed = sorted(path for path in paths if location_key(path) in needed)
        assert not doomed, f"about to delete what is needed: {doomed}"
        waiting = {
            d.path: d.due_at
            for d in self._lake.files.departures(frozenset({DepartureState.FAILSAFE}))
        }
        early = sorted(p for p in paths if waiting[p] > self._lake.clock.now())
        assert not early, f"about to delete before its time: {early}"
        self.deleted += paths
        return self._lake.store.delete(paths)


def business(**changes: Any) -> AccountPolicy:
    return AccountPolicy(profile=PROFILES["business"], **changes)


@dataclass
class Lake:
    """Catalogs, a store and both ledgers. Every commit happens at the clock's time."""

    account: AccountPolicy = field(default_factory=business)
    limits: Limits = ROOMY
    other_catalogs: tuple[str, ...] = ()
    clock: MovingClock = field(default_factory=MovingClock)
    lease_time: LeaseTime = field(default_factory=LeaseTime)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.catalogs = {
            name: MemoryCatalog(
                name,
                self.store,
                observe_only=name != "lake",
                clock=self.clock,
                new_id=lambda: "m",
            )
            for name in ("lake", *self.other_catalogs)
        }
        self.control = MemoryControlLedger(
            self.clock, database=self.clock, lease_time=self.lease_time
        )
        self.files = MemoryFileLedger(self.store)
        self.deleter = WatchfulDeleter(self)
        self.manifests: dict[str, tuple[Manifest, ...]] = {}  # by manifest list
        self._ids = 1000
        self._runs = 0
        init(self.services())

    # --- the chain -----------------------------------------------------------------------------

    def config(self) -> Config:
        return Config(
            path=Path("meltline.yaml"),
            control="sqlite://",
            hot="lake",
            sandbox=True,
            ledger_namespace="meltline",
            catalogs={
                name: CatalogConfig(
                    name, "sql", "sqlite://", WAREHOUSE, name, catalog.observe_only, {}
                )
                for name, catalog in self.catalogs.items()
            },
            account=self.account,
            limits=self.limits,
            gates=GateSettings(),
        )

    def services(self, **changes: Any) -> Services:
        config = self.config()
        built = Services(
            config=config,
            clock=self.clock,
            catalogs=self.catalogs,
            store=self.store,
            manifests=AvroManifests(),
            control=self.control,
            reader=MemoryLedgerReader(self.files),
            progress=lambda line: None,
            who="tester",
            files=self.files,
            committer=MemoryCommitter(self.catalogs, self.store),
            deleter=self.deleter,
            proofs=MemoryProofReader(self.store),
            gate=PlainGateEngine(config.limits, config.gates.ttl),
        )
        return replace(built, **changes)

    def request(
        self, run_id: str = "", as_of: datetime | None = None, tables: tuple[str, ...] = ()
    ) -> RunRequest:
        if not run_id:
            self._runs += 1
            run_id = f"run-{self._runs}"
        moment = resolve_as_of(as_of, self.clock.now(), dry_run=False)
        return RunRequest(run_id, moment, tables)

    def run(
        self,
        run_id: str = "",
        as_of: datetime | None = None,
        tables: tuple[str, ...] = (),
        services: Services | None = None,
    ) -> Summary:
        """One run of the whole chain; nothing that is needed may be missing afterwards."""
        summary = run_chain(services or self.services(), self.request(run_id, as_of, tables))
        self.check_nothing_is_missing()
        return summary

    # --- time ----------------------------------------------------------------------------------

    def on(self, day: float) -> "Lake":
        """Moves the clock to so many days after the beginning."""
        self.clock.moment = T0 + day * DAY
        return self

    def let_leases_end(self) -> None:
        self.lease_time.seconds += 3600

    # --- tables --------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        *,
        version: int = 2,
        location: str = "",
        properties: Mapping[str, str] | None = None,
        uuid: str = "",
    ) -> "Table":
        """Creates an empty table; `name` is `table` or `catalog.namespace.table`."""
        full = TableName.parse(name if "." in name else f"lake.air.{name}")
        at = location or f"{WAREHOUSE}/{'/'.join(full.namespace)}/{full.name}"
        identity = uuid or str(UUID(int=self.next_id(), version=4))
        document = _new_document(version, identity, at, to_millis(self.clock.now()))
        document["properties"] = dict(properties or {})
        metadata = f"{at}/metadata/00000-m.metadata.json"
        self.store.write(metadata, json.dumps(document).encode())
        self.catalogs[full.catalog].register(full, metadata)
        return Table(self, full)

    def register(self, name: str, metadata_location: str) -> "Table":
        """A second name for a metadata file, as Iceberg's `register_table` gives it."""
        full = TableName.parse(name)
        self.catalogs[full.catalog].register(full, metadata_location)
        return Table(self, full)

    def clone(self, source: "Table", name: str) -> "Table":
        """A table of its own over the source's present files."""
        full = TableName.parse(name)
        document = source.document
        document["table-uuid"] = str(UUID(int=self.next_id(), version=4))
        document["location"] = f"{WAREHOUSE}/{'/'.join(full.namespace)}/{full.name}"
        document["metadata-log"] = []
        metadata = f"{document['location']}/metadata/00000-m.metadata.json"
        self.store.write(metadata, json.dumps(document).encode())
        self.catalogs[full.catalog].register(full, metadata)
        return Table(self, full)

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    # --- the truth, found by walking -----------------------------------------------------------

    def needed(self) -> set[str]:
        """Every file that any table of any catalog refers to now, as location keys."""
        found: set[str] = set()
        for catalog in self.catalogs.values():
            for location in list(catalog._tables.values()):
                found |= {location_key(path) for path in self._named_by(location)}
        return found

    def _named_by(self, location: str) -> Iterable[str]:
        document = json.loads(self.store.read(location))
        yield location
        for old in document.get("metadata-log") or []:
            yield old["metadata-file"]
        for key in ("statistics", "partition-statistics"):
            for file in document.get(key) or []:
                yield file["statistics-path"]
        for snapshot in document["snapshots"]:
            yield snapshot["manifest-list"]
            yield from self._walk(snapshot["manifest-list"])

    def _walk(self, manifest_list: str) -> Iterable[str]:
        content = self.peek(manifest_list)
        for row in fastavro.reader(io.BytesIO(content)) if content else ():
            yield row["manifest_path"]
            manifest = self.peek(row["manifest_path"])
            for entry in fastavro.reader(io.BytesIO(manifest)) if manifest else ():
                if entry["status"] != 2:
                    yield entry["data_file"]["file_path"]

    def peek(self, path: str) -> bytes:
        """An object, or nothing where there is none or it was spoilt on purpose."""
        if self.store.size(path) is None or path in self.spoilt:
            return b""
        return self.store.read(path)

    @property
    def spoilt(self) -> set[str]:
        return self.__dict__.setdefault("_spoilt", set())

    def spoil(self, path: str) -> bytes:
        """Makes a file unreadable; returns what it held."""
        before = self.store.read(path)
        self.store.write(path, b"\x00 not what it was")
        self.spoilt.add(path)
        return before

    def mend(self, path: str, content: bytes) -> None:
        self.store.write(path, content)
        self.spoilt.discard(path)

    def check_nothing_is_missing(self) -> None:
        there = {location_key(path) for path in self.paths()}
        missing = self.needed() - there
        assert not missing, f"needed, and gone: {sorted(missing)}"

    def paths(self, under: str = WAREHOUSE) -> set[str]:
        return {stored.path for stored in self.store.list(under)}

    def waiting(self) -> dict[str, datetime]:
        """Paths in failsafe, and until when."""
        found = self.files.departures(frozenset({DepartureState.FAILSAFE}))
        return {departure.path: departure.due_at for departure in found}


@dataclass
class Table:
    """A table of the lake, and what engines do to it."""

    lake: Lake
    name: TableName

    @property
    def catalog(self) -> MemoryCatalog:
        return self.lake.catalogs[self.name.catalog]

    @property
    def metadata_location(self) -> str:
        return self.catalog.location(self.name)

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.lake.store.read(self.metadata_location))
        return document

    @property
    def uuid(self) -> str:
        return str(self.document["table-uuid"])

    @property
    def location(self) -> str:
        return str(self.document["location"])

    @property
    def head(self) -> int:
        return int(self.document["current-snapshot-id"])

    @property
    def snapshots(self) -> list[int]:
        return [snapshot["snapshot-id"] for snapshot in self.document["snapshots"]]

    def data(self, name: str) -> str:
        """The path of a data file by its short name; a whole path stays as it is."""
        return name if "/" in name else f"{self.location}/data/{name}.parquet"

    def manifest_list(self, snapshot_id: int) -> str:
        found = [s for s in self.document["snapshots"] if s["snapshot-id"] == snapshot_id]
        return str(found[0]["manifest-list"])

    def manifests(self, snapshot_id: int) -> tuple[str, ...]:
        rows = self.lake.manifests[self.manifest_list(snapshot_id)]
        return tuple(manifest.path for manifest in rows)

    # --- commits -------------------------------------------------------------------------------

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Any change of the metadata, committed as an engine commits it."""
        document = self.document
        change(document)
        assert self.catalog.commit(self.name, self.metadata_location, document) is not None

    def append(self, *files: str, ref: str = "main") -> int:
        return self.replace(add=files, ref=ref)

    def overwrite(self, *files: str) -> int:
        """Replaces everything: the old files get tombstones, as an engine writes them."""
        live = [e.path for m in self._parent_manifests("main") for e in m.live]
        return self.replace(remove=live, add=files, operation="overwrite")

    def replace(
        self,
        *,
        remove: Iterable[str] = (),
        add: Iterable[str] = (),
        kind: FileKind = FileKind.DATA,
        ref: str = "main",
        operation: str = "append",
    ) -> int:
        """A commit that removes and adds files. Returns the new snapshot's id."""
        gone = {self.data(name) for name in remove}
        snapshot_id, sequence = (
            self.lake.next_id(),
            self.document.get("last-sequence-number", 0) + 1,
        )
        manifests: list[Manifest] = []
        for parent in self._parent_manifests(ref):
            if gone & {entry.path for entry in parent.live}:
                manifests.append(self._without(parent, gone, snapshot_id, sequence, len(manifests)))
            elif parent.live:
                manifests.append(parent)
        added = [self._new_file(name, kind, snapshot_id, sequence) for name in add]
        if added:
            at = len(manifests)
            manifests.append(self._write_manifest(added, snapshot_id, sequence, at))
        self._commit_snapshot(snapshot_id, sequence, manifests, ref, operation)
        return snapshot_id

    def rewrite_manifests(self) -> int:
        """Puts all live entries into one new manifest; no file is added or removed."""
        snapshot_id, sequence = (
            self.lake.next_id(),
            self.document.get("last-sequence-number", 0) + 1,
        )
        entries = [
            entry.turned(EntryStatus.EXISTING)
            for manifest in self._parent_manifests("main")
            for entry in manifest.live
        ]
        manifest = self._write_manifest(entries, snapshot_id, sequence, 0)
        self._commit_snapshot(snapshot_id, sequence, [manifest], "main", "replace")
        return snapshot_id

    def delete_rows(self, vector: str, *, kind: FileKind, count: int = 1) -> int:
        """Adds a delete file; `count` entries may share one Puffin file."""
        return self.replace(add=[vector] * count, kind=kind, operation="delete")

    def tag(self, name: str, snapshot_id: int, **more: int) -> None:
        ref = {"type": "tag", "snapshot-id": snapshot_id, **more}
        self.edit(lambda document: document["refs"].update({name: ref}))

    def branch(self, name: str, snapshot_id: int) -> None:
        ref = {"type": "branch", "snapshot-id": snapshot_id}
        self.edit(lambda document: document["refs"].update({name: ref}))

    def drop_ref(self, name: str) -> None:
        self.edit(lambda document: document["refs"].pop(name))

    def rollback(self, snapshot_id: int) -> None:
        def change(document: dict[str, Any]) -> None:
            document["current-snapshot-id"] = snapshot_id
            document["refs"]["main"]["snapshot-id"] = snapshot_id
            now = to_millis(self.lake.clock.now())
            document["snapshot-log"].append({"timestamp-ms": now, "snapshot-id": snapshot_id})

        self.edit(change)

    def configure(self, **properties: str) -> None:
        """Sets properties; in the keyword `__` stands for a dot and `_` for a hyphen."""
        found = {
            key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()
        }
        self.edit(lambda document: document["properties"].update(found))

    def statistics(self, snapshot_id: int) -> str:
        """Adds a statistics file for a snapshot. Returns its path."""
        path = f"{self.location}/metadata/{snapshot_id}.stats"
        self.lake.store.write(path, b"s" * 50)
        file = {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 50,
            "file-footer-size-in-bytes": 10,
            "blob-metadata": [],
        }
        self.edit(lambda document: document["statistics"].append(file))
        return path

    def expire_elsewhere(self, *snapshot_ids: int) -> None:
        """Another tool expires snapshots and leaves their files."""
        self.edit(lambda document: remove_snapshots(document, frozenset(snapshot_ids)))

    def drop(self) -> None:
        self.catalog.drop(self.name)

    # --- how a commit is made --------------------------------------------------------------------

    def _parent_manifests(self, ref: str) -> tuple[Manifest, ...]:
        found = self.document["refs"].get(ref)
        if found is None:
            return ()
        return self.lake.manifests[self.manifest_list(found["snapshot-id"])]

    def _new_file(self, name: str, kind: FileKind, snapshot_id: int, sequence: int) -> Entry:
        path = self.data(name)
        size = 100 + len(path)
        if self.lake.store.size(path) is None:
            self.lake.store.write(path, b"d" * size)
        return Entry(path, size, kind, EntryStatus.ADDED, snapshot_id, sequence)

    def _without(
        self, parent: Manifest, gone: set[str], snapshot_id: int, sequence: int, number: int
    ) -> Manifest:
        entries = [
            entry.turned(EntryStatus.DELETED, snapshot_id)
            if entry.path in gone
            else entry.turned(EntryStatus.EXISTING)
            for entry in parent.live
        ]
        return self._write_manifest(entries, snapshot_id, sequence, number)

    def _write_manifest(
        self, entries: Sequence[Entry], snapshot_id: int, sequence: int, number: int
    ) -> Manifest:
        path = f"{self.location}/metadata/{snapshot_id}-m{number}.avro"
        content = manifest_bytes(self.document["format-version"], entries)
        self.lake.store.write(path, content)
        return Manifest(path, len(content), snapshot_id, sequence, tuple(entries))

    def _commit_snapshot(
        self,
        snapshot_id: int,
        sequence: int,
        manifests: Sequence[Manifest],
        ref: str,
        operation: str,
    ) -> None:
        path = f"{self.location}/metadata/snap-{snapshot_id}-1-m.avro"
        version = self.document["format-version"]
        self.lake.store.write(path, list_bytes(version, manifests))
        self.lake.manifests[path] = tuple(manifests)
        live = [entry for manifest in manifests for entry in manifest.live]
        data = sum(entry.kind is FileKind.DATA for entry in live)
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": to_millis(self.lake.clock.now()),
            "manifest-list": path,
            "schema-id": 0,
            "summary": {
                "operation": operation,
                "total-data-files": str(data),
                "total-delete-files": str(len(live) - data),
            },
        }
        if version > 1:
            snapshot["sequence-number"] = sequence
        if version == 3:
            snapshot |= {"first-row-id": 0, "added-rows": 0}

        def change(document: dict[str, Any]) -> None:
            refs = document["refs"]
            if ref in refs:
                snapshot["parent-snapshot-id"] = refs[ref]["snapshot-id"]
            document["snapshots"].append(snapshot)
            refs.setdefault(ref, {"type": "branch"})["snapshot-id"] = snapshot_id
            if version > 1:
                document["last-sequence-number"] = sequence
            if ref == "main":
                document["current-snapshot-id"] = snapshot_id
                entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": snapshot_id}
                document["snapshot-log"].append(entry)

        self.edit(change)


def _new_document(version: int, uuid: str, location: str, now: int) -> dict[str, Any]:
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": now,
        "last-column-id": 1,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
    }
    if version == 1:
        document |= {"schema": schema, "partition-spec": []}
    else:
        document["last-sequence-number"] = 0
    if version == 3:
        document["next-row-id"] = 0
    return document
