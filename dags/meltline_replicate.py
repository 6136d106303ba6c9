"""Replication to cold, every few minutes: synced tables have there what main has here."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, TriggerRule, get_current_context, task

from meltline.app.run.steps import REFRESH, REPLICATE
from meltline.orchestration.configuration import replicate_schedule
from meltline.orchestration.form import form_field
from meltline.orchestration.step_tasks import step_task

APPS = Path(__file__).resolve().parent.parent / "spark_apps"

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


with DAG(
    "meltline_replicate",
    description="Keeps synced tables in cold up to date",
    doc_md=DOC,
    schedule=replicate_schedule(),
    start_date=datetime(2000, 1, 1, tzinfo=UTC),
    catchup=False,  # a run copies all there is: what was missed is among it
    max_active_runs=1,
    params=PARAMS,
    tags=["iceberg", "meltline", "chunks"],
    default_args={
        "owner": "meltline",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=12),  # a first copy of a large table takes its time
    },
):
    replicate = step_task(REPLICATE, APPS)
    # The same steps begin a run over chunks: here the run's record must be told that it ends.
    refresh = step_task(
        REFRESH,
        APPS,
        is_last=True,
        arguments=["--last"],
        trigger_rule=TriggerRule.ALL_DONE,  # rollups are made of hot, whatever cold has
    )

    @task(
        doc_md="Says what was copied; fails, naming each table whose copy has stopped.",
        retries=0,
        trigger_rule=TriggerRule.ALL_DONE,
        outlets=[Asset("meltline_replicate")],
    )
    def verdict() -> object:
        from meltline.orchestration.verdict import conclude

        return conclude(get_current_context())

    replicate >> refresh >> verdict()
