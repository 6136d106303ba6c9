"""The benchmark past: clone, drop and undrop over table size, and a query of the past."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import meltline
from benchmarks.bench import Bench
from benchmarks.commits import Commits
from benchmarks.history import Past, create_table, require_as_generated
from benchmarks.lakes import SPACE, Lake
from benchmarks.results import Figure, Outcome
from benchmarks.sides import BARE, Run, Stopwatch
from benchmarks.watch import Seen, watching
from meltline.app.clone.clone import clone
from meltline.app.drop.drop import drop
from meltline.app.drop.undrop import undrop
from meltline.app.services import ReadContext

_SMALL, _BIG = 100, 1_000_000
_COMMITS = 20
_LONGER = 2.0
_ROUNDS = 7
_SPARK = "VERSION AS OF"
_READ = "read"
_INSERTS, _ROWS = 4, 1000
_BY_FILE = {"manifest lists", "manifests", "data files"}
"""What there is more of, or more in, the more files a table has."""

_NOT_WRITTEN = "the data files of these tables are not there: none of the three steps needs them"


@dataclass
class Moved:
    """One of the tables, and what the steps took on it.

    Attributes:
        table: Its name.
        commits: What it is made of: as many commits as the other, so as much metadata to read.
        seen: What was seen of its first round, which is not timed.
        rounds: Each later one.
    """

    table: str
    commits: Commits
    seen: Seen
    rounds: list[Stopwatch]

    def run(self) -> Run:
        """The median of each step."""
        parts = medians(self.rounds)
        did = f"cloned, dropped and brought back {self.commits.files:,} files"
        return Run(f"{BARE}, {self.table}", sum(parts.values()), parts, self.seen, did)


def sizes(scale: float) -> dict[str, Commits]:
    """100 files and, at scale 1, a million; both in 20 commits."""
    most = max(_SMALL, round(_BIG * scale))
    counts = {"small": _SMALL, "big": most}
    return {name: Commits(_COMMITS, files // _COMMITS, 0) for name, files in counts.items()}


def medians(rounds: Sequence[Stopwatch]) -> dict[str, float]:
    """Seconds of each part, over rounds of the same parts."""
    return {part: median(one.parts[part] for one in rounds) for part in rounds[0].parts}


def longer(small: Mapping[str, float], big: Mapping[str, float]) -> tuple[Figure, ...]:
    """How many times as long each step takes on the big table."""
    return tuple(
        Figure(f"{step}, big table over small", big[step] / took, _LONGER, at_most=True)
        for step, took in small.items()
    )


def run_past(bench: Bench) -> list[Outcome]:
    """What is said to cost nothing is timed on two sizes; what is read, beside Spark's clause."""
    lake = Lake(bench.place("past"), "past", bench.spark).create()
    with lake.in_place():
        lake.init()
        outcomes = [_over_size(bench, lake), _beside_spark(bench, lake)]
    bench.remove({BARE: lake})
    return outcomes


# --- clone, drop, undrop -----------------------------------------------------------------------


def _over_size(bench: Bench, lake: Lake) -> Outcome:
    tables = sizes(bench.scale)
    _build(bench, lake, tables)
    ledgers = lake.services(bench.detail)
    moved = [_first(lake, ledgers, *table) for table in tables.items()]
    for number in range(_ROUNDS):
        bench.say(f"  clone, drop, undrop: round {number + 1}")
        for one in moved if number % 2 == 0 else reversed(moved):
            one.rounds.append(_round(lake, ledgers, one.table, f"{one.table}_{number}"))
    bench.say("  reading tables and clones with stock Iceberg")
    _require_whole(lake, moved)
    small, big = (one.run() for one in moved)
    files = " and of ".join(f"{one.commits.files:,}" for one in moved)
    return Outcome(
        "past", bench.scale, f"tables of {files} files, {_COMMITS} snapshots each",
        longer(small.parts, big.parts), (small, big), notes=(_NOT_WRITTEN,),
    )  # fmt: skip


def _build(bench: Bench, lake: Lake, tables: Mapping[str, Commits]) -> None:
    for table, commits in tables.items():
        bench.say(f"past: building {commits.count} snapshots, {commits.files:,} files")
        create_table(lake, table)
        bench.committer.commit(lake.table(table), f"file://{lake.data(table)}", commits)
        lake.stage(table, Past((commits,), _COMMITS).when)


