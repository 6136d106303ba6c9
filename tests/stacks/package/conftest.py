"""The wheel and the environments that it is installed into, each made once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.package.environments import ROOT, Environment, uv, with_extras

LAKE = """
import sys
from pathlib import Path
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
folder = Path(sys.argv[1])
(folder / "w").mkdir(parents=True)
catalog = SqlCatalog(
    "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/w"
)
catalog.create_namespace("air")
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
table = catalog.create_table("air.flights", rows.schema)
for _ in range(3):
    table.append(rows)
(folder / "meltline.yaml").write_text(
    "control: sqlite:///control.db\\nhot: lake\\ncatalogs:\\n  lake:\\n    type: sql\\n"
    f"    uri: sqlite:///catalog.db\\n    warehouse: file://{folder}/w\\n"
    "account:\\n  retention-days: 0\\n  reader-grace: 1s\\n"
)
"""
"""Makes a small lake with what the package itself depends on."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is uploaded: the wheel, made from the sdist, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (made,) = dist.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def environment(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Environment]:
    """An environment with these extras; of each set there is one."""
    made: dict[tuple[str, ...], Environment] = {}

    def of(*extras: str) -> Environment:
        if extras not in made:
            folder = tmp_path_factory.mktemp("_".join(extras) or "plain") / "venv"
            made[extras] = Environment.create(folder)
            made[extras].install(with_extras(wheel, *extras))
        return made[extras]

    return of


@pytest.fixture
def lake(environment: Callable[..., Environment], tmp_path: Path) -> Path:
    """The folder of a lake with one table of three snapshots, none of which a policy keeps."""
    folder = tmp_path / "lake"
    code, _, err = environment("spark", "gx").run("python", "-c", LAKE, str(folder), cwd=tmp_path)
    assert code == 0, err
    return folder
