"""Leases: a reader's claim on a snapshot, which expires if the reader dies (TT-4, DS-21).

They are only in the control ledger, so that acquiring one takes no commit. A leased snapshot is
kept, with its files, however old it is. Queries, the CLI and the API call this module.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_hex
from threading import Event, Thread

from meltline.app.catalog.resolve import load_table
from meltline.app.safety.audit import audit
from meltline.app.safety.preconditions import require_not_behind
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.errors import LeaseLost, LeaseNotFound, MeltlineError, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.timeline import Point
from meltline.domain.units import format_duration, format_instant
from meltline.ports import Lease

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=7)
"""A lease that is not renewed must end (C-16); for longer needs there are tags and holds."""

_MILLISECOND = timedelta(milliseconds=1)
_BEATS = 3  # per time to live: two may fail before the lease ends
_log = logging.getLogger(__name__)


def acquire_lease(
    context: ReadContext,
    table: TableName,
    snapshot_id: int | None,
    ttl: timedelta,
    *,
    audited: bool = True,
) -> Lease:
    """Leases a snapshot.

    The lease is written first, and the snapshot is checked after it. A concurrent expiration may
    have read the leases before. So if a plan names the snapshot, the last check waits for that
    table's lock.

    Args:
        context: The ports.
        table: The table.
        snapshot_id: The snapshot; None for main's head.
        ttl: Its duration unless it is renewed, by the wall clock.
        audited: Whether it is a decision of its own. One query's lease is not.

    Raises:
        UsageInvalid: `ttl` is too short or too long.
        ClockRefused: The clock is behind: the lease would end too early.
        TableNotFound: There is no such table.
        SnapshotNotFound: The table has no such snapshot, or has it no more.
        LockHeld: A run is expiring the snapshot and did not end within `limits.lock-wait`.
    """
    _require_ttl(ttl)
    require_not_behind(context)
    now = context.clock.now()
    state = load_table(context, table)
    lease = Lease(
        id=token_hex(8),
        table_uuid=state.uuid,
        snapshot_id=Point(snapshot_id).resolve(state, now),
        expires_at=now + ttl,
        table=str(table),
        who=context.who,
        ttl_ms=ttl // _MILLISECOND,
    )
    context.control.leases.save(lease)
    try:
        if _is_planned(context, lease):
            with group_locks(context, [lease.table_uuid], f"lease {table}"):
                _require_there(context, table, lease)
        else:
            _require_there(context, table, lease)
    except BaseException:
        context.control.leases.remove(lease.id)
        raise
    if audited:
        _audit(context, lease, "lease", f"until {format_instant(lease.expires_at)}")
    return lease


def renew_lease(context: ReadContext, id: str) -> Lease:
    """Renews a lease for its full time to live, from now on.

    Raises:
        LeaseNotFound: There is none, or it has ended: its snapshot may be gone.
    """
    lease = context.control.leases.renew(id, context.clock.now())
    if lease is None:
        raise _not_found(id, "none of that id, or it has ended")
    _audit(context, lease, "lease renew", f"until {format_instant(lease.expires_at)}")
    return lease


def release_lease(context: ReadContext, id: str, *, audited: bool = True) -> Lease:
    """Ends a lease: the ordinary rules apply to its snapshot.

    Raises:
        LeaseNotFound: There is none, or it has expired.
    """
    leases = [lease for lease in living_leases(context) if lease.id == id]
    if not leases or not context.control.leases.remove(id):
        raise _not_found(id, "none of that id, or it has ended by itself")
    if audited:
        _audit(context, leases[0], "lease release", "")
    return leases[0]


def living_leases(context: ReadContext) -> Sequence[Lease]:
    """Leases that have not ended, ordered by their ends."""
    leases = context.control.leases.active(context.clock.now())
    return sorted(leases, key=lambda lease: (lease.expires_at, lease.id))


@dataclass
class KeptLease:
    """A lease that is renewed while its `with` block runs.

    Attributes:
        lease: The lease as it was acquired.
        lost: Whether it was not renewed in time: the snapshot may have expired meanwhile.
    """

    lease: Lease
    lost: bool = False
    _done: Event = field(default_factory=Event, repr=False)

    @property
    def id(self) -> str:
        """The lease's id."""
        return self.lease.id

    @property
    def snapshot_id(self) -> int:
        """The leased snapshot."""
        return self.lease.snapshot_id


