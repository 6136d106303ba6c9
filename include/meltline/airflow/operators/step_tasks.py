"""Builds a run's steps as Airflow tasks, each with a Spark app.

The DAG files chain these tasks. The steps themselves, their order and their texts are in
`app.run.steps`, which needs no Airflow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk import Context, TaskInstanceState, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from meltline.airflow.operators.spark_step import SparkStep
from meltline.airflow.pages.page_addresses import PlansLink
from meltline.app.run.recap import judged, recap
from meltline.app.run.steps import EVERY_STEP


class PlanStep(SparkStep):
    """A planning step; it returns the batches that gates and their steps are mapped over.

    Airflow maps only over a task's return value, so the summary is a separate XCom. A dry run has
    no batches, and so no gate.
    """

    summary_key = "summary"
    operator_extra_links = (PlansLink(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(previews=True, **kwargs)

    def execute(self, context: Context) -> Sequence[Mapping[str, Any]]:  # type: ignore[override]
        """Runs the app; returns the run's batches, the smallest number first."""
        summary = super().execute(context)
        context["ti"].xcom_push(self.summary_key, summary)
        return list(summary.get("batches", ()))


class BatchStep(SparkStep):
    """A step on one batch of a run's plans. The ledger has the plans; a retry finds them.

    Args:
        batch: One batch that a `PlanStep` returned.
        gate: The task that evaluates the batch before this one destroys; empty for a gate itself.
    """

    template_fields = (*SparkStep.template_fields, "batch")
    operator_extra_links = (PlansLink(),)

    def __init__(self, *, batch: Any, gate: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch = batch
        self.gate = gate

    def execute(self, context: Context) -> Mapping[str, Any]:  # type: ignore[override]
        """Runs the app on the batch alone, and returns its summary.

        Raises:
            AirflowSkipException: The batch is empty since the run was planned again.
            AirflowFailException: Its gate has not succeeded.
        """
        if not self.batch["plans"]:
            raise AirflowSkipException(f"batch {self.batch['number']} is empty")
        summary = super().execute(context)
        outcome = recap(summary)[0] if self.gate else judged(summary)
        context[OUTCOME] = f": {outcome}"  # type: ignore[literal-required]
        return summary

    def words(self) -> list[str]:
        """Adds the batch to the arguments."""
        return [*super().words(), f"--batch={self.batch['number']}"]

    def require(self, context: Context) -> None:
        """Requires success of its own batch's gate; another batch's gate does not count."""
        if not self.gate:
            return
        ti = context["ti"]
        states = ti.get_task_states(ti.dag_id, task_ids=[self.gate], run_ids=[ti.run_id])
        state = states[ti.run_id].get(f"{self.gate}_{ti.map_index}")
        if state != TaskInstanceState.SUCCESS:
            raise AirflowFailException(
                f"batch {self.batch['number']}: its gate {self.gate} is {state}, not success:"
                " nothing of the batch is touched"
            )


OUTCOME = "outcome"
_NAME = (
    "batch {{ task.batch.number }} of {{ task.batch.of }}: {{ task.batch.plans }}"
    " plan{{ '' if task.batch.plans == 1 else 's' }}"
    f"{{{{ {OUTCOME} | default('') }}}}"
)
"""The name of an instance in the UI: the batch, and after it ended its result."""


def in_batches(plan: PlanStep, **of_task: Any) -> Any:
    """Builds a step as a task that is mapped over the batches of a planning step.

    A few tables are one batch. Without plans there is no batch, and the task is skipped. There is
    no task group: a graph shows a group folded, and its gate without a name.

    Args:
        plan: The planning step.
        of_task: Airflow's settings of the task.
    """
    return BatchStep.partial(map_index_template=_NAME, **of_task).expand(batch=plan.output)


_BY_NAME = {step.name: step for step in EVERY_STEP}


@dataclass(frozen=True)
class StepTasks:
    """Builds the tasks of a run. Keywords are further Airflow settings of a task.

    Attributes:
        apps: The folder of the Spark apps.
    """

    apps: Path

    def step(self, name: str, **of_task: Any) -> SparkStep:
        """Builds a step that runs once in a run."""
        return SparkStep(previews=_BY_NAME[name].previews, **self._words(name), **of_task)

    def plan(self, name: str, **of_task: Any) -> PlanStep:
        """Builds a planning step, which makes the batches of the steps after it."""
        return PlanStep(**self._words(name), **of_task)

    def gate(self, name: str, plan: PlanStep) -> Any:
        """Builds a gate: it evaluates each batch of a plan, and is never retried."""
        kind = f"--kind={_BY_NAME[name].kind}"
        return in_batches(plan, **self._words(name), arguments=[kind], retries=0)

    def destroy(self, name: str, plan: PlanStep, gate: Any, **of_task: Any) -> Any:
        """Builds a step that carries out each batch of a plan whose own gate has passed."""
        # all_done: waits for the gates of all batches; each instance then requires its own.
        words = {"gate": gate.task_id, "trigger_rule": TriggerRule.ALL_DONE}
        return in_batches(plan, **self._words(name), **words, **of_task)

    def _words(self, name: str) -> dict[str, Any]:
        step = _BY_NAME[name]
        app = str(self.apps / f"{step.app or step.name}.py")
        return {"task_id": name, "application": app, "doc_md": step.doc}
