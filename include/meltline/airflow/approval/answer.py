"""What follows an answer: it is recorded by the name of who gave it, and the one plan goes on."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.operators.spark_step import SparkStep
from meltline.domain.units import format_instant


def show_words(params: Mapping[str, Any]) -> Sequence[str]:
    """`approval show` for the run's plan; of a form as it opens, `approval list`."""
    if not params.get("plan"):
        return ["approval", "list"]
    before = params.get("instead_of")
    compared = [f"--instead-of={before}"] if before else []
    return ["approval", "show", *compared, "--", str(params["plan"])]


class RecordAnswer(CommandStep):
    """Records an answer as the word of the person who gave it, from when they gave it.

    Args:
        answer: What the question returned.
    """

    template_fields = ("answer",)

    def __init__(self, *, answer: Any, **kwargs: Any) -> None:
        super().__init__(words=lambda _: (), **kwargs)
        self.answer = answer

    def command(self, context: Context) -> Sequence[str]:
        """`approval give` or `approval reject`, for the digest that the person was shown."""
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
        """Who answered.

        Raises:
            AirflowFailException: Nobody did: that is no approval.
        """
        person = self.answer.get("responded_by_user") or {}
        if name := person.get("name") or person.get("id"):
            return str(name)
        raise AirflowFailException("an answer that nobody has given is no answer")


class OnePlanStep(SparkStep):
    """A step on the one plan that a person has approved; after a rejection it is skipped.

    Args:
        answer: What `RecordAnswer` returned.
        judged: The summary of the gate, where the step destroys: only what that has passed goes on.
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
        """Beside the others, which plan; and at any hour, as by a command: a person has said so.

        Their word may be over before a quiet window begins.
        """
        return [*super().words(), "--any-hour", f"--plan={self.answer['plan']}"]


def _has_passed(plan: str, judged: Mapping[str, Any]) -> bool:
    return any(line["id"] == plan and line["gate"] == "passed" for line in judged["plans"])
