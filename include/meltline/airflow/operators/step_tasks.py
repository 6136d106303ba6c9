"""A run's steps as Airflow's tasks, one for each and one Spark app behind it."""

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
    """A step that plans; it returns the batches, over which gates and their steps are mapped.

    Airflow maps over nothing but what a task returns, so the summary is an XCom of its own. A dry
    run has no batches, and so no gate.
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
    """A step on one batch of a run's plans. The ledger knows which they are; a retry finds them.

    Args:
        batch: One of what a `PlanStep` returned.
        gate: The task that judges the batch before this one destroys; none before a gate itself.
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
            AirflowSkipException: Nothing is left in the batch since the run was planned again.
            AirflowFailException: Its gate has not ended well.
        """
        if not self.batch["plans"]:
            raise AirflowSkipException(f"batch {self.batch['number']} is empty")
        summary = super().execute(context)
        outcome = recap(summary)[0] if self.gate else judged(summary)
        context[OUTCOME] = f": {outcome}"  # type: ignore[literal-required]
        return summary

    def words(self) -> list[str]:
        """Beside the others, which batch."""
        return [*super().words(), f"--batch={self.batch['number']}"]

    def require(self, context: Context) -> None:
        """Holds the task to its own batch's gate; that of another batch says nothing about it."""
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
"""What the UI calls an instance: the batch, and once it is over what was done with it."""


def in_batches(plan: PlanStep, **of_task: Any) -> Any:
    """A step as a task that is mapped over what another step has planned.

    Few tables are one batch; where nothing was planned there is none, and the task is skipped. No
    task group: a graph shows a group folded, and the gate in it by no name.

    Args:
        plan: Makes the batches.
        of_task: What Airflow is to know of the task.
    """
    return BatchStep.partial(map_index_template=_NAME, **of_task).expand(batch=plan.output)


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
