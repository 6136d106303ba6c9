"""The whole chain, for people without Airflow: the same steps that the DAG runs as Spark apps."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from meltline.app.archive.archive_snapshots import hand_off, may_go_on, pending_handoffs
from meltline.app.archive.cold_mending import mend_copies
from meltline.app.catalog.dropped import dropped_tables, is_let_go
from meltline.app.clone.gc_guard import lift_ended_guards
from meltline.app.clone.shares import update_auto_shares
from meltline.app.drop.finalize import process_drops
from meltline.app.expire.expire import ExpireResult, apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.gate.gate import reasons, run_gate
from meltline.app.ground.preconditions import require_clock, require_datable
from meltline.app.observe.held_back import kept_back
from meltline.app.observe.observe import Observation, observe
from meltline.app.purge.look_back import standing_incidents
from meltline.app.purge.plan_purge import (
    end_overtaken,
    plan_purge,
    resumable,
    take_back_referenced,
)
from meltline.app.purge.purge import PurgeResult, apply_purges
from meltline.app.retention.policies import remember_policies
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.stored_plans import PlannedFiles, end_plan, store_plans
from meltline.app.services import RunContext
from meltline.app.storage.report import StorageHistory, record_storage
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import CatalogUnlistable, LockHeld, PlanStale
from meltline.domain.iceberg.names import TableName

_REPLANS = 2
_TENDED = 2  # what was dropped long before it is noticed may be let go at once
_REFERENCED = "planned_referenced"
_OVERTAKEN = (  # facts by which a gate tells that others have acted since the plan was made
    _REFERENCED,
    "planned_heads",
    "planned_ref_targets",
    "planned_young_refs",
    "planned_held",
    "planned_leased",
    "planned_unread",
    "planned_in_window",
    "planned_writer_walks",
    "planned_not_in_metadata",
)
_UPKEEP = "the file ledger"
_SETTLED_AFTER = timedelta(days=7)  # no run takes so long that it could go by what was open then
APPLICABLE = (PlanState.PASSED, PlanState.APPLYING)


def run_chain(services: RunContext, request: RunRequest) -> Summary:
    """Observe, hand off, plan, gate, expire, plan purge, gate, purge, report. Safe to repeat."""
    summary = Summary(request.run_id, request.as_of)
    observation = observe_step(services, request, summary)
    if not request.dry_run and settle_step(services, summary):
        observation = observe(services)
    hand_off_step(services, request, observation, summary)
    mend_step(services, request, summary)
    planned = plan_expiration(
        services,
        observation,
        run_id=request.run_id,
        as_of=request.as_of,
        tables=request.tables,
        dry_run=request.dry_run,
    )
    if request.dry_run:
        purge = plan_purge(
            services,
            observation,
            run_id=request.run_id,
            as_of=request.as_of,
            tables=request.tables,
            dry_run=True,
        )
        return summary.with_plans([p.plan for p in (*planned, *purge)])
    plans = gate_step(services, [p.plan for p in planned], PlanKind.EXPIRE)
    expire_step(services, request, plans, summary)
    purges = plan_purge_step(services, request)
    gated = gate_step(services, [p.plan for p in purges], PlanKind.PURGE)
    purge_step(services, gated, summary)
    let_go_step(services, request)
    report_step(services)
    return summary


def report_step(services: RunContext) -> None:
    """Records today's storage, updates shares, and keeps the ledger's own tables small."""
    try:
        history = StorageHistory(services)
    except CatalogUnlistable as unlisted:
        services.progress(f"report: no totals for today: {unlisted.message}")
    else:
        totals = history.at(None)
        record_storage(services, totals)
        lift_ended_guards(services, history, totals)
        update_auto_shares(services)
    holder = f"{services.who} upkeep"
    try:
        with services.control.locks.take(
            _UPKEEP, holder, wait=timedelta(0), lease=timedelta(minutes=10)
        ):
            for done in filter(None, _upkeep(services)):
                services.progress(f"report: ledger upkeep: {done}")
    except LockHeld as busy:
        services.progress(f"report: no ledger upkeep: {busy.found}")


def _upkeep(services: RunContext) -> Iterator[str]:
    """Keeps the ledger's own tables small, and says what was done; empty where nothing was."""
    yield from services.files.upkeep.maintain()
    now = services.clock.now()
    unfinished = [plan.id for plan in resumable(services)]
    yield services.files.upkeep.settle(now - _SETTLED_AFTER, unfinished)
    yield services.proofs.forget(now - services.config.gates.full_proof_every)


