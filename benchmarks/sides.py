"""The two sides of a comparison: Iceberg's procedure, and Meltline's chain of steps."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from benchmarks.lakes import FAILSAFE, SPACE, Lake
from benchmarks.staging import read_document, rows
from benchmarks.watch import Seen, watching
from meltline.app.run import lifecycle
from meltline.app.run.gated_plans import judge
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError
from meltline.domain.units import format_instant
from meltline.ports import PlanTransition

PROCEDURE = "procedure"
BARE = "meltline"
GATED = "meltline with gates"
Say = Callable[[str], None]
Judge = Callable[[RunContext, Sequence[Plan]], list[Plan]]


@dataclass(frozen=True)
class Run:
    """What one side took for one piece of work.

    Attributes:
        side: Who did it.
        seconds: From the first read to the last delete.
        parts: The same, by step or by table.
        seen: Memory, bytes read, files opened.
        did: What came of it, in words.
    """

    side: str
    seconds: float
    parts: Mapping[str, float]
    seen: Seen
    did: str


@dataclass
class Stopwatch:
    """Adds up what is timed, by name."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Times a block."""
        start = time.perf_counter()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - start

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.parts.values())


def run_procedure(lake: Lake, keep: Mapping[str, int], as_of: datetime) -> Run:
    """`expire_snapshots` on one table after the other.

    Args:
        lake: The twin, in place.
        keep: How many of its newest snapshots each table keeps.
        as_of: Older than this goes, if it is not among those.
    """
    before = _snapshots(lake, keep)
    watch = Stopwatch()
    with watching(lake.metadata_folders()) as watched:
        for table, count in keep.items():
            with watch.timing(table):
                lake.spark.sql(
                    f"CALL {lake.name}.system.expire_snapshots(table => '{SPACE}.{table}',"
                    f" older_than => TIMESTAMP '{format_instant(as_of)}', retain_last => {count})"
                ).collect()
    did = f"{before - _snapshots(lake, keep):,} snapshots expired"
    return Run(PROCEDURE, watch.seconds, watch.parts, watched.seen, did)


def _snapshots(lake: Lake, tables: Mapping[str, int]) -> int:
    locations = rows(lake.db)
    return sum(len(read_document(locations[f"{SPACE}.{t}"])["snapshots"]) for t in tables)


def run_meltline(
    lake: Lake, keep: Mapping[str, int], as_of: datetime, *, gates: bool, say: Say
) -> Run:
    """The chain's steps, with failsafe passed by moving the lake's clock.

    Args:
        lake: The twin, in place.
        keep: As for the procedure; here only what the result is held against.
        as_of: The logical date.
        gates: Whether plans are judged; else each is given a passed verdict.
        say: Takes progress.
    """
    before = _snapshots(lake, keep)
    lake.clock.moment = max(lake.clock.moment, as_of)
    services = lake.services(say)
    run = lifecycle.Run(services, RunRequest(f"run-{as_of.isoformat()}", as_of))
    judge = judge_of(gates)
    watch = Stopwatch()
    with watching(lake.metadata_folders()) as watched:
        with watch.timing("observe"):
            run.observe()
        with watch.timing("plan expire"):
            run.plan_expiration()
        with watch.timing("gate expire"):
            run.summary.gated(judge(services, run.planned))
        with watch.timing("expire"):
            run.expire()
        lake.clock.moment += FAILSAFE + timedelta(seconds=1)
        with watch.timing("plan purge"):
            run.plan_purge()
        with watch.timing("gate purge"):
            run.summary.gated(judge(services, run.planned))
        with watch.timing("purge"):
            run.purge()
    require_done(run.summary)
    did = f"{before - _snapshots(lake, keep):,} snapshots expired"
    return Run(GATED if gates else BARE, watch.seconds, watch.parts, watched.seen, did)


def require_done(summary: Summary) -> None:
    """Refuses to measure a run that left a table out."""
    wrong = [
        f"{name}: {why}"
        for name, table in summary.tables.items()
        if (why := table.skipped or table.refused or table.failed)
    ]
    if wrong or summary.notes:
        raise RuntimeError("; ".join([*wrong, *summary.notes]))


def judge_of(gates: bool) -> Judge:
    """The chain's own gate; or one that passes each plan unseen, so that its cost is left out."""
    return judge if gates else _pass


def _pass(services: RunContext, plans: Sequence[Plan]) -> list[Plan]:
    now = services.clock.now()
    until = now + services.config.gates.ttl
    services.control.verdicts.save(
        [GateResult(plan.id, plan.digest, "none", 1, (), now, until) for plan in plans]
    )
    passed = []
    for answer in services.control.plans.move_all(
        [PlanTransition(plan, PlanState.PASSED) for plan in plans]
    ):
        if isinstance(answer, MeltlineError):
            raise answer
        passed.append(answer)
    return passed
