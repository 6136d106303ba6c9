"""Routes of plans: the list, and one plan with its verdict, its approval and its files."""

from fastapi import APIRouter, Request, Response

from meltline.app.run_history.plan_items import plan_items
from meltline.app.run_history.plan_log import (
    JudgedPlan,
    PlanFilter,
    find_plans,
    gate_document,
    judged,
    plan_document,
)
from meltline.app.run_request import globs
from meltline.domain.errors import UsageInvalid
from meltline.pages.gate_checks import checks_of
from meltline.pages.routes.answers import Ledgers, Limit, document, page
from meltline.ports import ControlLedger

router = APIRouter()
_PLANS = 50
_MOST_FILES = 1000


@router.get("/plans")
def plans(request: Request, context: Ledgers, tables: str = "") -> Response:
    """Shows the newest plans, newest first; optionally only for tables that match some globs."""
    listed = find_plans(context.control, PlanFilter(globs(tables), limit=_PLANS)).plans
    rows = [(each, checks_of(each.verdict)) for each in listed]
    return page(request, "plans.html", judged=rows, most=_PLANS)


@router.get("/plans/{plan}")
def plan(request: Request, context: Ledgers, plan: str, items: bool = False) -> Response:
    """Shows one plan by its id, a prefix of one, or `last`; with `items` its files, too."""
    each = _judged(context.control, plan)
    files = plan_items(context.reader, context.control, each) if items else []
    return page(
        request,
        "plan.html",
        each=each,
        plan=each.plan,
        checks=checks_of(each.verdict),
        is_listed=items,
        files=files[:_MOST_FILES],
        unshown=max(0, len(files) - _MOST_FILES),
    )


@router.get("/api/plans")
def plans_figures(context: Ledgers, tables: str = "", limit: Limit = _PLANS) -> Response:
    """Returns the document of `plans --json`."""
    listed = find_plans(context.control, PlanFilter(globs(tables), limit=limit))
    notes = [f"no table matches {glob}" for glob in listed.unmatched]
    return document({"plans": [each.as_json() for each in listed.plans], "notes": notes})


@router.get("/api/plans/{plan}")
def plan_figures(context: Ledgers, plan: str, items: bool = False) -> Response:
    """Returns the document of `show plan --json`."""
    each = _judged(context.control, plan)
    facts = {**each.as_json(), **plan_document(each.plan)}
    files = {"items": plan_items(context.reader, context.control, each)} if items else {}
    return document({**facts, **files})


@router.get("/api/gates/{plan}")
def verdict_figures(context: Ledgers, plan: str) -> Response:
    """Returns the document that `gate --json` last printed for the plan."""
    each = _judged(context.control, plan)
    if each.verdict is None:
        raise UsageInvalid(
            f"plan {each.plan.id} was not judged yet",
            object=each.plan.id,
            expected="a verdict",
            found=f"a plan that is {each.plan.state}",
            next=f"`meltline gate {each.plan.id}`",
        )
    return document(gate_document(each.verdict))


def _judged(control: ControlLedger, id_or_prefix: str) -> JudgedPlan:
    (each,) = judged(control, [control.plans.get(id_or_prefix)])
    return each
