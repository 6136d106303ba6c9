"""Handoff: archives the snapshots that a policy wants in cold, before they may expire.

The run's handoff step calls it. A snapshot is kept as *handoff pending* until its copy is verified,
over as many nights as it takes. Nothing here deletes anything: a repeated handoff finds what is
done and adds what is missing (AR-30 to AR-35).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from meltline.app.archive.cold_tables import ListedColdTables, no_cold, plain_name
from meltline.app.catalog.tables import ObservedTable, cold_policy_of, keep_requests, to_hand_over
from meltline.app.services import ReadContext, RunContext
from meltline.domain.archive.archive import ArchivedSnapshot, Validity
from meltline.domain.archive.cold import ColdPolicy
from meltline.domain.errors import LockHeld, MeltlineError
from meltline.domain.iceberg.names import TableName, selected
from meltline.ports import ChosenSnapshot, ControlLedger, HandedOver, HandoffRequest

_LEASE = timedelta(minutes=2)


@dataclass(frozen=True)
class PendingHandoff:
    """A table's snapshots that are due for cold and still in hot.

    Attributes:
        snapshots: When each was readable, by snapshot id, in commit order.
        copies: Those archived on an earlier night that could not expire since: their copies are
            compared with the originals again, and repaired.
    """

    table: ObservedTable
    policy: ColdPolicy
    snapshots: Mapping[int, Validity]
    copies: Mapping[int, ArchivedSnapshot] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """The number of snapshots without a verified copy."""
        return len(self.snapshots) - len(self.copies)


@dataclass
class TableHandoff:
    """Result of the handoff of one table.

    Attributes:
        archived: Snapshots whose copies are verified and registered now.
        waiting: Snapshots that are still pending.
        errors: Why; empty if only the time was up.
    """

    table: TableName
    waiting: int
    archived: int = 0
    files_copied: int = 0
    bytes_copied: int = 0
    errors: list[str] = field(default_factory=list)


def pending_handoffs(
    context: ReadContext,
    tables: Sequence[ObservedTable],
    as_of: datetime,
    globs: tuple[str, ...] = (),
) -> list[PendingHandoff]:
    """Returns the snapshots of the selected tables that are due for cold and still in hot.

    A table under two names is included once for each snapshot.
    """
    on = [t for t in tables if cold_policy_of(context, t).is_on and selected(t.state.name, globs)]
    archived = _archived(context.control, on)
    seen: dict[str, set[int]] = {}
    waiting = []
    for request, _, table in keep_requests(context, on, as_of):
        uuid = table.state.uuid
        chosen = to_hand_over(context, table, request)
        before = seen.setdefault(uuid, set())
        due = {sid: when for sid, when in chosen.items() if sid not in before}
        before.update(due)
        copies = {sid: archived[uuid, sid] for sid in due if (uuid, sid) in archived}
        if due:
            waiting.append(PendingHandoff(table, cold_policy_of(context, table), due, copies))
    return waiting


def _archived(
    control: ControlLedger, tables: Sequence[ObservedTable]
) -> dict[tuple[str, int], ArchivedSnapshot]:
    uuids = {table.state.uuid for table in tables}
    copies = control.archived.all(sorted(uuids)) if uuids else ()
    return {(copy.table_uuid, copy.snapshot_id): copy for copy in copies}


def hand_off(
    context: RunContext,
    waiting: Sequence[PendingHandoff],
    run_id: str,
    go_on: Callable[[], bool],
) -> list[TableHandoff]:
    """Archives pending snapshots, and records each as soon as its copy is verified.

    An error stops its own table only. A table that another run is handing off is left to that run.

    Args:
        context: The ports.
        waiting: The pending snapshots.
        run_id: The run, for the lock.
        go_on: Called before each batch; False ends the handoff.
    """
    if not waiting:
        return []
    handoff = _Handoff(context, {p.table.state.name: p for p in waiting})
    try:
        with ExitStack() as locks:
            handoff.lock(locks, run_id)
            handoff.carry_out(go_on)
    except Exception as stop:  # any error: history stays hot, and the run continues without it
        why = stop.message if isinstance(stop, MeltlineError) else repr(stop)
        for outcome in handoff.results.values():
            if outcome.waiting and not outcome.errors:
                outcome.errors.append(why)
    return list(handoff.results.values())


@dataclass
class _Handoff:
    """A handoff in progress: pending snapshots and results by the hot table's name."""

    context: RunContext
    waiting: dict[TableName, PendingHandoff]
    results: dict[TableName, TableHandoff] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.results = {name: TableHandoff(name, p.waiting) for name, p in self.waiting.items()}

    def lock(self, locks: ExitStack, run_id: str) -> None:
        """Takes a lock per table: others may change its group while files are copied."""
        context, began = self.context, time.monotonic()
        for name, pending in sorted(self.waiting.items()):
            passed = timedelta(seconds=time.monotonic() - began)  # one wait for all of them
            wait = max(timedelta(0), context.config.limits.lock_wait - passed)
            key = f"handoff {pending.table.state.uuid}"
            holder = f"{context.who} run {run_id}"
            try:
                locks.enter_context(
                    context.control.locks.take(key, holder, wait=wait, lease=_LEASE)
                )
            except LockHeld as busy:
                self.results[name].errors.append(f"{busy.message}: {busy.found}")
                del self.waiting[name]

    def carry_out(self, go_on: Callable[[], bool]) -> None:
        """Copies the snapshots, and records each when it is done."""
        context = self.context
        if context.cold is None or context.archive is None:
            raise no_cold(context.config)
        requests = self._requests(ListedColdTables.read(context))
        context.progress(f"hand off: {sum(len(r.snapshots) for r in requests)} snapshots to cold")
        for name, done in context.archive.hand_off(requests, go_on):
            if done.error:
                self.results[name].errors.append(f"snapshot {done.snapshot_id}: {done.error}")
            else:
                self._record(name, done)

    def _requests(self, cold: ListedColdTables) -> list[HandoffRequest]:
        """Returns the snapshots that no other run archived while this one waited for its lock."""
        archived = _archived(
            self.context.control, [pending.table for pending in self.waiting.values()]
        )
        requests = []
        for name, pending in self.waiting.items():
            state, outcome = pending.table.state, self.results[name]
            due = [
                sid
                for sid in pending.snapshots
                if sid in pending.copies or (state.uuid, sid) not in archived
            ]
            outcome.waiting = len(due) - len(pending.copies)
            snapshots = tuple(ChosenSnapshot(state.snapshots[s], pending.snapshots[s]) for s in due)
            try:
                place = cold.place(state.uuid, plain_name(pending.table))
            except MeltlineError as error:
                outcome.errors.append(f"{error.message}: {error.found}; next: {error.next}")
                continue
            if snapshots:
                requests.append(HandoffRequest(state, place, snapshots, cold.owner.properties))
        return requests

    def _record(self, name: TableName, done: HandedOver) -> None:
        pending, outcome, now = self.waiting[name], self.results[name], self.context.clock.now()
        before, until = pending.copies.get(done.snapshot_id), now + pending.policy.keep_for
        copy = ArchivedSnapshot(
            table_uuid=pending.table.state.uuid,
            table=plain_name(pending.table),
            snapshot_id=done.snapshot_id,
            committed_at=pending.table.state.snapshots[done.snapshot_id].committed_at,
            validity=pending.snapshots[done.snapshot_id],
            files=done.files,
            bytes=done.bytes,
            rows=done.rows,
            files_copied=done.files_copied + (before.files_copied if before else 0),
            bytes_copied=done.bytes_copied + (before.bytes_copied if before else 0),
            cold_location=done.cold_location,
            verified_at=now,
            keep_until=max(until, before.keep_until) if before else until,
            deep_bytes=before.deep_bytes if before else 0,
        )
        self.context.control.archived.save([copy])
        if before is None:
            outcome.archived += 1
            outcome.waiting -= 1
        outcome.files_copied += done.files_copied
        outcome.bytes_copied += done.bytes_copied


def may_go_on(context: RunContext, *, any_hour: bool) -> Callable[[], bool]:
    """Builds the test before each batch: no stop is in force, and the quiet window is open."""
    settings = context.config.io

    def go_on() -> bool:
        stopped = context.control.switch.stopped() is not None
        return not stopped and (any_hour or settings.may_begin(context.clock.now()))

    return go_on
