"""The lifecycle starts a run of the approval DAG for each plan that waits, and fails for none."""

import gc
from datetime import timedelta
from typing import Any

import pytest

from tests.dags.airflow_home import DAG_ID, AirflowHome
from tests.dags.project import PLAN_DIGEST, Project, batches, plan

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("config"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

APPROVAL = "meltline_approval"


def waiting(name: str) -> dict[str, Any]:
    """A line of a run's document about a plan that waits."""
    return {
        "plan": f"purge-{name}",
        "digest": PLAN_DIGEST,
        "table": name,
        "files": 7,
        "bytes": 2048,
        "instead_of": None,
        "next": "`meltline approval show`",
    }


FOUND = {
    "plan_purge": {
        "plans": [plan("lake.a.t", "purge", "planned")],
        "batches": batches(1),
        "approvals": [waiting("lake.a.earlier")],
    },
    "gate_purge": {"plans": [plan("lake.a.t", "purge", "passed") | {"gate": "passed"}]},
    "purge": {
        "plans": [plan("lake.a.t", "purge", "passed")],
        "approvals": [waiting("lake.a.t"), waiting("lake.a.earlier")],
    },
}


@pytest.fixture
def dags(airflow: AirflowHome) -> Any:
    """Both DAGs, known to Airflow's database: a run can be started of what is there alone."""
    from airflow.dag_processing.dagbag import DagBag

    airflow.airflow("dags", "reserialize")
    return DagBag(dag_folder=airflow.project / "dags").dags


def night(dags: Any, project: Project, answers: dict[str, Any]) -> Any:
    project.answer(**answers)
    for task in dags[DAG_ID].tasks:
        task.retry_delay = timedelta(0)
    run = dags[DAG_ID].test(logical_date=None)
    gc.collect()  # the provider leaves its pipes open: let that be said here, not later
    return run


def questions() -> dict[str, dict[str, Any]]:
    """The runs that ask, by their ids: what each is about."""
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    with settings.Session() as session:
        runs = session.scalars(select(DagRun).where(DagRun.dag_id == APPROVAL))
        return {run.run_id: dict(run.conf) for run in runs}


@pytest.mark.slow("several runs of a DAG in Airflow")
def test_each_plan_that_waits_is_asked_about_once_however_many_runs_find_it(
    dags: Any, project: Project
) -> None:
    first = night(dags, project, FOUND)
    assert str(first.state.value) == "success"
    asked = questions()
    assert asked.keys() == {"approval__purge-lake.a.t", "approval__purge-lake.a.earlier"}
    assert asked["approval__purge-lake.a.t"] == {
        "plan": "purge-lake.a.t",
        "digest": PLAN_DIGEST,
        "instead_of": None,
        "found_by": first.run_id,
    }
    again = night(dags, project, FOUND)
    assert str(again.state.value) == "success" and questions() == asked
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in again.get_task_instances()}
    assert [states["ask_for_approval", n] for n in (0, 1)] == ["skipped", "skipped"]
    assert states["verdict", -1] == "success"
