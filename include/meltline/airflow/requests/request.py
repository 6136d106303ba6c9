"""Reads a run's request from its Airflow context.

It uses only the task's context and environment, so that the UI, the schedule, backfills and the
command line always have equal results.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from meltline.app.run_request import INSTANT, RunRequest
from meltline.domain.clock import NOW, resolve_as_of
from meltline.domain.errors import UsageInvalid


def as_of(context: Mapping[str, Any], environ: Mapping[str, str]) -> datetime:
    """Returns the logical date of a run.

    1. The parameter `as_of`, if it is given.
    2. Else the end of the data interval, if there is one that is not empty: runs by schedule,
       backfills, and manual runs with a logical date.
    3. Else now, which is when the run was due; in a sandbox, the simulated now.

    A date from an interval or from the run is never later than the wall clock.

    Args:
        context: The task's context; it always has `params` and `dag_run`, but not the interval.
        environ: The task's environment, for the simulated clock of a sandbox (`MELTLINE_NOW`).

    Raises:
        AsOfInFuture: The parameter is in the future, and this is no dry run.
        UsageInvalid: The parameter or the simulated clock is not an instant with an offset.
    """
    params, run = context["params"], context["dag_run"]
    simulated = INSTANT.read(environ[NOW], NOW) if environ.get(NOW) else None
    if text := params.get("as_of"):
        wall = simulated or datetime.now(UTC)
        return resolve_as_of(INSTANT.read(text, "as_of"), wall, dry_run=bool(params.get("dry_run")))
    # The wall clock of a run is its start: all its steps, and their retries, use the same one.
    wall = simulated or _plain(run.start_date or datetime.now(UTC))
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is not None and end is not None and start < end:
        return min(_plain(end), wall)
    return simulated or min(_plain(run.run_after), wall)


def _plain(moment: datetime) -> datetime:
    """Converts one of Airflow's Pendulum times, which are formatted differently."""
    return datetime.fromisoformat(moment.isoformat()).astimezone(UTC)


MANUAL = "manual"
LIFECYCLE = "meltline_lifecycle"


def run_request(context: Mapping[str, Any], environ: Mapping[str, str]) -> RunRequest:
    """Reads the request from the context of any task of the run.

    Overrides in the form are valid for the first try of the run. A cleared run, perhaps weeks later
    and by another user, repeats the form, but plans something else.

    Raises:
        UsageInvalid: The parameters request something that this kind of run may not do.
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
    """Returns the name of a run in the ledger.

    Airflow names runs by their time: runs of two DAGs that are due at midnight have the same name.
    So the DAG's name is prepended, except for the lifecycle, whose runs never had a prefix.
    """
    dag = dag_id.removeprefix("meltline_")
    is_told = dag_id == LIFECYCLE or run_id.startswith(f"{dag}__")
    return run_id if is_told else f"{dag}__{run_id}"


def _approval(params: Mapping[str, Any], run_type: str) -> str:
    """Returns the reason of a user's approval. Scheduled runs have no user who approves (PX-10)."""
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
    """Returns why a user allows this run to destroy in a catalog that is not armed."""
    reason = str(params.get("once") or "").strip()
    if reason:
        _require_manual(run_type, "once", "let a run destroy in a catalog that is not armed")
    return reason


def _force(params: Mapping[str, Any], run_type: str) -> str:
    """Returns why a user allows dropping chunks from hot that are not proved (LT-22)."""
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
    """Returns what a user chose for large deletes in cold."""
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
