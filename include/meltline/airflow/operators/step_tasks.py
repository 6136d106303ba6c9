"""A run's steps as Airflow's tasks, one for each and one Spark app behind it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule

from meltline.airflow.operators.batch_steps import PlanStep, in_batches
from meltline.airflow.operators.spark_step import SparkStep
from meltline.app.run.steps import EVERY_STEP

_BY_NAME = {step.name: step for step in EVERY_STEP}


@dataclass(frozen=True)
class StepTasks:
    """Makes the tasks of a run. What Airflow is to know of a task beside that comes as keywords.

    Attributes:
        apps: The folder of the Spark apps.
    """

    apps: Path

    def step(self, name: str, **of_task: Any) -> SparkStep:
        """A step that is done once in a run."""
        return SparkStep(previews=_BY_NAME[name].previews, **self._words(name), **of_task)

    def plan(self, name: str, **of_task: Any) -> PlanStep:
        """A step that plans, and makes the batches of the steps behind it."""
        return PlanStep(**self._words(name), **of_task)

    def gate(self, name: str, plan: PlanStep) -> Any:
        """A gate: it judges each batch of a plan, and is not tried until it passes."""
        kind = f"--kind={_BY_NAME[name].kind}"
        return in_batches(plan, **self._words(name), arguments=[kind], retries=0)

    def destroy(self, name: str, plan: PlanStep, gate: Any, **of_task: Any) -> Any:
        """A step that carries out each batch of a plan whose own gate has passed."""
        # all_done: the gates of all batches; each instance then asks for that of its own.
        words = {"gate": gate.task_id, "trigger_rule": TriggerRule.ALL_DONE}
        return in_batches(plan, **self._words(name), **words, **of_task)

    def _words(self, name: str) -> dict[str, Any]:
        step = _BY_NAME[name]
        app = str(self.apps / f"{step.app or step.name}.py")
        return {"task_id": name, "application": app, "doc_md": step.doc}