@contextmanager
def leased(
    context: ReadContext,
    table: TableName,
    snapshot_id: int | None,
    ttl: timedelta,
    *,
    audited: bool = True,
) -> Iterator[KeptLease]:
    """Leases a snapshot for the duration of a `with` block; a thread renews it.

    If the process dies, the lease ends after its time to live.

    Raises:
        LeaseLost: The block succeeded, but the lease had ended before.
        MeltlineError: Every error of `acquire_lease`.
    """
    kept_lease = KeptLease(acquire_lease(context, table, snapshot_id, ttl, audited=audited))
    heart = Thread(
        target=_beat, args=(context, kept_lease), daemon=True, name=f"lease {kept_lease.id}"
    )
    heart.start()
    try:
        yield kept_lease
    finally:
        kept_lease._done.set()
        heart.join()
        in_force = _release_quietly(context, kept_lease, audited)
    if kept_lease.lost or not in_force:
        raise LeaseLost(
            f"the lease on snapshot {kept_lease.snapshot_id} of {table} ended while it was in use",
            object=kept_lease.id,
            expected=f"a renewal every {format_duration(ttl / _BEATS)}",
            found="none in time, or somebody released it",
            next="read again: what was read may be incomplete; give a longer time to live",
        )


def _beat(context: ReadContext, kept_lease: KeptLease) -> None:
    pause = kept_lease.lease.ttl_ms / 1000 / _BEATS
    while not kept_lease._done.wait(pause):
        try:
            if context.control.leases.renew(kept_lease.id, context.clock.now()) is None:
                kept_lease.lost = True
                return
        except Exception as failure:  # the next beat may succeed
            _log.warning("the lease %s could not be renewed: %s", kept_lease.id, failure)


def _release_quietly(context: ReadContext, kept_lease: KeptLease, audited: bool) -> bool:
    """Releases a lease; returns whether it was active. If the ledger fails, it just expires."""
    try:
        release_lease(context, kept_lease.id, audited=audited)
    except LeaseNotFound:
        return False
    except MeltlineError as failure:
        _log.warning("the lease %s could not be released: %s", kept_lease.id, failure)
    return True


def _is_planned(context: ReadContext, lease: Lease) -> bool:
    states = (PlanState.PASSED, PlanState.APPLYING)
    plans = context.control.plans.find(states=states, table_uuid=lease.table_uuid)
    return any(p.kind is PlanKind.EXPIRE and lease.snapshot_id in p.snapshots for p in plans)


def _require_there(context: ReadContext, table: TableName, lease: Lease) -> None:
    Point(lease.snapshot_id).resolve(load_table(context, table), context.clock.now())


def _require_ttl(ttl: timedelta) -> None:
    if SHORTEST <= ttl <= LONGEST:
        return
    raise UsageInvalid(
        "a lease cannot last so long" if ttl > LONGEST else "a lease cannot be so short",
        object="--ttl",
        expected=f"{format_duration(SHORTEST)} to {format_duration(LONGEST)}",
        found=format_duration(ttl),
        next="renew it while you read; what is to stay longer is a tag or a hold",
    )


def _not_found(id: str, problem: str) -> LeaseNotFound:
    return LeaseNotFound(
        f"there is no lease {id}",
        object=id,
        expected="a lease that has not ended",
        found=problem,
        next="`meltline lease list` shows them; acquire a new one",
    )


def _audit(context: ReadContext, lease: Lease, action: str, detail: str) -> None:
    detail = f"{lease.id} {detail}".strip()
    audit(context, action, f"{lease.table}@{lease.snapshot_id}", detail=detail)
