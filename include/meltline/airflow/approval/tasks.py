"""The tasks that ask for approvals, and those of the run in which one is asked for."""

from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context, TriggerRule, chain, get_current_context, task
from airflow.sdk.exceptions import DagRunTriggerException

from meltline.airflow.approval.answer import OnePlanStep, RecordAnswer, show_words
from meltline.airflow.approval.question import REASON, AskApproval
from meltline.airflow.dags.verdict import what_ran
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.operators.step_tasks import StepTasks
from meltline.airflow.requests.request import LIFECYCLE
from meltline.app.run.run_document import merge
from meltline.app.run.steps import STEPS
from meltline.domain.deletion.plan import PlanKind

APPROVAL = "meltline_approval"
_CONF = ("plan", "digest", "instead_of", "found_by")


class AskForApproval(BaseOperator):
    """Starts a run of `meltline_approval` for a plan; one that is there already stays.

    The provider's operator for that loads Airflow's models with each DAG file: a second each time.

    Args:
        approval: A line of what waits, as a run's document has it.
    """

    template_fields = ("approval",)

    def __init__(self, *, approval: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approval = approval

    def execute(self, context: Context) -> None:
        """Has Airflow start the run.

        Raises:
            DagRunTriggerException: That is how a task asks for one.
        """
        raise DagRunTriggerException(
            trigger_dag_id=APPROVAL,
            dag_run_id=f"approval__{self.approval['plan']}",
            conf={key: self.approval[key] for key in _CONF},
            reset_dag_run=False,
            skip_when_already_exists=True,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=60,
            deferrable=False,
        )


def ask_for_approvals() -> tuple[Any, Any]:
    """Two tasks: the first finds what waits for approval, the second starts a run for each.

    A plan's run has the plan's id, so that it is asked about once, whoever finds it again.
    """

    @task(
        retries=0,
        trigger_rule=TriggerRule.NONE_FAILED,
        doc_md="Finds the plans of this run that wait for approval, and those of earlier runs.",
    )
    def find_approvals() -> list[dict[str, Any]]:
        context = get_current_context()
        run, params = context["dag_run"], context["params"]
        found_by = run.run_id if run.dag_id == LIFECYCLE else params.get("found_by")
        lines = merge(what_ran(context)[0]).get("approvals", ())
        return [{**line, "found_by": found_by} for line in lines]

    waiting = find_approvals()
    asked = AskForApproval.partial(
        task_id="ask_for_approval",
        map_index_template="{{ task.approval['table'] }}: {{ task.approval['plan'] }}",
        doc_md="Starts a run of `meltline_approval` for each plan that waits; it holds back none.",
    ).expand(approval=waiting)
    return waiting, asked


def approval_tasks(apps: Path) -> Any:
    """The tasks of a run that asks about one plan, chained; returns the last one.

    Args:
        apps: The folder of the Spark apps.
    """
    shown = CommandStep(
        task_id="describe", words=show_words, doc_md="What a person is asked about: the plan."
    )
    asked = AskApproval(
        task_id="ask",
        question=shown.output,
        params={"reason": REASON},
        retries=0,  # each would ask again
        execution_timeout=None,  # it waits for a person
        doc_md="Waits for a person's answer, as long as `gates.approval-wait`.",
    )
    answer = RecordAnswer(
        task_id="record_answer",
        answer=asked.output,
        doc_md="Records the answer as the word of who gave it, for this digest alone.",
    )
    gate, purge = (step for step in STEPS if step.kind is PlanKind.PURGE and step.previews is False)
    judged = OnePlanStep(
        task_id=gate.name,
        application=apps / "gate.py",
        arguments=[f"--kind={PlanKind.PURGE}"],
        answer=answer.output,
        retries=0,
        doc_md="Judges the plan again, as everything is now.",
    )
    purged = OnePlanStep(
        task_id=purge.name,
        application=apps / "purge.py",
        answer=answer.output,
        judged=judged.output,
        doc_md=purge.doc,
    )
    report = StepTasks(apps).step("report", is_last=True, trigger_rule=TriggerRule.ALL_DONE)
    waiting, anew = ask_for_approvals()
    chain(shown, asked, answer, judged, purged, report, waiting, anew)
    return anew
