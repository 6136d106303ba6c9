"""The project's own files agree: version, metadata, index of decisions, pre-commit."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from meltline.version import VERSION
from tests import decision_index

ROOT = Path(__file__).resolve().parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_index_of_decisions_is_sorted_and_complete() -> None:
    assert decision_index.PAGE.read_text(encoding="utf-8") == decision_index.written(), (
        "run `make pages`"
    )


def test_each_decision_has_a_number_of_its_own_in_its_name_and_title() -> None:
    names = [record.name[:3] for record in decision_index.records()]
    titles = [record.read_text(encoding="utf-8")[2:5] for record in decision_index.records()]
    assert names == titles == sorted(set(names))


def test_the_version_has_one_source() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "include/meltline/version.py"


def test_the_deployment_and_the_changelog_name_that_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)[0] == VERSION
    files = [*(ROOT / "deploy").glob("*.yaml"), ROOT / "docs" / "deploy.md"]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    images = re.findall(r"meltline-airflow:(\d[\w.]*)", text)
    tags = re.findall(r'defaultAirflowTag: "([^"]+)"', text)
    assert {*images, *tags} == {VERSION}


def test_the_metadata_names_no_host_that_is_only_an_example() -> None:
    assert "example.com" not in str(PROJECT["project"])


def test_a_commit_runs_make_check_and_nothing_else() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert [(hook["entry"], hook["always_run"]) for hook in hooks] == [("make check", True)]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.glob("*.md")}
    assert pages - set(re.findall(r"[\w./-]+\.md", site)) == set()


def test_the_site_finds_what_it_takes_from_the_package() -> None:
    hook = ast.parse((ROOT / "docs" / "site_pages.py").read_text(encoding="utf-8"))
    taken = [
        (node.module, name.name)
        for node in ast.walk(hook)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("meltline.")
        for name in node.names
    ]
    assert taken
    assert [name for module, name in taken if not hasattr(import_module(str(module)), name)] == []
