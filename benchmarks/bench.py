"""What every benchmark works with: a folder, the session, and who is told about progress."""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from benchmarks.commits import Committer
from benchmarks.compare import Comparison, compare, write_listing
from benchmarks.engine import same_settings
from benchmarks.lakes import SPACE, Lake
from benchmarks.sides import BARE, GATED, PROCEDURE, Run, run_meltline, run_procedure

Work = Callable[[str, Lake], Run]
"""What a side does on its twin, which is in place."""

SIDES = (PROCEDURE, BARE, GATED)


@dataclass
class Bench:
    """A folder and a session; the benchmarks take turns in them.

    Attributes:
        scale: 1 for the size that the goals are about.
        days: How many next days are run.
        columns: Of the tables; with more than one, each file has statistics of all of them.
        verbose: Whether details are told.
        keep: Whether what was built stays.
    """

    folder: Path
    spark: SparkSession
    committer: Committer
    scale: float
    days: int
    columns: int
    verbose: bool
    keep: bool
    started: float = field(default_factory=time.monotonic)
    _lakes: int = 0

    def say(self, line: str) -> None:
        """Tells a person what is going on."""
        print(f"[{time.monotonic() - self.started:5.0f} s] {line}", flush=True)

    def detail(self, line: str) -> None:
        """Tells it if that was asked for."""
        if self.verbose:
            self.say(f"    {line}")

    def place(self, name: str) -> Path:
        """A new folder for a benchmark's lakes."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def new_lake(self, place: Path) -> Lake:
        """An empty lake, the procedure's."""
        self._lakes += 1
        return Lake(place, self._catalog(PROCEDURE), self.spark).create()

    def _catalog(self, side: str) -> str:
        return f"{re.sub(r'[^a-z]+', '_', side)}{self._lakes}"

    def twins(
        self,
        lake: Lake,
        write_data: Callable[[Path], None] | None,
        sides: Sequence[str] = SIDES,
        prepare: Callable[[str, Lake], None] = lambda side, twin: None,
    ) -> dict[str, Lake]:
        """A lake for each side; the given one is the procedure's.

        Args:
            lake: It.
            write_data: See `Lake.twin`.
            sides: Who they are for.
            prepare: What is done with each new one before Meltline is told of it.
        """
        lakes = {PROCEDURE: lake}
        for side in sides:
            if side != PROCEDURE:
                self.say(f"  making the twin for {side}")
                lakes[side] = lake.twin(self._catalog(side), write_data)
                prepare(side, lakes[side])
        for side, twin in lakes.items():
            if side != PROCEDURE:
                with twin.in_place():
                    twin.init()
        return lakes

    def remove(self, lakes: Mapping[str, Lake]) -> None:
        """Deletes the twins, unless they are to stay."""
        if not self.keep:
            for lake in lakes.values():
                lake.remove()

    def run_sides(
        self, lakes: Mapping[str, Lake], work: Work, name: str, order: Sequence[str]
    ) -> tuple[list[Run], list[Comparison]]:
        """Each side does the same work on its twin, one after the other, in that order.

        Returns:
            What each took, and what each deleted beside the procedure.
        """
        runs: dict[str, Run] = {}
        for side in order:
            with lakes[side].in_place() as lake:
                write_listing(lake.place / SPACE, lake.root / "before")
                self.say(f"  {name}: {side}")
                self.settle()
                runs[side] = work(side, lake)
                self.say(f"  {name}: {side} took {runs[side].seconds:.2f} s")
                write_listing(lake.place / SPACE, lake.root / "after")
        first_the_procedure = sorted(lakes, key=lambda side: side != PROCEDURE)
        compared = compare([(lakes[s].root, lakes[s].labels) for s in first_the_procedure])
        found = dict(zip(first_the_procedure, compared, strict=True))
        return [runs[side] for side in order], [found[side] for side in order]

    def settle(self) -> None:
        """The same start for each: settings, an empty heap, nothing left to be written back."""
        same_settings(self.spark)
        cast(Any, self.spark._jvm).System.gc()
        os.sync()

    def expiry(self, keep: Mapping[str, int], as_of: datetime) -> Work:
        """Expires what a window no longer promises: see `run_procedure` and `run_meltline`."""

        def work(side: str, lake: Lake) -> Run:
            if side == PROCEDURE:
                return run_procedure(lake, keep, as_of)
            return run_meltline(lake, keep, as_of, gates=side == GATED, say=self.detail)

        return work
