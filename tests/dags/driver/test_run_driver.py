"""Where the steps of a run share one driver, and where each is submitted on its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meltline.domain.errors import UsageInvalid
from tests.dags.airflow_home import AirflowHome

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


def local(**more: Any) -> str:
    return json.dumps({"conn_type": "spark", "host": "local[2]", **more})


def driver(
    config: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, **told: Any
) -> Any:
    """What a task of one run is told, in an environment that is the usual one but for this."""
    from airflow.sdk import Connection

    from meltline.airflow.operators.spark_step import SparkStep

    config.write_text("hot: lake")
    usual = {CONNECTION: local(), "MELTLINE_DRIVER": "", "XDG_RUNTIME_DIR": str(config.parent)}
    for name, setting in {**usual, **environ}.items():
        monkeypatch.setenv(name, setting)
    context: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="r")}
    step = SparkStep(task_id="observe", application="observe.py", **told)
    return step._driver(context, Connection.get("spark_default"), config, {})


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    "environ",
    [{}, {"MELTLINE_DRIVER": "run"}, {"AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}],
)
def test_tasks_that_share_a_machine_share_a_driver(
    config: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = driver(config, environ, monkeypatch)
    assert shared.master == "local[2]"
    assert shared == driver(config, environ, monkeypatch)


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    "environ",
    [
        {"MELTLINE_DRIVER": "step"},
        {"AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"},
        {"AIRFLOW__CORE__EXECUTOR": "LocalExecutor,KubernetesExecutor"},
        {CONNECTION: local(host="spark://host:7077")},
        {CONNECTION: local(extra={"spark-binary": "spark3-submit"})},
    ],
)
def test_elsewhere_each_step_is_submitted(
    config: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert driver(config, environ, monkeypatch) is None


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize("told", [{"driver_memory": "8g"}, {"conf": {"spark.x": "y"}}])
def test_a_step_of_which_a_site_says_how_it_is_submitted_is(
    config: Path, told: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert driver(config, {}, monkeypatch, doc_md="of Airflow itself") is not None
    assert driver(config, {}, monkeypatch, **told) is None


def test_another_word_is_refused(
    airflow: AirflowHome, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageInvalid, match="neither run nor step"):
        driver(config, {"MELTLINE_DRIVER": "maybe"}, monkeypatch)
