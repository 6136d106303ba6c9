"""The daily lifecycle: expires history, keeps its files in failsafe, and deletes them.

Every step is safe to repeat and safe to kill. Everything destroyed is in a plan that a gate has
passed; `verdict` names the skipped and refused tables.
"""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, TriggerRule, chain

from meltline.airflow.approval.tasks import ask_for_approvals
from meltline.airflow.dags.definition import APPS, BATCHES_SIDE_BY_SIDE, dag_of_steps, verdict_task
from meltline.airflow.dags.form import form_field, text_field
from meltline.airflow.operators.step_tasks import StepTasks
from meltline.airflow.requests.configuration import cold_pool

DOC = """
### Expire, hold in failsafe, purge, each behind a gate

Unpause it for the daily run, trigger it from the UI for a run now, or repeat past days with
`airflow backfill create --dag-id meltline_lifecycle --from-date D --to-date D`: forwards,
backwards or in parallel, the end state is the same.

**Not armed**, a run plans, evaluates and reports, and changes nothing: `verdict` reports what it
would have done. Airflow unpauses a DAG with its first manual run, unless you untick that: so the
daily run only reports until you have checked it, and run `meltline arm CATALOG --reason TEXT` once.

**as_of**, which decides retention: the parameter, else the end of the data interval, else now.
Failsafe always goes by the wall clock: a backfill deletes nothing that it has just expired.

**It needs** `MELTLINE_CONFIG` (or the variable `meltline_config`) with the path of
`meltline.yaml`, a connection `spark_default` (a missing one would mean YARN, so it is refused),
`spark-submit` on the PATH and Meltline's jars.

**When it fails**, `verdict` names every table that was skipped, refused or failed, and why; all
others are done. Run it again when the cause is resolved: it resumes where it stopped.

**A purge above `limits.approve-above`** is no failure: a run of `meltline_approval` asks a user
to approve it, and this run continues.

**Many tables** go in batches, each behind its own gate: see `batches` in `meltline.yaml`.
"""

PARAMS = {
    "tables": form_field("tables"),
    "as_of": form_field("as_of"),
    "dry_run": form_field("dry_run"),
    "any_hour": form_field("any_hour", title="At any hour"),
    "parallelism": form_field("parallelism"),
    "approve_over_limit": Param(
        False,
        type="boolean",
        title="Approve above the limit",
        section="Approval",
        description_md="Purge more than `limits.approve-above` at once. "
        "Refused unless a user triggers the run and gives a reason.",
    ),
    "reason": text_field(
        "Reason", "Why it is right; recorded in the audit.", section="Approval", maxLength=500
    ),
    "once": form_field("once", title="Once, though not armed", section="Approval", maxLength=500),
}

GOES_ON: dict[str, Any] = {"trigger_rule": TriggerRule.NONE_FAILED}
"""A skipped task before it had nothing to do; a failed one stops it."""

VERDICT = "Reports the result; fails and names every skipped, refused or failed table."


def lifecycle_dag(*, apps: Path = APPS, **of_dag: Any) -> DAG:
    """Builds the DAG `meltline_lifecycle`.

    Args:
        apps: The folder of the Spark apps.
        of_dag: A site's overrides, as `DAG` takes them.
    """
    with dag_of_steps(
        "meltline_lifecycle",
        of_dag,
        description="Expires Iceberg history, holds it in failsafe, purges it, each behind a gate",
        doc_md=DOC,
        # Each run has the interval of one day in UTC, and as_of is its end: a backfill of a date
        # then decides exactly as the schedule did that night. A plain cron string has no intervals.
        schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
        # One run at a time: parallel runs would skip each other's locked tables. Backfills have
        # their own limit; the ledger's locks apply to them too.
        params=PARAMS,
        tags=["retention"],
        default_args={"max_active_tis_per_dagrun": BATCHES_SIDE_BY_SIDE},
    ) as dag:
        tasks = StepTasks(apps)
        observe = tasks.step("observe")
        archive = tasks.step("hand_off_to_cold", pool=cold_pool())
        plan_expiration = tasks.plan("plan_expiration", **GOES_ON)
        gate_expiration = tasks.gate("gate_expiration", plan_expiration)
        expire = tasks.destroy("expire", plan_expiration, gate_expiration)
        # An approval of this run's purges also covers purges that waited for approval.
        plan_purge = tasks.plan("plan_purge", approvable=True, **GOES_ON)
        gate_purge = tasks.gate("gate_purge", plan_purge)
        # One batch after the other: each of them deletes at the configured rate.
        one_by_one = {"approvable": True, "max_active_tis_per_dagrun": 1}
        purge = tasks.destroy("purge", plan_purge, gate_purge, **one_by_one)
        report = tasks.step("report", is_last=True, **GOES_ON)
        find_approvals, ask_for_approval = ask_for_approvals()
        verdict = verdict_task("meltline_lifecycle", VERDICT)

        chain(observe, archive, plan_expiration, gate_expiration, expire)
        chain(expire, plan_purge, gate_purge, purge, report, verdict)
        # Parallel to the report, not before it: a question waits for days in a run of its own.
        chain(purge, find_approvals, ask_for_approval, verdict)
    return dag


dag = lifecycle_dag()
