"""The benchmark fleet: many small tables, each with a short history."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.bench import SIDES, Bench
from benchmarks.commits import Commits
from benchmarks.history import DaySize, Past, create_table, require_as_generated, write_history
from benchmarks.lakes import TODAY, Lake
from benchmarks.results import Figure, Outcome, ratios, seconds_of
from benchmarks.sides import BARE, GATED, PROCEDURE, Run

_FIRST = {BARE: 10.0, GATED: 8.0}
_NEXT = {BARE: 25.0, GATED: 15.0}
_HISTORY = Commits(count=20, added=5, removed=4)
_KEEP = 6
_BUSY_EVERY = 10
_THREADS = 4


@dataclass(frozen=True)
class Fleet:
    """Tables by name; every tenth goes on committing, the others are as they were.

    All end with the same number of promised snapshots. A busy table commits at a cadence at which
    one leaves the window as the next arrives; an idle one had a burst of commits lately, none of
    which leaves the window within the day.
    """

    tables: tuple[str, ...]

    @classmethod
    def of(cls, scale: float) -> "Fleet":
        """A share of 200 tables."""
        count = max(4, round(200 * scale))
        return cls(tuple(f"t{number:03d}" for number in range(count)))

    @property
    def size(self) -> str:
        """What there is, in words."""
        return f"{len(self.tables)} tables of {self.past.count} snapshots, {_KEEP} kept of each"

    @property
    def busy(self) -> tuple[str, ...]:
        """Those that commit on the next day."""
        return self.tables[::_BUSY_EVERY]

    @property
    def keep(self) -> Mapping[str, int]:
        """How many snapshots each keeps."""
        return dict.fromkeys(self.tables, _KEEP)

    @property
    def past(self) -> Past:
        """What the busy ones have behind them."""
        return Past((_HISTORY,), _KEEP, DaySize(1, _HISTORY.added, _HISTORY.removed))

    def when(self, table: str, sequence_number: int) -> datetime:
        """The time of a commit."""
        if table in self.busy:
            return self.past.when(sequence_number)
        if sequence_number <= _HISTORY.count - (_KEEP - 1):
            return TODAY - timedelta(days=30) + timedelta(hours=sequence_number)
        return TODAY - timedelta(minutes=_HISTORY.count + 1 - sequence_number)


def run_fleet(bench: Bench) -> list[Outcome]:
    """A first run over all tables; then one commit on every tenth, and the next day's run."""
    fleet = Fleet.of(bench.scale)
    lakes = bench.twins(build(bench, fleet), None)
    keep = fleet.keep
    past = fleet.past
    runs, compared = bench.run_sides(lakes, bench.expiry(keep, past.as_of), "fleet", SIDES)
    first = Outcome(
        "fleet, first run", bench.scale, fleet.size, ratios(runs, _FIRST, "fleet, first run"),
        tuple(runs), tuple(compared),
    )  # fmt: skip
    commit = _HISTORY.then(1, _HISTORY.added, _HISTORY.removed)
    for lake in lakes.values():
        with lake.in_place():
            _commit(bench, lake, fleet, fleet.busy, commit)
            lake.remember_commits()
    work = bench.expiry(keep, past.later(1))
    runs, compared = bench.run_sides(lakes, work, "fleet, next day", SIDES[::-1])
    size = f"one commit on each of {len(fleet.busy)} of the {len(fleet.tables)} tables"
    figures = (*ratios(runs, _NEXT, "fleet, next day"), _changed_only(runs, fleet))
    second = Outcome(
        "fleet, next day", bench.scale, size, figures, tuple(runs), tuple(compared),
        notes=("the last figure calls the procedure on the changed tables alone, as if it knew",),
    )  # fmt: skip
    bench.remove(lakes)
    return [first, second]


def _changed_only(runs: list[Run], fleet: Fleet) -> Figure:
    parts: Mapping[str, float] = next(run.parts for run in runs if run.side == PROCEDURE)
    seconds = sum(parts[table] for table in fleet.busy)
    return Figure(
        "fleet, next day, changed tables alone, meltline", seconds / seconds_of(runs, BARE), None
    )


def build(bench: Bench, fleet: Fleet) -> Lake:
    """The fleet, in a lake of its own."""
    bench.say(f"fleet: building {len(fleet.tables)} tables of {_HISTORY.count} snapshots")
    lake = bench.new_lake(bench.place("fleet"))
    with lake.in_place():
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda table: create_table(lake, table, bench.columns), fleet.tables))
        _commit(bench, lake, fleet, fleet.tables, _HISTORY)
        bench.say("  reading it with stock Iceberg")
        for table in fleet.tables:
            require_as_generated(lake, [_HISTORY], table)
    return lake


def _commit(
    bench: Bench, lake: Lake, fleet: Fleet, tables: tuple[str, ...], commits: Commits
) -> None:
    def commit(table: str) -> None:
        bench.committer.commit(lake.table(table), f"file://{lake.data(table)}", commits)
        write_history(lake.place, [commits], table)
        lake.stage(table, lambda number: fleet.when(table, number))

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(commit, tables))