def observe_step(services: RunContext, request: RunRequest, summary: Summary) -> Observation:
    """Looks at everything and notes what could not be read."""
    require_datable(services)
    observation = observe(services)
    for _ in range(0 if request.dry_run else _TENDED):
        if not process_drops(services, observation, request.as_of, request.tables):
            break
        observation = observe(services)
    if not request.dry_run:
        remember_policies(services, observation.tables)
    summary.observed(observation, request.tables)
    return observation


def settle_step(services: RunContext, summary: Summary) -> bool:
    """Ends expirations that an earlier run began: the catalog says what became of each.

    Those that were committed get their departures recorded, under their own plan; those that were
    not are committed if they still may be, else they are stale and planned anew.

    Returns:
        Whether there were any, so that what was observed before is out of date.
    """
    unfinished = [plan for plan in resumable(services) if plan.kind is PlanKind.EXPIRE]
    results = apply_expirations(services, unfinished)
    summary.with_plans([r.plan for r in results if isinstance(r.error, PlanStale)])
    summary.expired([], [r for r in results if not isinstance(r.error, PlanStale)])
    return bool(unfinished)


def hand_off_step(
    services: RunContext, request: RunRequest, observation: Observation, summary: Summary
) -> None:
    """Copies to cold what the policies want there; where nothing waits, nothing is touched."""
    waiting = [
        pending
        for pending in pending_handoffs(services, observation.tables, request.as_of, request.tables)
        if pending.table.state.uuid not in observation.blocked
    ]
    if request.dry_run:
        summary.would_hand_off(waiting)
        return
    summary.handed_off(
        hand_off(services, waiting, run_id=request.run_id, any_hour=request.any_hour)
    )


def mend_step(services: RunContext, request: RunRequest, summary: Summary) -> None:
    """Copies anew what was lost or damaged in cold, while the originals wait in failsafe."""
    if not request.dry_run:
        go_on = may_go_on(services, any_hour=request.any_hour)
        summary.notices += mend_copies(services, request.run_id, go_on)


def gate_step(services: RunContext, plans: Sequence[Plan], kind: PlanKind) -> list[Plan]:
    """Gates plans together with those of the kind that an earlier run began and did not finish."""
    unfinished = [plan for plan in resumable(services) if plan.kind is kind]
    return judge_step(services, list({plan.id: plan for plan in (*unfinished, *plans)}.values()))


def judge_step(services: RunContext, plans: Sequence[Plan]) -> list[Plan]:
    """Gates just these plans, each against everything there is."""
    overtaken = end_overtaken(services, plans)
    ended = {plan.id for plan in overtaken}
    judged = run_gate(services, [plan for plan in plans if plan.id not in ended])
    # Another run may have begun to purge while we judged; then its files were found missing here.
    refused = [plan for plan, _ in judged if plan.state is PlanState.REFUSED]
    overtaken += end_overtaken(services, refused)
    ended = {plan.id for plan in overtaken}
    anew = _plan_refused_anew(services, [pair for pair in judged if pair[0].id not in ended])
    remaining = [p for plan, _ in judged if plan.id not in ended for p in anew.get(plan.id, [plan])]
    return [*overtaken, *_plan_what_is_left(services, overtaken), *remaining]


def _plan_what_is_left(services: RunContext, overtaken: Sequence[Plan]) -> list[Plan]:
    """Plans and gates anew what other runs leave of purge plans: it is due today as it was."""
    if not overtaken:
        return []
    services.progress(f"gate: planning {len(overtaken)} purges anew, others purge part of them")
    observation = observe(services)
    anew: list[Plan] = []
    for run_id, as_of in sorted({(plan.run_id, plan.as_of) for plan in overtaken}):
        owners = [plan.table_uuid for plan in overtaken if plan.run_id == run_id]
        planned = plan_purge(services, observation, run_id=run_id, as_of=as_of, only=owners)
        anew += [planned_files.plan for planned_files in planned]
    return [plan for plan, _ in run_gate(services, anew)]


