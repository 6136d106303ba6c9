"""An end at a quarter of its size and at all of it, each in a process of its own, side by side.

Memory is measured, and must not be another size's; and what gives may take its process with it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.results import Figure, Outcome, Report, read_report, report_of
from benchmarks.sides import Run

TIMES = 4
MOST = 1.3 * TIMES
"""So many times as much is still in proportion."""
_SOONEST = 0.5  # seconds: of what takes less, the growth is mostly chance
_FIRST_VICTIM = "1000"  # of those that the kernel ends when memory is short


def run_both_sizes(name: str, scale: float, arguments: Sequence[str]) -> Report:
    """Runs an end as `python -m benchmarks NAME --once`, at a quarter and at all of its size.

    Args:
        name: Of the end.
        scale: Of the larger size.
        arguments: The command's, without the name; what is said last wins.
    """
    with tempfile.TemporaryDirectory(prefix="meltline-bench-") as folder:
        small, large = (
            _one_size(name, size, arguments, Path(folder)) for size in (scale / TIMES, scale)
        )
    (quarter,), (whole,) = small.outcomes, large.outcomes
    settings = large.settings or small.settings
    # Of the quarter the runs are told; its figures would have the same names.
    return report_of([replace(quarter, figures=()), whole, growth(quarter, whole)], settings)


def growth(small: Outcome, large: Outcome) -> Outcome:
    """How many times as much time and memory each step took on the larger size."""
    before = {run.side: run for run in small.runs}
    name = f"{large.name.removeprefix('ends-')} x{TIMES}"
    figures = [
        Figure(f"{name}, {run.side}, {what}", ratio, MOST, at_most=True)
        for run in large.runs
        if run.side in before
        for what, ratio in _grown(before[run.side], run)
    ]
    return Outcome(large.name, large.scale, f"{large.size}; beside a quarter", tuple(figures))


def _grown(before: Run, run: Run) -> Iterator[tuple[str, float]]:
    if run.seconds >= _SOONEST:
        yield "time", run.seconds / before.seconds
        if before.seen.cpu_seconds:
            yield "CPU time", run.seen.cpu_seconds / before.seen.cpu_seconds
    yield "driver's memory", run.seen.peak_bytes["driver"] / before.seen.peak_bytes["driver"]


def _one_size(name: str, scale: float, arguments: Sequence[str], folder: Path) -> Report:
    """What a process of its own found; where that ended without an answer, where it was."""
    target = folder / f"{scale}.json"
    command = [
        *(sys.executable, "-m", "benchmarks", "--folder", str(folder), *arguments, name, "--once"),
        *("--scale", str(scale), "--json", str(target), "--picture", str(folder / "picture.svg")),
    ]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        Path(f"/proc/{child.pid}/oom_score_adj").write_text(_FIRST_VICTIM, encoding="utf-8")
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    if target.exists():
        return read_report(target)
    gave = f"GAVE FIRST: the process ended with status {child.returncode} after: {last}"
    return report_of([Outcome(name, scale, f"scale {scale:g}", (), notes=(gave,))], {})
