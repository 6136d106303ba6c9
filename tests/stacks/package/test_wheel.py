"""What is in the wheel and the sdist: all that runs, and nothing of the checkout."""

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.stacks.package.environments import EXTRAS, PROJECT, ROOT, uv

CARRIED = ("dags", "plugins", "spark_apps")
NEEDED = (
    "config/example.yaml",
    "jars/jars.txt",
    "pages/templates/base.html",
    "pages/templates/style.css",
    "adapters/sql_ledger/migrations/env.py",
    "spark_apps/purge.py",
    "py.typed",
)


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    ours = {name.removeprefix("meltline/") for name in names if name.startswith("meltline/")}
    package = ROOT / "include" / "meltline"
    tops = {package: package} | {ROOT / folder: ROOT for folder in CARRIED}
    kept = {
        str(file.relative_to(above))
        for top, above in tops.items()
        for file in top.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert ours == kept
    assert set(NEEDED) <= ours
    others = {name.partition("/")[2] for name in names if not name.startswith("meltline/")}
    assert others == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"
    }  # fmt: skip


def test_the_sdist_has_what_the_wheel_is_made_of(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "NOTICE", "README.md", "include", "pyproject.toml", *CARRIED} <= tops
    assert not tops & {"tests", "docs", "demo", "setup", "requirements.txt"}


def test_its_metadata_name_licence_extras_and_python(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert sorted(metadata.get_all("Provides-Extra", [])) == EXTRAS
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.11,<3.14")
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_whichever_extra_has_either_spark_wants_the_same_versions_of_both() -> None:
    of_spark = [
        requirement
        for extra in PROJECT["optional-dependencies"].values()
        for requirement in extra
        if requirement.startswith("pyspark")
    ]
    ranges = {
        requirement.removeprefix("pyspark").removeprefix("-client") for requirement in of_spark
    }
    assert len(of_spark) == 2 and len(ranges) == 1 and ranges.pop().startswith("==4.1.*,<=")


@pytest.mark.parametrize("version", ["3.12", "3.13"])
@pytest.mark.slow("the dependencies are resolved for each Python")
def test_for_the_pythons_it_is_not_run_on_a_set_is_found(version: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    words = ("--quiet", "--all-extras", "--python-version", version, "--no-header")
    uv("pip", "compile", *words, str(ROOT / "pyproject.toml"), "-o", str(lock))
    sparks = [line for line in lock.read_text().splitlines() if line.startswith("pyspark")]
    assert len({line.partition("==")[2] for line in sparks}) == 1 and len(sparks) == 2
