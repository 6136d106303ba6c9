"""Contexts: the ports that a step works with, wired once by `meltline.wiring`.

Every step takes one of the classes here. The smaller ones exist so that a gate cannot write, and
that commands without Spark start no JVM.
"""

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
    """The cold tier, read only.

    Attributes:
        catalog: The catalog of the cold tables.
        store: The store of their files.
        warehouse: The prefix of all of cold.
    """

    catalog: Catalog
    store: ObjectReader
    warehouse: str


@dataclass(frozen=True)
class ColdTier(ColdReader):
    """The tier of archived history. It has credentials of its own (AR-34).

    Attributes:
        editor: Changes the metadata of tables in its catalog.
        writer: Writes to its store; `remover` deletes from it.
        resolver: Resolves links in its paths.
        registrar: Creates tables in its catalog.
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
        catalogs: Every catalog of `meltline.yaml` except the cold one, by name.
        store: The store of hot.
        cold: The cold tier, if one is configured. Its catalog is not in `catalogs`: no search for
            references, plans or files to delete includes it (I-8).
        chunk_files: Maps files to chunks; `cold_chunk_files` does so in cold.
        policy_stores: Stores of policies beside tables' properties, by catalog; few have one.
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
    """Ports that need no JVM: enough to read, to set policies, to stop and to resume.

    Attributes:
        editors: Change the metadata of a table in each catalog.
        registrars: Change the registrations in each catalog.
        folders: Lists the store, one folder at a time.
        writer: Writes to the store.
        remover: Deletes from the store at once; purges use `deleter`.
        resolver: Resolves links in paths.
        reader: The file ledger's tables, read only.
        progress: Shows progress messages to the user; never part of the answer.
        who: The user whose name the decisions have.
        copies: Reads cold beside hot, for the gate and for reports.
        deep: The permanent store, if one is configured.
        run_id: The run of this step; empty outside a run.
        once: The reason to let this run destroy in a catalog that is not armed; empty without
            override.
        probes: Probes of the servers behind catalogs, by catalog.
        longer_window: A longer window for one table in this run only; None is by policy.
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
    """All ports of the steps of a run.

    Attributes:
        archive: Writes cold; None if it is not configured, like the next two.
        rows: Reads rows on both sides.
        prepare_cold: Creates the cold catalog if it does not exist.
        lay_foundations: Creates what the hot and the cold catalog need, or reports what is missing.
        replicator: Copies chunks to cold; `chunk_rows` reads them, `dropper` removes them from hot.
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
    """Opens the ports of a step on demand: that starts Spark."""

    def __call__(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        """As `meltline.wiring.Wiring.services`."""
        ...


@dataclass(frozen=True)
class SweepServices(RunContext):
    """The ports of a run, and the sweeper that lists the store."""

    sweeper: Sweeper


@dataclass(frozen=True)
class Retrieval:
    """Ports of a restore: they copy archived files back, and compare them with cold.

    Attributes:
        retriever: Copies the files.
        reader: Reads cold as the originals, and hot as the copies.
    """

    retriever: Retriever
    reader: CopyReader
