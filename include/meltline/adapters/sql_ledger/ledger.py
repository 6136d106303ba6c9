"""Assembles the control ledger in SQL from its parts; `wiring` calls it."""

import time
from collections.abc import Callable

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.holding import HeldLocks
from meltline.adapters.sql_ledger.parts.chunks import ChunkPolicyRows, SyncRows, TrackedRows
from meltline.adapters.sql_ledger.parts.claims import ClaimRows, VetoRows
from meltline.adapters.sql_ledger.parts.copies import ArchivedRows, CopyRows
from meltline.adapters.sql_ledger.parts.decisions import DecisionRows, EpochRows
from meltline.adapters.sql_ledger.parts.incidents import IncidentRows
from meltline.adapters.sql_ledger.parts.locks import LockRows
from meltline.adapters.sql_ledger.parts.observations import ObservationRows
from meltline.adapters.sql_ledger.parts.plans import PlanRows
from meltline.adapters.sql_ledger.parts.policies import LeaseRows, PolicyRows
from meltline.adapters.sql_ledger.parts.rollups import RollupRows
from meltline.adapters.sql_ledger.parts.runs import (
    AuditRows,
    RunRows,
    StatementRows,
    StorageRows,
    SwitchRow,
)
from meltline.adapters.sql_ledger.parts.tables import ForeignOwnerRows, PlaceRows, RegistrationRows
from meltline.adapters.sql_ledger.parts.verdicts import VerdictRows
from meltline.domain.clock import Clock
from meltline.file_permissions import Access
from meltline.ports import ControlLedger


def sql_control_ledger(
    url: str,
    clock: Clock,
    *,
    lease_time: Callable[[], float] = time.time,
    access: Access = Access.OWNER,
) -> ControlLedger:
    """Returns the ledger on an SQLite file or a Postgres database, and opens nothing yet.

    Args:
        url: SQLAlchemy URL of an SQLite file or a Postgres database.
        clock: Stamps writes, for `newest_time`; simulated in a sandbox.
        lease_time: Real time in seconds since 1970, for the leases of locks.
        access: File permissions of a file that it creates.

    Raises:
        ConfigInvalid: The URL is neither.
    """
    database = Database(url, clock, access)
    locks = LockRows(database, lease_time)
    return ControlLedger(
        database=database,
        registrations=RegistrationRows(database),
        places=PlaceRows(database),
        owners=ForeignOwnerRows(database),
        observations=ObservationRows(database),
        policies=PolicyRows(database),
        leases=LeaseRows(database),
        plans=PlanRows(database, locks),
        verdicts=VerdictRows(database),
        locks=HeldLocks(locks),
        claims=ClaimRows(database, locks),
        vetoes=VetoRows(database),
        archived=ArchivedRows(database),
        copies=CopyRows(database),
        decisions=DecisionRows(database, locks),
        epochs=EpochRows(database),
        incidents=IncidentRows(database),
        runs=RunRows(database),
        switch=SwitchRow(database),
        statements=StatementRows(database),
        audit=AuditRows(database),
        storage=StorageRows(database),
        chunks=TrackedRows(database),
        syncs=SyncRows(database),
        chunk_policies=ChunkPolicyRows(database),
        rollups=RollupRows(database),
    )
