"""The gate step: evaluates plans, stores the verdicts, and moves each plan to passed or refused.

`run/gated_plans.py` and `meltline gate` call it, and `run/lifecycle.py` for plans that it makes
again. The evaluation is in `app/gate`; this module builds its inputs and records its verdicts.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from meltline.app.archive.cold_facts import Side
from meltline.app.catalog.live_catalogs import look_afresh
from meltline.app.gate.gate import judge, reasons
from meltline.app.gate.sources import GateSources
from meltline.app.safety.preconditions import keeps_our_time
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.ports import PlanLedger, PlanTransition

GATEABLE = (PlanState.PLANNED, PlanState.PASSED, PlanState.REFUSED)


def run_gate(context: RunContext, plans: Sequence[Plan]) -> list[tuple[Plan, GateResult]]:
    """Evaluates plans together, stores each verdict, and moves each plan to passed or refused.

    An error during the evaluation yields a verdict that has not passed.
    """
    if not plans:
        return []
    verdicts = judge(_sources(context), plans)
    context.control.verdicts.save(verdicts)
    moved = _transitioned(context.control.plans, plans, verdicts)
    return list(zip(moved, verdicts, strict=True))


def _sources(context: RunContext) -> GateSources:
    """Selects the ports and settings that the gate reads."""
    control, files = context.control, context.files
    return GateSources(
        config=context.config,
        clock=context.clock,
        progress=context.progress,
        look=partial(look_afresh, context),
        side=partial(Side.of, context),
        keeps_our_time=partial(keeps_our_time, context),
        engine=context.gate,
        store=context.store,
        resolver=context.resolver,
        proofs=context.proofs,
        items=files.items,
        snapshots=files.snapshots,
        references=files.references,
        departures=files.departures,
        plans=control.plans,
        registrations=control.registrations,
        places=control.places,
        policies=control.policies,
        policy_stores=context.policy_stores,
        leases=control.leases,
        vetoes=control.vetoes,
        claims=control.claims,
        vouched=control.decisions,
        guards=control.decisions,
        owners=control.owners,
        folders=context.folders,
        chunks=control.chunks,
        archived=control.archived,
        copies=control.copies,
        incidents=control.incidents,
    )


def _transitioned(
    ledger: PlanLedger, plans: Sequence[Plan], verdicts: Sequence[GateResult]
) -> list[Plan]:
    """Plans after the move by their verdicts; a plan that is already applying keeps its state."""
    moves = [
        PlanTransition(
            plan,
            PlanState.PASSED if verdict.passed else PlanState.REFUSED,
            note=reasons(verdict),
        )
        for plan, verdict in zip(plans, verdicts, strict=True)
        if plan.state in GATEABLE
    ]
    by_id: dict[str, Plan] = {}
    for move, answer in zip(moves, ledger.move_all(moves), strict=True):
        if isinstance(answer, PlanStale):
            by_id[move.plan.id] = replace(move.plan, note="another run moved it meanwhile")
        elif isinstance(answer, MeltlineError):
            raise answer
        else:
            by_id[move.plan.id] = answer
    return [by_id.get(plan.id, plan) for plan in plans]
