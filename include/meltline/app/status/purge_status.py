"""Reads whether purging works in the whole lake, from the ledgers and one listing per catalog.

`meltline status`, doctor, the report of a run and the metrics file all call it, so that they agree.
It starts no JVM and reads no manifest.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.catalog.listings import ListedCatalogs, list_catalogs
from meltline.app.catalog.registrations import UNOBSERVED
from meltline.app.purge.approvals import Approvals
from meltline.app.run_history.refusals import Refusal, last_refusal
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.preconditions import require_generation, require_not_behind
from meltline.app.services import ReadContext
from meltline.app.status.recorded import RecordedStatus, recorded_status
from meltline.domain.chunks.chunk import ChunkStatus
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.purging.purge_status import (
    DueBytes,
    Halt,
    HaltReason,
    PurgeStatus,
    Waiting,
)
from meltline.domain.units import counted, format_instant
from meltline.ports import CONTRADICTORY, ENDED, UNREADABLE, ControlLedger, PlaceReader

_SILENT = timedelta(days=3)  # nights without a good run: one may fail, and be repaired by day
_A_NIGHT = timedelta(hours=20)  # a plan that has waited longer has met two runs
_STATES = ("live", UNREADABLE, CONTRADICTORY, UNOBSERVED, *ENDED)
_STAGES = {
    "active": "active_bytes",
    "historical": "historical_bytes",
    "retained_for_clone": "retained_for_clone_bytes",
    "failsafe": "failsafe_bytes",
    "deleted": "deleted_bytes",
    "foreign": "foreign_bytes",
    "cold": "cold_bytes",
    "deep": "deep_bytes",
}


@dataclass(frozen=True)
class Reported:
    """Results of a run's report that are not stored in the run log yet.

    Attributes:
        is_good: Whether no table of the run failed.
        blocked: Why the run purged nothing anywhere; empty if it could.
        due: The due bytes that it measured; None if the catalogs could not be listed.
        catching_up: Number of tables with a backlog, whose oldest snapshots alone it expired.
    """

    is_good: bool
    blocked: str
    due: DueBytes | None
    catching_up: int = 0


def purge_status(context: ReadContext, reported: Reported | None = None) -> PurgeStatus:
    """Reads the current state of purging.

    Args:
        context: The ports.
        reported: The results of the calling run; None reads those of the previous report.
    """
    control, now = context.control, context.clock.now()
    recorded = recorded_status(control.runs)
    last = now if reported and reported.is_good else recorded.last_success
    blocked = reported.blocked if reported else recorded.why.get(HaltReason.TABLES, "")
    awaited = Approvals.of(context).awaited()
    return PurgeStatus(
        at=now,
        last_success=last,
        halts=tuple(_Halts(context, recorded, now).read(last, blocked, awaited)),
        due=(reported.due if reported else None) or recorded.due,
        held_back=_held_back(control.places),
        waiting=Waiting(len(awaited), sum(plan.bytes for plan in awaited)),
        tables=_tables(control),
        plans_refused=len(control.plans.find(states=[PlanState.REFUSED])),
        stage_bytes=_stage_bytes(control, now, recorded.at),
        chunks_unknown=sum(
            row.chunks for row in control.chunks.sums() if row.status is ChunkStatus.UNKNOWN
        ),
        catching_up=reported.catching_up if reported else recorded.catching_up,
    )


@dataclass(frozen=True)
class _Halts:
    """Finds every cause for which nothing is deleted in the lake."""

    context: ReadContext
    recorded: RecordedStatus
    now: datetime

    def read(
        self, last_success: datetime | None, blocked: str, awaited: list[Plan]
    ) -> Iterator[Halt]:
        listed = list_catalogs(self.context.catalogs.values())
        yield from self._decisions(listed)
        yield from self._refused_ground(listed)
        yield from self._unread(listed, blocked)
        yield from self._refused_plans(awaited)
        yield from self._silence(last_success)

    def _decisions(self, listed: ListedCatalogs) -> Iterator[Halt]:
        control, hot = self.context.control, self.context.config.hot
        if switch := control.switch.stopped():
            why = f"{switch.who} holds everything back: {switch.reason}"
            yield Halt(HaltReason.STOPPED, why, "`meltline go`", switch.at)
        check = ArmingCheck.of(self.context)
        if refused := _refusal(lambda: check.require(listed.listings.get(hot))):
            entries = control.audit.entries(hot)
            disarmed = [entry.at for entry in entries if entry.action == "disarm"]
            since = max(disarmed, default=self._since(HaltReason.NOT_ARMED))
            why = f"{refused.message}: {refused.found}"
            yield Halt(HaltReason.NOT_ARMED, why, refused.next, since)

    def _refused_ground(self, listed: ListedCatalogs) -> Iterator[Halt]:
        """Yields causes for which a run would refuse to begin at all."""
        listing = listed.listings.get(self.context.config.hot)
        checks: Mapping[HaltReason, Callable[[], None]] = {
            HaltReason.LEDGER: lambda: require_generation(self.context, listing),
            HaltReason.CLOCK: lambda: require_not_behind(self.context),
        }
        for reason, check in checks.items():
            if refused := _refusal(check):
                yield self._halt(reason, f"{refused.message}: {refused.found}", refused.next)

    def _unread(self, listed: ListedCatalogs, blocked: str) -> Iterator[Halt]:
        """Yields unreadable catalogs and tables, which may reference any file."""
        for name, refused in listed.unlisted.items():
            why = f"catalog {name} could not be listed: {refused.found}"
            yield self._halt(HaltReason.CATALOG, why, refused.next)
            return
        if blocked:
            yield self._halt(HaltReason.TABLES, blocked, "`meltline doctor`")

    def _refused_plans(self, awaited: list[Plan]) -> Iterator[Halt]:
        """Yields a halt if for two runs or more every purge was refused, or waits for approval."""
        stuck = _refused_purges(self.context.control)
        waiting = [plan for plan in awaited if self.now - plan.created_at > _A_NIGHT]
        refused_since = [refusal.since or refusal.plan.created_at for refusal in stuck]
        since = min([*refused_since, *(plan.created_at for plan in waiting)], default=None)
        if since is None or self._has_purged(since):
            return
        why = (
            f"no purge went through: {counted(len(stuck), 'plan')} refused by gates, "
            f"{counted(len(waiting), 'plan')} waiting for approval"
        )
        yield Halt(HaltReason.REFUSED, why, "`meltline doctor`, `meltline approval list`", since)

    def _has_purged(self, since: datetime) -> bool:
        applied = self.context.control.plans.find(states=[PlanState.APPLIED], since=since)
        return any(plan.kind is PlanKind.PURGE for plan in applied)

    def _silence(self, last_success: datetime | None) -> Iterator[Halt]:
        """Yields a halt if an armed lake has had no good run for some nights."""
        arming = self.context.control.switch.arming()
        if arming is None:
            return
        since = last_success or arming.at
        if self.now - since > _SILENT:
            why = f"no run has come to its end without a failure since {format_instant(since)}"
            yield Halt(HaltReason.NO_RUN, why, "`meltline runs`, then `meltline run`", since)

    def _halt(self, reason: HaltReason, why: str, fix: str) -> Halt:
        return Halt(reason, why, fix, self._since(reason))

    def _since(self, reason: HaltReason) -> datetime:
        """When a cause was first observed: runs that it stops record nothing but their start."""
        stops_runs = reason in (HaltReason.LEDGER, HaltReason.CLOCK, HaltReason.CATALOG)
        failed = self.recorded.failed_since if stops_runs else None
        return self.recorded.since.get(reason) or failed or self.now


def _refusal(check: Callable[[], None]) -> MeltlineError | None:
    try:
        check()
    except CatalogUnlistable:
        return None  # that has a halt of its own
    except MeltlineError as refused:
        return refused
    return None


def _refused_purges(control: ControlLedger) -> list[Refusal]:
    """Purges that gates refused in consecutive runs, by table."""
    refused = control.plans.find(states=[PlanState.REFUSED])
    owners = dict.fromkeys(plan.table_uuid for plan in refused if plan.kind is PlanKind.PURGE)
    last = (last_refusal(control, uuid, PlanKind.PURGE) for uuid in owners)
    return [refusal for refusal in last if refusal is not None and refusal.runs > 1]


def _held_back(places: PlaceReader) -> dict[Why, int]:
    size = dict.fromkeys(Why, 0)
    for row in places.withheld():
        size[row.why] += row.bytes
    return size


def _tables(control: ControlLedger) -> dict[str, int]:
    count = Counter(row.status for row in control.registrations.all())
    return {state.replace(" ", "_"): count[state] for state in _STATES}


def _stage_bytes(
    control: ControlLedger, now: datetime, reported_at: datetime | None
) -> dict[str, int]:
    """Bytes by stage of the whole lake, of the newest day that has them."""
    rows = control.storage.of(now.date().isoformat())
    if not rows and reported_at:
        rows = control.storage.of(reported_at.date().isoformat())
    return {stage: sum(_cell(row, key) for row in rows) for stage, key in _STAGES.items()}


def _cell(row: StorageRow, key: str) -> int:
    size: int = getattr(row, key)
    return size
