"""What a step works with: the ports, wired once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

from meltline.config.load import Config
from meltline.domain.clock import Clock
from meltline.domain.retention.longer_window import LongerWindow
from meltline.ports import (
    Archive,
    Catalog,
    CatalogEditor,
    CatalogRegistrar,
    ChunkDropper,
    ChunkFileReader,
    ChunkRows,
    Committer,
    ControlLedger,
    ControlSources,
    CopyReader,
    Deleter,
    FileLedger,
    FolderReader,
    GateEngine,
    LedgerReader,
    ManifestReader,
    ObjectReader,
    ObjectRemover,
    ObjectWriter,
    PathResolver,
    PolicyStore,
    ProofCache,
    Replicator,
    RollupEngine,
    RowComparer,
    ServerProbe,
    Sweeper,
)
from meltline.ports.retrieval import DeepStore, Retriever

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class ColdReader:
    """The cold tier, to be read.

    Attributes:
        catalog: Holds the cold tables.
        store: What they lie in.
        warehouse: Below it lies all of cold.
    """

    catalog: Catalog
    store: ObjectReader
    warehouse: str


@dataclass(frozen=True)
class ColdTier(ColdReader):
    """Where history goes when it leaves hot. It has credentials of its own (AR-34).

    Attributes:
        editor: The catalog, to change what it says of its tables.
        writer: The store, to be written to; `remover`, to be deleted from.
        resolver: Where names in it lead.
        registrar: The catalog, to make tables in it.
    """

    editor: CatalogEditor = field(kw_only=True)
    writer: ObjectWriter = field(kw_only=True)
    remover: ObjectRemover = field(kw_only=True)
    resolver: PathResolver = field(kw_only=True)
    registrar: CatalogRegistrar = field(kw_only=True)


@dataclass(frozen=True)
class ReadSources:
    """Ports that read tables, their chunks and cold; a gate gets these, and nothing that writes.

    Attributes:
        catalogs: By name, every one of `meltline.yaml` but the cold one.
        store: Objects of hot.
        cold: The cold tier, where one is configured. Its catalog is none of `catalogs`: nothing
            that looks for what is needed, planned or deleted comes across it (I-8).
        chunk_files: Tells which files lie in which chunks; `cold_chunk_files` the same of cold's.
        policy_stores: What keeps policies beside tables' properties, by catalog; few have it.
    """

    config: Config
    clock: Clock
    catalogs: Mapping[str, Catalog]
    store: ObjectReader
    control: ControlSources
    cold: ColdReader | None = field(default=None, kw_only=True)
    chunk_files: ChunkFileReader = field(kw_only=True)
    cold_chunk_files: ChunkFileReader | None = field(default=None, kw_only=True)
    policy_stores: Mapping[str, PolicyStore] = field(default_factory=dict, kw_only=True)

    def read_only(self) -> "ReadSources":
        """Returns the ports of this class alone, without those that a subclass adds."""
        cold = self.cold and _part(ColdReader, self.cold)
        control = _part(ControlSources, self.control)
        return replace(_part(ReadSources, self), cold=cold, control=control)


def _part(kind: type[_Part], whole: _Part) -> _Part:
    """Copies the fields that a base class has."""
    shared: Any = {each.name: getattr(whole, each.name) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**shared)


@dataclass(frozen=True)
class ReadContext(ReadSources):
    """What needs no JVM: enough to look, to decide on a policy, to stop and to go.

    Attributes:
        editors: The catalogs, to change what they say of a table.
        registrars: The same, to change which tables they have.
        folders: The store, one folder at a time; the next three are the same for those who do more.
        writer: To be written to.
        remover: To be deleted from at once: what is purged goes by `deleter`.
        resolver: Where names lead.
        reader: The file ledger's tables, read only.
        progress: Tells a person what is going on; never part of the answer.
        who: Under whose name decisions are recorded.
        copies: Reads cold beside hot, for the gate and for those who ask.
        deep: The permanent store, where one is configured.
        run_id: Of which run this is a step; empty for what belongs to none.
        once: Why a person lets this run destroy in a catalog that is not armed; empty for nobody.
        probes: What tries out the servers behind catalogs, by catalog.
        longer_window: What this run keeps of one table beyond its policy; None is nothing.
    """

    editors: Mapping[str, CatalogEditor]
    registrars: Mapping[str, CatalogRegistrar]
    writer: ObjectWriter
    remover: ObjectRemover
    resolver: PathResolver
    manifests: ManifestReader
    control: ControlLedger
    reader: LedgerReader
    progress: Callable[[str], None]
    who: str
    cold: ColdTier | None = field(default=None, kw_only=True)
    copies: CopyReader | None = field(default=None, kw_only=True)
    folders: FolderReader = field(kw_only=True)
    deep: DeepStore | None = field(default=None, kw_only=True)
    run_id: str = field(default="", kw_only=True)
    once: str = field(default="", kw_only=True)
    probes: Mapping[str, ServerProbe] = field(default_factory=dict, kw_only=True)
    longer_window: LongerWindow | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class RunContext(ReadContext):
    """Everything the steps of the chain may touch.

    Attributes:
        archive: Writes cold; None where none is configured, like the next two.
        rows: Reads rows on both sides.
        prepare_cold: Makes the cold catalog where it is not there yet.
        lay_foundations: Makes what the hot and the cold catalog stand on, or names what is missing.
        replicator: Copies chunks to cold; `chunk_rows` reads them, `dropper` takes them out of hot.
        rollups: Aggregates them.
    """

    files: FileLedger
    committer: Committer
    deleter: Deleter
    proofs: ProofCache
    gate: GateEngine
    archive: Archive | None = field(default=None, kw_only=True)
    rows: RowComparer | None = field(default=None, kw_only=True)
    prepare_cold: Callable[[], None] | None = field(default=None, kw_only=True)
    lay_foundations: Callable[[], None] | None = field(default=None, kw_only=True)
    replicator: Replicator | None = field(default=None, kw_only=True)
    chunk_rows: ChunkRows | None = field(default=None, kw_only=True)
    dropper: ChunkDropper | None = field(default=None, kw_only=True)
    rollups: RollupEngine | None = field(default=None, kw_only=True)


class OpenServices(Protocol):
    """Gives steps what they work with, when they need it: that starts Spark."""

    def __call__(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        """As `meltline.wiring.Wiring.services`."""
        ...


@dataclass(frozen=True)
class SweepServices(RunContext):
    """The chain's ports, and the one that lists the store."""

    sweeper: Sweeper


@dataclass(frozen=True)
class Retrieval:
    """What brings archived files back, and what holds them against those of cold.

    Attributes:
        retriever: Copies them.
        reader: Reads cold as where the originals are, hot as where the copies are.
    """

    retriever: Retriever
    reader: CopyReader
