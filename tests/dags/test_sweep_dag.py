"""The weekly sweep as Airflow runs it: its parameters reach the app, and verdict names the rest."""

import copy
import gc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_home import ROOT, AirflowHome
from tests.dags.project import Project, table

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("config"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

SWEEP = "meltline_orphan_sweep"
SWEPT = {
    "tables": [table("lake.air.t", files_departed=3)],
    "sweep": {"files": 7, "bytes": 70, "tables": [], "odd_files": 0, "odd": {}},
}


@pytest.fixture
def dag(airflow: AirflowHome) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=airflow.project / "dags").dags[SWEEP]


def run(dag: Any, project: Project, answer: Any, **conf: Any) -> tuple[str, dict[str, str], Any]:
    """Runs the DAG; returns its state, the words the app was given, and each task's state."""
    project.answer(sweep=answer)
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
    ended = dag.test(logical_date=None, run_conf=conf)
    gc.collect()  # the provider leaves its pipes open: let that be said here, not later
    states = {ti.task_id: str(ti.state) for ti in ended.get_task_instances()}
    return str(ended.state.value), project.calls().get("sweep", {}), states


def test_it_is_weekly_looks_first_and_judges_last(dag: Any) -> None:
    assert [task.task_id for task in dag.topological_sort()] == ["sweep", "verdict"]
    assert dag.timetable.expression == "0 0 * * 0"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.task_dict["verdict"].trigger_rule.value == "all_done"
    assert (ROOT / "spark_apps" / Path(dag.task_dict["sweep"].application).name).is_file()
    assert [task.task_id for task in dag.tasks if not task.doc_md] == []


def test_its_parameters_reach_the_app(dag: Any, project: Project) -> None:
    conf = {"tables": "lake.air.*", "minimum_age": "5d", "inventory": "/in ventory --x"}
    state, words, states = run(dag, project, SWEPT, **conf)
    assert (state, states) == ("success", {"sweep": "success", "verdict": "success"})
    assert words["tables"] == "lake.air.*"
    assert (words["minimum-age"], words["inventory"]) == ("5d", "/in ventory --x")
    assert "dry-run" not in words


def test_without_parameters_the_configuration_decides(dag: Any, project: Project) -> None:
    _, words, _ = run(dag, project, SWEPT)
    assert (words.get("minimum-age", ""), words.get("inventory", "")) == ("", "")


def test_a_dry_run_is_one_in_the_app_too(dag: Any, project: Project) -> None:
    _, words, states = run(dag, project, SWEPT, dry_run=True)
    assert "dry-run" in words
    assert states["sweep"] == "success"


def test_what_was_left_out_fails_the_run_by_name(dag: Any, project: Project) -> None:
    answer = SWEPT | {"notes": ["nothing departs: x could not be listed"]}
    state, _, states = run(dag, project, answer)
    assert (state, states) == ("failed", {"sweep": "success", "verdict": "failed"})


def test_a_crash_is_tried_again_and_then_fails_the_run(dag: Any, project: Project) -> None:
    state, _, states = run(dag, project, "crash")
    assert (state, states["verdict"]) == ("failed", "failed")


@pytest.mark.parametrize(
    "conf",
    [{"minimum_age": "three days"}, {"minimum_age": 3}, {"inventory": "a\nb"}, {"tables": 7}],
    ids=str,
)
def test_a_bad_parameter_is_rejected(dag: Any, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(dag.params)
    with pytest.raises(ParamValidationError):
        params.update(conf)
        params.validate()
