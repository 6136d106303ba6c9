"""The control ledger: all protocols of small transactional facts, as one object.

`wiring` builds it, and `app` passes its parts on. Large facts are in the file ledger.
"""

from dataclasses import dataclass

from meltline.ports.chunk_ledger import (
    ChunkLedger,
    ChunkPolicyLedger,
    ChunkPolicyReader,
    ChunkReader,
    SyncLedger,
    SyncReader,
)
from meltline.ports.control.audit import AuditLog
from meltline.ports.control.claims import ClaimLedger, VetoLedger
from meltline.ports.control.copies import ArchivedLedger, CopyLedger
from meltline.ports.control.database import LedgerDatabase
from meltline.ports.control.decisions import Decisions, EpochLedger, EpochReader, GuardReader
from meltline.ports.control.incidents import IncidentLedger
from meltline.ports.control.locks import LockTable
from meltline.ports.control.observations import ObservationLedger
from meltline.ports.control.plans import PlanLedger, PlanReader
from meltline.ports.control.policies import LeaseLedger, PolicyLedger
from meltline.ports.control.runs import RunLog, StatementLog, StorageHistory, SwitchLedger
from meltline.ports.control.tables import (
    ForeignOwnerLedger,
    PlaceLedger,
    RegistrationLedger,
    RegistrationReader,
)
from meltline.ports.control.verdicts import VerdictLedger
from meltline.ports.rollups import RollupLedger, RollupReader


@dataclass(frozen=True)
class ControlSources:
    """The read-only parts of the ledger that describe tables and their chunks."""

    registrations: RegistrationReader
    plans: PlanReader
    decisions: GuardReader
    epochs: EpochReader
    chunks: ChunkReader
    syncs: SyncReader
    chunk_policies: ChunkPolicyReader
    rollups: RollupReader


@dataclass(frozen=True)
class ControlLedger(ControlSources):
    """All parts of one ledger; a function takes only those that it needs.

    Every method of a part is one transaction. Each raises SetupMissing if the ledger was never
    prepared, or the database does not answer.
    """

    database: LedgerDatabase
    registrations: RegistrationLedger
    places: PlaceLedger
    observations: ObservationLedger
    policies: PolicyLedger
    leases: LeaseLedger
    plans: PlanLedger
    verdicts: VerdictLedger
    locks: LockTable
    claims: ClaimLedger
    vetoes: VetoLedger
    archived: ArchivedLedger
    copies: CopyLedger
    decisions: Decisions
    epochs: EpochLedger
    incidents: IncidentLedger
    owners: ForeignOwnerLedger
    runs: RunLog
    switch: SwitchLedger
    statements: StatementLog
    audit: AuditLog
    storage: StorageHistory
    chunks: ChunkLedger
    syncs: SyncLedger
    chunk_policies: ChunkPolicyLedger
    rollups: RollupLedger
