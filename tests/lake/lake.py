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

from meltline.adapters.archive.copy_reader import StoreCopyReader
from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.chunks.file_reader import AvroChunkFiles
from meltline.adapters.manifests.fastavro_reader import AvroManifests
from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.app.doctor.init import init
from meltline.app.ownership.half_seen import misplaced_now
from meltline.app.run.lifecycle import run_chain
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ARMED
from meltline.app.safety.installations import mark_of
from meltline.app.safety.server_probe import PROBED, ServerVerdict
from meltline.app.services import ColdTier, RunContext
from meltline.config.load import CatalogConfig, Config
from meltline.config.schema import CatalogType
from meltline.domain.arming import Arming
from meltline.domain.clock import resolve_as_of
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.limits import GateSettings, Limits
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.path_aliases import StoreNames
from meltline.domain.retention.policy import PROFILES, AccountPolicy
from meltline.domain.units import to_millis
from meltline.ports import Committer, DeleteOutcome
from tests.doubles.archive import MemoryArchive
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.chunks import (
    MemoryChunkDropper,
    MemoryChunkRows,
    MemoryReplicator,
    MemoryRollupEngine,
    TableWriter,
)
from tests.doubles.committer import MemoryCommitter
from tests.doubles.control.ledger import memory_control_ledger
from tests.doubles.file_tables import MemoryTables
from tests.doubles.files import MemoryLedgerReader, memory_file_ledger
from tests.doubles.proofs import MemoryProofReader
from tests.doubles.rest_protocol import MemoryProtocol
from tests.doubles.rows import MemoryRowComparer
from tests.doubles.store import MemoryStore
from tests.lake.avro_files import FileFacts, Manifest, read_manifests
from tests.lake.engine import Table, new_document
from tests.lake.plain_gate import PlainGateEngine

__all__ = ["DAY", "MINUTE", "ROOMY", "T0", "WAREHOUSE", "Lake", "Table", "business"]

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WAREHOUSE = "file:///w"
OUTSIDE = "file:///elsewhere"
COLD_WAREHOUSE = "file:///cold"
AT_ONCE = 1_000_000  # keys a second: nobody waits
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

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        assert keys_per_second > 0
        needed, paths = self._lake.needed(), [file.path for file in files]
        doomed = sorted(path for path in paths if self._lake._real_key(path) in needed)
        assert not doomed, f"about to delete what is needed: {doomed}"
        waiting = {
            d.path: d.due_at
            for d in self._lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
        }
        early = sorted(p for p in paths if waiting[p] > self._lake.clock.now())
        assert not early, f"about to delete before its time: {early}"
        return self.delete_checked(files)

    def delete_checked(self, files: Sequence[DepartedObject]) -> Sequence[DeleteOutcome]:
        """Deletes, and notes what was; at once, for the lake's clock stands still."""
        misplaced = misplaced_now(self._lake.config(), self._lake.store, self._lake.control)
        outcomes = StoreDeleter(self._lake.store, misplaced).delete(files, AT_ONCE)
        self.deleted += [o.path for o in outcomes if not o.error and not o.replaced]
        return outcomes


def business(**changes: Any) -> AccountPolicy:
    return AccountPolicy(profile=PROFILES["business"], **changes)


def of_catalogs(catalogs: Mapping[str, Any]) -> dict[str, Any]:
    """Catalogs as those have them who read them, and those who change them."""
    return {"catalogs": catalogs, "editors": catalogs, "registrars": catalogs}


