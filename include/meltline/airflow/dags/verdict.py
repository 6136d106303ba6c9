"""The last task of a run: its result, and by name everything that was left undone.

A task cannot write notes of its own run; the public API can, with a login. To get notes, create the
connection `meltline_airflow_api`. Without it nothing is missing: the same text is in the log and
the XCom of `verdict`.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, BaseXCom, Connection, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from meltline.app.run.run_document import merge
from meltline.app.run.steps import EVERY_STEP, Role
from meltline.domain.units import format_files

_LOG = logging.getLogger(__name__)

_WRONG = ("skipped", "refused", "failed")
_UNFINISHED = ("planned", "passed", "applying")
_GATES = {step.name: gate.name for gate, step in pairwise(EVERY_STEP) if step.role is Role.APPLY}
"""The gate of each destructive step: the step before it."""
_UNKNOWN: Mapping[str, str] = {}


@dataclass(frozen=True)
class RunVerdict:
    """The result of a run.

    Attributes:
        document: All its steps' summaries merged, in the format of `meltline run --json`.
        complaints: A line for everything that did not go as planned; none means success.
    """

    document: Mapping[str, Any]
    complaints: tuple[str, ...]


def judge(
    summaries: Sequence[Mapping[str, Any]],
    states: Mapping[str, str],
    *,
    dry_run: bool = False,
    failures: Mapping[str, str] = _UNKNOWN,
) -> RunVerdict:
    """Lists every table that was skipped, refused or failed, and every task that failed.

    A plan that was made and then passed over is listed as well: a gate that was marked as skipped
    by hand must not look like success.

    Args:
        summaries: The summaries of the steps that ran, in their order.
        states: State of each other task of the run, by Airflow's name: the task, or, if it was
            mapped over batches, the task, `_` and the map index.
        dry_run: Whether nothing was to be applied.
        failures: Explanations of failed tasks and their next steps, by task, if known.
    """
    document = merge(summaries)
    failed = [t for t, state in states.items() if state == "failed" and not _is_kept(t, states)]
    complaints = [f"task {_shown(t)}: failed{_meaning(t, failures)}" for t in failed]
    unreached = [
        t for t, state in states.items() if state == "upstream_failed" or _is_kept(t, states)
    ]
    if unreached:
        complaints.append(f"never ran: {', '.join(map(_shown, unreached))}")
    complaints += document["notes"]
    complaints += [line for table in document["tables"] for line in _complaints(table)]
    awaited = {line["plan"] for line in document.get("approvals", ())}
    plans = [plan for plan in document["plans"] if plan["id"] not in awaited]
    passed_over = () if dry_run else _passed_over(plans, states)
    complaints += passed_over
    return RunVerdict({**document, "complaints": complaints}, tuple(complaints))


def _meaning(task: str, failures: Mapping[str, str]) -> str:
    return f": {failures[task]}" if task in failures else ""


def _is_kept(task: str, states: Mapping[str, str]) -> bool:
    """Whether a task failed only because of its gate: it has changed nothing."""
    name, _, batch = task.rpartition("_")
    gate = _GATES.get(name)
    return states[task] == "failed" and bool(gate) and states.get(f"{gate}_{batch}") != "success"


def _complaints(table: Mapping[str, Any]) -> Iterator[str]:
    """Yields a table's problems, with the next step for an operator."""
    for problem in _WRONG:
        if why := table.get(problem):
            then = f"; next: {table['next']}" if table.get("next") else ""
            yield f"{table['table']}: {problem}: {why}{then}"


def _passed_over(plans: Sequence[Mapping[str, Any]], states: Mapping[str, str]) -> Iterator[str]:
    for plan in plans:
        if plan["state"] in _UNFINISHED and _applied_by(plan, states) == "skipped":
            yield f"{plan['table']}: plan {plan['id']} to {_verb(plan)} was passed over"


def _verb(plan: Mapping[str, Any]) -> str:
    return str(plan["kind"]).replace("_", " ")


def _applied_by(plan: Mapping[str, Any], states: Mapping[str, str]) -> str | None:
    """Returns the state of the task that applies a plan. A task that ran reports for itself.

    It has the name of the plan's kind. Batches are numbered from 1, map indexes from 0.
    """
    task: str = plan["kind"]
    return states.get(f"{task}_{plan.get('batch', 0) - 1}", states.get(task))


def _shown(task: str) -> str:
    """Returns a task's name for people, with its batch if it was mapped."""
    mapped = re.fullmatch(r"(.+)_(\d+)", task)
    return f"{mapped[1]} (batch {int(mapped[2]) + 1})" if mapped else task


