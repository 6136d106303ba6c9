"""A lake that is swept: builders for the tests of sweeps."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.services import SweepServices
from meltline.domain.deletion.orphans import SweptPlaces
from tests.doubles.sweeper import MemoryListing, MemorySweeper
from tests.lake.lake import Lake

FIRST, SECOND = 10, 17  # the days of two weekly sweeps
HOUR = timedelta(hours=1)


def a_lake(**more: Any) -> Lake:
    """A lake whose tables may share a location: no two metadata files have one name."""
    numbers = count()
    return Lake(unique=lambda: f"m{next(numbers)}", **more)


@dataclass
class Swept:
    """A lake that is swept, and the table that most tests are about."""

    lake: Lake = field(default_factory=a_lake)

    def __post_init__(self) -> None:
        self.sweeper = MemorySweeper(self.lake.store, self.lake.file_tables)
        self.table = self.lake.on(0).table("t")
        self.table.append("a")
        self.lake.run()

    def services(self, **changes: Any) -> SweepServices:
        chain = self.lake.services()
        return SweepServices(**{**vars(chain), "sweeper": self.sweeper, **changes})

    def sweep(self, day: float, services: SweepServices | None = None, **asked: Any) -> Summary:
        """One sweep on a day; nothing that is needed may be missing afterwards."""
        self.lake.on(day)
        run = replace(self.lake.request(), **asked)
        summary = run_step(SWEEP, services or self.services(), run)
        self.lake.check_nothing_is_missing()
        return summary

    def sweep_twice(self, **asked: Any) -> Summary:
        self.sweep(FIRST, **asked)
        return self.sweep(SECOND, **asked)

    def leave(self, path: str, content: bytes = b"left behind", day: float = 1) -> str:
        """A file that no commit names; a bare name is one in the table's data folder."""
        self.lake.on(day)
        path = self.table.data(path)
        self.lake.store.write(path, content)
        return path

    @property
    def ours(self) -> bytes:
        """What a metadata file of the table holds: one of a commit that failed, for example."""
        return self.lake.store.read(self.table.metadata_location)

    def waiting(self) -> set[str]:
        return set(self.lake.waiting())


@dataclass
class Meanwhile:
    """A sweeper during whose listing something happens."""

    sweeper: MemorySweeper
    happens: Callable[[], object]

    def list_files(self, places: SweptPlaces, now: datetime) -> MemoryListing:
        listing = self.sweeper.list_files(places, now)
        self.happens()
        return listing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sweeper, name)


def swept(lake: Lake, *days: float) -> None:
    """Sweeps on each of these days; nothing that is needed may be missing."""
    sweeper = MemorySweeper(lake.store, lake.file_tables)
    for day in days:
        services = SweepServices(**vars(lake.on(day).services()), sweeper=sweeper)
        run_step(SWEEP, services, lake.request())
        lake.check_nothing_is_missing()
