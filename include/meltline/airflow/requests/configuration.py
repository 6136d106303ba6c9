"""Settings that every task needs: the configuration's path, the interpreter, pools, schedules.

It also turns a refusal of Meltline into a failed task without retries.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException

from meltline.domain.errors import MeltlineError, SetupMissing

CONFIG = "MELTLINE_CONFIG"
CONFIG_VARIABLE = "meltline_config"
COLD_POOL = "MELTLINE_COLD_POOL"
REPLICATE_SCHEDULE = "MELTLINE_REPLICATE_SCHEDULE"
PYTHON = "MELTLINE_PYTHON"
_PACKAGE_FOLDER = Path(__file__).parents[2]


def config_path() -> str:
    """Returns the path of meltline.yaml.

    Raises:
        SetupMissing: Neither the environment nor the Airflow variable has it.
    """
    path = os.environ.get(CONFIG) or Variable.get(CONFIG_VARIABLE, default=None)
    if not path:
        raise SetupMissing(
            "no task knows where meltline.yaml is",
            object=CONFIG,
            expected="its path",
            found="nothing",
            next=f"set {CONFIG} for the workers, or the Airflow variable {CONFIG_VARIABLE}",
        )
    return str(path)


def cold_pool() -> str:
    """Returns the pool of copies to cold (AR-39), so that long copies do not delay other tasks.

    A pool must be created first: a task in a missing pool waits for ever. So it is Airflow's
    default pool until `MELTLINE_COLD_POOL` names another, wherever DAGs are processed.
    """
    return os.environ.get(COLD_POOL) or "default_pool"


def replicate_schedule() -> str:
    """Returns the cron expression of copies to cold; it is read wherever DAGs are processed."""
    return os.environ.get(REPLICATE_SCHEDULE) or "*/15 * * * *"


def python() -> str:
    """Returns the interpreter that runs Meltline: Airflow's own, or a separate environment's.

    Raises:
        SetupMissing: `MELTLINE_PYTHON` is no executable file.
    """
    named = os.environ.get(PYTHON)
    if named and not os.access(named, os.X_OK):
        raise SetupMissing(
            f"{PYTHON} names no interpreter",
            object=PYTHON,
            expected="the Python of an environment that has Meltline, such as /opt/melt/bin/python",
            found=named,
            next=f"make that environment on every worker, or unset {PYTHON}",
        )
    return named or sys.executable


def python_environment() -> Mapping[str, str]:
    """Returns the variables with which a process of `python` finds Meltline and Spark."""
    if not os.environ.get(PYTHON):
        return {"PYTHONPATH": os.pathsep.join(_python_path())}
    beside = Path(python()).parent
    path = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
    # Set explicitly: Airflow's would take precedence, and an empty one differs from none.
    scripts = beside.parent.glob("lib/python3*/site-packages/pyspark/bin/spark-class")
    spark = next((str(script.parents[1]) for script in scripts), os.environ.get("SPARK_HOME"))
    return {"PATH": path, "PYTHONPATH": "", **({"SPARK_HOME": spark} if spark else {})}


def _python_path() -> Iterator[str]:
    """Yields the import path: of a checkout, its folder; an installed Meltline needs none."""
    if Path(sysconfig.get_path("purelib")) != _PACKAGE_FOLDER:
        yield str(_PACKAGE_FOLDER)
    yield from filter(None, [os.environ.get("PYTHONPATH")])


@contextmanager
def for_good() -> Iterator[None]:
    """Turns a refusal of Meltline into a failure without retries, with its next step."""
    try:
        yield
    except MeltlineError as refused:
        raise AirflowFailException(
            f"{refused.message}; expected {refused.expected}, found {refused.found}."
            f" Next: {refused.next}"
        ) from refused