def conclude(context: Context, failures: Mapping[str, str] = _UNKNOWN) -> Mapping[str, Any]:
    """Ends the run: its document goes to XCom, whether the run succeeded or not.

    The recap is also written as prose: to the log, to the extra of the asset event of a successful
    run, and to the run's note if a site has a connection for it.

    Args:
        context: The last task's context.
        failures: Explanations of failed tasks, by task, if known.

    Raises:
        AirflowFailException: Something did not go as planned; the message lists all of it.
    """
    summaries, states = what_ran(context)
    dry_run = bool(context["params"].get("dry_run"))
    verdict = judge(summaries, states, dry_run=dry_run, failures=failures)
    recap = verdict.document["recap"]
    for sentence in recap:
        _LOG.info("%s", sentence)
    for notice in verdict.document["notices"]:
        _LOG.warning("%s", notice)
    for line in verdict.document.get("approvals", ()):
        _LOG.warning("%s", waiting_line(line))
    note_run(context["dag_run"], [*recap, *verdict.complaints])
    if verdict.complaints:
        context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, verdict.document)
        raise AirflowFailException("; ".join(verdict.complaints))
    for asset in context["ti"].task.outlets:
        if isinstance(asset, Asset):
            context["outlet_events"][asset].extra = _event(verdict.document)
    return verdict.document


def waiting_line(approval: Mapping[str, Any]) -> str:
    """Describes a plan that waits for approval; that is no complaint."""
    size = format_files(approval["files"], approval["bytes"])
    plan = f"{approval['table']}: plan {approval['plan']} waits for approval: {size}"
    return f"{plan}; answer it among Airflow's required actions, or {approval['next']}"


def _event(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the asset event's extra: the recap in prose, and figures over all tables."""
    figures: dict[str, int] = {}
    for table in document["tables"]:
        for key, figure in table.items():
            if isinstance(figure, int):
                figures[key] = figures.get(key, 0) + figure
    said = {key: document[key] for key in ("run_id", "as_of", "dry_run", "recap")}
    return {**said, "tables": len(document["tables"]), **figures}


def what_ran(context: Context) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Returns the summaries of the run's other tasks in their order, and the state of each."""
    ti, dag, run = context["ti"], context["dag"], context["dag_run"]
    ordered = dag.topological_sort()  # type: ignore[no-untyped-call]
    steps = {task.task_id: task for task in ordered if task.task_id != ti.task_id}
    task_states = ti.get_task_states(dag.dag_id, task_ids=list(steps), run_ids=[run.run_id])[
        run.run_id
    ]
    states: dict[str, str] = {}
    pulled: list[object] = []
    for step, task in steps.items():
        key = getattr(task, "summary_key", BaseXCom.XCOM_RETURN_KEY)
        for name, index in _instances(step, task_states):
            states[name] = str(task_states.get(name))
            # A skipped task may still have the summary of an earlier try of this run.
            if states[name] == "success":
                pulled.append(ti.xcom_pull(task_ids=step, key=key, map_indexes=index))
    return [summary for summary in pulled if isinstance(summary, Mapping)], states


def _instances(step: str, task_states: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yields a step's name among the states with its map index, once for each mapped batch."""
    index = 0
    while (name := f"{step}_{index}") in task_states:
        yield name, index
        index += 1
    if not index:
        yield step, None


CONNECTION = "meltline_airflow_api"
_LONGEST = 1000
"""The maximum length of a note in Airflow."""
_SECONDS = 10.0


def note_run(run: Any, sentences: Sequence[str]) -> bool:
    """Writes the note of a run; a note that cannot be written is a warning and never a failure.

    Args:
        run: The `dag_run` of a task's context.
        sentences: The note's sentences.

    Returns:
        Whether it was written.
    """
    try:
        connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return False
    try:
        _write(_address(connection), connection, run, _shortened("\n\n".join(sentences)))
    except Exception as error:  # whatever a server answers: the run's result stays
        _LOG.warning("no note was written for %s: %s", run.run_id, error)
        return False
    return True


def _address(connection: Connection) -> str:
    host = connection.host or "localhost"
    base = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    return f"{base}:{connection.port}" if connection.port else base


def _write(address: str, connection: Connection, run: Any, note: str) -> None:
    import httpx  # noqa: PLC0415 - only needed with such a connection

    login = {"username": connection.login, "password": connection.password}
    with httpx.Client(base_url=address, timeout=_SECONDS) as client:
        token = client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        path = f"/api/v2/dags/{quote(run.dag_id, '')}/dagRuns/{quote(run.run_id, '')}"
        client.patch(
            path,
            params={"update_mask": "note"},
            json={"note": note},
            headers={"Authorization": f"Bearer {token}"},
        ).raise_for_status()


def _shortened(note: str) -> str:
    return note if len(note) <= _LONGEST else f"{note[: _LONGEST - 1]}…"
