"""The quiet window: outside it a run looks and plans, and leaves the rest for the next one."""

from dataclasses import replace
from typing import Any

from meltline.app.run.lifecycle import run_chain
from meltline.app.run.summary import Summary
from meltline.domain.deletion.limits import IoSettings
from meltline.domain.deletion.plan import PlanKind, PlanState
from tests.lake.lake import ROOMY, Lake, Table
from tests.lake.swept import Swept

NIGHT = IoSettings(0, 60, 300)  # 01:00 to 05:00


def overwritten() -> tuple[Lake, Table]:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    return lake, table


def run_at(lake: Lake, day: float, io: IoSettings = NIGHT, **more: Any) -> Summary:
    services = lake.on(day).services()
    services = replace(services, config=replace(services.config, io=io))
    return run_chain(services, replace(lake.request(), **more))


def test_at_noon_nothing_expires_and_it_is_said() -> None:
    # AR-38
    lake, table = overwritten()
    before = table.snapshots
    summary = run_at(lake, 20.5)
    assert summary.exit_code == 0 and table.snapshots == before and not lake.waiting()
    (plan,) = lake.control.plans.find()
    assert plan.kind is PlanKind.EXPIRE
    assert plan.state is PlanState.PLANNED and plan.id in summary.plans
    assert any(
        "1 plans are not judged: it is outside io.quiet-window" in n for n in summary.notices
    )


def test_the_next_run_inside_it_does_what_was_left() -> None:
    lake, table = overwritten()
    run_at(lake, 20.5)
    run_at(lake, 21 + 2 / 24)
    assert len(table.snapshots) == 1 and lake.waiting()
    waiting = set(lake.waiting())
    assert run_at(lake, 40.5).exit_code == 0
    assert waiting <= lake.paths()
    run_at(lake, 41 + 2 / 24)
    assert not waiting & lake.paths()


def test_a_person_may_have_it_done_at_any_hour() -> None:
    lake, table = overwritten()
    run_at(lake, 20.5, any_hour=True)
    assert len(table.snapshots) == 1


def test_a_purge_that_the_window_ends_under_begins_no_other_plan() -> None:
    lake, _ = overwritten()
    lake.limits = replace(ROOMY, delete_keys_per_second=1)  # each plan is a wave of its own
    other = lake.on(3).table("u")
    for number in range(40):
        lake.on(4 + number / 10)
        other.overwrite(f"g{number}")
    run_at(lake, 30 + 2 / 24)
    waiting = set(lake.waiting())
    looks: list[object] = []

    class Ending(IoSettings):
        """Over as soon as the first batch was sent."""

        def may_begin(self, now: object) -> bool:
            looks.append(now)
            return not lake.deleter.deleted

    summary = run_at(lake, 50 + 2 / 24, Ending())
    assert looks and set(lake.deleter.deleted) < waiting
    plans = [plan for plan in lake.control.plans.find() if plan.kind is PlanKind.PURGE]
    states = {plan.state for plan in plans}
    assert states == {PlanState.APPLIED, PlanState.PASSED}
    assert any("1 plans are not purged" in notice for notice in summary.notices)
    run_at(lake, 51 + 2 / 24)
    assert not waiting & lake.paths()


def test_nothing_is_swept_outside_it_and_a_dry_run_is_not_held_back() -> None:
    lake = Swept()
    services = lake.services()
    services = replace(services, config=replace(services.config, io=NIGHT))
    for dry_run in (False, True):
        summary = lake.sweep(20.5, services, dry_run=dry_run)
        assert bool(summary.sweep) is dry_run
        assert ("nothing is swept" in " ".join(summary.notices)) is not dry_run
