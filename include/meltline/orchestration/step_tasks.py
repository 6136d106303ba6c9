"""A run's steps as Airflow's tasks, one for each and one app behind it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule, chain

from meltline.app.run.steps import CHUNK_STEPS, STEPS, Role, Step
from meltline.orchestration.batch_steps import PlanStep, in_batches
from meltline.orchestration.configuration import cold_pool
from meltline.orchestration.spark_step import SparkStep


def step_task(step: Step, apps: Path, **more: Any) -> Any:
    """The task of one step that is not mapped.

    Args:
        step: Which.
        apps: The folder of the Spark apps.
        more: What else Airflow is to know of it.
    """
    words = _task_words(step, apps) | more
    if step.role is Role.PLAN:
        return PlanStep(**words)
    return SparkStep(previews=step.previews, **words)


def _task_words(step: Step, apps: Path) -> dict[str, Any]:
    return {
        "task_id": step.name,
        "application": str(apps / f"{step.app or step.name}.py"),
        "doc_md": step.doc,
    }


_GOES_ON: Mapping[str, Any] = {"trigger_rule": TriggerRule.NONE_FAILED}
"""An upstream task that was skipped had nothing to do; one that failed stops us."""


def lifecycle_tasks(apps: Path) -> list[Any]:
    """The tasks of a run of the lifecycle."""
    more: dict[str, Mapping[str, Any]] = {
        "hand_off_to_cold": {"pool": cold_pool()},
        "plan_expiration": _GOES_ON,
        # A person who approves what this run purges approves what waited for their word, too.
        "plan_purge": {**_GOES_ON, "approvable": True},
        # One batch after the other: each of them deletes at the configured rate.
        "purge": {"approvable": True, "max_active_tis_per_dagrun": 1},
        "report": {**_GOES_ON, "is_last": True},
    }
    return chained_tasks(STEPS, apps, more)


def chunk_tasks(apps: Path) -> list[Any]:
    """The tasks of a run over chunks."""
    more: dict[str, Mapping[str, Any]] = {
        "evaluate_chunks": _GOES_ON,  # a dry run copies nothing
        "report_chunks": {**_GOES_ON, "is_last": True},
    }
    return chained_tasks(CHUNK_STEPS, apps, more)


def chained_tasks(
    steps: Sequence[Step], apps: Path, more: Mapping[str, Mapping[str, Any]]
) -> list[Any]:
    """The tasks of a run's steps, in their order; gates and what stands behind them by batch.

    Args:
        steps: All of the run's; what destroys stands behind its gate, and that behind its plan.
        apps: The folder of the Spark apps.
        more: What else Airflow is to know of some, by their names.
    """
    tasks: list[Any] = []
    plan: Any = None
    for step in steps:
        of_task = more.get(step.name, {})
        if step.role is Role.GATE:
            words = {"arguments": [f"--kind={step.kind}"], "retries": 0}
            tasks.append(in_batches(plan, **_task_words(step, apps), **words))
        elif step.role is Role.APPLY:
            # all_done: the gates of all batches; each instance then asks for that of its own.
            words = {"gate": tasks[-1].task_id, "trigger_rule": TriggerRule.ALL_DONE}
            tasks.append(in_batches(plan, **_task_words(step, apps), **words, **of_task))
        else:
            tasks.append(step_task(step, apps, **of_task))
            plan = tasks[-1] if step.role is Role.PLAN else plan
    chain(*tasks)
    return tasks
