"""The weekly sweep: what no commit has named, and is old, begins to wait in failsafe."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, TriggerRule, get_current_context, task

from meltline.app.run.steps import SWEEP
from meltline.orchestration.form import form_field
from meltline.orchestration.step_tasks import step_task

APPS = Path(__file__).resolve().parent.parent / "spark_apps"

DOC = """
### Find files that no commit has named

Failed writes leave files that no snapshot ever named, so that no expiration finds them. This lists
the store, reads all tables, and holds the one against the other. A file that is old enough, and was
seen unchanged in an earlier sweep, departs: it waits in failsafe like everything that expires.
**Nothing is deleted here**: `meltline_lifecycle` plans its purge, gates it, and purges. Until
somebody has run `meltline arm CATALOG --reason TEXT`, it only says what would depart.

Unpause it for the weekly run, or trigger it from the UI. The first run only remembers what it saw.

**It needs** what `meltline_lifecycle` needs: `MELTLINE_CONFIG`, the connection `spark_default`,
`spark-submit` on the PATH and Meltline's jars.

**When it fails**, `verdict` names what was left out and why: a folder that could not be listed or a
table that was never read holds back everything, for the files may be anybody's.
"""

FIELDS = ("tables", "minimum_age", "inventory", "dry_run", "once", "any_hour", "parallelism")
PARAMS = {name: form_field(name) for name in FIELDS}


with DAG(
    "meltline_orphan_sweep",
    description="Finds files that no commit has named, and holds them in failsafe",
    doc_md=DOC,
    schedule="@weekly",
    start_date=datetime(2000, 1, 1, tzinfo=UTC),
    catchup=False,  # what lies about today is what counts
    max_active_runs=1,
    params=PARAMS,
    tags=["iceberg", "meltline", "orphans"],
    default_args={
        "owner": "meltline",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=12),
    },
):
    # One task: the listing must come before the metadata, and nothing of it is kept but strays.
    sweep = step_task(SWEEP, APPS, is_last=True)

    @task(
        doc_md="Says what was found; fails, naming what was left out and why.",
        retries=0,
        trigger_rule=TriggerRule.ALL_DONE,
        outlets=[Asset("meltline_orphan_sweep")],
    )
    def verdict() -> object:
        from meltline.orchestration.verdict import conclude

        return conclude(get_current_context())

    sweep >> verdict()
