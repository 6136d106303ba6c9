"""File origins: the snapshots that files belonged to, and the plans that removed and deleted them.

`explain` and `run_history/plan_items.py` show them. They come from the ledgers alone, so that they
are known after the snapshots are gone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.run_history.plan_log import JudgedPlan, judged
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.errors import PlanNotFound
from meltline.domain.iceberg.files import SWEPT, Departure, DepartureState, FileKind
from meltline.domain.iceberg.locations import location_key
from meltline.domain.units import format_instant
from meltline.ports import ControlLedger, IndexedSnapshot, LedgerReader

_LOOKED_INTO = 20  # plans of the file's owner come first, and nearly always have it
_DELETING = (PlanState.APPLYING, PlanState.APPLIED, PlanState.FAILED)
LET_GO = "let-go-"
"""Prefix of `Departure.plan_id` for files of a finalized drop."""


@dataclass(frozen=True)
class FileOrigin:
    """Why a file has departed.

    Attributes:
        departure: The departure.
        judged: The plan that caused it, if any.
    """

    departure: Departure
    judged: JudgedPlan | None = None

    @property
    def why(self) -> str:
        """Describes the cause."""
        if self.judged:
            plan = self.judged.plan
            return f"expired by plan {plan.id} of run {plan.run_id}, {self.judged.policy}"
        marker = self.departure.plan_id or "what nobody knows any more"
        if marker.startswith(SWEPT):
            run_id = marker.removeprefix(SWEPT)
            return f"no commit has ever named it: swept by run {run_id}"
        if marker.startswith(LET_GO):
            return "the retention of its dropped table has ended"
        return f"departed by {marker}"


def origins(control: ControlLedger, departures: Iterable[Departure]) -> dict[str, FileOrigin]:
    """Finds why files have departed, by location key."""
    listed = list(departures)
    plans = {id: _plan(control, id) for id in {departure.plan_id for departure in listed}}
    return {location_key(d.path): FileOrigin(d, plans[d.plan_id]) for d in listed}


def _plan(control: ControlLedger, id: str) -> JudgedPlan | None:
    if not id:
        return None
    try:
        (plan,) = judged(control, list(control.plans.current([id]).values()))
    except PlanNotFound:  # a sweep, or a finalized drop
        return None
    return plan


def snapshots_of(
    reader: LedgerReader, table_uuid: str, ids: Sequence[int], paths: Sequence[str]
) -> dict[str, list[int]]:
    """Snapshots, among the given ones of a table, that some files belonged to, by location key."""
    keys = {location_key(path) for path in paths}
    among = set(ids)
    snapshots = [
        snapshot
        for snapshot in reader.snapshots()
        if snapshot.key.table_uuid == table_uuid and snapshot.key.snapshot_id in among
    ]
    of_files: dict[str, set[int]] = {}
    for path, snapshot in _pairs(reader, snapshots, paths):
        if (at := location_key(path)) in keys:
            of_files.setdefault(at, set()).add(snapshot.key.snapshot_id)
    return {at: sorted(held) for at, held in of_files.items()}


def _pairs(
    reader: LedgerReader, snapshots: Sequence[IndexedSnapshot], paths: Sequence[str]
) -> Iterable[tuple[str, IndexedSnapshot]]:
    """Pairs of a file and a snapshot that it belonged to."""
    if not snapshots or not paths:
        return
    by_manifest: dict[int, list[IndexedSnapshot]] = {}
    for snapshot in snapshots:
        yield snapshot.manifest_list, snapshot
        for manifest in snapshot.manifests:
            by_manifest.setdefault(manifest, []).append(snapshot)
    for file in reader.files(*paths):
        for snapshot in by_manifest.get(file.manifest_id, ()):
            if file.kind == FileKind.MANIFEST or not snapshot.by_changes:
                yield file.path, snapshot
    yield from _by_changes(reader, snapshots, paths)


def _by_changes(
    reader: LedgerReader, snapshots: Sequence[IndexedSnapshot], paths: Sequence[str]
) -> Iterable[tuple[str, IndexedSnapshot]]:
    line = sorted((s for s in snapshots if s.by_changes), key=_number)
    for span in reader.spans(*paths) if line else ():
        if span.table_uuid == line[0].key.table_uuid:
            first = bisect_left(line, span.since, key=_number)
            end = len(line) if span.until is None else bisect_left(line, span.until, key=_number)
            for snapshot in line[first:end]:
                yield span.path, snapshot


def _number(snapshot: IndexedSnapshot) -> int:
    return snapshot.sequence_number


@dataclass(frozen=True)
class FileDecision:
    """A decision about one file.

    Attributes:
        action: `departed` or `deleted`.
        at: The time of the decision.
        why: The cause, as a sentence.
        plan: The plan; empty if there was none, or none is known. So are all that follow.
        run: The run that made the plan.
        gate: The suite that passed it, and the time.
        policy: The retention or failsafe that applied.
        approved_by: The user who approved it, if that was required.
    """

    action: str
    at: datetime
    why: str
    plan: str = ""
    run: str = ""
    digest: str = ""
    gate: str = ""
    policy: str = ""
    approved_by: str = ""

    @property
    def sentence(self) -> str:
        """Formats the decision for display."""
        more = (("gate", self.gate), ("digest", self.digest), ("approved by", self.approved_by))
        details = "; ".join(f"{label} {text}" for label, text in more if text)
        return (
            f"{self.action} {format_instant(self.at)}: {self.why}{'; ' if details else ''}{details}"
        )


def file_decisions(
    reader: LedgerReader, control: ControlLedger, departure: Departure
) -> list[FileDecision]:
    """Lists the decisions about a departed file, oldest first."""
    origin = origins(control, [departure])[location_key(departure.path)]
    decided = [_decision("departed", departure.departed_at, origin.why, origin.judged)]
    if departure.state is DepartureState.DELETED:
        purge = _deleted_by(reader, control, departure)
        why = (
            f"purged by plan {purge.plan.id} of run {purge.plan.run_id}, after its wait until "
            f"{format_instant(departure.due_at)}"
            if purge
            else "by a purge of which the ledger has no plan any more"
        )
        decided.append(_decision("deleted", departure.recorded_at, why, purge))
    return decided


def _decision(action: str, at: datetime, why: str, judged_plan: JudgedPlan | None) -> FileDecision:
    if judged_plan is None:
        return FileDecision(action, at, why)
    plan, verdict = judged_plan.plan, judged_plan.verdict
    return FileDecision(
        action,
        at,
        why,
        plan=plan.id,
        run=plan.run_id,
        digest=plan.digest,
        gate=f"{verdict.suite} {judged_plan.gate} {format_instant(verdict.ran_at)}"
        if verdict
        else "",
        policy=judged_plan.policy,
        approved_by=judged_plan.approval.who if judged_plan.approval else "",
    )


def _deleted_by(
    reader: LedgerReader, control: ControlLedger, departure: Departure
) -> JudgedPlan | None:
    """Finds the purge that deleted a file; None if no known plan did."""
    until = departure.recorded_at + timedelta(milliseconds=1)  # a simulated clock may not advance
    plans = control.plans.find(states=_DELETING, since=departure.due_at, until=until)
    purges = [plan for plan in plans if plan.kind is PlanKind.PURGE]
    purges.sort(key=lambda plan: plan.table_uuid != departure.owner)
    for plan in purges[:_LOOKED_INTO]:
        if any(file.path == departure.path for file in reader.items(plan.id)[plan.id]):
            return judged(control, [plan])[0]
    return None
