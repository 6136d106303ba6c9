"""Each command loads what it needs: this is what makes it start at once."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from meltline.cli.main import run
from tests.command_home import TABLE, make_home

ROOT = Path(__file__).resolve().parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TYPER = {"typer", "annotated_doc", "shellingham", "rich"}
PYDANTIC = {
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
}
"""Typer reads with it the words of a command, and Meltline its configuration."""
DECIDING = (
    TYPER | PYDANTIC | {"yaml", "sqlalchemy", "obstore", "tenacity", "xxhash", "cython_runtime"}
)
"""What it takes to ask and to change a SQL catalog and the control ledger."""
ENGINES = {"pyspark", "py4j", "great_expectations", "airflow", "pandas", "numpy", "alembic"}

SCRIPT = """
import io, json, sys
from contextlib import redirect_stdout
before = set(sys.modules)
from meltline.cli.main import run
with redirect_stdout(io.StringIO()) as said:
    code = run(sys.argv[1:])
print(json.dumps([code, said.getvalue(), sorted(set(sys.modules) - before)]))
"""


def loaded_by(*words: str, config: Path | str = "") -> tuple[int, str, set[str]]:
    """A command in a process of its own: its exit code, what it says, which modules it loads."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env={"PYTHONPATH": str(ROOT / "include"), "MELTLINE_CONFIG": f"{config}"},
        capture_output=True,
        text=True,
        check=True,
    )
    code, said, modules = json.loads(done.stdout)
    return code, said, set(modules)


def packages(modules: set[str]) -> set[str]:
    """The packages of others that modules belong to."""
    tops = {module.partition(".")[0] for module in modules}
    known = sys.stdlib_module_names | {"meltline"}
    return {top for top in tops - known if not top.startswith(("_sysconfigdata", "_cython_"))}


@pytest.mark.parametrize(
    ("words", "answer", "loaded"),
    [
        ("--help", "Hold back every destructive step", TYPER),
        ("--version", f"meltline {VERSION}\n", TYPER),
        ("hold --help", "Hold a table, a namespace or a snapshot", TYPER | PYDANTIC),
    ],
)
def test_help_and_version_load_no_command(words: str, answer: str, loaded: set[str]) -> None:
    code, said, modules = loaded_by(*words.split())
    assert code == 0 and answer in said
    assert packages(modules) <= loaded
    assert {name for name in modules if name.startswith("meltline.")} == {
        "meltline.cli",
        "meltline.cli.commands",
        "meltline.cli.main",
        "meltline.cli.output",
        *(name for name in modules if name.startswith("meltline.domain")),
        "meltline.garbage",
        "meltline.private_words",
        "meltline.version",
    }


def test_only_the_command_that_is_named_is_loaded() -> None:
    _, _, modules = loaded_by("stop", "--help")
    assert {name for name in modules if name.startswith("meltline.cli.")} == {
        "meltline.cli.commands",
        "meltline.cli.control",
        "meltline.cli.main",
        "meltline.cli.options",
        "meltline.cli.output",
    }


@pytest.mark.parametrize(
    "words",
    [
        ("stop", "--reason", "audit"),
        ("attach", TABLE),
        ("policy", "set", TABLE, "--retention-days", "30"),
        ("policy", "show", TABLE),
        ("tag", TABLE, "q1", "--retention-days", "90"),
        ("hold", "add", TABLE, "--reason", "audit"),
        ("consumer", "set", TABLE, "bill", "--snapshot", "1"),
        ("lease", "acquire", TABLE, "--ttl", "1h"),
        ("rollback", TABLE, "--to", "2"),
        ("drop", TABLE),
        ("clone", TABLE, "lake.air.c"),
        ("share", "create", "q1", "--from", "lake.air"),
        ("history", "tables"),
        ("audit",),
        ("cold", "status"),
        ("plan", "handoff"),
        ("doctor",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_commands_that_decide_load_no_reader_of_files(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    config = make_home(tmp_path).folder / "meltline.yaml"
    assert run(["tags", TABLE, "--config", str(config)]) == 0  # the table is known from here on
    code, said, modules = loaded_by(*words, config=config)
    assert code == (1 if words == ("doctor",) else 0), said  # `init` has not been run whole
    assert packages(modules) <= DECIDING


@pytest.mark.parametrize("words", [("storage",), ("show", "plan", "last"), ("explain", TABLE)])
def test_commands_that_look_load_no_engine(words: tuple[str, ...], tmp_path: Path) -> None:
    home = make_home(tmp_path)
    _, _, modules = loaded_by(*words, config=home.folder / "meltline.yaml")
    assert packages(modules) & ENGINES == set()
    assert not any(name.startswith("meltline.cli.run") for name in modules)
