"""Which tests hold which item of docs/requirements.md: writes the last column of its tables.

    python -m tests.requirements

A test says which items it holds by their ids, anywhere in it: `TT-36`, or `TT-33 to TT-39`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "requirements.md"
FOLDERS = (
    "benchmarks",
    "dags",
    "demo",
    "docs",
    "include",
    "setup",
    "tests",
)
ITEM = re.compile(r'^(\| <a id="([a-z]+-\d+)"></a>([A-Z]+-\d+) \| .+ \|)(.*)\|$', re.MULTILINE)
"""A row: all of it but its last cell, its anchor, its id, its last cell."""
_USE = re.compile(r"\b([A-Z]{1,2})-(\d+)(?:\s+to\s+(?:\1-)?(\d+))?\b")


def texts() -> Iterator[Path]:
    """Our own texts: what people read in pages, docstrings and comments."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for suffix in ("*.py", "*.md", "*.yaml"):
            yield from (ROOT / folder).rglob(suffix)


def ids_in(text: str) -> set[str]:
    """Every id in a text; a range counts in full."""
    return {
        f"{letters}-{number}"
        for letters, first, last in _USE.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def holders(tests: Iterable[Path]) -> dict[str, list[Path]]:
    """The modules of tests that name an id, by id."""
    held: dict[str, list[Path]] = {}
    for path in sorted(tests, key=lambda path: (path.stem, path)):
        for name in ids_in(path.read_text(encoding="utf-8")):
            held.setdefault(name, []).append(path)
    return held


def with_tests(page: str, held: Mapping[str, Iterable[Path]]) -> str:
    """The page with the tests of each item in its row."""

    def row(item: re.Match[str]) -> str:
        links = (
            f"[{path.stem}](../{path.relative_to(ROOT).as_posix()})"
            for path in held.get(item[3], ())
        )
        return f"{item[1]} {', '.join(links)} |"

    return ITEM.sub(row, page)


def written() -> str:
    """The page as it must be."""
    return with_tests(
        PAGE.read_text(encoding="utf-8"), holders((ROOT / "tests").rglob("test_*.py"))
    )


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
