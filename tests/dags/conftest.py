"""One Airflow database for all tests that run inside the test process."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dags.airflow_home import AirflowHome, new_home
from tests.dags.project import Project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The checkout's DAG and plugin beside stand-ins for the Spark apps."""
    return Project.create(tmp_path_factory.mktemp("a folder with spaces"))


@pytest.fixture(scope="session")
def airflow_home(project: Project, tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    """The database is made once."""
    return new_home(tmp_path_factory.mktemp("airflow"), project=project.folder)


@pytest.fixture(scope="module")
def airflow(project: Project, airflow_home: AirflowHome) -> Iterator[AirflowHome]:
    """Airflow in this process: import it only in tests that ask for this.

    Other tests must not see its environment, least of all the stand-in for Spark.
    """
    before = dict(os.environ)
    os.environ.update(airflow_home.environment)
    os.environ.update(project.environment)
    try:
        yield airflow_home
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tasks are told that meltline.yaml is; the stand-ins do not read it."""
    path = tmp_path / "meltline.yaml"
    monkeypatch.setenv("MELTLINE_CONFIG", str(path))
    return path
