"""What a gate reads, and all that it is given: it judges, and others act on its verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meltline.app.archive.cold_facts import Side
from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.ownership.departed_objects import DepartedObjects
from meltline.config.load import Config
from meltline.domain.clock import Clock
from meltline.domain.iceberg.files import Departure
from meltline.ports import (
    ArchivedReader,
    ChunkReader,
    ClaimReader,
    CopyProofReader,
    DepartedFiles,
    FileReferences,
    FolderReader,
    ForeignOwnerReader,
    GateEngine,
    GuardReader,
    IncidentAlarm,
    IndexedSnapshots,
    LeaseReader,
    ObjectReader,
    PathResolver,
    PlaceReader,
    PlannedItems,
    PlanReader,
    PolicyReader,
    PolicyStore,
    ProofReader,
    RegistrationReader,
    VetoReader,
    VouchedReader,
)


@dataclass(frozen=True)
class GateSources:
    """Ports that read: by none of them can a file, a table, a plan or a claim be changed.

    `tests/house/reach.py` holds that. A gate can do one thing by itself: raise an incident, which
    keeps files.

    Attributes:
        progress: Tells a person what is going on.
        look: Lists every catalog and loads every table anew.
        side: What reads cold. Raises ColdMissing where nothing does.
        keeps_our_time: Whether the store's clock is ours.
    """

    config: Config
    clock: Clock
    progress: Callable[[str], None]
    look: Callable[[], LiveCatalogs]
    side: Callable[[], Side]
    keeps_our_time: Callable[[], bool]
    engine: GateEngine
    store: ObjectReader
    resolver: PathResolver
    proofs: ProofReader
    items: PlannedItems
    snapshots: IndexedSnapshots
    references: FileReferences
    departures: DepartedFiles
    plans: PlanReader
    registrations: RegistrationReader
    places: PlaceReader
    policies: PolicyReader
    policy_stores: Mapping[str, PolicyStore]
    leases: LeaseReader
    vetoes: VetoReader
    claims: ClaimReader
    vouched: VouchedReader
    guards: GuardReader
    owners: ForeignOwnerReader
    folders: FolderReader
    chunks: ChunkReader
    archived: ArchivedReader
    copies: CopyProofReader
    incidents: IncidentAlarm

    def objects(self, departures: Mapping[str, Departure]) -> DepartedObjects:
        """What lies in the store under the paths of departures."""
        sandbox = self.config.sandbox
        return DepartedObjects(departures, self.store, self.clock, sandbox, self.keeps_our_time)
