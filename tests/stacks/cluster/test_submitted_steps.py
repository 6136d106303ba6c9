"""The apps as a DAG submits them to a cluster: each step an application of its own, client mode."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from meltline.app.run.steps import STEPS, Step
from meltline.bundled import bundled
from meltline.jars.jar_paths import jar_paths, java_options
from tests.stacks.cluster.standalone import Cluster
from tests.stacks.whole_chain import Stack, stack

pytestmark = pytest.mark.spark

_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_APPS = bundled("spark_apps")
_AT_ONCE = "profile: lakehouse, failsafe-days: 0, reader-grace: 0s"


@pytest.fixture(scope="module")
def lake(on_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A lake whose files wait for nothing, and a worker for the applications of this module."""
    folder = tmp_path_factory.mktemp("submitted")
    (folder / "warehouse").mkdir()
    section = "    type: sql\n    uri: sqlite:///catalog.db\n    warehouse: warehouse\n"
    worker = on_cluster.start_worker()
    try:
        with stack(folder, section) as whole:
            config = folder / "meltline.yaml"
            config.write_text(config.read_text().replace("profile: business", _AT_ONCE))
            yield whole
    finally:
        worker.process.terminate()
        worker.process.wait(timeout=30)


@pytest.fixture(scope="module")
def environment(on_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed environment, as `spark.archives` takes it."""
    packed = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(on_cluster.python.parents[1], ".")
    return packed


def submitted(lake: Stack, cluster: Cluster, environment: Path, step: Step) -> dict[str, Any]:
    """The summary of a step that was submitted as an application."""
    summary = lake.folder / f"{step.name}.json"
    settings = {
        "spark.driver.extraJavaOptions": java_options(),
        "spark.ui.enabled": "false",
        "spark.cores.max": "1",
        "spark.archives": f"{environment}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
    }
    words = [word for key, text in settings.items() for word in ("--conf", f"{key}={text}")]
    app = [str(_APPS / f"{step.app or step.name}.py"), f"--config={lake.folder}/meltline.yaml"]
    app += [f"--summary={summary}", "--run-id=submitted"]
    app += [f"--kind={step.kind}"] if step.app else []
    jars = ",".join(jar_paths(os.environ))
    done = subprocess.run(
        [_SUBMIT, "--master", cluster.master, "--jars", jars, *words, *app],
        env=cluster.environment(**_clock(lake)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(summary.read_text())
    return answer


def _clock(lake: Stack) -> dict[str, str]:
    variables = lake.environ(40)
    return {name: variables[name] for name in ("MELTLINE_NOW", "MELTLINE_USER")}


def test_each_step_submitted_to_a_cluster_does_its_part_of_the_chain(
    lake: Stack, on_cluster: Cluster, environment: Path
) -> None:
    before = lake.metadata()["snapshots"]
    folder = lake.folder / "warehouse" / "n" / "t" / "data"
    files = set(folder.glob("*.parquet"))
    for step in STEPS:
        if step.name != "hand_off_to_cold":
            summary = submitted(lake, on_cluster, environment, step)
            assert not [line for line in summary["tables"] if line.get("error")], summary
    assert len(lake.metadata()["snapshots"]) < len(before) == 4
    assert set(folder.glob("*.parquet")) < files and lake.count() == 4
