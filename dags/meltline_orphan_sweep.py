"""The weekly sweep: what no commit has named, and is old, begins to wait in failsafe."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, chain

from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field
from meltline.airflow.operators.step_tasks import StepTasks

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

VERDICT = "Says what was found; fails, naming what was left out and why."


def orphan_sweep_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """The DAG `meltline_orphan_sweep`; nothing is caught up, for what lies about today counts.

    Args:
        apps: The folder of the Spark apps.
        of_dag: What a site says otherwise, as `DAG` takes it.
    """
    with dag_of_steps(
        "meltline_orphan_sweep",
        of_dag,
        description="Finds files that no commit has named, and holds them in failsafe",
        doc_md=DOC,
        schedule="@weekly",
        params=PARAMS,
        tags=["orphans"],
    ) as dag:
        # One task: the listing comes before the metadata, and nothing of it is kept but strays.
        sweep = StepTasks(apps).step("sweep", is_last=True)
        verdict = verdict_task("meltline_orphan_sweep", VERDICT)

        chain(sweep, verdict)
    return dag


dag = orphan_sweep_dag()
