"""The steps that Airflow maps over the batches of a run: who makes them, and who works on one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import Context, chain, task_group
from airflow.sdk.exceptions import AirflowSkipException

from meltline.orchestration.page_addresses import PlansLink
from meltline.orchestration.spark_step import SparkStep


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
    """

    template_fields = (*SparkStep.template_fields, "batch")
    operator_extra_links = (PlansLink(),)

    def __init__(self, *, batch: Any, **kwargs: Any) -> None:
        name = "batch {{ task.batch.number }} of {{ task.batch.of }}: {{ task.batch.plans }} plans"
        super().__init__(map_index_template=name, **kwargs)
        self.batch = batch

    def execute(self, context: Context) -> Mapping[str, Any]:  # type: ignore[override]
        """Runs the app on the batch alone, and returns its summary.

        Raises:
            AirflowSkipException: Nothing is left in the batch since the run was planned again.
        """
        if not self.batch["plans"]:
            raise AirflowSkipException(f"batch {self.batch['number']} is empty")
        return super().execute(context)

    def words(self) -> list[str]:
        """Beside the others, which batch."""
        return [*super().words(), f"--batch={self.batch['number']}"]


def in_batches(plan: PlanStep, *steps: Callable[..., BatchStep]) -> Any:
    """Steps that follow each other, mapped together over what a step has planned.

    Each batch goes its own way: its gate stops its own step and no other one's. Few tables are one
    batch; where nothing was planned there is none, and all are skipped.

    Args:
        plan: Makes the batches.
        steps: Make a step when they are given its `batch`; the gate first.
    """
    name = plan.task_id.removeprefix("plan_")

    @task_group(group_id=f"{name}_batches", prefix_group_id=False, tooltip="One batch of plans")
    def batches(batch: object) -> None:
        chain(*(step(batch=batch) for step in steps))

    return batches.expand(batch=plan.output)
