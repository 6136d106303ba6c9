"""The control ledger in memory, put together from its parts."""

import time
from collections.abc import Callable

from meltline.adapters.sql_ledger.holding import HeldLocks
from meltline.domain.clock import Clock, WallClock
from meltline.ports import ControlLedger
from tests.doubles.control.chunks import MemoryChunkPolicies, MemoryChunks, MemorySyncs
from tests.doubles.control.claims import MemoryClaims, MemoryVetoes
from tests.doubles.control.copies import MemoryArchived, MemoryCopies
from tests.doubles.control.database import MemoryDatabase
from tests.doubles.control.decisions import (
    MemoryDecisions,
    MemoryEpochs,
    MemoryIncidents,
)
from tests.doubles.control.locks import MemoryLockRows
from tests.doubles.control.plans import MemoryPlans, MemoryVerdicts
from tests.doubles.control.policies import MemoryLeases, MemoryPolicies
from tests.doubles.control.rollups import MemoryRollups
from tests.doubles.control.runs import (
    MemoryAudit,
    MemoryRuns,
    MemoryStatements,
    MemoryStorage,
    MemorySwitch,
)
from tests.doubles.control.tables import (
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
