"""The last task: what the run came to, and by name whatever it left undone."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import BaseXCom, Context
from airflow.sdk.exceptions import AirflowFailException

from meltline.app.summary import merge

_LOG = logging.getLogger(__name__)

_WRONG = ("skipped", "refused", "failed")
_UNFINISHED = ("planned", "passed", "applying")


@dataclass(frozen=True)
class Verdict:
    """What a run came to.

    Attributes:
        document: All its steps' summaries as one, in the words of `meltline run --json`.
        complaints: A line for everything that did not go as planned; none is success.
    """

    document: Mapping[str, Any]
    complaints: tuple[str, ...]


def judge(
    summaries: Sequence[Mapping[str, Any]], states: Mapping[str, str], *, dry_run: bool = False
) -> Verdict:
    """Names every table that was skipped, refused or failed, and every task that failed.

    A plan that was made, and then passed over, is named as well: a gate that was marked as
    skipped by hand must not look like success.

    Args:
        summaries: The summaries of the steps that ran, in their order.
        states: State of each other task of the run.
        dry_run: Nothing was to be applied.
    """
    document = merge(summaries)
    complaints = [f"task {task}: {state}" for task, state in states.items() if state == "failed"]
    if unreached := [task for task, state in states.items() if state == "upstream_failed"]:
        complaints.append(f"never ran: {', '.join(unreached)}")
    complaints += document["notes"]
    tables = document["tables"]
    complaints += [f"{t['table']}: {how}: {t[how]}" for t in tables for how in _WRONG if t.get(how)]
    if not dry_run:
        complaints += [
            f"{plan['table']}: plan {plan['id']} to {plan['kind']} was passed over"
            for plan in document["plans"]
            # The step that applies a kind of plan has its name. Once it ran, it spoke for itself.
            if plan["state"] in _UNFINISHED and states.get(plan["kind"]) == "skipped"
        ]
    return Verdict(document, tuple(complaints))


def conclude(context: Context) -> Mapping[str, Any]:
    """Ends the run: its document goes to XCom, whether the run succeeded or not.

    Raises:
        AirflowFailException: Something did not go as planned; the message names all of it.
    """
    ti, dag, run = context["ti"], context["dag"], context["dag_run"]
    ordered = dag.topological_sort()  # type: ignore[no-untyped-call]
    steps = [task.task_id for task in ordered if task.task_id != ti.task_id]
    found = ti.get_task_states(dag.dag_id, task_ids=steps, run_ids=[run.run_id])[run.run_id]
    states = {step: str(found.get(step)) for step in steps}
    # A step that was skipped may still have the summary of an earlier time this run was run.
    ran = [step for step in steps if states[step] == "success"]
    pulled = [ti.xcom_pull(task_ids=step) for step in ran]
    verdict = judge(
        [summary for summary in pulled if isinstance(summary, Mapping)],
        states,
        dry_run=bool(context["params"]["dry_run"]),
    )
    for table in verdict.document["tables"]:
        _LOG.info("%s", table)
    for notice in verdict.document["notices"]:
        _LOG.warning("%s", notice)
    if verdict.complaints:
        ti.xcom_push(BaseXCom.XCOM_RETURN_KEY, verdict.document)
        raise AirflowFailException("; ".join(verdict.complaints))
    return verdict.document
