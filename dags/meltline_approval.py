"""Asks a user to approve one purge above the limit, and carries it out if they approve."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from meltline.airflow.approval.tasks import NOBODY, approval_tasks
from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task
from meltline.airflow.dags.form import line_field, text_field

DOC = """
### Approve one large purge

`meltline_lifecycle` starts a run of this DAG for each plan above `limits.approve-above`, and
continues with everything else. The question is under *Required actions*: the table, files and
bytes, the files due first, the largest ones, and the digest. It waits `gates.approval-wait`;
meanwhile no other plan takes these files.

**Approve**: your approval is recorded for this digest alone, the gate evaluates the plan again, and
the files are deleted. If they have changed by then, nothing is deleted: another run asks again and
says what has changed.

**Reject**: nothing is deleted, and no run asks about these very files again. A hold or a longer
failsafe keeps them for good.

**Without an answer** nothing is deleted. The next run of the lifecycle plans the files again, and
asks again. Clear `ask` to be asked again here.

**With no plan named** the run lists the plans that wait, in the log of `ask`, and asks no question.

**It needs** what `meltline_lifecycle` needs. Do not pause it: questions would wait unseen.
"""

PARAMS = {
    "plan": line_field("Plan", "Its id, as `meltline approval list` shows it."),
    "digest": text_field(
        "Digest",
        "The digest of the plan: the approval is valid for it alone.",
        pattern=r"^sha256:[0-9a-f]{64}$",
    ),
    "instead_of": line_field(
        "Instead of", "The earlier plan that it replaces, to show what has changed."
    ),
    "found_by": line_field(
        "Found by", "The run of `meltline_lifecycle` that found it, for the link."
    ),
}

VERDICT = "Reports the answer and the result; fails without an answer, or if a gate refused."


def approval_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """Builds the DAG `meltline_approval`, which the lifecycle starts.

    Args:
        apps: The folder of the Spark apps.
        of_dag: A site's overrides, as `DAG` takes them.
    """
    with dag_of_steps(
        "meltline_approval",
        of_dag,
        description="Asks a user to approve one large purge, and carries it out if they do",
        doc_md=DOC,
        schedule=None,
        # Each run waits for a user for days: it must not prevent other runs from asking.
        max_active_runs=1000,
        is_paused_upon_creation=False,
        params=PARAMS,
        tags=["approval"],
    ) as dag:
        approval_tasks(apps) >> verdict_task("meltline_approval", VERDICT, {"ask": NOBODY})
    return dag


dag = approval_dag()
