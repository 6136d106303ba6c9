"""What a benchmark came to: figures with their goals and the runs behind them, as text and JSON."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.compare import Comparison, Difference
from benchmarks.sides import PROCEDURE, Run
from benchmarks.watch import Seen

_MIB = 1024**2
_FEW = 12
"""Parts of a run above which they are not all printed."""


@dataclass(frozen=True)
class Figure:
    """One number that is wanted to be at least, or at most, something.

    Attributes:
        name: What it is about.
        value: What was measured, in `unit`; `x` is how many times as fast.
        goal: The bound; None for a number without one.
        at_most: Whether the bound is an upper one.
    """

    name: str
    value: float
    goal: float | None = None
    unit: str = "x"
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal


@dataclass(frozen=True)
class Outcome:
    """One benchmark's result.

    Attributes:
        name: The benchmark.
        scale: 1 for the size that the goals are about.
        size: What was built, in words.
        figures: The numbers that count.
        runs: What was measured, per side.
        comparisons: What each run deleted, in the order of the runs; empty where nothing is.
        notes: What to know about the figures.
    """

    name: str
    scale: float
    size: str
    figures: tuple[Figure, ...]
    runs: tuple[Run, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The outcomes of one or more benchmarks, and where they were measured."""

    at: str
    machine: Mapping[str, str | int | None]
    settings: Mapping[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def figures(self) -> list[Figure]:
        """All of them."""
        return [figure for outcome in self.outcomes for figure in outcome.figures]

    @property
    def differs(self) -> bool:
        """Whether a side deleted other files than the procedure."""
        return any(one.difference for outcome in self.outcomes for one in outcome.comparisons)

    def as_json(self) -> str:
        """Everything, for machines."""
        return json.dumps(asdict(self), indent=1) + "\n"


def report_of(outcomes: Sequence[Outcome], settings: Mapping[str, str]) -> Report:
    """A report made now, on this machine."""
    machine = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(at, machine, settings, tuple(outcomes))


def merged(reports: Sequence[Report]) -> Report:
    """Reports of one machine as one."""
    first = reports[0]
    outcomes = tuple(outcome for report in reports for outcome in report.outcomes)
    return Report(first.at, first.machine, first.settings, outcomes)


def read_report(path: Path) -> Report:
    """A report from its JSON."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Report(
        found["at"], found["machine"], found["settings"],
        tuple(_outcome(raw) for raw in found["outcomes"]),
    )  # fmt: skip


def _outcome(raw: dict[str, Any]) -> Outcome:
    return Outcome(
        raw["name"], raw["scale"], raw["size"],
        tuple(Figure(**figure) for figure in raw["figures"]),
        tuple(Run(**{**run, "seen": Seen(**run["seen"])}) for run in raw["runs"]),
        tuple(
            Comparison(one["deleted"], one["difference"] and Difference(**one["difference"]))
            for one in raw["comparisons"]
        ),
        tuple(raw["notes"]),
    )  # fmt: skip


def seconds_of(runs: Sequence[Run], side: str) -> float:
    """What a side took for all of its runs."""
    return sum(run.seconds for run in runs if run.side == side)


def ratios(runs: Sequence[Run], goals: Mapping[str, float], name: str) -> tuple[Figure, ...]:
    """How many times as fast as the procedure each other side was, over all of the runs."""
    base = seconds_of(runs, PROCEDURE)
    return tuple(
        Figure(f"{name}, {side}", base / seconds_of(runs, side), goals.get(side))
        for side in sorted({run.side for run in runs} - {PROCEDURE})
    )


# --- as text -----------------------------------------------------------------------------------


def figures_table(figures: Sequence[Figure]) -> str:
    """A line per figure: what was measured, the goal, and whether it is met."""
    lines = ["", f"{'figure':<58} {'measured':>12} {'goal':>12}  met"]
    for figure in figures:
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        value = number(figure.value, figure.unit)
        lines.append(f"{figure.name:<58} {value:>12} {goal_of(figure):>12}  {met}".rstrip())
    return "\n".join(lines)


def goal_of(figure: Figure) -> str:
    """The goal as a person reads it; empty without one."""
    if figure.goal is None:
        return ""
    return f"{'≤' if figure.at_most else '≥'} {number(figure.goal, figure.unit)}"


def number(value: float, unit: str) -> str:
    """A number with as many digits as say something."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def details(report: Report) -> str:
    """What was measured beside the figures, run by run."""
    lines = []
    for outcome in report.outcomes:
        lines += ["", f"{outcome.name} at scale {outcome.scale:g}: {outcome.size}"]
        for position, run in enumerate(outcome.runs):
            lines += _run_lines(run)
            if outcome.comparisons:
                lines += _comparison_lines(outcome.comparisons[position])
        lines += [f"  {note}" for note in outcome.notes]
    return "\n".join(lines)


def _run_lines(run: Run) -> list[str]:
    seen = run.seen
    peak = ", ".join(f"{part} {size // _MIB} MiB" for part, size in seen.peak_bytes.items())
    opened = ", ".join(f"{kind} {count:,}" for kind, count in sorted(seen.opened.items()))
    lines = [f"  {run.side}: {run.seconds:.2f} s, {run.did}"]
    if len(run.parts) <= _FEW:
        parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in run.parts.items())
        lines.append(f"    seconds: {parts}")
    return [
        *lines,
        f"    peak memory: {peak}",
        f"    CPU time: {seen.cpu_seconds:,.1f} s",
        f"    read: {seen.read_bytes / _MIB:,.1f} MiB",
        f"    opened{' at least' if seen.overflown else ''}: {opened or 'nothing'}",
    ]


def _comparison_lines(found: Comparison) -> list[str]:
    deleted = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found.deleted.items()))
    lines = [f"    deleted: {deleted or 'nothing'}"]
    if found.difference:
        different = found.difference
        lines.append(f"    DIFFERS: {different.missed} missed, {different.more} more")
        lines += [f"      {example}" for example in different.examples]
    return lines
