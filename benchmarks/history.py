"""One table with a long history: the first run on it, and the next day's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.commits import Commits, write_files
from benchmarks.lakes import SPACE, TODAY, WINDOW, Lake

TABLE = "t"


@dataclass(frozen=True)
class DaySize:
    """One day's commits: how many, and what each adds and removes."""

    count: int
    added: int
    removed: int


@dataclass(frozen=True)
class Past:
    """A table's history, and the cadence at which exactly `keep` snapshots are still promised.

    Attributes:
        commits: Equal commits in their order; the later groups are later days'.
        keep: How many of the newest snapshots the retention window promises.
        day: What comes on each day after it; nothing, if not said.
        as_of: The logical date of the first run.
    """

    commits: tuple[Commits, ...]
    keep: int
    day: DaySize = DaySize(0, 0, 0)
    as_of: datetime = TODAY

    @property
    def count(self) -> int:
        """How many snapshots there are by the first run."""
        return sum(one.count for one in self.commits)

    @property
    def cadence(self) -> timedelta:
        """From commit to commit. A snapshot is promised while its successor is in the window."""
        return WINDOW / (self.keep - 1.5)

    def when(self, sequence_number: int) -> datetime:
        """The time of a commit: the newest lies a quarter of the cadence before `as_of`."""
        return self.as_of + self.cadence * (sequence_number - self.count - 0.25)

    def later(self, commits: int) -> datetime:
        """The logical date by which so many more commits were made."""
        return self.as_of + self.cadence * commits


def long_history(scale: float) -> Past:
    """2,001 snapshots and 2.0 M files at scale 1, of which the newest 200 are kept.

    Both the number of commits and the files in each grow with the root of the scale.
    """
    root = math.sqrt(scale)
    keep = _kept(scale)
    history = Commits(max(keep + 4, round(2001 * root)), round(1000 * root), round(98 * root))
    return Past((history,), keep, next_day_size(keep))


def small_commits(scale: float) -> Past:
    """10,000 snapshots of 20 files each at scale 1, of which the newest 1,000 are kept."""
    keep = max(4, round(1000 * scale))
    history = Commits(max(keep + 4, round(10_000 * scale)), 20, 19)
    return Past((history,), keep, DaySize(keep // 2, history.added, history.removed))


def on_a_base(scale: float, files: int) -> Past:
    """A base of so many files, made by 20 commits, and as many small ones as are kept after it."""
    keep = _kept(scale)
    small = next_day_size(keep)
    base = Commits(20, round(files * scale / 20), small.removed)
    return Past((base, base.then(keep, small.added, small.removed)), keep, small)


def _kept(scale: float) -> int:
    return max(4, round(200 * math.sqrt(scale)))


def next_day_size(keep: int) -> DaySize:
    """100 commits of 100 files that each remove 98 of the commit before, where 200 are kept."""
    half = keep // 2
    return DaySize(half, half, max(1, half * 98 // 100))


def create_table(lake: Lake, table: str = TABLE, columns: int = 1) -> None:
    """An empty table. With more than one column, files that are named in it get statistics."""
    kinds = ("BIGINT", "TIMESTAMP", "DOUBLE", "STRING")
    others = (f"c{number} {kinds[number % len(kinds)]}" for number in range(1, columns))
    lake.spark.sql(
        f"CREATE TABLE {lake.table(table)} ({', '.join(['id BIGINT', *others])}) USING iceberg"
        " TBLPROPERTIES ('format-version'='2')"
    )


def write_history(
    place: Path,
    commits: Sequence[Commits],
    table: str = TABLE,
    modified: datetime | None = None,
) -> None:
    """Writes the data files of some commits below a lake's place."""
    for one in commits:
        write_files(place / SPACE / table / "data", one, modified)


def require_as_generated(lake: Lake, commits: Sequence[Commits], table: str = TABLE) -> None:
    """Reads the table with stock Iceberg and holds it against what was asked for."""
    name = lake.table(table)

    def count(what: str, of: str) -> int:
        return int(lake.spark.sql(f"SELECT count({what}) FROM {name}.{of}").collect()[0][0])

    found = {
        "snapshots": count("*", "snapshots"),
        "live files": count("*", "files"),
        "all files": count("DISTINCT file_path", "all_data_files"),
    }
    total = sum(one.files for one in commits)
    expected = {
        "snapshots": sum(one.count for one in commits),
        "live files": total - sum(one.files_removed for one in commits),
        "all files": total,
    }
    assert found == expected, f"{name}: expected {expected}, found {found}"
