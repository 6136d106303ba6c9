"""The daily lifecycle: expired history leaves its tables, waits in failsafe, and is deleted.

Every step is safe to repeat and safe to kill. What it destroys stands in a plan that a gate
has passed; what was skipped or refused is named by `verdict`.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    Param,
    TriggerRule,
    chain,
    get_current_context,
    task,
)
from airflow.sdk.exceptions import AirflowSkipException

from meltline.ui.spark_step import SparkStep

APPS = Path(__file__).resolve().parent.parent / "spark_apps"

# Airflow checks the format date-time only where a further package is installed.
INSTANT = r"^\d{4}-(0\d|1[0-2])-[0-3]\dT[0-2]\d:[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$"

DOC = """
### Expire, hold in failsafe, purge, each behind a gate

Unpause it for the daily run, trigger it from the UI for a run now, or repeat past days with
`airflow backfill create --dag-id meltline_lifecycle --from-date D --to-date D`: forwards,
backwards or in parallel, the end state is the same.

**as_of**, which decides retention: the parameter, else the end of the data interval, else now.
Failsafe always goes by the wall clock: a backfill deletes nothing that it has just expired.

**It needs** `MELTLINE_CONFIG` (or the variable `meltline_config`) with the path of
`meltline.yaml`, a connection `spark_default` (a missing one would mean YARN, so it is refused),
`spark-submit` on the PATH and Meltline's jars.

**When it fails**, `verdict` names every table that was skipped, refused or failed, and why; all
other tables are done. Run it again when the cause is gone: it goes on where it stopped.
"""

PARAMS = {
    "tables": Param("", type="string", pattern=r"^[^\r\n]*$", title="Tables",
        description_md="Globs over `catalog.namespace.table`, comma-separated. Empty: all."),
    "as_of": Param(None, type=["null", "string"], format="date-time", title="As of",
        pattern=INSTANT,
        description_md="The day that decides retention, not later than now (a dry run may look "
        "ahead). Empty: the end of the run's data interval, else now."),
    "dry_run": Param(False, type="boolean", title="Dry run",
        description_md="Plan and show, change nothing."),
    "approve_over_limit": Param(False, type="boolean", title="Approve above the limit",
        section="Approval", description_md="Purge more than `limits.approve-above` at once. "
        "Refused unless a person triggers the run and says why."),
    "reason": Param(None, type=["null", "string"], maxLength=500, title="Reason",
        section="Approval", description_md="Why it is right; it goes into the audit."),
}  # fmt: skip


def step(name: str, doc: str, *, app: str = "", **kwargs: Any) -> SparkStep:
    return SparkStep(task_id=name, application=APPS / f"{app or name}.py", doc_md=doc, **kwargs)


with DAG(
    "meltline_lifecycle",
    description="Expires Iceberg history, holds it in failsafe, purges it, each behind a gate",
    doc_md=DOC,
    # Each run has the interval of one day in UTC, and as_of is its end: a backfill of a date
    # then decides exactly as the schedule did that night. A plain cron string has empty intervals.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    # Before every table there is: a backfill before it would "succeed" without running a task.
    start_date=datetime(2000, 1, 1, tzinfo=UTC),
    catchup=False,
    # Runs wait for each other here, and would skip each other's locked tables otherwise.
    # Backfills have their own limit; the locks of the ledger hold for them too.
    max_active_runs=1,
    params=PARAMS,
    tags=["iceberg", "meltline", "retention"],
    default_args={
        "owner": "meltline",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        # Gates and approvals end after six hours, and with them every purge.
        "execution_timeout": timedelta(hours=12),
    },
):
    observe = step("observe", "Lists every catalog and reads what is new.", previews=True)

    @task(doc_md="Where snapshots go before they expire, when a policy hands them to a cold tier.")
    def hand_off_to_cold() -> None:
        raise AirflowSkipException("no policy hands history to a cold tier")

    # none_failed: an upstream task that was skipped had nothing to do; one that failed stops us.
    plan_expiration = step("plan_expiration", "Names the snapshots and refs to expire, and the "
        "files that depart.", previews=True, trigger_rule=TriggerRule.NONE_FAILED)  # fmt: skip
    gate_expiration = step("gate_expiration", "Judges the plans by evidence of its own. Not "
        "retried; a refused table stops itself only.", app="gate", arguments=["--kind=expire"],
        plans_of="plan_expiration", retries=0)  # fmt: skip
    expire = step("expire", "One metadata-only commit per table whose plan has passed.")
    plan_purge = step("plan_purge", "Names departed files past their failsafe that nothing refers "
        "to.", previews=True, trigger_rule=TriggerRule.NONE_FAILED)  # fmt: skip
    gate_purge = step("gate_purge", "Judges what is to be deleted. Not retried.", app="gate",
        arguments=["--kind=purge"], plans_of="plan_purge", retries=0)  # fmt: skip
    purge = step("purge", "Deletes in batches, each proved unreachable once more.", approvable=True)
    report = step("report", "Storage by stage, per table and day.",
        trigger_rule=TriggerRule.NONE_FAILED)  # fmt: skip

    @task(doc_md="Fails, naming every table that was skipped, refused or failed.", retries=0,
        trigger_rule=TriggerRule.ALL_DONE)  # fmt: skip
    def verdict() -> object:
        from meltline.ui.verdict import conclude

        return conclude(get_current_context())

    chain(observe, hand_off_to_cold(), plan_expiration, gate_expiration, expire,
        plan_purge, gate_purge, purge, report, verdict())  # fmt: skip
