"""What every task needs of Meltline: where its configuration is, and how a refusal ends a task."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException

from meltline.domain.errors import MeltlineError, SetupMissing

CONFIG = "MELTLINE_CONFIG"
CONFIG_VARIABLE = "meltline_config"
COLD_POOL = "MELTLINE_COLD_POOL"
REPLICATE_SCHEDULE = "MELTLINE_REPLICATE_SCHEDULE"
INCLUDE = Path(__file__).parents[2]


def config_path() -> str:
    """Where meltline.yaml is.

    Raises:
        SetupMissing: Neither the environment nor the Airflow variable says so.
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
    """The pool of copies to cold (AR-39), so that a long night of them keeps no other task waiting.

    A pool has to be made first: a task of one that is missing waits for ever. So it is Airflow's
    own until `MELTLINE_COLD_POOL` names another, wherever DAGs are processed.
    """
    return os.environ.get(COLD_POOL) or "default_pool"


def replicate_schedule() -> str:
    """When synced tables are copied to cold: a cron expression, wherever DAGs are processed."""
    return os.environ.get(REPLICATE_SCHEDULE) or "*/15 * * * *"


def python_path() -> str:
    """The PYTHONPATH of a process that runs Meltline."""
    return os.pathsep.join([str(INCLUDE), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def for_good() -> Iterator[None]:
    """What Meltline refuses here would be refused again: no retry, and its next step is named."""
    try:
        yield
    except MeltlineError as refused:
        raise AirflowFailException(
            f"{refused.message}; expected {refused.expected}, found {refused.found}."
            f" Next: {refused.next}"
        ) from refused
