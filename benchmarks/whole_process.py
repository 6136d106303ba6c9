"""The benchmark whole-process: `meltline run` from start to exit, beside the `CALL` alone.

The procedure works in the benchmark's warm session; the command is a process of its own, started
as operators start it, with a Spark session of its own and everything that a run does. It runs
once for the first day, and once more when failsafe has passed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.days import Story
from benchmarks.history import TABLE, long_history
from benchmarks.lakes import FAILSAFE, Lake
from benchmarks.results import Figure, Outcome, ratios
from benchmarks.sides import PROCEDURE, Run, run_procedure
from benchmarks.watch import Seen, watching
from meltline.domain.clock import NOW
from meltline.domain.units import format_instant

RATED = "meltline run"
LIFTED = "meltline run, rate lifted"
_RATE = "delete-keys-per-second"
_FIRST, _SECOND = "first day", "past failsafe"
_LAST_LINES = 20
_FIXED = (
    "not in one process: the procedure is a CALL in a warm session with the benchmark's settings;",
    "each `meltline run` is measured from its process's start to its exit, with Python, Spark's"
    " start, Great Expectations, all gates, the report, and the memory that Spark gives by itself",
    "the second command has the same --as-of and a simulated clock past failsafe: nobody waits",
)


@dataclass(frozen=True)
class Ended:
    """A command that went well.

    Attributes:
        seconds: From the start of its process to its exit.
        seen: Of this process and those below it.
        snapshots: How many it expired.
        files: How many it deleted.
    """

    seconds: float
    seen: Seen
    snapshots: int
    files: int


@dataclass
class Commands:
    """Runs the command on a lake at two instants, and keeps what became of each, by side."""

    bench: Bench
    as_of: datetime
    ended: dict[str, dict[str, Ended]] = field(default_factory=dict)

    def run(self, side: str, lake: Lake) -> Run:
        """Both commands, one after the other."""
        ended = self.ended[side] = {}
        for name, now in self._instants().items():
            self.bench.settle()
            ended[name] = self._command(lake, now)
            self.bench.detail(f"{name}: {ended[name].seconds:.2f} s")
        first, second = ended[_FIRST], ended[_SECOND]
        did = f"{first.snapshots:,} snapshots expired, {second.files:,} files deleted"
        parts = {name: command.seconds for name, command in ended.items()}
        return Run(side, sum(parts.values()), parts, first.seen.then(second.seen), did)

    def _instants(self) -> dict[str, datetime]:
        return {_FIRST: self.as_of, _SECOND: self.as_of + FAILSAFE + timedelta(seconds=1)}

    def _command(self, lake: Lake, now: datetime) -> Ended:
        answer, log = lake.root / "stdout", lake.root / "stderr"
        program = Path(sys.executable).with_name("meltline")
        words = f"run --config meltline.yaml --as-of {format_instant(self.as_of)} --json"
        environ = {
            **os.environ,
            NOW: now.isoformat(),
            "MELTLINE_USER": "benchmark",
            "SPARK_LOCAL_DIRS": str(self.bench.folder / "spark"),  # the disk of both sides
        }
        start = time.perf_counter()
        with (
            # No pipe: what lives on for a moment after the process would hold it open.
            answer.open("wb") as stdout,
            log.open("wb") as stderr,
            subprocess.Popen(
                [program, *words.split()], stdout=stdout, stderr=stderr, env=environ, cwd=lake.root
            ) as process,
            watching(lake.metadata_folders(), process.pid) as watched,
        ):
            process.wait()
            seconds = time.perf_counter() - start
        if process.returncode:
            lines = (answer.read_text("utf-8") + log.read_text("utf-8", "replace")).splitlines()
            last = "\n".join(lines[-_LAST_LINES:])
            raise RuntimeError(f"`meltline run` ended with {process.returncode}:\n{last}")
        return ended_of(json.loads(answer.read_text("utf-8")), seconds, watched.seen)


def ended_of(answer: Mapping[str, Any], seconds: float, seen: Seen) -> Ended:
    """What a command did, by its answer."""
    tables = answer["tables"]
    return Ended(
        seconds,
        seen,
        sum(table["snapshots_expired"] for table in tables),
        sum(table["files_purged"] for table in tables),
    )


def run_whole_process(bench: Bench) -> list[Outcome]:
    """The first day of the long history, by a warm procedure and by two commands."""
    _measure(bench, "whole-warm-up", 0.0004, (PROCEDURE, LIFTED))
    return [_measure(bench, "whole-process", bench.scale, (PROCEDURE, RATED, LIFTED))]


def _measure(bench: Bench, name: str, scale: float, sides: Sequence[str]) -> Outcome:
    past = long_history(scale)
    story = Story(bench, name, past, sides=sides)
    story.build()
    rate = story.lakes[RATED].leave_at_default(_RATE) if RATED in sides else 0
    commands = Commands(bench, past.as_of)

    def work(side: str, lake: Lake) -> Run:
        if side == PROCEDURE:
            return run_procedure(lake, {TABLE: past.keep}, past.as_of)
        return commands.run(side, lake)

    runs, compared = bench.run_sides(story.lakes, work, name, sides)
    story.remove()
    files = sum(one.files for one in past.commits)
    size = f"{past.count:,} snapshots, {files:,} files, {past.keep} snapshots kept"
    figures = (
        *ratios(runs, {}, "whole process, first day"),
        *_seconds(runs[0], commands.ended),
    )
    notes = (*_FIXED, *_limit_alone(commands.ended, rate))
    return Outcome(name, scale, size, figures, tuple(runs), tuple(compared), notes)


def _seconds(procedure: Run, ended: Mapping[str, Mapping[str, Ended]]) -> Iterator[Figure]:
    """By the clock and of CPU time: the procedure, and each command of each side."""
    yield Figure(PROCEDURE, procedure.seconds, unit="s")
    yield Figure(f"{PROCEDURE}, CPU time", procedure.seen.cpu_seconds, unit="s")
    for side, commands in ended.items():
        for name, command in commands.items():
            yield Figure(f"{side}, {name}", command.seconds, unit="s")
            yield Figure(f"{side}, {name}, CPU time", command.seen.cpu_seconds, unit="s")


def _limit_alone(ended: Mapping[str, Mapping[str, Ended]], rate: int) -> Iterator[str]:
    if RATED in ended:
        yield limit_alone(ended[RATED][_SECOND].files, rate)


def limit_alone(files: int, rate: int) -> str:
    """How long the limit alone takes, however quick everything else is."""
    return (
        f"{_RATE} is {rate:,} by default: {files:,} files take {files / rate:.1f} s by it alone,"
        f" which are within `{RATED}, {_SECOND}`"
    )
