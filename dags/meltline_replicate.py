"""Replication to cold, every few minutes: synced tables have there what main has here."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TriggerRule, chain

from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field
from meltline.airflow.operators.step_tasks import StepTasks
from meltline.airflow.requests.configuration import replicate_schedule

DOC = """
### Keep the copy in cold up to date

A table that `meltline chunks sync TABLE` names is copied once as a whole, verified row for row, and
from then on followed commit by commit: what was appended, changed and deleted. What our own drops
took out of hot stays in cold. A run that finds nothing new ends green and says so.

**Rollups** follow: of each, the buckets whose rows have changed are aggregated anew, in the order
in which they depend on each other. Buckets whose source was dropped stay as they are.

It runs every 15 minutes, or as the cron expression in `MELTLINE_REPLICATE_SCHEDULE` says, which the
DAG processor reads. `meltline_chunks` copies first in any case, so chunks are dropped without this
DAG too; it keeps cold closer to hot in between. One run at a time, and none for what was missed.

**Deletes** that are too large to be mirrored unasked stop a table's copy until a person decides.
Trigger a run with `deletes`: `mirror` has cold delete them too, `keep` leaves the rows there.

**It needs** what `meltline_lifecycle` needs, and a cold tier. **When it fails**, `verdict` names
each table whose copy has stopped, and the way out; all others are copied.
"""

PARAMS = {
    "tables": form_field("tables"),
    "deletes": form_field("deletes", title="Large deletes"),
}

VERDICT = "Says what was copied; fails, naming each table whose copy has stopped."


def replicate_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """The DAG `meltline_replicate`; nothing is caught up, for a run copies all there is.

    Args:
        apps: The folder of the Spark apps.
        of_dag: What a site says otherwise, as `DAG` takes it.
    """
    with dag_of_steps(
        "meltline_replicate",
        of_dag,
        description="Keeps synced tables in cold up to date",
        doc_md=DOC,
        schedule=replicate_schedule(),
        params=PARAMS,
        tags=["chunks"],
    ) as dag:
        # The same steps begin a run over chunks: here the run's record must be told that it ends.
        ending: dict[str, Any] = {"is_last": True, "arguments": ["--last"]}
        tasks = StepTasks(apps)
        replicate = tasks.step("replicate_to_cold")
        # all_done: rollups are made of hot, whatever cold has.
        refresh = tasks.step("refresh_rollups", **ending, trigger_rule=TriggerRule.ALL_DONE)
        verdict = verdict_task("meltline_replicate", VERDICT)

        chain(replicate, refresh, verdict)
    return dag


dag = replicate_dag()
