"""What a run was asked for, read from its Airflow context."""

from collections.abc import Mapping
from typing import Any

from meltline.app.run_request import RunRequest
from meltline.domain.errors import UsageInvalid
from meltline.orchestration.as_of import as_of

MANUAL = "manual"


def run_request(context: Mapping[str, Any], environ: Mapping[str, str]) -> RunRequest:
    """Reads the context of any task of the run.

    Raises:
        UsageInvalid: The parameters ask for what this kind of run may not do.
    """
    params, run = context["params"], context["dag_run"]
    given = {
        **params,
        "approve": _approval(params, run.run_type),
        "once": _once(params, run.run_type),
        "who": getattr(run, "triggering_user_name", None),
    }
    return RunRequest.read(run.run_id, as_of(context, environ), given)


def _approval(params: Mapping[str, Any], run_type: str) -> str:
    """The reason of a person's approval. Nobody is there to approve on a schedule (PX-10)."""
    if not params.get("approve_over_limit"):
        return ""
    _require_manual(run_type, "approve_over_limit", "approve a purge above the limit")
    reason = str(params.get("reason") or "").strip()
    if not reason:
        raise UsageInvalid(
            "approving a purge above the limit needs a reason",
            object="reason",
            expected="why it is right to delete this much",
            found="nothing",
            next="trigger the run again with a reason",
        )
    return reason


def _once(params: Mapping[str, Any], run_type: str) -> str:
    """Why a person lets this run destroy in a catalog that is not armed."""
    reason = str(params.get("once") or "").strip()
    if reason:
        _require_manual(run_type, "once", "let a run destroy in a catalog that is not armed")
    return reason


def _require_manual(run_type: str, parameter: str, deed: str) -> None:
    if run_type != MANUAL:
        raise UsageInvalid(
            f"only a person may {deed}, in a run that they trigger",
            object=parameter,
            expected="a manual run",
            found=f"a {getattr(run_type, 'value', run_type)!s} run",
            next=f"leave it off here; trigger a run by hand with {parameter} and a reason",
        )
