"""An Airflow that has the wheel has the DAGs; Meltline and Spark may be in another environment."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.stacks.package.environments import Environment

Environments = Callable[..., Environment]

BAG = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
import airflow.plugins_manager as plugins
bag = DagBag(dag_folder=sys.argv[1])
names = [plugin.name for plugin in plugins._get_plugins()[0]]
heavy = {"obstore", "pyarrow", "pyiceberg", "great_expectations"} & set(sys.modules)
print(json.dumps({
    "dags": sorted(bag.dags),
    "files": sorted({dag.fileloc for dag in bag.dags.values()}),
    "errors": bag.import_errors,
    "plugins": names,
    "plugin_errors": plugins.get_import_errors(),
    "heavy": sorted(heavy),
}))
"""

DAGS = ["meltline_approval", "meltline_chunks", "meltline_holds", "meltline_lifecycle",
        "meltline_orphan_sweep", "meltline_replicate", "meltline_restore_clone",
        "meltline_restore_recover", "meltline_restore_rollback",
        "meltline_restore_undrop"]  # fmt: skip


@pytest.fixture(scope="module")
def airflow(environment: Environments) -> Environment:
    """An environment with Airflow and no Spark: the client that its provider wants is none."""
    return environment("airflow")


@pytest.fixture
def settings(airflow: Environment, tmp_path: Path) -> Mapping[str, str]:
    """An Airflow with the DAG files that the command writes."""
    home = tmp_path / "airflow"
    chosen = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "GX_ANALYTICS_ENABLED": "false",
    }
    code, out, err = airflow.run("meltline", "airflow", "init", str(home / "dags"), cwd=tmp_path)
    assert code == 0 and "spark_default" in out and "MELTLINE_CONFIG" in out, err
    code, out, err = airflow.run("airflow", "db", "migrate", cwd=tmp_path, **chosen)
    assert code == 0, out + err
    return chosen


def run_of(
    airflow: Environment, folder: Path, settings: Mapping[str, str], **conf: object
) -> tuple[int, str]:
    words = ("dags", "test", "meltline_lifecycle", "--conf", json.dumps(conf))
    code, out, err = airflow.run("airflow", *words, cwd=folder, **settings)
    return code, out + err


@pytest.mark.slow("an environment with Airflow is installed")
def test_the_dags_and_the_plugin_are_there_and_a_run_goes_by_another_python(
    airflow: Environment,
    settings: Mapping[str, str],
    environment: Environments,
    lake: Path,
    tmp_path: Path,
) -> None:
    folder = Path(settings["AIRFLOW_HOME"], "dags")
    bag = airflow.answer("python", "-c", BAG, str(folder), cwd=tmp_path, **settings)
    assert (bag["errors"], bag["plugin_errors"], bag["heavy"]) == ({}, {}, [])
    assert bag["dags"] == DAGS and "meltline" in bag["plugins"]
    assert {Path(file).parent for file in bag["files"]} == {folder}

    meltline = environment("spark", "gx")
    assert meltline.run("meltline", "init", cwd=lake)[0] == 0
    elsewhere = {
        **settings,
        "MELTLINE_CONFIG": str(lake / "meltline.yaml"),
        "MELTLINE_PYTHON": str(meltline.python),
    }
    code, said = run_of(airflow, tmp_path, {**elsewhere, "MELTLINE_DRIVER": "step"}, dry_run=True)
    assert code == 0, said
    now = datetime.now(UTC).isoformat()  # the interval ended at midnight, before the lake was made
    code, said = run_of(airflow, tmp_path, elsewhere, once="as the test says", as_of=now)
    assert code == 0, said
    runs = meltline.answer("meltline", "runs", "--json", cwd=lake)["runs"]
    assert [run["outcome"] for run in runs] == ["done"]  # a dry run is none
    plans = meltline.answer("meltline", "plans", "--json", cwd=lake)["plans"]
    assert ("expire", "applied") in {(plan["kind"], plan["state"]) for plan in plans}
