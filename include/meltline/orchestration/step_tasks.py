"""A run's steps as Airflow's tasks, one for each and one app behind it."""

from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule

from meltline.app.run.steps import STEPS, Role, Step
from meltline.orchestration.batch_steps import BatchStep, PlanStep, in_batches
from meltline.orchestration.configuration import cold_pool
from meltline.orchestration.spark_step import SparkStep

_STEPS = {Role.PLAN: PlanStep, Role.GATE: BatchStep, Role.APPLY: BatchStep}


def step_task(step: Step, apps: Path, **more: Any) -> Any:
    """The task of one step.

    Args:
        step: Which.
        apps: The folder of the Spark apps.
        more: What else Airflow is to know of it.
    """
    return _STEPS.get(step.role, SparkStep)(
        task_id=step.name,
        application=apps / f"{step.app or step.name}.py",
        doc_md=step.doc,
        **({"arguments": [f"--kind={step.kind}"]} if step.role is Role.GATE else {}),
        **({"previews": step.previews} if step.role is Role.NONE else {}),
        **more,
    )


def lifecycle_tasks(apps: Path) -> list[Any]:
    """The tasks of a run in their order; gates and what stands behind them once for each batch."""
    # none_failed: an upstream task that was skipped had nothing to do; one that failed stops us.
    goes_on = {"trigger_rule": TriggerRule.NONE_FAILED}
    more: dict[str, dict[str, Any]] = {
        "hand_off_to_cold": {"pool": cold_pool()},
        "plan_expiration": goes_on,
        "gate_expiration": {"retries": 0},
        "plan_purge": goes_on,
        "gate_purge": {"retries": 0},
        # One batch after the other: each of them deletes at the configured rate.
        "purge": {"approvable": True, "max_active_tis_per_dagrun": 1},
        "report": {**goes_on, "is_last": True},
    }
    tasks: list[Any] = []
    for step in STEPS:
        make = partial(step_task, step, apps, **more.get(step.name, {}))
        if step.role is Role.GATE:
            gate = make
        elif step.role is Role.APPLY:
            tasks.append(in_batches(tasks[-1], gate, make))
        else:
            tasks.append(make())
    return tasks
