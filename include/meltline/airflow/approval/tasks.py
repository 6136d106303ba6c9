"""Tasks that request approvals, and the tasks of the DAG run that asks for one.

The DAG files of the lifecycle and of approvals chain them. Answers are recorded by the commands
of `meltline approval`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib import parse

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context, TriggerRule, chain, get_current_context, task
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DagRunTriggerException,
)

from meltline.airflow.dags.form import text_field
from meltline.airflow.dags.verdict import what_ran
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.operators.spark_step import SparkStep
from meltline.airflow.operators.step_tasks import StepTasks
from meltline.airflow.pages.page_addresses import airflow_root
from meltline.airflow.requests.request import LIFECYCLE
from meltline.app.run.recap import quoted
from meltline.app.run.run_document import merge
from meltline.app.run.steps import STEPS
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.safe_text import quote
from meltline.domain.units import format_files, format_instant, format_size

REASON = text_field("Reason", "Why; it goes into the audit.", maxLength=500)
"""The form field with which a user may give a reason for the answer."""
NOBODY = (
    "no person has answered in time: the files are planned anew by the next run, which asks again; "
    "clear this task to be asked again here"
)
"""The explanation of a failed question."""


class AskApproval(ApprovalOperator):
    """Asks a user about one plan, for the configured time, and returns the answer.

    There is no default answer. Both answers go to the next task, which records them; later tasks
    decide what a rejection skips.

    Args:
        question: The document of `meltline approval show` for the plan, or of `approval list`.
    """

    template_fields = (*ApprovalOperator.template_fields, "question")

    def __init__(self, *, question: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="May this purge go ahead?",
            # A default until the configuration is read: the question itself has the timeout.
            response_timeout=timedelta(days=3),
            **kwargs,
        )
        self.question = question

    def execute(self, context: Context) -> Any:
        """Asks the question.

        Raises:
            AirflowSkipException: No plan was named, or it no longer waits for approval.
        """
        asked = self.question
        if "approvals" in asked:
            waiting = [plan["id"] for plan in asked["approvals"]]
            raise AirflowSkipException(
                f"no plan was named; waiting: {', '.join(waiting) or 'none'}"
            )
        if asked["state"] != "passed":
            raise AirflowSkipException(
                f"plan {asked['id']} waits for nobody: it is {asked['state']}: {asked['note']}"
            )
        self.subject, self.body = headline(asked), body(asked, context["params"].get("found_by"))
        seconds = asked["seconds"] if asked["seconds"] > 0 else asked["wait_seconds"]
        self.response_timeout = timedelta(seconds=seconds)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Returns the answer, approval or rejection.

        Raises:
            AirflowFailException: The answer has no user: that is no approval.
        """
        if "error" not in event and not event.get("responded_by_user"):
            raise AirflowFailException("an answer that nobody has given is no answer")
        # Not ApprovalOperator's: it would skip the task that records a rejection.
        return super(ApprovalOperator, self).execute_complete(context, event)


def headline(question: Mapping[str, Any]) -> str:
    """Returns the question in one line."""
    amount = format_files(question["files"], question["bytes"])
    return f"Delete {amount} of {question['table']} for good?"


def body(question: Mapping[str, Any], found_by: str | None = None) -> str:
    """Returns all details that a user needs to answer, in Markdown.

    Args:
        question: The document of `meltline approval show` for the plan.
        found_by: The lifecycle run that found it.
    """
    return "\n\n".join(_parts(question, found_by))


def _parts(question: Mapping[str, Any], found_by: str | None) -> Iterator[str]:
    amount = format_files(question["files"], question["bytes"])
    yield (
        f"**{amount}** of {quoted(question['table'])} have left every snapshot that is kept, and "
        "their failsafe is over. A gate has passed the plan; it is larger than "
        "`limits.approve-above`."
    )
    if changes := question["changes"]:
        yield _changes(changes)
    yield f"Plan `{question['id']}`, digest `{question['digest']}`, until {question['until']}."
    yield _files("Due first", question["oldest"])
    yield _files("Largest", question["largest"])
    yield (
        "**Approve**: the gate judges the plan again, and these very files are deleted. Where they "
        "are not the same by then, nothing is deleted and you are asked anew.\n\n"
        "**Reject**: nothing is deleted, and nobody is asked about these very files again. To keep "
        f"them for good: `meltline hold add {quote(question['table'])} --reason TEXT`."
    )
    yield f"Every file: `meltline show plan {question['id']} --items`{_link(found_by)}."


def _changes(changes: Mapping[str, Any]) -> str:
    """Describes the differences from the earlier plan that the user was asked about."""
    came = f"{format_files(changes['files_came'], changes['bytes_came'])}, came"
    went = f"{format_files(changes['files_went'], changes['bytes_went'])}, went"
    return (
        f"You were asked about plan `{changes['instead_of']}`, and its files are not the same any "
        f"more: {came}; {went}."
    )


