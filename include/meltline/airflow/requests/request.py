"""What a run was asked for, read from its Airflow context.

It reads nothing but the task's context and environment, so that the UI, the schedule, backfills
and the command line cannot come to different answers.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from meltline.app.run_request import INSTANT, RunRequest
from meltline.domain.clock import NOW, resolve_as_of
from meltline.domain.errors import UsageInvalid


def as_of(context: Mapping[str, Any], environ: Mapping[str, str]) -> datetime:
    """The logical date of a run.

    1. What the parameter `as_of` says, when it is given.
    2. Else the end of the data interval, when there is one that is not empty: runs by schedule,
       backfills, and manual runs with a logical date.
    3. Else now, which is when the run was due; in a sandbox, the simulated now.

    What follows from an interval or from the run is never later than the wall clock.

    Args:
        context: The task's context; `params` and `dag_run` are always there, the interval is not.
        environ: The task's environment, for the simulated clock of a sandbox (`MELTLINE_NOW`).

    Raises:
        AsOfInFuture: The parameter names a time to come, and this is no dry run.
        UsageInvalid: The parameter or the simulated clock is not an instant with an offset.
    """
    params, run = context["params"], context["dag_run"]
    simulated = INSTANT.read(environ[NOW], NOW) if environ.get(NOW) else None
    if text := params.get("as_of"):
        wall = simulated or datetime.now(UTC)
        return resolve_as_of(INSTANT.read(text, "as_of"), wall, dry_run=bool(params.get("dry_run")))
    # The wall clock of a run is when it started: all its steps, and their retries, agree on that.
    wall = simulated or _plain(run.start_date or datetime.now(UTC))
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is not None and end is not None and start < end:
        return min(_plain(end), wall)
    return simulated or min(_plain(run.run_after), wall)


def _plain(moment: datetime) -> datetime:
    """Airflow's moments are Pendulum's, with their own ideas of formatting."""
    return datetime.fromisoformat(moment.isoformat()).astimezone(UTC)


MANUAL = "manual"
LIFECYCLE = "meltline_lifecycle"


def run_request(context: Mapping[str, Any], environ: Mapping[str, str]) -> RunRequest:
    """Reads the context of any task of the run.

    What a person allowed in the form holds for the first try of the run: clearing it, weeks later
    perhaps and by somebody else, repeats the form, and what is planned then is something else.

    Raises:
        UsageInvalid: The parameters ask for what this kind of run may not do.
    """
    params, run = context["params"], context["dag_run"]
    words = {
        "force": _force(params, run.run_type),
        "deletes": _deletes(params, run.run_type),
        "approve": _approval(params, run.run_type),
        "once": _once(params, run.run_type),
    }
    if run.clear_number:
        if words["force"]:
            raise _spent_force()
        words = dict.fromkeys(words, "")
    given = {**params, **words, "who": getattr(run, "triggering_user_name", None)}
    run_id = run_id_in_ledger(getattr(run, "dag_id", LIFECYCLE), run.run_id)
    request = RunRequest.read(run_id, as_of(context, environ), given)
    request.require_forcible()
    return request


def run_id_in_ledger(dag_id: str, run_id: str) -> str:
    """The name by which the ledger knows a run.

    Airflow names runs by their time: those of two DAGs that are due at midnight have one name. The
    lifecycle's have none before it, as ever.
    """
    dag = dag_id.removeprefix("meltline_")
    is_told = dag_id == LIFECYCLE or run_id.startswith(f"{dag}__")
    return run_id if is_told else f"{dag}__{run_id}"


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


def _force(params: Mapping[str, Any], run_type: str) -> str:
    """Why a person lets chunks leave hot that nobody has proved (LT-22)."""
    reason = str(params.get("force") or "").strip()
    if reason:
        _require_manual(run_type, "force", "drop chunks that nobody has proved")
    return reason


def _spent_force() -> UsageInvalid:
    return UsageInvalid(
        "a forced drop is for the first try of its run, and this run was cleared",
        object="force",
        expected="a new run, for what the table holds now",
        found="a run that was cleared",
        next="trigger a run by hand with the chunks and a reason",
    )


def _deletes(params: Mapping[str, Any], run_type: str) -> str:
    """What a person has cold do about large deletes."""
    word = str(params.get("deletes") or "").strip()
    if word:
        _require_manual(run_type, "deletes", "say what becomes of large deletes")
    return word


def _require_manual(run_type: str, parameter: str, deed: str) -> None:
    if run_type != MANUAL:
        raise UsageInvalid(
            f"only a person may {deed}, in a run that they trigger",
            object=parameter,
            expected="a manual run",
            found=f"a {getattr(run_type, 'value', run_type)!s} run",
            next=f"leave it off here; trigger a run by hand with {parameter} and a reason",
        )
