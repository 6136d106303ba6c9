"""Whether a run's steps may share one driver, and which: only where they run by a scheduler.

With several schedulers tasks of one run may be on several machines: each has a driver of its own.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow.configuration import conf
from airflow.sdk import Connection, Context

from meltline.airflow.requests.configuration import python
from meltline.domain.errors import UsageInvalid
from meltline.driver.client import RunDriver
from meltline.driver.place import DriverPlaces, run_key

DRIVER = "MELTLINE_DRIVER"
_EXECUTOR = "LocalExecutor"


def driver_of_run(
    context: Context, connection: Connection, config: Path, environment: Mapping[str, str]
) -> RunDriver | None:
    """The driver for a task's run; None where each step is to be submitted on its own.

    That is so where Airflow's executor has tasks run elsewhere than beside a scheduler, where
    Spark's master is no local one, where its connection says more than that, and where
    `MELTLINE_DRIVER` says `step`.

    Args:
        context: Of the task.
        connection: To Spark.
        config: `meltline.yaml`.
        environment: Of the step.

    Raises:
        UsageInvalid: `MELTLINE_DRIVER` says neither.
        OSError: The configuration cannot be read.
    """
    places = DriverPlaces.of_user(os.environ) if _may_share() else None
    master = _local_master(connection)
    if places is None or master is None:
        return None
    run = context["dag_run"]
    key = run_key((run.dag_id, run.run_id), master, config, environment)
    return RunDriver(places, key, master, python())


def _may_share() -> bool:
    choice = os.environ.get(DRIVER) or "run"
    if choice not in ("run", "step"):
        raise UsageInvalid(
            f"{DRIVER} is neither run nor step",
            object=DRIVER,
            expected="run: one Spark driver for all steps of a run; step: one for each",
            found=choice,
            next=f"unset {DRIVER}, or set it to one of these",
        )
    executors = conf.get("core", "executor").split(",")
    alone = all(name.rpartition(":")[2].rpartition(".")[2] == _EXECUTOR for name in executors)
    return choice == "run" and alone and sys.platform == "linux"


def _local_master(connection: Connection) -> str | None:
    """Of a connection that names a local master and nothing else."""
    master = connection.host or ""
    return master if master.startswith("local") and not connection.extra else None
