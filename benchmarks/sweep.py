"""The benchmark sweep: what no commit ever referenced is found and deleted."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from benchmarks.bench import SIDES, Bench
from benchmarks.commits import Commits, write_files
from benchmarks.days import Story
from benchmarks.history import TABLE, Past, write_history
from benchmarks.lakes import FAILSAFE, SPACE, TODAY, Lake
from benchmarks.results import Figure, Outcome, ratios, seconds_of
from benchmarks.sides import (
    BARE,
    GATED,
    PROCEDURE,
    Run,
    Stopwatch,
    judge_of,
    require_done,
)
from benchmarks.watch import watching
from meltline.app.run import lifecycle
from meltline.app.run_request import RunRequest
from meltline.domain.units import format_instant

_GOALS = {BARE: 3.0}
_FILES, _ORPHANS = 2_000_000, 20_000
_COMMITS = 20
_AGE = timedelta(days=30)
_MINIMUM_AGE = timedelta(days=3)
_APART = timedelta(days=1)


@dataclass
class OldFiles(Story):
    """A table whose files are old, and among them some that no commit ever named."""

    orphans: int = 0

    def write(self, place: Path) -> None:
        """Also writes the orphans, into the same folders, numbered on from the last file."""
        write_history(place, self.past.commits, modified=TODAY - _AGE)
        lost = Commits(1, self.orphans, self.orphans, self.past.commits[-1].next)
        write_files(place / SPACE / TABLE / "data", lost, TODAY - _AGE)


def run_sweep(bench: Bench) -> list[Outcome]:
    """Both sides remove the orphans of one table; Meltline's index is warm."""
    _measure(bench, "sweep-warm-up", 4000, 400)
    files, orphans = round(_FILES * bench.scale), round(_ORPHANS * bench.scale)
    return [_measure(bench, "sweep", files, orphans)]


def _measure(bench: Bench, name: str, files: int, orphans: int) -> Outcome:
    past = Past((Commits(_COMMITS, files // _COMMITS, 0),), _COMMITS)
    story = OldFiles(bench, name, past, orphans=orphans)
    story.build()
    earlier = {side: _sweep_before(bench, story.lakes[side]) for side in (BARE, GATED)}
    work = partial(_sweep_now, bench)
    runs, compared = bench.run_sides(story.lakes, work, name, SIDES)
    story.remove()
    both = seconds_of(runs, PROCEDURE) / (seconds_of(runs, BARE) + earlier[BARE])
    figures = (
        *ratios(runs, _GOALS, "sweep"),
        Figure("sweep, with last week's listing too, meltline", both),
    )
    size = f"{files:,} files of one table, and {orphans:,} orphans among them"
    note = "an orphan departs when a second sweep sees it; of the two, the second is measured"
    return Outcome("sweep", bench.scale, size, figures, tuple(runs), tuple(compared), (note,))


def _sweep_before(bench: Bench, lake: Lake) -> float:
    """Fills the index, and lets an earlier sweep see the orphans; returns what that one took."""
    with lake.in_place():
        run = lifecycle.Run(lake.services(bench.detail), RunRequest("earlier", TODAY))
        run.observe()
        watch = Stopwatch()
        with watch.timing("sweep"):
            run.sweep()
        require_done(run.summary)
        return watch.seconds


def _sweep_now(bench: Bench, side: str, lake: Lake) -> Run:
    if side == PROCEDURE:
        return _remove_orphan_files(lake)
    lake.clock.moment += _APART
    now = lake.clock.now()
    run = lifecycle.Run(lake.services(bench.detail), RunRequest("now", now))
    judge = judge_of(gates=side == GATED)
    watch = Stopwatch()
    with watching(lake.metadata_folders()) as watched:
        with watch.timing("sweep"):
            run.sweep()
        lake.clock.moment += FAILSAFE + timedelta(seconds=1)
        with watch.timing("plan purge"):
            run.plan_purge()
        with watch.timing("gate purge"):
            run.summary.gated(judge(run.context, run.planned))
        with watch.timing("purge"):
            purged = run.purge()
    require_done(run.summary)
    gone = sum(one.files_purged for one in purged)
    return Run(side, watch.seconds, watch.parts, watched.seen, f"{gone:,} orphans deleted")


def _remove_orphan_files(lake: Lake) -> Run:
    watch = Stopwatch()
    older = format_instant(TODAY - _MINIMUM_AGE)
    with watching(lake.metadata_folders()) as watched, watch.timing(TABLE):
        found = lake.spark.sql(
            f"CALL {lake.name}.system.remove_orphan_files(table => '{SPACE}.{TABLE}',"
            f" older_than => TIMESTAMP '{older}', dry_run => false)"
        ).collect()
    did = f"{len(found):,} orphans deleted"
    return Run(PROCEDURE, watch.seconds, watch.parts, watched.seen, did)