def _first(lake: Lake, ledgers: ReadContext, table: str, commits: Commits) -> Moved:
    """The round in which code is loaded, a source gets its guard, and opened files are counted."""
    with watching(lake.metadata_folders()) as watched:
        _round(lake, ledgers, table, f"{table}_first")
    opened = watched.seen.opened
    assert opened["metadata files"] > 0, f"nothing was seen of {table}"
    assert not _BY_FILE & opened.keys(), f"what grows with {table} was read: {opened}"
    return Moved(table, commits, watched.seen, [])


def _round(lake: Lake, ledgers: ReadContext, table: str, copy: str) -> Stopwatch:
    watch, name = Stopwatch(), lake.table(table)
    with watch.timing("clone"):
        clone(ledgers, name, lake.table(copy))
    with watch.timing("drop"):
        drop(ledgers, name)
    with watch.timing("undrop"):
        undrop(ledgers, name)
    return watch


def _require_whole(lake: Lake, moved: Sequence[Moved]) -> None:
    """The tables are as they were, their last clones have all their files, and none was copied."""
    written = [str(path) for path in (lake.place / SPACE).rglob("*.parquet")]
    assert not written, f"somebody wrote data files: {written[:5]}"
    for one in moved:
        require_as_generated(lake, [one.commits], one.table)
        copy = lake.table(f"{one.table}_{_ROUNDS - 1}")
        found = lake.spark.sql(f"SELECT count(*) FROM {copy}.files").collect()[0][0]
        assert found == one.commits.files, f"{copy}: of {one.commits.files} files it has {found}"


# --- a query -----------------------------------------------------------------------------------


def _beside_spark(bench: Bench, lake: Lake) -> Outcome:
    """The same rows by Spark's own clause and by ours, which also finds the snapshot of a time."""
    bench.say(f"past: a query of the past, {_ROUNDS} rounds")
    expected = list(range(_ROWS * _INSERTS // 2))
    took: dict[str, list[Stopwatch]] = {_SPARK: [], BARE: []}
    reads = _reads(lake)
    for number in range(_ROUNDS + 1):  # the first is not counted
        for side in took if number % 2 == 0 else reversed(took):
            watch = Stopwatch()
            with watch.timing(_READ):
                found = reads[side]()
            assert found == expected, f"{side}: expected {len(expected)} rows, found {len(found)}"
            took[side] += [watch] if number else []
    theirs, ours = (medians(took[side])[_READ] for side in (_SPARK, BARE))
    figures = (
        Figure("a query of the past, Spark's seconds over Meltline's", theirs / ours, None, ""),
        Figure(f"a query of the past, Spark's {_SPARK}", theirs * 1000, None, "ms"),
        Figure("a query of the past, Meltline's AT", ours * 1000, None, "ms"),
    )
    size = f"{len(expected):,} rows of snapshot {_INSERTS // 2} of {_INSERTS}"
    return Outcome("past", bench.scale, size, figures)


def _reads(lake: Lake) -> Mapping[str, Callable[[], list[int]]]:
    """Makes a table with rows; each side's way to read it as it was half way."""
    create_table(lake, "rows")
    name = lake.table("rows")
    for first in range(0, _ROWS * _INSERTS, _ROWS):
        lake.spark.sql(f"INSERT INTO {name} SELECT id FROM range({first}, {first + _ROWS})")
    form = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
    snapshots = lake.spark.sql(
        f'SELECT snapshot_id, date_format(committed_at, "{form}") FROM {name}.snapshots'
        " ORDER BY committed_at"
    ).collect()
    id, at = snapshots[_INSERTS // 2 - 1]
    theirs = f"SELECT id FROM {name} {_SPARK} {id} ORDER BY id"
    ours = f"SELECT id FROM {name} AT(TIMESTAMP => '{at}'::timestamp_tz) ORDER BY id"
    config = lake.root / "meltline.yaml"
    return {
        _SPARK: lambda: [row.id for row in lake.spark.sql(theirs).collect()],
        BARE: lambda: [row.id for row in meltline.sql(lake.spark, ours, config=config).collect()],
    }
