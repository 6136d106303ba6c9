"""One table of ten million live files: the first night, and a day of commits on it."""

from benchmarks.bench import Bench
from benchmarks.commits import Commits
from benchmarks.ends.steps import End, measured
from benchmarks.history import TABLE, DaySize, Past, create_table, next_day_size, write_history
from benchmarks.lakes import Lake
from benchmarks.results import Outcome

_FILES = 10_000_000
_COMMITS, _IN_A_COMMIT = 20, 100_000
_KEPT = 200
_NOT_WRITTEN = "the data files of the base are not there: nobody opens or deletes them"


def table_of(files: int) -> Past:
    """So many live files, a day of small commits, and as many on each day after it."""
    commits = max(_COMMITS, files // _IN_A_COMMIT)
    day = next_day_size(_KEPT)
    base = Commits(commits, files // commits, 0)
    return Past((base, base.then(_KEPT, day.added, day.removed)), _KEPT, day)


def run_live(bench: Bench) -> list[Outcome]:
    """Each step on the night that finds the table, and on the next."""
    _measured(bench, "live-warm-up", 2000)
    files = round(_FILES * bench.scale)
    end = _measured(bench, "live", files)
    day: DaySize = table_of(files).day
    size = f"{files:,} live files; then {day.count} commits of {day.added} files"
    return [end.outcome(size, (_NOT_WRITTEN,))]


def _measured(bench: Bench, name: str, files: int) -> End:
    past = table_of(files)
    bench.say(f"{name}: building {past.count:,} snapshots, {files:,} live files")
    lake = Lake(bench.place(name), name.replace("-", "_"), bench.spark).create()
    with lake.in_place():
        create_table(lake, columns=bench.columns)
        for commits in past.commits:
            _commit(bench, lake, past, commits)
        _require_files(lake, past.commits)
        lake.init()
        end = measured(End(bench, name), lambda end: _nights(end, lake, past))
    bench.remove({name: lake})
    return end


def _commit(bench: Bench, lake: Lake, past: Past, commits: Commits) -> None:
    bench.committer.commit(lake.table(TABLE), f"file://{lake.data(TABLE)}", commits)
    if commits.removed:
        write_history(lake.place, [commits])
    lake.stage(TABLE, past.when)


def _require_files(lake: Lake, commits: tuple[Commits, ...]) -> None:
    """Reads the table with stock Iceberg and holds it against what was asked for."""
    found = lake.spark.sql(f"SELECT count(*) FROM {lake.table(TABLE)}.files").collect()[0][0]
    expected = sum(each.files - each.files_removed for each in commits)
    assert found == expected, f"expected {expected} live files, found {found}"


def _nights(end: End, lake: Lake, past: Past) -> None:
    end.night(lake, past.as_of, "first night, ")
    day = past.day
    _commit(end.bench, lake, past, past.commits[-1].then(day.count, day.added, day.removed))
    end.night(lake, past.later(day.count), "a day, ")
