"""Common settings of all DAGs of Meltline, and a site's overrides of them.

Every file in `dags/` builds its DAG with them, so that no setting is repeated there.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from airflow.sdk import DAG, Asset, TriggerRule, get_current_context, task

from meltline.bundled import bundled

APPS = bundled("spark_apps")
"""The folder of the Spark apps: one thin file for each step of a run."""

BATCHES_SIDE_BY_SIDE = 2
"""The maximum number of parallel batches of a step in one run: one Spark driver each."""

_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Before every table's history: a backfill before it would "succeed" without running a task."""

_OF_STEPS: Mapping[str, Any] = {
    "owner": "meltline",
    "retries": 1,
    "retry_delay": timedelta(minutes=1),
    # Gates and approvals end after six hours, and with them every purge.
    "execution_timeout": timedelta(hours=12),
}

_OF_COMMANDS: Mapping[str, Any] = {
    "owner": "meltline",
    "retries": 0,  # a refusal needs a user, who waits for the result
    "execution_timeout": timedelta(hours=1),
}


def dag_of_steps(dag_id: str, of_site: Mapping[str, Any], **ours: Any) -> DAG:
    """Builds a DAG whose tasks are a run's steps.

    Args:
        dag_id: The ledger, links and other DAGs identify its runs by this name: a site must not
            change it.
        of_site: A site's settings, as `DAG` takes them; of `default_args`, only the given keys
            override.
        ours: Meltline's settings.
    """
    return _dag(dag_id, _OF_STEPS, of_site, {"max_active_runs": 1, **ours})


def dag_of_a_command(dag_id: str, of_site: Mapping[str, Any], **ours: Any) -> DAG:
    """Builds a DAG that runs one command, for a user who fills in its form.

    Takes the arguments of `dag_of_steps`. It has no schedule: a user decides when it runs.
    """
    return _dag(dag_id, _OF_COMMANDS, of_site, {"schedule": None, **ours})


def _dag(
    dag_id: str, of_tasks: Mapping[str, Any], of_site: Mapping[str, Any], ours: Mapping[str, Any]
) -> DAG:
    tasks = [of_tasks, ours.get("default_args", {}), of_site.get("default_args", {})]
    words: dict[str, Any] = {
        "start_date": _START,
        "catchup": False,
        **ours,
        **of_site,
        "default_args": {key: word for part in tasks for key, word in part.items()},
        "tags": ["iceberg", "meltline", *ours["tags"], *of_site.get("tags", ())],
    }
    return DAG(dag_id, schedule=words.pop("schedule"), **words)


def verdict_task(asset: str, doc: str, failures: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Builds the last task of a run, which runs whatever the state of the others.

    Args:
        asset: The asset whose event announces a successful run.
        doc: The task's documentation.
        failures: Explanations of failed tasks, by task, if known.
    """

    @task(doc_md=doc, retries=0, trigger_rule=TriggerRule.ALL_DONE, outlets=[Asset(asset)])
    def verdict() -> object:
        from meltline.airflow.dags.verdict import conclude  # noqa: PLC0415 - parsing is to be quick

        return conclude(get_current_context(), failures=failures)

    return verdict()
