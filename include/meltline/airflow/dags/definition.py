"""What all of Meltline's DAGs have in common, and what a site may say otherwise."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from airflow.sdk import DAG, Asset, TriggerRule, get_current_context, task

from meltline.bundled import bundled

APPS = bundled("spark_apps")
"""The Spark apps: one thin file for each step of a run."""

BATCHES_SIDE_BY_SIDE = 2
"""Of a step of one run: so many Spark drivers."""

_START = datetime(2000, 1, 1, tzinfo=UTC)
"""Before every table there is: a backfill before it would "succeed" without running a task."""

_OF_STEPS: Mapping[str, Any] = {
    "owner": "meltline",
    "retries": 1,
    "retry_delay": timedelta(minutes=1),
    # Gates and approvals end after six hours, and with them every purge.
    "execution_timeout": timedelta(hours=12),
}

_OF_COMMANDS: Mapping[str, Any] = {
    "owner": "meltline",
    "retries": 0,  # what was refused once needs a person, and they wait for the answer
    "execution_timeout": timedelta(hours=1),
}


def dag_of_steps(dag_id: str, of_site: Mapping[str, Any], **ours: Any) -> DAG:
    """A DAG whose tasks are a run's steps.

    Args:
        dag_id: By this name the ledger, links and other DAGs know its runs: no site changes it.
        of_site: What a site says, as `DAG` takes it; of `default_args`, those that it names.
        ours: What Meltline says.
    """
    return _dag(dag_id, _OF_STEPS, of_site, {"max_active_runs": 1, **ours})


def dag_of_a_command(dag_id: str, of_site: Mapping[str, Any], **ours: Any) -> DAG:
    """A DAG that runs one command, for a person who fills in its form. Takes what the other takes.

    It has no schedule: that is a person's decision.
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
    """The last task of a run, which runs whatever became of the others.

    Args:
        asset: Whose event tells others of a run that went well.
        doc: What it says and when it fails.
        failures: What it means when a task has failed, where that is known.
    """

    @task(doc_md=doc, retries=0, trigger_rule=TriggerRule.ALL_DONE, outlets=[Asset(asset)])
    def verdict() -> object:
        from meltline.airflow.dags.verdict import conclude  # noqa: PLC0415 - parsing is to be quick

        return conclude(get_current_context(), failures=failures)

    return verdict()
