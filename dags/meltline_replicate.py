"""Replicates synced tables to cold every few minutes, up to the head of main in hot."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TriggerRule, chain

from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field
from meltline.airflow.operators.step_tasks import StepTasks
from meltline.airflow.requests.configuration import replicate_schedule

DOC = """
### Keep the copy in cold up to date

A table named in `meltline chunks sync TABLE` is first copied in full and verified row for row. Then
it is followed commit by commit: appends, changes and deletes. Rows that our own drops removed from
hot stay in cold. A run that finds nothing new ends green and says so.

**Rollups** follow: buckets whose rows have changed are aggregated again, in the order in which the
rollups depend on each other. Buckets whose source was dropped keep their values.

It runs every 15 minutes, or as the cron expression in `MELTLINE_REPLICATE_SCHEDULE` says, which the
DAG processor reads. `meltline_chunks` copies first in any case, so chunks are dropped without this
DAG too; it keeps cold closer to hot in between. Only one run is active at a time, and missed runs
are not caught up.

**Deletes** above the limit stop a table's copy until a user decides. Trigger a run with `deletes`:
`mirror` deletes the rows in cold, too, `keep` keeps them there.

**It needs** what `meltline_lifecycle` needs, and a cold tier. **When it fails**, `verdict` names
each table whose copy has stopped, and the remedy; all others are copied.
"""

PARAMS = {
    "tables": form_field("tables"),
    "deletes": form_field("deletes", title="Large deletes"),
}

VERDICT = "Reports what was copied; fails and names each table whose copy has stopped."


def replicate_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """Builds the DAG `meltline_replicate`; without catch-up, since each run copies all changes.

    Args:
        apps: The folder of the Spark apps.
        of_dag: A site's overrides, as `DAG` takes them.
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
        # A run over chunks begins with the same steps: here the run's record needs its end.
        ending: dict[str, Any] = {"is_last": True, "arguments": ["--last"]}
        tasks = StepTasks(apps)
        replicate = tasks.step("replicate_to_cold")
        # all_done: rollups are aggregated from hot, whatever cold has.
        refresh = tasks.step("refresh_rollups", **ending, trigger_rule=TriggerRule.ALL_DONE)
        verdict = verdict_task("meltline_replicate", VERDICT)

        chain(replicate, refresh, verdict)
    return dag


dag = replicate_dag()
