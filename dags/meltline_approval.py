"""Asks a person about one purge above the limit, and carries it out when they approve."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from meltline.airflow.approval.tasks import NOBODY, approval_tasks
from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task

DOC = """
### A person's word for one large purge

`meltline_lifecycle` starts a run of this for each plan above `limits.approve-above`, and goes on
with everything else. The question stands under *Required actions*: the table, files and bytes,
those due first, the largest, and the digest. It waits `gates.approval-wait`; meanwhile no other
plan takes these files.

**Approve**: your word is recorded for this digest alone, the gate judges the plan again, and the
files are deleted. Where they are not the same by then nothing is deleted: another run asks anew and
says what has changed.

**Reject**: nothing is deleted, and nobody is asked about these very files again. A hold or a longer
failsafe keeps them for good.

**Nobody answers**: nothing is deleted. The next run of the lifecycle plans the files anew, and asks
again. Clear `ask` to be asked again here.

**With no plan named** the run lists those that wait, in the log of `ask`, and asks nobody.

**It needs** what `meltline_lifecycle` needs. It is not to be paused: questions would wait unseen.
"""

_LINE = r"^[^\r\n]+$"
PARAMS = {
    "plan": Param(
        None,
        type=["null", "string"],
        pattern=_LINE,
        title="Plan",
        description_md="Its id, as `meltline approval list` shows it.",
    ),
    "digest": Param(
        None,
        type=["null", "string"],
        pattern=r"^sha256:[0-9a-f]{64}$",
        title="Digest",
        description_md="What the word is for: the plan's digest.",
    ),
    "instead_of": Param(
        None,
        type=["null", "string"],
        pattern=_LINE,
        title="Instead of",
        description_md="The plan whose place it took, to say what has changed.",
    ),
    "found_by": Param(
        None,
        type=["null", "string"],
        pattern=_LINE,
        title="Found by",
        description_md="The run of `meltline_lifecycle` that found it, for the link.",
    ),
}

VERDICT = "Says what was answered and done; fails where nobody answered or a gate refused."


def approval_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """The DAG `meltline_approval`, which the lifecycle starts.

    Args:
        apps: The folder of the Spark apps.
        of_dag: What a site says otherwise, as `DAG` takes it.
    """
    with dag_of_steps(
        "meltline_approval",
        of_dag,
        description="Asks a person about one large purge, and carries it out when they approve",
        doc_md=DOC,
        schedule=None,
        # Each run waits for a person for days: none may keep another one from being asked.
        max_active_runs=1000,
        is_paused_upon_creation=False,
        params=PARAMS,
        tags=["approval"],
    ) as dag:
        approval_tasks(apps) >> verdict_task("meltline_approval", VERDICT, {"ask": NOBODY})
    return dag


dag = approval_dag()
