"""Each command loads what it needs: this is what makes it start at once."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.manifests.path_hash import key_hash
from meltline.cli.main import run
from meltline.version import VERSION
from tests.command_home import TABLE, make_home

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TYPER = {"typer", "annotated_doc", "shellingham", "rich"}
PYDANTIC = {
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
}
"""Typer reads with it the words of a command, and Meltline its configuration."""
OF_TENACITY = {"tenacity", "tornado"}  # loaded where it is: only the tests of Celery bring it
DECIDING = (
    TYPER | PYDANTIC | OF_TENACITY | {"yaml", "sqlalchemy", "obstore", "xxhash", "cython_runtime"}
)
"""What it takes to ask and to change a SQL catalog and the control ledger."""
ARROW = {"pyarrow", "numpy", "fastavro", "cramjam", "dateutil", "six"}  # six is dateutil's
ENGINES = {"pyspark", "py4j", "great_expectations", "airflow", "pandas", "numpy", "alembic"}

SCRIPT = """
import io, json, sys
from contextlib import redirect_stdout
before = set(sys.modules)
from meltline.cli.main import main
with redirect_stdout(io.StringIO()) as said:
    try:
        main()
    except SystemExit as ended:
        code = ended.code
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
        ("--help", "Pause every destructive step", TYPER),
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
        "meltline.cli.progress",
        *(name for name in modules if name.startswith("meltline.domain")),
        "meltline.progress",
        "meltline.process_tuning",
        "meltline.argfile",
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
        "meltline.cli.progress",
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
        ("chunks", "status"),
        ("chunks", "policies"),
        ("plan", "handoff"),
        ("runs",),
        ("plans",),
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


@pytest.mark.parametrize("words", [("show", "plan", "last"), ("explain", TABLE)])
def test_commands_that_look_load_no_engine(words: tuple[str, ...], tmp_path: Path) -> None:
    home = make_home(tmp_path)
    _, _, modules = loaded_by(*words, config=home.folder / "meltline.yaml")
    assert packages(modules) & ENGINES == set()
    assert not any(name.startswith("meltline.cli.run") for name in modules)


FILE = "file:///lake/air/t/data/a.parquet"


def write_ledger(folder: Path) -> None:
    """The ledger's tables, of which one holds a file that has departed."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/w"
    )
    catalog.create_namespace("meltline")
    made = {name: catalog.create_table(("meltline", name), TABLES[name]) for name in TABLES}
    when = dict.fromkeys(("departed_at", "due_at", "recorded_at"), NOW)
    file = {"path": FILE, "key_hash": key_hash(FILE), "kind": "data", "bytes": 700}
    row = file | when | {"owner": "gone", "state": "failsafe", "written_ns": 1}
    made["departures"].append(pa.Table.from_pylist([row], schema=TABLES["departures"]))


@pytest.mark.parametrize(
    ("words", "answer"),
    [(("storage",), "lake.air.`it's t`"), (("explain", FILE), "failsafe")],
    ids=["storage", "explain"],
)
def test_commands_that_read_the_ledger_load_arrow_alone(
    words: tuple[str, ...], answer: str, tmp_path: Path
) -> None:
    home = make_home(tmp_path)
    write_ledger(tmp_path)
    code, said, modules = loaded_by(*words, config=home.folder / "meltline.yaml")
    assert code == 0 and answer in said
    assert packages(modules) <= DECIDING | ARROW
    assert not any(
        name.startswith(("meltline.app.doctor", "meltline.app.run.")) for name in modules
    )


LARGE = """
from meltline.process_tuning import do_without_pandas
do_without_pandas()
import sys
from pathlib import Path
from tests.contract.index.test_ledger_reader import NONE, reader
print(*(d.path for d in reader(Path(sys.argv[1]), NONE).departures()))
assert "pandas" not in sys.modules and "pyiceberg.table" in sys.modules
"""


def test_what_is_left_to_pyiceberg_is_read_without_pandas_too(tmp_path: Path) -> None:
    make_home(tmp_path)
    write_ledger(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path)],
        env={"PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [FILE], done.stderr