@dataclass
class Lake:
    """Catalogs, a store and both ledgers. Every commit happens at the clock's time."""

    account: AccountPolicy = field(default_factory=business)
    limits: Limits = ROOMY
    other_catalogs: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    """Further catalogs, which the configuration does not list."""
    has_cold: bool = False
    sandbox: bool = True
    is_armed: bool = True
    clock: MovingClock = field(default_factory=MovingClock)
    lease_time: LeaseTime = field(default_factory=LeaseTime)
    storage_roots: tuple[str, ...] = ()
    holds_group: bool = False
    stores: StoreNames = field(default_factory=StoreNames)
    warehouses: Mapping[str, str] = field(default_factory=dict)
    """Of catalogs that do not have the lake's own."""
    behind_rest: bool = False
    """Whether a server stands before the hot catalog, and writes what is committed."""
    interrupt: Callable[[TableName], object] = lambda table: None
    """What others do to a table between what is known of it and a commit over REST."""
    answering: Callable[[TableName], object] = lambda table: None
    """What happens after such a commit, before its answer is here."""
    unique: Callable[[], str] = lambda: "m"
    """The unique part of a new metadata file's name."""
    overridden: set[str] = field(default_factory=set)
    """Registrations of which a person has overridden what their owner forbade."""
    make_store: Callable[[MovingClock], Any] = lambda clock: MemoryStore(clock=clock)

    def __post_init__(self) -> None:
        self.store = self.make_store(self.clock)
        names = ("lake", *self.other_catalogs, *self.unlisted)
        self.catalogs = {name: self.new_catalog(name) for name in names}
        self.control = memory_control_ledger(
            self.clock, database=self.clock, lease_time=self.lease_time
        )
        self.file_tables = MemoryTables(self.store)
        self.files = memory_file_ledger(self.file_tables)
        self.deleter = WatchfulDeleter(self)
        self.manifests: dict[
            str, tuple[Manifest, ...]
        ] = {}  # by list, or by the paths named inline
        self.facts: dict[str, FileFacts] = {}  # of files of tables that are cut into chunks
        self.cold = MemoryCatalog("ice", self.store, clock=self.clock, new_id=self.unique)
        self.archive = MemoryArchive(
            self.cold, self.store, COLD_WAREHOUSE, self.clock, self.control.copies
        )
        self._ids = 1000
        self._runs = 0
        init(self.services())
        if self.is_armed:
            self._arm()

    def _arm(self) -> None:
        """A person's word from before the test begins: no decision of it, and no epoch."""
        word = Arming("lake", WAREHOUSE, "first", "tester", "a lake for tests", T0)
        probed = ServerVerdict("", "", "2026-01-01T00:00:00Z", checked="2026-01-01T00:10:00Z")
        properties = {ARMED: word.written, PROBED: probed.written}
        self.catalogs["lake"].set_namespace_properties(("meltline",), properties)
        self.control.switch.arm(word)

    def new_catalog(self, name: str) -> MemoryCatalog:
        """A catalog without any table; only the one called `lake` may be changed."""
        return MemoryCatalog(
            name, self.store, observe_only=name != "lake", clock=self.clock, new_id=self.unique
        )

    # --- the chain -----------------------------------------------------------------------------

    def config(self) -> Config:
        return Config(
            path=Path("meltline.yaml"),
            control="sqlite://",
            hot="lake",
            sandbox=self.sandbox,
            ledger_namespace="meltline",
            catalogs={
                name: CatalogConfig(
                    name,
                    self._type_of(name),
                    "sqlite://",
                    self.warehouses.get(name, WAREHOUSE),
                    name,
                    catalog.observe_only,
                    {},
                )
                for name, catalog in self.listed.items()
            }
            | {"ice": CatalogConfig("ice", "sql", "sqlite://", COLD_WAREHOUSE, "ice", False, {})},
            account=self.account,
            limits=self.limits,
            gates=GateSettings(),
            cold="ice" if self.has_cold else "",
            storage_roots=self.storage_roots,
            holds_group=self.holds_group,
            stores=self.stores,
        )

    @property
    def listed(self) -> dict[str, MemoryCatalog]:
        return {n: catalog for n, catalog in self.catalogs.items() if n not in self.unlisted}

    def services(self, **changes: Any) -> RunContext:
        config, chunk_files = self.config(), AvroChunkFiles(self.store)
        everything = {**self.catalogs, "ice": self.cold}
        writer = TableWriter(everything, self.store, self.clock, self.next_id)
        built = RunContext(
            config=config,
            clock=self.clock,
            **of_catalogs(self.listed),
            store=self.store,
            folders=self.store,
            writer=self.store,
            remover=self.store,
            resolver=self.store,
            manifests=AvroManifests(),
            control=self.control,
            reader=MemoryLedgerReader(self.file_tables),
            progress=lambda line: None,
            who="tester",
            files=self.files,
            committer=self._committer(),
            deleter=self.deleter,
            proofs=MemoryProofReader(self.store),
            gate=PlainGateEngine(config.limits, config.gates.ttl),
            cold=self.tier() if self.has_cold else None,
            archive=self.archive if self.has_cold else None,
            copies=StoreCopyReader(self.store, self.store),
            rows=MemoryRowComparer(everything, self.store),
            chunk_files=chunk_files,
            cold_chunk_files=chunk_files if self.has_cold else None,
            replicator=MemoryReplicator(writer),
            chunk_rows=MemoryChunkRows(everything, self.store),
            dropper=MemoryChunkDropper(writer),
            rollups=MemoryRollupEngine(writer),
        )
        if "catalogs" in changes:
            changes = {**of_catalogs(changes["catalogs"]), **changes}
        return replace(built, **changes)

    def _type_of(self, catalog: str) -> CatalogType:
        return "rest" if self.behind_rest and catalog == "lake" else "sql"

    def _committer(self) -> Committer:
        if not self.behind_rest:
            return MemoryCommitter(self.catalogs, self.store)
        served = MemoryProtocol(self.catalogs["lake"], self.store, self.interrupt, self.answering)
        return RestCommitter({"lake": served}, self.store, self.clock)

    def tier(self) -> ColdTier:
        store = self.store
        return ColdTier(
            self.cold,
            store,
            COLD_WAREHOUSE,
            editor=self.cold,
            writer=store,
            remover=store,
            resolver=store,
            registrar=self.cold,
        )

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
        services: RunContext | None = None,
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
    ) -> Table:
        """Creates an empty table; `name` is `table` or `catalog.namespace.table`."""
        full = TableName.parse(name if "." in name else f"lake.air.{name}")
        at = location or f"{WAREHOUSE}/{'/'.join(full.namespace)}/{full.name}"
        identity = uuid or str(UUID(int=self.next_id(), version=4))
        document = new_document(version, identity, at, to_millis(self.clock.now()))
        document["properties"] = dict(properties or {})
        return self._create(full, document)

    def register(self, name: str, metadata_location: str) -> Table:
        """A second name for a metadata file, as Iceberg's `register_table` gives it."""
        full = TableName.parse(name)
        self.catalogs[full.catalog].register(full, metadata_location)
        return Table(self, full)

    def clone(self, source: Table, name: str) -> Table:
        """A table of its own over the source's present files."""
        full = TableName.parse(name)
        document = source.document
        document["table-uuid"] = str(UUID(int=self.next_id(), version=4))
        document["location"] = f"{WAREHOUSE}/{'/'.join(full.namespace)}/{full.name}"
        document["metadata-log"] = []
        return self._create(full, document)

    def _create(self, name: TableName, document: dict[str, Any]) -> Table:
        metadata = f"{document['location']}/metadata/00000-{self.unique()}.metadata.json"
        self.store.write(metadata, json.dumps(document).encode())
        self.catalogs[name.catalog].register(name, metadata)
        return Table(self, name)

    def manifests_of(self, snapshot: Mapping[str, Any]) -> tuple[Manifest, ...]:
        """What a snapshot refers to, by its list or, in format 1, by the manifests it names."""
        listed = snapshot.get("manifest-list") or " ".join(snapshot["manifests"])
        if listed not in self.manifests:  # a commit of ours, not of an engine
            self.manifests[listed] = read_manifests(self.store.read, listed, self.facts)
        return self.manifests[listed]

    def name_inline(self, snapshot: dict[str, Any], manifests: tuple[Manifest, ...]) -> None:
        """Has a snapshot name its manifests itself, without a list."""
        snapshot["manifests"] = [manifest.path for manifest in manifests]
        self.manifests[" ".join(snapshot["manifests"])] = manifests

    def document(self, metadata_location: str) -> dict[str, Any]:
        """A metadata file's content."""
        document: dict[str, Any] = json.loads(self.truth(metadata_location))
        return document

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    # --- the truth, found by walking -----------------------------------------------------------

    def needed(self) -> set[str]:
        """Every file that any table of any catalog refers to now, as location keys.

        By whatever name: each is the key of what the name leads to.
        """
        found: set[str] = set()
        for catalog in self.catalogs.values():
            for location in list(catalog._tables.values()):
                found |= {self._real_key(path) for path in self._named_by(location)}
        return found

    def _real_key(self, path: str) -> str:
        return location_key(self.store.real_path(path))

    def _named_by(self, location: str) -> Iterable[str]:
        document = self.document(location)
        yield location
        for old in document.get("metadata-log") or []:
            yield old["metadata-file"]
        for key in ("statistics", "partition-statistics"):
            for file in document.get(key) or []:
                yield file["statistics-path"]
        for snapshot in document["snapshots"]:
            if "manifest-list" in snapshot:
                yield snapshot["manifest-list"]
                yield from self._walk(snapshot["manifest-list"])
            for manifest in snapshot.get("manifests", ()):
                yield manifest
                yield from self._alive(manifest)

    def _walk(self, manifest_list: str) -> Iterable[str]:
        content = self.peek(manifest_list)
        for row in fastavro.reader(io.BytesIO(content)) if content else ():
            yield row["manifest_path"]
            yield from self._alive(row["manifest_path"])

    def _alive(self, manifest: str) -> Iterable[str]:
        content = self.peek(manifest)
        for entry in fastavro.reader(io.BytesIO(content)) if content else ():
            if entry["status"] != 2:
                yield entry["data_file"]["file_path"]

    def peek(self, path: str) -> bytes:
        """An object, or nothing where there is none or it was spoilt on purpose."""
        if self.store.size(path) is None or path in self.spoilt:
            return b""
        return self.store.read(path)

    def truth(self, path: str) -> bytes:
        """What an object held before it was spoilt."""
        return self._truths.get(path) or self.store.read(path)

    @property
    def _truths(self) -> dict[str, bytes]:
        return self.__dict__.setdefault("_spoilt", {})

    @property
    def spoilt(self) -> set[str]:
        return set(self._truths)

    def spoil(self, path: str, noise: bytes = b"", *, same_length: bool = False) -> bytes:
        """Has a file hold noise, such as nobody can read; returns what it held."""
        before = self.store.read(path)
        noise = noise or b"\x00 not what it was"
        self.store.write(path, noise.ljust(len(before), b"\x00") if same_length else noise)
        self._truths.setdefault(path, before)
        return before

    def mend(self, path: str, content: bytes) -> None:
        self.store.write(path, content)
        self._truths.pop(path, None)

    def check_nothing_is_missing(self) -> None:
        paths = self.paths().union(*(self.paths(root) for root in self.config().roots))
        there = {self._real_key(path) for path in paths}
        missing = self.needed() - there
        assert not missing, f"needed, and gone: {sorted(missing)}"

    def paths(self, under: str = WAREHOUSE) -> set[str]:
        """All files, but what marks a storage root."""
        paths = {stored.path for stored in self.store.list(under)}
        return {path for path in paths if not path.endswith(mark_of(""))}

    def waiting(self) -> dict[str, datetime]:
        """Paths in failsafe, and until when; but for those that a purge has left alone."""
        found = self.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
        return {departure.path: departure.due_at for departure in found if departure.is_on_its_way}
