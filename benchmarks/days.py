"""The benchmarks on one table: by days, with small commits, PyIceberg's blocks, growing bases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import SIDES, Bench
from benchmarks.commits import Commits
from benchmarks.compare import Comparison
from benchmarks.history import (
    TABLE,
    Past,
    create_table,
    long_history,
    on_a_base,
    require_as_generated,
    small_commits,
    write_history,
)
from benchmarks.lakes import Lake
from benchmarks.results import Figure, Outcome, ratios, seconds_of
from benchmarks.sides import BARE, GATED, Run
from benchmarks.single_entries import one_entry_a_block

_FIRST = {BARE: 2.4, GATED: 2.0}
_NEXT = {BARE: 7.0, GATED: 5.0}
_SMALL = {BARE: 2.0, GATED: 2.0}
_MORE_BYTES, _MORE_TIME = 1.2, 1.5
_BASES = (200_000, 2_000_000)


@dataclass
class Story:
    """A table in as many twins as there are sides, and the days that pass over it.

    Attributes:
        rewrite: Changes a table's metadata folder, once its history is built.
        sides: Who gets a twin.
    """

    bench: Bench
    name: str
    past: Past
    rewrite: Callable[[Path], None] | None = None
    sides: Sequence[str] = SIDES
    lakes: dict[str, Lake] = field(default_factory=dict)
    days: list[Commits] = field(default_factory=list)

    def build(self) -> None:
        """Makes the history once, reads it with stock Iceberg, and makes the twins."""
        bench, past = self.bench, self.past
        files = sum(one.files for one in past.commits)
        bench.say(f"{self.name}: building {past.count:,} snapshots, {files:,} files")
        lake = bench.new_lake(bench.place(self.name))
        with lake.in_place():
            create_table(lake, columns=bench.columns)
            for commits in past.commits:
                bench.committer.commit(lake.table(TABLE), f"file://{lake.data(TABLE)}", commits)
            if self.rewrite:
                self.rewrite(lake.data(TABLE).with_name("metadata"))
            lake.stage(TABLE, past.when)
            self.write(lake.place)
            bench.say("  reading it with stock Iceberg")
            require_as_generated(lake, past.commits)
        self.lakes = bench.twins(lake, self.write, self.sides)

    def write(self, place: Path) -> None:
        """Writes the data files of the first run below a lake's place."""
        write_history(place, self.past.commits)

    def first_run(self) -> tuple[list[Run], list[Comparison]]:
        """Expires all but the newest snapshots."""
        work = self.bench.expiry({TABLE: self.past.keep}, self.past.as_of)
        return self.bench.run_sides(self.lakes, work, self.name, SIDES)

    def next_day(self) -> tuple[list[Run], list[Comparison]]:
        """A day's commits, the same on every twin, and the run after them."""
        size = self.past.day
        commits = (self.days or self.past.commits)[-1].then(size.count, size.added, size.removed)
        self.days.append(commits)
        for lake in self.lakes.values():
            with lake.in_place():
                self.bench.committer.commit(
                    lake.table(TABLE), f"file://{lake.data(TABLE)}", commits
                )
                write_history(lake.place, [commits])
                lake.stage(TABLE, self.past.when)
                lake.remember_commits()
        number = len(self.days)
        as_of = self.past.later(size.count * number)
        return self.bench.run_sides(
            self.lakes,
            self.bench.expiry({TABLE: self.past.keep}, as_of),
            f"{self.name}, day {number + 1}",
            SIDES if number % 2 else SIDES[::-1],
        )

    def next_days(self) -> tuple[list[Run], list[Comparison]]:
        """So many of them, one after the other, the sides in alternating order."""
        runs, compared = [], []
        for _ in range(self.bench.days):
            one, other = self.next_day()
            runs += one
            compared += other
        return runs, compared

    def remove(self) -> None:
        """Deletes all twins."""
        self.bench.remove(self.lakes)


