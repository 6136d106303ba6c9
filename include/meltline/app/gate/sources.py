"""Input ports of a gate: everything that it reads. It evaluates; others act on its verdict.

`app.run.gate_step` builds it from a run's ports.
"""

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
    """Ports for reading only: none of them can change a file, a table, a plan or a claim.

    `tests/house/reach.py` verifies that. A gate has one effect: it can raise an incident, which
    keeps files.

    Attributes:
        progress: Reports progress.
        look: Lists every catalog and loads every table again.
        side: Returns the reader of cold. Raises ColdMissing if none is configured.
        keeps_our_time: Returns whether the store's clock agrees with ours.
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
        """Returns the current objects at the paths of departures."""
        sandbox = self.config.sandbox
        return DepartedObjects(departures, self.store, self.clock, sandbox, self.keeps_our_time)
