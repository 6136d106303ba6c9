"""What goes to executors by itself, and what is said where they lack the rest."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from meltline.adapters.spark.executors import prepare_executors
from meltline.adapters.spark.session import open_session
from meltline.config.load import load_config
from meltline.domain.errors import ExecutorsUnfit
from tests.stacks.cluster.standalone import Cluster, bare_python

pytestmark = pytest.mark.spark

_CONFIG = (
    "control: sqlite:///control.db\nhot: lake\ncatalogs:\n  lake:\n    type: sql\n"
    "    uri: sqlite:///catalog.db\n    warehouse: warehouse\n"
)


@pytest.fixture(scope="module")
def session(
    on_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("executors")
    (folder / "meltline.yaml").write_text(_CONFIG)
    (folder / "warehouse" / "n").mkdir(parents=True)
    yield open_session(load_config(folder / "meltline.yaml", os.environ, folder), "executors")


def imported_from(session: SparkSession) -> set[str]:
    """Where executors have the package from."""

    def look(numbers: Iterator[int]) -> Iterator[str]:
        import meltline

        yield meltline.__file__ or ""

    return set(session.sparkContext.parallelize(range(4), 4).mapPartitions(look).collect())


def refusal(session: SparkSession, python: Path, *places: str) -> ExecutorsUnfit:
    """What is said where executors have another Python."""
    context, before = session.sparkContext, session.sparkContext.pythonExec
    other = session.newSession()  # which nobody has asked for yet
    context.pythonExec = str(python)
    try:
        with pytest.raises(ExecutorsUnfit) as refused:
            prepare_executors(other, places)
    finally:
        context.pythonExec = before
    assert refused.value.exit_code == 1 and "docs/clusters.md" in refused.value.next
    assert refused.value.object == context.master
    return refused.value


def test_executors_import_the_package_that_the_driver_sends_them(
    session: SparkSession, on_cluster: Cluster
) -> None:
    assert session.sparkContext.master == on_cluster.master
    (place,) = imported_from(session)
    assert "/meltline-0.1.0-" in place and ".zip/" in place


def test_a_package_that_executors_lack_is_named(session: SparkSession, tmp_path: Path) -> None:
    python = bare_python(tmp_path / "python")
    (pth,) = tmp_path.glob("python/lib/python3*/site-packages/packages.pth")
    pth.unlink()
    refused = refusal(session, python)
    assert "No module named" in refused.found and str(python) in refused.found


def test_a_python_that_is_not_there_is_named(session: SparkSession, tmp_path: Path) -> None:
    assert str(tmp_path / "none") in refusal(session, tmp_path / "none").found


def test_an_executor_that_has_imported_another_meltline_is_refused(
    session: SparkSession, tmp_path: Path
) -> None:
    python = bare_python(tmp_path / "python")
    (packages,) = tmp_path.glob("python/lib/python3*/site-packages")
    source = Path(sys.modules["meltline"].__file__ or "").parent
    (packages / "meltline").symlink_to(source)
    (packages / "early.pth").write_text("import meltline\n")
    refused = refusal(session, python)
    assert "another Meltline" in refused.found and str(packages) in refused.found


def test_a_folder_that_is_another_one_on_executors_is_refused(
    session: SparkSession, on_cluster: Cluster, tmp_path: Path
) -> None:
    own = "file:///proc/self/task"  # in each process another one
    refused = refusal(session, on_cluster.python, f"file://{tmp_path}", own)
    assert own in refused.found and str(tmp_path) not in refused.found