def _plan_refused_anew(
    services: RunContext, judged: Sequence[tuple[Plan, GateResult]]
) -> dict[str, list[Plan]]:
    """Plans and gates anew, once, what was refused for what others did; by the old plan's id.

    A planned snapshot may be gone by now, or somebody may need it: then the plan is out of date.
    Or the gate found a planned file where the planner had not looked, for the gate looks
    everywhere: the history is stranger than it looked, and the planner looks everywhere too.
    """
    refused = [(plan, verdict) for plan, verdict in judged if plan.state is PlanState.REFUSED]
    refused = [pair for pair in refused if any(map(pair[1].failed_on, _OVERTAKEN))]
    if not refused:
        return {}
    services.progress(f"gate: planning {len(refused)} plans anew, as everything is now")
    observation = observe(services)
    replanned: dict[str, list[Plan]] = {}
    for plan, verdict in refused:
        if plan.table_uuid in observation.blocked:
            continue  # its own verdict says why
        if plan.kind is PlanKind.EXPIRE:
            anew = plan_expiration(
                services,
                observation,
                run_id=plan.run_id,
                as_of=plan.as_of,
                only=[plan.table],
                everywhere=verdict.failed_on(_REFERENCED),
            )
            if [planned.plan.id for planned in anew] == [plan.id]:
                continue
            stale = end_plan(services, plan, reasons(verdict))
        elif transitioned := take_back_referenced(services, [plan], observation.dead):
            stale = transitioned[0]
            anew = plan_purge(
                services,
                observation,
                run_id=plan.run_id,
                as_of=plan.as_of,
                only=[plan.table_uuid],
            )
        else:
            continue
        replanned[plan.id] = [stale, *(p for p, _ in run_gate(services, [a.plan for a in anew]))]
    return replanned


def expire_step(
    services: RunContext, request: RunRequest, plans: Sequence[Plan], summary: Summary
) -> list[ExpireResult]:
    """Applies what passed. A stale plan is made and gated anew, never forced (AR-40)."""
    results = apply_expirations(services, [p for p in plans if p.state in APPLICABLE])
    for _ in range(_REPLANS):
        stale_plans = [r.plan for r in results if isinstance(r.error, PlanStale)]
        if not stale_plans:
            break
        summary.with_plans([services.control.plans.get(plan.id) for plan in stale_plans])
        stale = [plan.table for plan in stale_plans]
        services.progress(f"expire: planning {len(stale)} tables anew, they have moved")
        anew = [p.plan for p in _plan_again(services, request, stale)]
        anew = [plan for plan, _ in run_gate(services, anew)]
        done = apply_expirations(services, [p for p in anew if p.state in APPLICABLE])
        refused = [plan for plan in anew if plan.state not in APPLICABLE]
        results = [r for r in results if not isinstance(r.error, PlanStale)] + done
        plans = [*plans, *refused]
    summary.with_plans([p for p in plans if p.state is PlanState.STALE])
    summary.expired([p for p in plans if p.state not in (*APPLICABLE, PlanState.STALE)], results)
    return results


def _plan_again(
    services: RunContext, request: RunRequest, tables: Sequence[TableName]
) -> list[PlannedFiles]:
    planned = plan_expiration(
        services,
        observe(services),
        run_id=request.run_id,
        as_of=request.as_of,
        tables=request.tables,
        dry_run=True,
    )
    # What else could be planned now is another app's to do, or the next run's.
    return store_plans(services, [p for p in planned if p.plan.table in tables])


def plan_purge_step(services: RunContext, request: RunRequest) -> list[PlannedFiles]:
    """Plans what is past its failsafe, on a fresh observation."""
    require_clock(services)
    return plan_purge(
        services,
        observe(services),
        run_id=request.run_id,
        as_of=request.as_of,
        tables=request.tables,
    )


def purge_step(services: RunContext, plans: Sequence[Plan], summary: Summary) -> list[PurgeResult]:
    """Deletes what passed."""
    summary.with_plans([p for p in plans if p.state is PlanState.STALE])
    summary.notices += kept_back(services)
    results = apply_purges(services, [p for p in plans if p.state in APPLICABLE])
    summary.purged([p for p in plans if p.state not in (*APPLICABLE, PlanState.STALE)], results)
    summary.stand(standing_incidents(services))
    return results


def let_go_step(services: RunContext, request: RunRequest) -> None:
    """Lets go dropped tables of which this run took the last: a second run finds nothing to do."""
    if not services.control.plans.find(run_id=request.run_id, states=[PlanState.APPLIED]):
        return
    listing = services.catalogs[services.config.hot].listing()
    emptied = [t.state for t in dropped_tables(services, listing)]
    if any(is_let_go(state, request.as_of) for state in emptied):
        process_drops(services, observe(services), request.as_of, request.tables)
