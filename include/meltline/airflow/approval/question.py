"""The question about one purge above the limit, as Airflow shows it to a person."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib import parse

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from meltline.airflow.pages.page_addresses import airflow_root
from meltline.airflow.requests.request import LIFECYCLE
from meltline.app.run.recap import quoted
from meltline.domain.safe_text import quote
from meltline.domain.units import format_files, format_size

REASON = Param(
    None,
    type=["null", "string"],
    maxLength=500,
    title="Reason",
    description_md="Why; it goes into the audit.",
)
"""What a person may say beside their answer."""
NOBODY = (
    "no person has answered in time: the files are planned anew by the next run, which asks again; "
    "clear this task to be asked again here"
)
"""What it means that the question has failed."""


class AskApproval(ApprovalOperator):
    """Asks a person about one plan, for as long as the configuration says, and returns the answer.

    No answer is none: there are no defaults. Both answers go on to the next task, which records
    them; what a rejection skips is for later tasks to say.

    Args:
        question: What `meltline approval show` says of the plan, or `approval list` of all.
    """

    template_fields = (*ApprovalOperator.template_fields, "question")

    def __init__(self, *, question: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="May this purge go ahead?",
            # Until the configuration has been read: the question itself says how long.
            response_timeout=timedelta(days=3),
            **kwargs,
        )
        self.question = question

    def execute(self, context: Context) -> Any:
        """Puts the question.

        Raises:
            AirflowSkipException: No plan was named, or it waits for nobody any more.
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
        """Returns the answer, whichever it is.

        Raises:
            AirflowFailException: Nobody gave it: that is no approval.
        """
        if "error" not in event and not event.get("responded_by_user"):
            raise AirflowFailException("an answer that nobody has given is no answer")
        # Not ApprovalOperator's: it would skip what records a rejection.
        return super(ApprovalOperator, self).execute_complete(context, event)


def headline(question: Mapping[str, Any]) -> str:
    """The question in one line."""
    amount = format_files(question["files"], question["bytes"])
    return f"Delete {amount} of {question['table']} for good?"


def body(question: Mapping[str, Any], found_by: str | None = None) -> str:
    """All that a person needs to answer, in Markdown.

    Args:
        question: What `meltline approval show` says of the plan.
        found_by: The run of the lifecycle that found it.
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
    """What is different from what the person was asked before."""
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
    """A path as code in a table's cell, whatever it has in it."""
    fence = "``" if "`" in path else "`"
    text = path.replace("|", "\\|").replace("\n", " ").replace("\r", " ")
    return f"{fence} {text} {fence}" if fence != "`" else f"`{text}`"


def _link(found_by: str | None) -> str:
    if not found_by:
        return ""
    run = f"{airflow_root()}/dags/{LIFECYCLE}/runs/{parse.quote(found_by, safe='')}"
    return f"; [the run that found them]({run})"
