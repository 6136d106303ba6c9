"""Commands for purges above the limit: approval list, show, give, reject.

`commands` loads it by name. The rules of approvals are in `app`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from meltline.app.purge.approvals import Approvals, FileChanges, approve, reject, require_answered
from meltline.app.run_history.plan_log import plan_document
from meltline.app.services import ReadContext
from meltline.cli.options import AsJson, ConfigPath, PlanName, instant, ready
from meltline.cli.output import (
    answer,
    answer_rows,
    console,
    print_json,
    print_plans,
    print_rows,
    shown_instant,
)
from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.safe_text import quote
from meltline.domain.units import format_files, format_instant, format_size

Digest = Annotated[str, typer.Option("--digest", help="of the plan, as `approval show` names it")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for the audit")]

_SHOWN = 5


def approval_list(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List the purges that wait for approval, and until when."""
    context = ready(config)
    approvals = Approvals.of(context)
    plans = approvals.awaited()
    document = {"approvals": [_document(approvals, plan) for plan in plans]}
    rows = [
        [
            plan.id,
            str(plan.table),
            str(plan.files),
            format_size(plan.bytes),
            format_instant(plan.created_at),
            format_instant(approvals.until(plan)),
        ]
        for plan in plans
    ]
    columns = ("plan", "table", "files", "bytes", "since", "until")
    nothing = "No purge waits for approval."
    return answer_rows(document, columns, rows, as_json=as_json, nothing=nothing)


def approval_show(
    plan: PlanName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    instead_of: Annotated[
        str, typer.Option("--instead-of", metavar="PLAN", help="compare with the plan before it")
    ] = "",
) -> int:
    """Show a question for approval: table, files, bytes, oldest and largest files, digest."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    document = _question(context, stored, instead_of)
    if as_json:
        print_json(document)
        return 0
    print_plans([stored])
    console().print(f"digest {stored.digest}", markup=False, soft_wrap=True)
    until = document["until"]
    open_words = f"waits for approval until {format_instant(until)}"
    console().print(open_words if document["is_open"] else "waits for no approval")
    for which in ("oldest", "largest"):
        rows = [[f["path"], format_size(f["bytes"]), f["due_at"]] for f in document[which]]
        print_rows(which, ("path", "bytes", "due"), rows)
    if changes := document["changes"]:
        console().print(_changes_in_words(changes), markup=False, soft_wrap=True)
    return 0


def approval_give(
    plan: PlanName,
    digest: Digest,
    reason: Reason,
    config: ConfigPath = None,
    as_json: AsJson = False,
    answered_at: Annotated[
        str | None,
        typer.Option("--answered-at", metavar="TIME", help="when it was said; now if left out"),
    ] = None,
) -> int:
    """Approve a purge above the limit: this digest, and no other, for as long as `gates.ttl`."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    Approvals.of(context).require(stored, digest)
    now = context.clock.now()
    at = instant(answered_at, "--answered-at") or now
    require_answered(stored, at, now)
    approve(context, [stored], reason, at=at)
    said = f"{context.who} has approved {_purge(stored)}: {reason}"
    document = {"plan": stored.id, "digest": digest, "approved": True, "notices": [said]}
    then = [f"Next: `meltline gate {stored.id}`, then `meltline apply {stored.id}`."]
    return answer(document, [f"{said}.", *then], as_json=as_json)


def approval_reject(
    plan: PlanName,
    digest: Digest,
    reason: Reason,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Reject a purge above the limit: its digest is not asked about again."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    Approvals.of(context).require(stored, digest)
    reject(context, stored, reason)
    said = f"{context.who} has rejected {_purge(stored)}: {reason}"
    document = {"plan": stored.id, "digest": digest, "approved": False, "notices": [said]}
    then = f"To keep its files for good: `meltline hold add {quote(stored.table)} --reason TEXT`."
    return answer(document, [f"{said}.", then], as_json=as_json)


def _purge(plan: Plan) -> str:
    return f"plan {plan.id}, {format_files(plan.files, plan.bytes)} of {plan.table}"


def _document(approvals: Approvals, plan: Plan) -> dict[str, Any]:
    return {**plan_document(plan), "until": approvals.until(plan)}


def _question(context: ReadContext, plan: Plan, instead_of: str) -> dict[str, Any]:
    """Builds the document that an operator sees before the decision."""
    approvals = Approvals.of(context)
    files = context.reader.items(plan.id)[plan.id]
    until = approvals.until(plan)
    changes = None
    if instead_of:
        former = context.control.plans.get(instead_of).id
        before = context.reader.items(former)[former]
        changes = _changes_document(instead_of, FileChanges.between(before, files))
    return {
        **_document(approvals, plan),
        "is_open": bool(approvals.among([plan])),
        "seconds": int((until - context.clock.now()).total_seconds()),
        "wait_seconds": int(approvals.wait.total_seconds()),
        "oldest": _shown(sorted(files, key=lambda file: shown_instant(file.due_at))),
        "largest": _shown(sorted(files, key=lambda file: -file.bytes)),
        "changes": changes,
    }


def _shown(files: Sequence[PlannedFile]) -> list[dict[str, Any]]:
    return [
        {
            "path": file.path,
            "bytes": file.bytes,
            "due_at": shown_instant(file.due_at),
        }
        for file in files[:_SHOWN]
    ]


def _changes_document(instead_of: str, changes: FileChanges) -> dict[str, Any]:
    return {
        "instead_of": instead_of,
        "files_came": len(changes.came),
        "bytes_came": sum(file.bytes for file in changes.came),
        "files_went": len(changes.went),
        "bytes_went": sum(file.bytes for file in changes.went),
    }


def _changes_in_words(changes: dict[str, Any]) -> str:
    came = f"{format_files(changes['files_came'], changes['bytes_came'])} came"
    went = f"{format_files(changes['files_went'], changes['bytes_went'])} went"
    return f"since plan {changes['instead_of']}: {came}, {went}"
