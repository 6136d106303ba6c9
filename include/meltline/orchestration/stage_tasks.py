"""A run's stages as Airflow's tasks, one for each and one app behind it."""

from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule

from meltline.app.run.stages import STAGES, Role, Stage
from meltline.orchestration.batch_steps import BatchStep, PlanStep, in_batches
from meltline.orchestration.configuration import cold_pool
from meltline.orchestration.spark_step import SparkStep

_STEPS = {Role.PLAN: PlanStep, Role.GATE: BatchStep, Role.APPLY: BatchStep}


def stage_task(stage: Stage, apps: Path, **more: Any) -> Any:
    """The task of one stage.

    Args:
        stage: Which.
        apps: The folder of the Spark apps.
        more: What else Airflow is to know of it.
    """
    return _STEPS.get(stage.role, SparkStep)(
        task_id=stage.name,
        application=apps / f"{stage.app or stage.name}.py",
        doc_md=stage.doc,
        **({"arguments": [f"--kind={stage.kind}"]} if stage.role is Role.GATE else {}),
        **({"previews": stage.previews} if stage.role is Role.NONE else {}),
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
        "report": goes_on,
    }
    tasks: list[Any] = []
    for stage in STAGES:
        make = partial(stage_task, stage, apps, **more.get(stage.name, {}))
        if stage.role is Role.GATE:
            gate = make
        elif stage.role is Role.APPLY:
            tasks.append(in_batches(tasks[-1], gate, make))
        else:
            tasks.append(make())
    return tasks
