"""A run over chunks in steps: in one process or in one for each, it comes to the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import run_chunk_step, run_chunks
from meltline.app.run.recorded import keep_summary
from meltline.app.run.run_document import merge
from meltline.app.run.steps import CHUNK_STEPS, REPLICATE, Step
from meltline.app.run_history.run_log import RunOutcome, run_of
from meltline.app.safety.switches import disarm, stop
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SyncState
from meltline.domain.deletion.plan import PlanState
from meltline.ports import CatalogListing, RunRecord
from meltline.ports.chunks import DropOutcome, DropRequest
from tests.chunks.chunk_tables import ChunkTable, chunk_table, day_name, reading
from tests.doubles.catalog import MemoryCatalog
from tests.lake.lake import DAY, T0, Lake

NAME = "lake.air.t"


@dataclass
class Tiered:
    """A synced table with rows of days 0 to 5, two each; on day 10 those of day 0 to 2 are due."""

    lake: Lake = field(default_factory=lambda: Lake(has_cold=True, sandbox=False))
    table: ChunkTable = field(init=False)

    def __post_init__(self) -> None:
        self.table = chunk_table(self.lake.on(6), NAME)
        self.table.append_rows(*(reading(id, id // 2) for id in range(12)))
        start_sync(self.lake.services(), self.table.name)
        add_policy(
            self.lake.services(),
            self.table.name,
            PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="7d"),
        )
        self.lake.on(10)

    def steps(
        self, run_id: str = "dag", services: RunContext | None = None, **asked: Any
    ) -> dict[str, Any]:
        """A run as the DAG does it: each step in a process of its own, plans by batch."""
        request = replace(self.lake.request(run_id), **asked)
        services = services or self.lake.services()
        runs, now = self.lake.control.runs, self.lake.clock.now()
        record = RunRecord(request.run_id, request.as_of, now)
        runs.start(record)
        documents: list[dict[str, Any]] = []
        batches: Sequence[int] = ()
        for step in CHUNK_STEPS:
            if request.dry_run and not step.previews:
                continue
            for batch in batches if step.name in ("gate_drops", "drop_chunks") else (0,):
                summary = run_chunk_step(step, services, request, batch)
                if not batch and not request.dry_run:
                    keep_summary(runs, replace(record, ended_at=now), step, summary)
                documents.append(summary.as_json())
                batches = [b.number for b in summary.batches] or batches
        return merge(documents)

    def chunks_in_hot(self) -> list[str]:
        return sorted(self.table.chunks_now())

    @property
    def told(self) -> str:
        """What `chunks status` says of the last run."""
        (tracked,) = self.lake.control.chunks.tracked([self.table.uuid])
        return tracked.last_run


DUE, LEFT = [day_name(day) for day in range(3)], [day_name(day) for day in range(3, 6)]


def test_in_processes_of_their_own_the_steps_come_to_what_one_process_does() -> None:
    one, many = Tiered(), Tiered()
    whole = run_chunks(one.lake.services(), one.lake.request("dag")).summary.as_json()
    document = many.steps()
    assert many.chunks_in_hot() == one.chunks_in_hot() == LEFT
    assert document["recap"] == whole["recap"]
    assert document["recap"][0].startswith(
        f"1 commit of `{NAME}` followed by cold; 12 rows of `{NAME}` copied to cold; "
        f"5 chunks of `{NAME}` proved to be in cold; 3 chunks, "
    )
    assert many.told == one.told == "3 dropped, 0 deferred"
    # Our own drop is a commit that cold has nothing to do for.
    assert many.steps("again")["recap"] == ["nothing was done"]


def test_the_last_step_ends_the_run_and_one_that_replicates_alone_ends_its_own() -> None:
    tiered = Tiered()
    request = tiered.lake.request("dag")
    record = RunRecord("dag", request.as_of, tiered.lake.clock.now(), tiered.lake.clock.now())
    tiered.lake.control.runs.start(replace(record, ended_at=None))
    summary = run_chunk_step(REPLICATE, tiered.lake.services(), request)
    for is_last, outcome in ((False, RunOutcome.UNFINISHED), (True, RunOutcome.DONE)):
        keep_summary(tiered.lake.control.runs, record, REPLICATE, summary, is_last=is_last)
        assert run_of(tiered.lake.control, "dag")[0].outcome is outcome
    tiered.steps("night")
    assert run_of(tiered.lake.control, "night")[0].outcome is RunOutcome.DONE


def test_what_a_step_left_alone_is_told_by_the_last_one() -> None:
    tiered = Tiered()
    disturbed = replace(tiered.lake.services(), replicator=None)  # cold cannot be written
    request = tiered.lake.request("first")
    with pytest.raises(AssertionError):
        run_chunk_step(REPLICATE, disturbed, request)
    record = RunRecord("first", request.as_of, tiered.lake.clock.now())
    tiered.lake.control.runs.start(record)
    documents = []
    for step in CHUNK_STEPS[1:]:
        summary = run_chunk_step(step, tiered.lake.services(), request)
        keep_summary(tiered.lake.control.runs, record, step, summary)
        documents.append(summary.as_json())
    assert merge(documents)["recap"] == ["nothing was done; 5 chunks wait: 5 NOT_STREAMING"]
    assert tiered.told == "0 dropped, 5 deferred"


def test_a_run_that_is_not_armed_ends_well_and_says_what_it_would_have_dropped() -> None:
    tiered = Tiered()
    disarm(tiered.lake.services(), "lake")
    document = tiered.steps()
    assert document["recap"][0].startswith("not armed: would have dropped 3 chunks from hot, 3 ")
    assert not any(t["skipped"] or t["refused"] or t["failed"] for t in document["tables"])
    assert tiered.chunks_in_hot() == DUE + LEFT
    assert tiered.steps("by hand", once="the disk is full")["recap"][0].startswith("3 chunks, ")
    assert tiered.chunks_in_hot() == LEFT


def test_a_run_that_a_person_has_stopped_refuses_by_table_and_what_was_copied_stays() -> None:
    tiered = Tiered()
    tiered.steps("before", as_of=T0)
    stop(tiered.lake.services(), "look first")
    (line,) = tiered.steps()["tables"]
    assert "look first" in line["refused"] and not line["failed"]
    (sync,) = tiered.lake.control.syncs.all([tiered.table.uuid])
    assert sync.state is SyncState.STREAMING and tiered.chunks_in_hot() == DUE + LEFT


def test_a_dry_run_copies_and_drops_nothing() -> None:
    tiered = Tiered()
    assert tiered.steps(dry_run=True)["recap"] == [
        "a dry run; nothing would be done",
    ]
    run_chunk_step(REPLICATE, tiered.lake.services(), tiered.lake.request())
    assert tiered.steps(dry_run=True)["recap"][0].startswith("a dry run; 1 plan would drop chunks")
    assert tiered.chunks_in_hot() == DUE + LEFT


def test_a_past_day_drops_what_was_due_then_and_no_more() -> None:
    tiered = Tiered()
    tiered.steps(as_of=tiered.lake.clock.now() - 2 * DAY)
    assert tiered.chunks_in_hot() == [*DUE[1:], *LEFT]


@pytest.mark.parametrize("days", [(0,), (3, 2, 1, 0), (0, 1, 2, 3), (1, 3, 0, 0)], ids=str)
def test_by_schedule_and_by_backfills_in_any_order_the_end_is_the_same(
    days: Sequence[int],
) -> None:
    tiered, once = Tiered(), Tiered()
    once.steps()
    for number, ago in enumerate(days):
        tiered.steps(f"{number}", as_of=tiered.lake.clock.now() - ago * DAY)
    assert tiered.chunks_in_hot() == once.chunks_in_hot() == LEFT
    states = [
        {name: chunk.status for name, chunk in lake.control.chunks.of(uuid).items()}
        for lake, uuid in ((one.lake, one.table.uuid) for one in (tiered, once))
    ]
    assert states[0] == states[1]


@dataclass
class RacingDropper:
    """A table that somebody writes to right before each drop."""

    happens: Callable[[], object]
    plain: Any

    def drop(self, request: DropRequest) -> DropOutcome:
        self.happens()
        outcome: DropOutcome = self.plain.drop(request)
        return outcome


def test_a_table_that_is_written_all_the_time_waits_and_is_no_failure() -> None:
    tiered = Tiered()
    ids = iter(range(100, 200))
    services = tiered.lake.services()
    racing = RacingDropper(
        lambda: tiered.table.append_rows(*(reading(next(ids), day) for day in range(3))),
        services.dropper,
    )
    document = tiered.steps(services=replace(services, dropper=racing))
    (line,) = document["tables"]
    assert not (line["skipped"] or line["failed"] or line["refused"]), line
    assert {d["chunk"] for d in document["deferred"]} == set(DUE)
    assert tiered.chunks_in_hot() == DUE + LEFT
    (later,) = tiered.steps("the night after")["tables"]
    assert later["chunks_dropped"] == 3 and tiered.chunks_in_hot() == LEFT
    states = {plan.state for plan in tiered.lake.control.plans.find(run_id="dag")}
    assert not states & {PlanState.PLANNED, PlanState.PASSED, PlanState.APPLYING}


def test_a_pass_that_finds_another_one_at_work_leaves_the_replication_as_it_is() -> None:
    tiered = Tiered()
    run_chunk_step(REPLICATE, tiered.lake.services(), tiered.lake.request())
    lake = tiered.lake
    held = lake.control.locks.take(
        f"chunks {tiered.table.uuid}", "another run", wait=DAY * 0, lease=DAY
    )
    with held:
        services = lake.services()
        (found,) = replicate(services, chunked_tables(services))
        assert "another run" in (found.error.found if found.error else "")
        (sync,) = lake.control.syncs.all([tiered.table.uuid])
    assert sync.state is SyncState.STREAMING and not sync.reason


def names(step: Step) -> str:
    return step.name


@pytest.mark.parametrize("step", CHUNK_STEPS, ids=names)
def test_a_step_that_is_done_twice_does_nothing_more(step: Step) -> None:
    tiered, again = Tiered(), Tiered()
    tiered.steps()
    request, services = again.lake.request("dag"), again.lake.services()
    again.lake.control.runs.start(RunRecord("dag", request.as_of, again.lake.clock.now()))
    for each in CHUNK_STEPS:
        for _ in range(2 if each is step else 1):
            run_chunk_step(each, services, request)
    assert again.chunks_in_hot() == tiered.chunks_in_hot() == LEFT
    assert again.lake.control.chunks.of(again.table.uuid).keys() == (
        tiered.lake.control.chunks.of(tiered.table.uuid).keys()
    )


class CountedCatalog(MemoryCatalog):
    """One that knows how often it was listed."""

    listings = 0

    def listing(self) -> CatalogListing:
        self.listings += 1
        return super().listing()


def test_only_catalogs_that_have_tables_cut_into_chunks_are_listed() -> None:
    lake = Lake(has_cold=True, sandbox=False)
    for name in ("lake", "sea"):
        lake.catalogs[name] = CountedCatalog(name, lake.store, clock=lake.clock)
    Tiered(lake)
    before = {name: catalog.listings for name, catalog in counted(lake)}
    assert [table.state.name.catalog for table in chunked_tables(lake.services())] == ["lake"]
    assert {name: n.listings - before[name] for name, n in counted(lake)} == {"lake": 1, "sea": 0}


def counted(lake: Lake) -> list[tuple[str, CountedCatalog]]:
    return [(n, c) for n, c in lake.catalogs.items() if isinstance(c, CountedCatalog)]