def _files(title: str, files: Sequence[Mapping[str, Any]]) -> str:
    head = [f"| {title} | Bytes | Due |", "|---|---|---|"]
    rows = [f"| {_code(f['path'])} | {format_size(f['bytes'])} | {f['due_at']} |" for f in files]
    return "\n".join([*head, *rows])


def _code(path: str) -> str:
    """Formats a path as code in a table's cell, whatever its characters."""
    fence = "``" if "`" in path else "`"
    text = path.replace("|", "\\|").replace("\n", " ").replace("\r", " ")
    return f"{fence} {text} {fence}" if fence != "`" else f"`{text}`"


def _link(found_by: str | None) -> str:
    if not found_by:
        return ""
    run = f"{airflow_root()}/dags/{LIFECYCLE}/runs/{parse.quote(found_by, safe='')}"
    return f"; [the run that found them]({run})"


APPROVAL = "meltline_approval"
_CONF = ("plan", "digest", "instead_of", "found_by")


class AskForApproval(BaseOperator):
    """Starts a run of `meltline_approval` for a plan, unless one exists already.

    The provider's operator for this loads Airflow's models with each DAG file, which takes a second
    each time.

    Args:
        approval: A line of the plans that wait for approval, from a run's document.
    """

    template_fields = ("approval",)

    def __init__(self, *, approval: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approval = approval

    def execute(self, context: Context) -> None:
        """Makes Airflow start the run.

        Raises:
            DagRunTriggerException: A task requests a run by raising it.
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
    """Builds two tasks: the first finds plans that wait for approval, the second starts their runs.

    The run's id contains the plan's id, so that each plan is asked about once, whichever run finds
    it.
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
    """Builds the tasks of a run that asks about one plan, chained; returns the last one.

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
        retries=0,  # each retry would ask again
        execution_timeout=None,  # it waits for a user
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


def show_words(params: Mapping[str, Any]) -> Sequence[str]:
    """Returns `approval show` for the run's plan; for an empty form, `approval list`."""
    if not params.get("plan"):
        return ["approval", "list"]
    before = params.get("instead_of")
    compared = [f"--instead-of={before}"] if before else []
    return ["approval", "show", *compared, "--", str(params["plan"])]


class RecordAnswer(CommandStep):
    """Records an answer under the name of the user who gave it, from the time of the answer.

    Args:
        answer: The result of the question.
    """

    template_fields = ("answer",)

    def __init__(self, *, answer: Any, **kwargs: Any) -> None:
        super().__init__(words=lambda _: (), **kwargs)
        self.answer = answer

    def command(self, context: Context) -> Sequence[str]:
        """Returns `approval give` or `approval reject`, for the digest that the user was shown."""
        params, run = context["params"], context["dag_run"]
        plan, digest = (str(params[key]) for key in ("plan", "digest"))
        given = (self.answer.get("params_input") or {}).get("reason")
        reason = str(given or "").strip() or f"answered in Airflow, {run.dag_id}, {run.run_id}"
        words = [f"--digest={digest}", f"--reason={reason}"]
        if self.answer["chosen_options"] != [ApprovalOperator.APPROVE]:
            return ["approval", "reject", *words, "--", plan]
        at = format_instant(self.answer["responded_at"])
        return ["approval", "give", *words, f"--answered-at={at}", "--", plan]

    def user(self, context: Context) -> str:
        """Returns the user who answered.

        Raises:
            AirflowFailException: The answer has no user: that is no approval.
        """
        person = self.answer.get("responded_by_user") or {}
        if name := person.get("name") or person.get("id"):
            return str(name)
        raise AirflowFailException("an answer that nobody has given is no answer")


class OnePlanStep(SparkStep):
    """A step on the one plan that a user has approved; after a rejection it is skipped.

    Args:
        answer: The result of `RecordAnswer`.
        judged: The gate's summary, for a destructive step: it applies only a plan that has passed.
    """

    template_fields = (*SparkStep.template_fields, "answer", "judged")

    def __init__(self, *, answer: Any, judged: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.answer = answer
        self.judged = judged

    def execute(self, context: Context) -> Mapping[str, Any]:  # type: ignore[override]
        """Runs the app on the plan alone.

        Raises:
            AirflowSkipException: The plan was rejected, or its gate has not passed it again.
        """
        plan = self.answer["plan"]
        if not self.answer["approved"]:
            raise AirflowSkipException(f"plan {plan} was rejected: nothing is done")
        if self.judged is not None and not _has_passed(plan, self.judged):
            raise AirflowSkipException(f"the gate has not passed plan {plan} again")
        return super().execute(context)

    def words(self) -> list[str]:
        """Adds the plan, and `--any-hour`, as for a command: a user has approved it.

        The approval may expire before a quiet window begins.
        """
        return [*super().words(), "--any-hour", f"--plan={self.answer['plan']}"]


def _has_passed(plan: str, judged: Mapping[str, Any]) -> bool:
    return any(line["id"] == plan and line["gate"] == "passed" for line in judged["plans"])
