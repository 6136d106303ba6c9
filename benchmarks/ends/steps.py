"""The steps of a run, each on empty caches and with a watch of its own, until one gives."""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.lakes import FAILSAFE, Lake
from benchmarks.results import Figure, Outcome
from benchmarks.sides import Run, Stopwatch, require_done
from benchmarks.watch import watching
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import STEPS
from meltline.app.run_request import RunRequest
from meltline.app.storage.report import storage_rows, totals_now

_GIB = 1024**3
_LEFT_OUT = ("hand_off_to_cold",)  # there is no cold catalog
_EXPIRE, _STORAGE = "expire", "storage"


@dataclass
class End:
    """One end at one size: what each step took, and what gave first.

    Attributes:
        name: What the figures of it are called by.
        runs: A run for each step.
        gave: Which step failed, and how; empty while none has.
    """

    bench: Bench
    name: str
    runs: list[Run] = field(default_factory=list)
    gave: str = ""

    def night(self, lake: Lake, as_of: datetime, label: str = "") -> None:
        """A run and a look at the storage, with failsafe passed by moving the lake's clock."""
        lake.clock.moment = max(lake.clock.moment, as_of)
        request = RunRequest(f"run-{as_of.isoformat()}", as_of)
        for step in STEPS:
            if step.name not in _LEFT_OUT:
                services = lake.services(self.bench.detail)
                with self.step(lake, f"{label}{step.name.replace('_', ' ')}"):
                    require_done(run_step(step, services, request))
            if step.name == _EXPIRE:
                lake.clock.moment += FAILSAFE + timedelta(seconds=1)
        services = lake.services(self.bench.detail)
        with self.step(lake, label + _STORAGE):
            storage_rows(totals_now(services))

    @contextmanager
    def step(self, lake: Lake, name: str) -> Iterator[None]:
        """Measures a block. What it raises is noted; then nothing further can be measured."""
        self.bench.say(f"  {self.name}: {name}")
        _give_back()
        self.bench.settle()
        watch = Stopwatch()
        try:
            with watching(lake.metadata_folders()) as watched, watch.timing(name):
                yield
        except Exception as error:
            self.gave = f"{name}: {type(error).__name__}: {str(error)[:500]}"
            raise Gave(self.gave) from error
        self.runs.append(Run(name, watch.seconds, watch.parts, watched.seen, "done"))

    def outcome(self, size: str, notes: tuple[str, ...] = ()) -> Outcome:
        """Time and memory of each step."""
        figures = [figure for run in self.runs for figure in _figures(self.name, run)]
        if self.gave:
            notes = (f"GAVE FIRST at {size}: {self.gave}", *notes)
        return Outcome(
            f"ends-{self.name}", self.bench.scale, size, tuple(figures), tuple(self.runs),
            notes=notes,
        )  # fmt: skip


class Gave(Exception):
    """A step failed at this size; what was measured until then counts."""


def measured(end: End, work: Callable[[End], None]) -> End:
    """Does what is measured, as far as it goes."""
    with suppress(Gave):
        work(end)
    if end.gave:
        end.bench.say(f"  {end.name}: gave first: {end.gave}")
    return end


def _figures(name: str, run: Run) -> tuple[Figure, Figure]:
    peak = run.seen.peak_bytes
    return (
        Figure(f"{name}, {run.side}", run.seconds, None, "s"),
        Figure(f"{name}, {run.side}, peak memory", peak["together"] / _GIB, None, "GiB"),
    )


def _give_back() -> None:
    """What the step before has freed goes back to the system, where that can be asked for."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
