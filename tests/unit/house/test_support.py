"""What is said to be supported: the page's table, the README's, the suites and the code agree."""

import re
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from meltline.config.schema import CatalogType
from meltline.domain.iceberg.locations import SAME_SCHEME

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "support.md"
README = (ROOT / "README.md").read_text()
HEAD = ["Kind", "Part", "State", "On what it was tried", "Suite"]
STATES = {"tested", "read only", "refused", "resolved", "untried"}


class Row(NamedTuple):
    """One part, and what is said of it."""

    kind: str
    part: str
    state: str
    tried_on: str
    suite: str

    @property
    def name(self) -> str:
        """Without the words by which a configuration names it."""
        return self.part.partition(" (")[0]

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"`([^`]+)`", self.part))

    @property
    def suites(self) -> list[Path]:
        """The folders and files of tests that it links."""
        links = re.findall(r"\]\(([^)]+)\)", self.suite)
        return [(PAGE.parent / link).resolve() for link in links]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def table(text: str, head: list[str]) -> list[list[str]]:
    """The rows below a head, cell by cell."""
    lines = [line.rstrip() for line in text.splitlines()]
    start = next(at for at, line in enumerate(lines) if cells_of(line) == head)
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells_of(line))
    return rows


ROWS = [Row(*cells) for cells in table(PAGE.read_text(), HEAD)]
EVERY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}: {row.name}")


def modules_below(suite: Path) -> list[Path]:
    return [suite] if suite.is_file() else sorted(suite.rglob("test_*.py"))


def test_the_table_has_rows_and_no_part_twice() -> None:
    assert len(ROWS) > 30
    assert len({(row.kind, row.part) for row in ROWS}) == len(ROWS)
    assert {row.kind for row in ROWS} > {"Catalog", "Store", "Engine", "Airflow", "Python"}


@EVERY_ROW
def test_what_is_tested_names_suites_that_have_tests_and_what_is_untried_names_none(
    row: Row,
) -> None:
    assert row.state in STATES
    for suite in row.suites:
        assert suite.is_relative_to(ROOT / "tests")
        assert any("def test_" in path.read_text() for path in modules_below(suite)), suite
    if row.state in {"tested", "resolved"}:
        assert row.suites
    if row.state == "tested":
        assert row.tried_on
    if row.state == "untried":
        assert row.suites == []


def test_every_suite_on_a_stack_is_named_by_a_row() -> None:
    stacks = ROOT / "tests" / "stacks"
    folders = {path.parent for path in stacks.glob("*/test_*.py")}
    assert len(folders) > 5
    named = {suite for row in ROWS for suite in row.suites}
    assert folders - named == set()


def test_every_type_of_catalog_that_a_configuration_may_name_has_a_row() -> None:
    words = {word for row in ROWS if row.kind == "Catalog" for word in row.words}
    assert words == set(get_args(CatalogType))


def test_every_scheme_of_a_store_that_the_code_knows_has_a_row() -> None:
    by_row = [row.words for row in ROWS if row.kind == "Store" and row.words]
    stores = {
        canonical: {canonical} | {name for name, other in SAME_SCHEME.items() if other == canonical}
        for canonical in {"file", *SAME_SCHEME.values()}
    }
    assert sorted(map(sorted, by_row)) == sorted(map(sorted, stores.values()))


# --- the README ------------------------------------------------------------------------------

SHORT = table(README, ["", "Tested", "In part", "Untried"])


def test_the_third_line_of_the_readme_leads_to_the_table() -> None:
    assert "(docs/support.md)" in README.splitlines()[2]
    assert {cells[0] for cells in SHORT} >= {"Catalog", "Store", "Engine", "Airflow", "Python"}


@pytest.mark.parametrize("cells", SHORT, ids=lambda cells: cells[0])
def test_the_readme_says_of_each_part_what_the_table_says(cells: list[str]) -> None:
    kind, tested, in_part, untried = cells
    rows = [row for row in ROWS if row.kind == kind]
    assert names(tested) == [row.name for row in rows if row.state == "tested"]
    assert names(untried) == [row.name for row in rows if row.state == "untried"]
    others = [row for row in rows if row.state not in {"tested", "untried"}]
    assert names(in_part) == [f"{row.name} ({row.state})" for row in others]


def names(cell: str) -> list[str]:
    return [name for name in cell.split(", ") if name]


def test_the_readme_fits_on_about_one_screen() -> None:
    assert len(README.splitlines()) <= 90
