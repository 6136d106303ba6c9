"""Drops chunks by age: those proved to be in cold leave hot, behind a gate.

Every step is safe to repeat and safe to kill. Every dropped chunk is in a plan that a gate has
passed; `verdict` reports which chunks wait, and why.
"""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule, chain

from meltline.airflow.dags.definition import APPS, BATCHES_SIDE_BY_SIDE, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field
from meltline.airflow.operators.step_tasks import StepTasks

DOC = """
### Copy, prove, drop by age, behind a gate

Tables are split into chunks of time, by their partitions. Each run first copies new rows to cold.
Then it flags chunks past the age of `meltline chunks tier-after` that are proved to be there, and
drops chunks past the age of `drop-after` from hot: one commit of metadata per table. Cold keeps
them all.

Unpause it for the daily run, trigger it from the UI for a run now, or repeat past days with
`airflow backfill create --dag-id meltline_chunks --from-date D --to-date D`: the end state is the
same. `meltline chunks run` does the same steps.

**Chunks that wait** are no failure: a chunk that is not proved stays in hot, the run says why, such
as `2 chunks wait: 2 BEHIND`, and the next run tries again. On a policy's first day the run only
reports what it would drop.

**Not armed**, a run copies, flags, plans and evaluates, and drops nothing: `verdict` reports what
it would have dropped. Run `meltline arm CATALOG --reason TEXT` once.

**as_of**, which decides ages: the parameter, else the end of the data interval, else now.

**Force** drops chunks that are not proved: their rows may then be lost. Only a user can do so, in a
run that they trigger, for chunks of one table by name, with a reason that the audit keeps. Holds
and all other checks of the gate still apply.

**It needs** what `meltline_lifecycle` needs, and a cold tier. **When it fails**, `verdict` names
every table that was skipped, refused or failed, and why; all others are done. Run it again when the
cause is resolved.
"""

PARAMS = {
    "tables": form_field("tables"),
    "as_of": form_field("as_of"),
    "dry_run": form_field("dry_run"),
    "once": form_field("once", title="Once, though not armed", section="Approval", maxLength=500),
    "chunks": form_field(
        "chunks",
        section="Force",
        description_md="Chunks of one table, which `tables` names: 2026-01-05, 2026-01-06.",
    ),
    "force": form_field("force", title="Force, because", section="Force", maxLength=500),
}

VERDICT = "Reports what was done and what waits; fails and names every table that failed."


def chunks_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """Builds the DAG `meltline_chunks`.

    Args:
        apps: The folder of the Spark apps.
        of_dag: A site's overrides, as `DAG` takes them.
    """
    with dag_of_steps(
        "meltline_chunks",
        of_dag,
        description="Copies tables to cold, proves chunks, drops them by age, behind a gate",
        doc_md=DOC,
        # Whole days in UTC, as in the lifecycle: a backfill of a date decides as that night.
        schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
        params=PARAMS,
        tags=["chunks"],
        default_args={"max_active_tis_per_dagrun": BATCHES_SIDE_BY_SIDE},
    ) as dag:
        tasks = StepTasks(apps)
        replicate = tasks.step("replicate_to_cold")
        refresh = tasks.step("refresh_rollups")
        # A skipped task before it had nothing to do: a dry run copies nothing.
        evaluate = tasks.step("evaluate_chunks", trigger_rule=TriggerRule.NONE_FAILED)
        plan = tasks.plan("plan_drops")
        gate = tasks.gate("gate_drops", plan)
        drop = tasks.destroy("drop_chunks", plan, gate)
        report = tasks.step("report_chunks", is_last=True, trigger_rule=TriggerRule.NONE_FAILED)
        verdict = verdict_task("meltline_chunks", VERDICT)

        chain(replicate, refresh, evaluate, plan, gate, drop, report, verdict)
    return dag


dag = chunks_dag()
