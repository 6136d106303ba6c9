"""The steps that Airflow maps over the batches of a run: who makes them, and who works on one."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from meltline.airflow.operators.spark_step import SparkStep
from meltline.airflow.pages.page_addresses import PlansLink
from meltline.app.run.recap import judged, recap


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