def run_days(bench: Bench, *, next_too: bool = True) -> list[Outcome]:
    """Expires all but the newest snapshots of a long history; then, day by day, those of one."""
    story = Story(bench, "days", long_history(bench.scale))
    outcomes = [_first(story, "first-day", _FIRST)]
    if next_too:
        outcomes.append(_next(story, "next-day", _NEXT))
    story.remove()
    return outcomes


def run_small_commits(bench: Bench) -> list[Outcome]:
    """The same days on a history of commits of 20 files."""
    story = Story(bench, "small", small_commits(bench.scale))
    outcomes = [
        _first(story, "small-commits, first day", _SMALL),
        _next(story, "small-commits, next day", _SMALL),
    ]
    story.remove()
    return outcomes


def run_single_entry_blocks(bench: Bench) -> list[Outcome]:
    """The first day on a quarter of the long history, written in blocks as PyIceberg has them."""
    story = Story(bench, "blocks", long_history(bench.scale / 4), one_entry_a_block)
    outcomes = [_first(story, "single-entry-blocks", _SMALL)]
    story.remove()
    return outcomes


def _first(story: Story, name: str, goals: Mapping[str, float]) -> Outcome:
    story.build()
    runs, compared = story.first_run()
    past = story.past
    files = sum(one.files for one in past.commits)
    size = f"{past.count:,} snapshots, {files:,} files, {past.keep} snapshots kept"
    figures = ratios(runs, goals, name.replace("first-day", "first day"))
    return Outcome(name, story.bench.scale, size, figures, tuple(runs), tuple(compared))


def _next(story: Story, name: str, goals: Mapping[str, float]) -> Outcome:
    runs, compared = story.next_days()
    bench = story.bench
    size = f"{_day(story.past)} on that table, as many snapshots expired; days: {bench.days}"
    figures = ratios(runs, goals, name.replace("next-day", "next day"))
    return Outcome(name, bench.scale, size, figures, tuple(runs), tuple(compared))


def run_base_growth(bench: Bench) -> list[Outcome]:
    """The same days' work on a small and on a ten times larger base."""
    found: list[list[Run]] = []
    outcomes = []
    for files in _BASES:
        past = on_a_base(bench.scale, files)
        base = past.commits[0].files
        story = Story(bench, f"base-{base}", past)
        story.build()
        story.first_run()
        runs, compared = story.next_days()
        story.remove()
        size = f"{_day(past)} on a base of {base:,} files; days: {bench.days}"
        figures = ratios(runs, {}, f"next day on {base:,} files")
        outcomes.append(
            Outcome("base-growth", bench.scale, size, figures, tuple(runs), tuple(compared))
        )
        found.append(runs)
    growth = tuple(_growth(found[0], found[1]))
    return [*outcomes, Outcome("base-growth", bench.scale, "the base ten times larger", growth)]


def _growth(small: Sequence[Run], large: Sequence[Run]) -> list[Figure]:
    figures = []
    for side in SIDES:
        wanted = side == BARE
        read = [sum(r.seen.read_bytes for r in runs if r.side == side) for runs in (small, large)]
        took = [seconds_of(runs, side) for runs in (small, large)]
        figures += [
            Figure(
                f"bytes read, base x10, {side}", read[1] / read[0],
                _MORE_BYTES if wanted else None, at_most=True,
            ),
            Figure(
                f"time, base x10, {side}", took[1] / took[0],
                _MORE_TIME if wanted else None, at_most=True,
            ),
        ]  # fmt: skip
    return figures


def _day(past: Past) -> str:
    return f"{past.day.count} new commits of {past.day.added} files"


def warm_up(bench: Bench) -> None:
    """Both sides once on a small table: classes loaded, code compiled, Great Expectations in."""
    past = long_history(0.0004)
    story = Story(bench, "warm-up", past)
    story.build()
    story.first_run()
    story.remove()
