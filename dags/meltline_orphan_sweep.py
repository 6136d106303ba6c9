"""The weekly sweep: moves old files that no commit has referenced to failsafe."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, chain

from meltline.airflow.dags.definition import APPS, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field
from meltline.airflow.operators.step_tasks import StepTasks

DOC = """
### Find files that no commit has referenced

Failed writes leave files that no snapshot ever referenced, so that no expiration finds them. This
DAG lists the store, reads all tables, and compares both. A file that is old enough, and was seen
unchanged in an earlier sweep, moves to failsafe: it waits there like every expired file.
**Nothing is deleted here**: `meltline_lifecycle` plans its purge, gates it, and purges. Until an
operator has run `meltline arm CATALOG --reason TEXT`, it only reports the files that it would move.

Unpause it for the weekly run, or trigger it from the UI. The first run only records what it saw.

**It needs** what `meltline_lifecycle` needs: `MELTLINE_CONFIG`, the connection `spark_default`,
`spark-submit` on the PATH and Meltline's jars.

**When it fails**, `verdict` names what was left out and why: a folder that could not be listed, or
a table that was never read, blocks everything, because the files may belong to any table.
"""

FIELDS = ("tables", "minimum_age", "inventory", "dry_run", "once", "any_hour", "parallelism")
PARAMS = {name: form_field(name) for name in FIELDS}

VERDICT = "Reports what was found; fails and names what was left out and why."


def orphan_sweep_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """Builds the DAG `meltline_orphan_sweep`; without catch-up, since only current files count.

    Args:
        apps: The folder of the Spark apps.
        of_dag: A site's overrides, as `DAG` takes them.
    """
    with dag_of_steps(
        "meltline_orphan_sweep",
        of_dag,
        description="Finds files that no commit has referenced, and holds them in failsafe",
        doc_md=DOC,
        schedule="@weekly",
        params=PARAMS,
        tags=["orphans"],
    ) as dag:
        # One task: the store is listed before the metadata is read, and only candidates are kept.
        sweep = StepTasks(apps).step("sweep", is_last=True)
        verdict = verdict_task("meltline_orphan_sweep", VERDICT)

        chain(sweep, verdict)
    return dag


dag = orphan_sweep_dag()
