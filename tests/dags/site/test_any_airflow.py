"""The DAGs in any Airflow: what a site may say otherwise, and whose Python runs the steps."""

import os
import runpy
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.airflow_home import ROOT
from tests.dags.project import Project

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("airflow"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]


def dag_file(name: str) -> dict[str, Any]:
    """What a DAG file of the checkout defines."""
    return runpy.run_path(str(ROOT / "dags" / f"meltline_{name}.py"))


def test_what_a_site_says_goes_before_ours_and_the_rest_stays() -> None:
    lifecycle_dag = dag_file("lifecycle")["lifecycle_dag"]
    told = {"owner": "ann", "conn_id": "spark_night"}
    dag = lifecycle_dag(schedule="0 2 * * *", tags=["ours"], default_args=told)
    assert dag.timetable.expression == "0 2 * * *"
    assert dag.tags >= {"iceberg", "meltline", "retention", "ours"}
    observe, expire = dag.task_dict["observe"], dag.task_dict["expire"]
    assert (observe.owner, observe.conn_id, observe.retries) == ("ann", "spark_night", 1)
    assert expire.unmap({"batch": {"number": 1}}).conn_id == "spark_night"
    assert dag.task_dict["gate_expiration"].retries == 0
    assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_a_dag_keeps_its_name_by_which_the_ledger_knows_its_runs() -> None:
    makers = [dag_file(name)[f"{name}_dag"] for name in ("lifecycle", "holds")]
    for make in makers:
        with pytest.raises(TypeError, match="dag_id"):
            make(dag_id="mine")


def spark_home(folder: Path) -> Path:
    return folder.parent / "lib" / "python3.11" / "site-packages" / "pyspark"


def another_python(folder: Path) -> Path:
    """The `bin` of an environment: an interpreter that notes how it was called, and Spark."""
    folder.mkdir()
    script = spark_home(folder) / "bin" / "spark-class"
    script.parent.mkdir(parents=True)
    script.touch()
    python = folder / "python"
    seen = '"$PYTHONPATH" "$SPARK_HOME" "$(command -v spark-submit)"'
    lines = ["#!/bin/sh", f"printf '%s|' {seen} >> '{folder}/seen'", "echo '{\"rows\": []}'"]
    python.write_text("\n".join(lines) + "\n")
    submit = folder / "spark-submit"
    submit.write_text("#!/bin/sh\n")
    for file in (python, submit):
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return python


def context_of(**params: Any) -> Any:
    run = SimpleNamespace(triggering_user_name="ann")
    return {"params": params, "dag_run": run}


def test_a_command_is_run_by_the_python_that_is_named_and_knows_nothing_of_airflows(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = another_python(tmp_path / "bin")
    monkeypatch.setenv("MELTLINE_PYTHON", str(python))
    monkeypatch.setenv("SPARK_HOME", "/opt/airflows/spark")
    undrop = dag_file("restore")["undrop"].task_dict["undrop"]
    assert undrop.execute(context_of(name=None)) == {"rows": []}
    seen = (tmp_path / "bin" / "seen").read_text()
    assert seen == f"|{spark_home(tmp_path / 'bin')}|{tmp_path / 'bin' / 'spark-submit'}|"


def test_a_python_that_is_not_there_is_named(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("MELTLINE_PYTHON", str(tmp_path / "python"))
    with pytest.raises(AirflowFailException, match="MELTLINE_PYTHON names no interpreter"):
        dag_file("restore")["undrop"].task_dict["undrop"].execute(context_of(name=None))


def test_where_there_is_no_spark_a_step_says_so_before_anything_is_submitted(
    project: Project, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from meltline.airflow.operators.spark_step import SparkStep
    from meltline.domain.errors import SetupMissing

    monkeypatch.setenv("PATH", str(tmp_path))
    app = project.folder / "spark_apps" / "observe.py"
    step = SparkStep(task_id="observe", application=app)
    with pytest.raises(SetupMissing, match="there is no spark-submit here") as refused:
        step._prepared()
    assert "MELTLINE_PYTHON" in refused.value.next
    python = another_python(tmp_path / "bin")
    monkeypatch.setenv("MELTLINE_PYTHON", str(python))
    step = SparkStep(task_id="observe", application=app)
    step._prepared()
    assert step.env_vars["PYSPARK_PYTHON"] == str(python)
    assert step.env_vars["PATH"].split(os.pathsep)[0] == str(python.parent)
    assert step.env_vars["PYTHONPATH"] == ""
    assert step.env_vars["SPARK_HOME"] == str(spark_home(python.parent))


def test_where_spark_connect_is_asked_for_a_step_says_so_before_anything_is_submitted(
    project: Project, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from meltline.airflow.operators.spark_step import SparkStep
    from meltline.domain.errors import ConnectRefused

    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    step = SparkStep(task_id="observe", application=project.folder / "spark_apps" / "observe.py")
    with pytest.raises(ConnectRefused, match="Spark Connect is not supported"):
        step._prepared()
