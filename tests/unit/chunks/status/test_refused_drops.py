"""What `doctor` says of drops that a gate refuses night after night, and of those it does not."""

from dataclasses import dataclass, replace

from meltline.app.chunks.policies import add_policy, forget_policy
from meltline.app.chunks.run import ChunkRun
from meltline.app.doctor.doctor import examine
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import CHUNK_STEPS
from meltline.app.safety.findings import Finding
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.deletion.limits import ChunkSettings
from meltline.domain.deletion.plan import PlanKind
from tests.chunks.chunk_tables import chunk_table, day_name, reading
from tests.unit.chunks.status.lake_of_days import DROPS, LakeOfDays
from tests.unit.chunks.test_drop_rounds import OddCold


@dataclass
class Refusals(LakeOfDays):
    """What a night is allowed, and what is said the day after."""

    share: float = 0.8
    odd_chunk: str = ""

    def services(self) -> RunContext:
        services = self.lake.services()
        assert services.chunk_rows is not None
        config = replace(services.config, chunks=ChunkSettings(max_drop_share=self.share))
        rows = services.chunk_rows
        if self.odd_chunk:  # somebody has changed it in cold
            rows = OddCold(rows, self.odd_chunk)
        return replace(services, config=config, chunk_rows=rows)

    def nights(self, *days: float) -> "Refusals":
        """Nights of chunks as the command runs them."""
        for day in days:
            self.lake.on(day)
            request, services = self.lake.request(f"night-{day}"), self.services()
            run_recorded(services, request, CHUNK_STEPS, ChunkRun(services, request))
        return self

    def told(self) -> Finding | None:
        findings = [f for f in examine(self.lake.services()) if f.code == "plan_refused"]
        assert len(findings) <= 1, findings
        return findings[0] if findings else None

    def states(self) -> list[str]:
        """Of plans of drops, the oldest first."""
        plans = self.lake.control.plans.find(table_uuid=self.table.uuid)
        kinds = [plan for plan in plans if plan.kind is PlanKind.DROP_CHUNKS]
        return [str(plan.state) for plan in reversed(kinds)]


def test_a_drop_that_was_refused_by_one_run_is_told_for_information() -> None:
    days = Refusals(share=0.1).nights(8)
    told = days.told()
    assert told is not None and told.level == "info" and " runs" not in told.message
    assert "share_allowed" in told.message and "1 chunk, 51 B, stay in hot" in told.message
    assert days.status().last_run == "0 dropped, 0 deferred, 1 refused"


def test_a_drop_that_is_refused_every_night_is_a_warning_with_its_age_and_the_way_out() -> None:
    """Nobody writes to the table: the drop is the same one each night."""
    days = Refusals(share=0.1).nights(8, 8.5, 8.9)
    told = days.told()
    assert told is not None and told.level == "warning"
    assert told.message.endswith("stay in hot, by 3 runs since 2026-01-09T00:00:00Z")
    assert "`meltline chunks run --dry-run --tables lake.air.days`" in told.fix
    assert "raise `chunks.max-drop-share`" in told.fix
    assert days.states() == ["refused"]


def test_nights_are_counted_though_rows_come_and_each_night_has_another_plan() -> None:
    days = Refusals(share=0.1)
    for day in (8, 9, 10):
        days.table.append_rows(reading(50 + day, day - 1))
        days.nights(day)
    told = days.told()
    assert told is not None and told.level == "warning"
    assert told.message.endswith("by 3 runs since 2026-01-09T00:00:00Z")
    assert days.states() == ["stale", "stale", "refused"]


def test_once_the_drop_is_made_nothing_is_told_of_those_that_were_refused() -> None:
    days = Refusals(share=0.1).nights(8, 9)
    days.share = 0.8
    days.nights(10)
    assert day_name(0) in days.dropped() and days.told() is None
    days.share = 0.1
    days.nights(11)
    told = days.told()
    assert told is not None and told.level == "info"  # it is another one


def test_a_chunk_that_the_gate_holds_back_while_others_go_is_a_warning_too() -> None:
    days = Refusals().nights(6.5)
    days.odd_chunk = day_name(0)
    days.nights(9)
    assert days.dropped() == [day_name(1)] and days.told() is None
    days.nights(10, 11)
    assert days.dropped() == [day_name(day) for day in (1, 2, 3)]
    told = days.told()
    assert told is not None and told.level == "warning" and "rows_differ" in told.message
    assert told.message.endswith("1 chunk, 51 B, stay in hot, by 3 runs since 2026-01-10T00:00:00Z")
    assert "`meltline chunks stop-sync lake.air.days`" in told.fix
    days.odd_chunk = ""
    days.nights(12)
    assert day_name(0) in days.dropped() and days.told() is None


def test_a_backlog_that_drains_is_no_finding() -> None:
    days = Refusals(share=0.4).nights(10)
    assert days.status().last_run == "2 dropped, 1 deferred"
    assert days.nights(11).told() is None
    assert days.nights(12).told() is None


def test_a_refused_drop_is_over_once_its_policy_is_forgotten_or_asks_for_less() -> None:
    days = Refusals(share=0.1).nights(8, 9)
    forget_policy(days.lake.services(), days.table.name, PolicyType.TIERED_RETENTION)
    add_policy(days.lake.services(), days.table.name, replace(DROPS, drop_after="90d"))
    days.nights(10, 11)
    assert days.told() is None and set(days.states()) == {"stale"}


def test_a_run_of_other_tables_and_a_dry_run_leave_a_refused_drop_as_it_is() -> None:
    days = Refusals(share=0.1).nights(8, 9)
    before = days.told()
    other = chunk_table(days.lake, "lake.air.other")
    for more in ({"tables": (str(other.name),)}, {"dry_run": True}):
        days.lake.on(10)
        request = replace(days.lake.request("other"), **more)
        ChunkRun(days.services(), request).visit(CHUNK_STEPS)
        assert days.told() == before


def test_a_drop_that_has_passed_and_is_not_made_yet_is_not_refused_any_more() -> None:
    days = Refusals(share=0.1).nights(8, 9)
    days.share = 0.8
    days.lake.on(10)
    steps = [step for step in CHUNK_STEPS if step.name != "drop_chunks"]
    ChunkRun(days.services(), days.lake.request("killed")).visit(steps)
    assert days.dropped() == [] and days.told() is None
