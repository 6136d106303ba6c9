"""Records how long tests take, and reports it by folder and tier.

    python -m tests.tiers.durations page     writes the table of docs/develop.md
    python -m tests.tiers.durations check    exits 1 where a test above 10 s says no reason

`python -m tests.tiers TIER --record` stores what one run measured in `durations.json`. A run only
sorts its tests by what is stored; no test fails because of a clock.
"""

import ast
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.tiers.declared import PLAIN, Tier, tier_of_case, without_group

TESTS = Path(__file__).resolve().parents[1]
STORED = Path(__file__).with_name("durations.json")
PAGE = TESTS.parent / "docs" / "develop.md"
_BEGIN, _END = "<!-- durations -->", "<!-- end of durations -->"
SLOW_SECONDS = 10
"""A test that takes longer than this needs `slow("reason")`."""
_LISTED_SECONDS = 1


@dataclass(frozen=True)
class FileDurations:
    """The durations of one test file.

    Attributes:
        parts: Number of cases and their seconds, set-up included, by the real part that they need.
        longest: Seconds of the longest case of each test that takes a second or more, without
            its set-up: a session's set-up falls to whichever test comes first.
    """

    parts: dict[str, tuple[int, float]] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "FileDurations":
        parts = {part: (cases, seconds) for part, (cases, seconds) in stored["parts"].items()}
        return cls(parts, dict(stored["longest"]))

    def as_json(self) -> dict[str, Any]:
        longest = {name: round(seconds, 1) for name, seconds in sorted(self.longest.items())}
        parts = {
            part: [cases, round(seconds, 1)]
            for part, (cases, seconds) in sorted(self.parts.items())
        }
        return {"parts": parts, "longest": longest}


Durations = dict[str, FileDurations]
"""By test file, below `tests/`."""


class Recorder:
    """A pytest plugin that adds up the reports of one process, or of its xdist workers."""

    VARIABLE: ClassVar = "MELTLINE_DURATIONS"
    """The folder in which each pytest process leaves what it measured."""

    def __init__(self, to: Path) -> None:
        self.to = to
        self.durations: Durations = {}

    @classmethod
    def into(cls, folder: str) -> "Recorder":
        return cls(Path(folder) / f"{os.getpid()}.json")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, test = without_group(report.nodeid).partition("::")
        name = test.partition("[")[0]
        entry = self.durations.setdefault(path.removeprefix("tests/"), FileDurations())
        part = dict(report.user_properties).get("part", PLAIN)
        cases, seconds = entry.parts.get(str(part), (0, 0.0))
        entry.parts[str(part)] = cases + (report.when == "setup"), seconds + report.duration
        if report.when == "call" and report.duration >= _LISTED_SECONDS:
            entry.longest[name] = max(entry.longest.get(name, 0), report.duration)

    def pytest_sessionfinish(self) -> None:
        write(self.to, self.durations)


def read(path: Path) -> Durations:
    return {name: FileDurations.of(entry) for name, entry in json.loads(path.read_text()).items()}


def write(path: Path, durations: Durations) -> None:
    """One line a file, so that a change of it is seen as one."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(entry.as_json())}"
        for name, entry in sorted(durations.items())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


@cache
def stored() -> Durations:
    return read(STORED) if STORED.exists() else {}


def store(folder: Path) -> None:
    """Replaces what is stored of the files that a run measured, and drops files that are gone."""
    measured: Durations = {}
    for path in sorted(folder.glob("*.json")):
        measured |= read(path)
    both = stored() | measured
    write(STORED, {name: entry for name, entry in both.items() if (TESTS / name).is_file()})


def seconds_of_case(path: str, part: str) -> float:
    """Returns the mean of the stored seconds of a file's cases with this part; 1 if unknown."""
    entry = stored().get(path)
    cases, seconds = entry.parts.get(part, (0, 0.0)) if entry else (0, 0.0)
    return seconds / cases if cases else 1.0


# --- markers -------------------------------------------------------------------------------------


def without_reason(durations: Durations, tests: Path = TESTS) -> list[str]:
    """Returns the tests above 10 s that do not carry `slow("reason")`."""
    return [
        f"tests/{path}::{name} takes {seconds:.0f} s: mark it slow and say why"
        for path, entry in durations.items()
        for name, seconds in entry.longest.items()
        if seconds > SLOW_SECONDS and name not in _marked_slow(tests / path, entry.longest)
    ]


def _marked_slow(path: Path, names: Iterable[str]) -> set[str]:
    """Returns the tests of a file that are marked slow: themselves, or all of the file."""
    tree = ast.parse(path.read_text("utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    of_file = [node.value for node in assigned if ast.unparse(node.targets[0]) == "pytestmark"]
    if any(_is_slow(node) for value in of_file for node in ast.walk(value)):
        return set(names)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {each.name for each in functions if any(map(_is_slow, each.decorator_list))}


def _is_slow(node: ast.AST) -> bool:
    """Whether this is `pytest.mark.slow("reason")`, with a reason."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.mark.slow":
        return False
    return any(isinstance(each, ast.Constant) and each.value for each in node.args)


# --- the table -----------------------------------------------------------------------------------


def rows(durations: Durations) -> Iterator[tuple[str, str, Counter[Tier]]]:
    """Yields folder, real part, and seconds by tier, of all tests that are stored."""
    table: dict[tuple[str, str], Counter[Tier]] = {}
    for path, entry in durations.items():
        folder = "/".join(path.split("/")[:-1][:2])
        for part, (_, seconds) in entry.parts.items():
            table.setdefault((folder, part), Counter())[tier_of_case(path, part)] += seconds
    for (folder, part), seconds_by_tier in sorted(table.items()):
        yield folder, part, seconds_by_tier


def as_table(durations: Durations) -> str:
    """Returns the minutes of each folder and real part by the first tier that runs them."""
    head = ["folder", "needs", *(tier.name.lower() for tier in Tier)]
    lines = [head, ["---", "---", *("---:" for _ in Tier)]]
    sums: Counter[Tier] = Counter()
    for folder, part, seconds in rows(durations):
        lines.append([f"`{folder}`", part, *(_minutes(seconds[tier]) for tier in Tier)])
        sums.update(seconds)
    lines.append(["all", "", *(_minutes(sums[tier]) for tier in Tier)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}" if seconds else ""


def with_table(page: str, table: str) -> str:
    """Returns the page with the table between its two marks."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


def main(words: list[str]) -> int:
    """Returns the exit code."""
    if words == ["page"]:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(with_table(page, as_table(stored())), "utf-8")
        return 0
    wrong = without_reason(stored())
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
