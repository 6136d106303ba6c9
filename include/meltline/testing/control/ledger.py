"""The control ledger in memory, put together from its parts."""

import time
from collections.abc import Callable

from meltline.adapters.sql_ledger.holding import HeldLocks
from meltline.domain.clock import Clock, WallClock
from meltline.ports import ControlLedger
from meltline.testing.control.chunks import MemoryChunkPolicies, MemoryChunks, MemorySyncs
from meltline.testing.control.claims import MemoryClaims, MemoryVetoes
from meltline.testing.control.copies import MemoryArchived, MemoryCopies
from meltline.testing.control.database import MemoryDatabase
from meltline.testing.control.decisions import (
    MemoryDecisions,
    MemoryEpochs,
    MemoryIncidents,
)
from meltline.testing.control.locks import MemoryLockRows
from meltline.testing.control.plans import MemoryPlans, MemoryVerdicts
from meltline.testing.control.policies import MemoryLeases, MemoryPolicies
from meltline.testing.control.rollups import MemoryRollups
from meltline.testing.control.runs import (
    MemoryAudit,
    MemoryRuns,
    MemoryStatements,
    MemoryStorage,
    MemorySwitch,
)
from meltline.testing.control.tables import (
    MemoryForeignOwners,
    MemoryObservations,
    MemoryPlaces,
    MemoryRegistrations,
)


def memory_control_ledger(
    clock: Clock,
    *,
    database: Clock | None = None,
    lease_time: Callable[[], float] = time.time,
) -> ControlLedger:
    """A ledger in this process's memory.

    Args:
        clock: Stamps writes.
        database: Stands for the database's clock.
        lease_time: Real time in seconds, for the leases of locks.
    """
    state = MemoryDatabase(clock, database or WallClock())
    locks = MemoryLockRows(state, lease_time)
    plans = MemoryPlans(state, locks)
    chunks = MemoryChunks(state)
    return ControlLedger(
        database=state,
        registrations=MemoryRegistrations(state),
        places=MemoryPlaces(state),
        owners=MemoryForeignOwners(state),
        observations=MemoryObservations(state),
        policies=MemoryPolicies(state),
        leases=MemoryLeases(state),
        plans=plans,
        verdicts=MemoryVerdicts(state),
        locks=HeldLocks(locks),
        claims=MemoryClaims(state, locks),
        vetoes=MemoryVetoes(state),
        archived=MemoryArchived(state),
        copies=MemoryCopies(state),
        decisions=MemoryDecisions(state, locks),
        epochs=MemoryEpochs(state),
        incidents=MemoryIncidents(state),
        runs=MemoryRuns(state, plans),
        switch=MemorySwitch(state),
        statements=MemoryStatements(state),
        audit=MemoryAudit(state),
        storage=MemoryStorage(state),
        chunks=chunks,
        syncs=MemorySyncs(state),
        chunk_policies=MemoryChunkPolicies(state, chunks),
        rollups=MemoryRollups(state),
    )
