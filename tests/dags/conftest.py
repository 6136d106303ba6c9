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
def airflow(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    """Airflow in this process: import it only in tests that ask for this."""
    before = dict(os.environ)
    home = new_home(tmp_path_factory.mktemp("airflow"), project=project.folder)
    os.environ.update(home.environment)
    os.environ.update(project.environment)
    try:
        yield home
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tasks are told that meltline.yaml is; the stand-ins do not read it."""
    path = tmp_path / "meltline.yaml"
    monkeypatch.setenv("MELTLINE_CONFIG", str(path))
    return path
