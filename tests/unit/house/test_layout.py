"""The house (docs/develop.md): thin entry points, small modules, a domain that knows nothing."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("include", "dags", "demo", "setup", "deploy", "benchmarks", "tests")
TEXTS = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".html", ".js", ".css", ".sql", ".in"}
SHIPPED = ("include", "dags", "demo", "setup")


def modules(*folders: str) -> Iterator[Path]:
    """Our Python files, without what tools leave behind."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield path


def length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def too_long(most: int, *folders: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {length(path)} lines"
        for path in modules(*folders)
        if length(path) > most
    ]


def test_there_is_something_to_look_at() -> None:
    assert len(list(modules("include"))) > 20
    assert list(modules("dags"))


def test_a_dag_file_has_at_most_120_lines() -> None:
    assert too_long(120, "dags") == []


def test_a_spark_app_has_at_most_60_lines() -> None:
    assert too_long(60, "spark_apps") == []


def test_a_module_has_at_most_600_lines() -> None:
    assert too_long(600, *SHIPPED) == []


def test_no_module_is_called_after_nothing_in_particular() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "misc"}
    found = [p for p in modules(*SOURCES) if vague & {p.stem, *p.relative_to(ROOT).parts}]
    assert found == []


def test_nothing_is_left_to_be_done_later() -> None:
    words = ("TO" + "DO", "FIX" + "ME")
    tops = [path for path in ROOT.iterdir() if path.is_file()]
    deep = [path for name in (*SOURCES, "docs", ".ci") for path in (ROOT / name).rglob("*")]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in [*tops, *deep]
        if path.is_file()
        and (path.suffix in TEXTS or path.name in {"Makefile", "Dockerfile", "run"})
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""


@pytest.mark.parametrize("path", list(modules("include/meltline/domain")), ids=lambda p: p.stem)
def test_the_domain_imports_the_standard_library_and_itself(path: Path) -> None:
    foreign = [
        name
        for name in imported(path)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not f"{name}.".startswith("meltline.domain.")
    ]
    assert foreign == []


@pytest.mark.parametrize("path", list(modules("include/meltline/domain")), ids=lambda p: p.stem)
def test_the_domain_touches_neither_disk_nor_network_nor_environment(path: Path) -> None:
    doors = {"os", "io", "pathlib", "socket", "subprocess", "sqlite3", "http", "shutil", "random"}
    assert not doors & {name.partition(".")[0] for name in imported(path)}


ENGINES = {
    "alembic", "arro3", "fastavro", "great_expectations", "obstore", "psycopg", "pyiceberg",
    "pyspark", "sqlalchemy",
}  # fmt: skip


def test_only_adapters_import_engines_and_only_the_page_imports_airflow() -> None:
    package = ROOT / "include" / "meltline"
    engines, airflow = {"adapters"}, {"airflow"}
    found = [
        f"{path.relative_to(package)}: {name}"
        for path in modules("include/meltline")
        for name in imported(path)
        for top in [name.partition(".")[0]]
        if (top in ENGINES and path.relative_to(package).parts[0] not in engines)
        or (top == "airflow" and path.relative_to(package).parts[0] not in airflow)
    ]
    assert found == []


def test_the_import_root_is_no_package_of_its_own() -> None:
    assert not (ROOT / "include" / "__init__.py").exists()
