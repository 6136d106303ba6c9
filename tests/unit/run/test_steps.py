"""One list of steps: the run, the Spark apps and the DAG go by it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from meltline.app.run.lifecycle import Run, run_chain
from meltline.app.run.steps import STEPS, SWEEP, Role, Step, step_of
from meltline.domain.deletion.plan import PlanState
from tests.lake.lake import Lake
from tests.unit.house.test_layout import ROOT

EVERY = (*STEPS, SWEEP)


def names(step: Step) -> str:
    return step.name


@pytest.mark.parametrize("step", EVERY, ids=names)
def test_a_step_is_done_by_the_run_and_has_an_app(step: Step) -> None:
    assert callable(getattr(Run, step.name))
    assert (ROOT / "spark_apps" / f"{step.app or step.name}.py").is_file()
    assert step_of(step.app or step.name, step.kind) is step


def test_an_app_does_nothing_but_steps() -> None:
    apps = {path.stem for path in (ROOT / "spark_apps").glob("*.py")}
    assert apps == {step.app or step.name for step in EVERY}


def test_what_destroys_stands_right_behind_its_gate_and_that_behind_its_plan() -> None:
    before = {after.name: step for step, after in pairwise(STEPS)}
    destroying = [step for step in STEPS if step.role is Role.APPLY]
    assert [step.name for step in destroying] == ["expire", "purge"]
    for step in destroying:
        gate = before[step.name]
        plan = before[gate.name]
        assert (gate.role, plan.role) == (Role.GATE, Role.PLAN)
        assert step.kind == gate.kind == plan.kind


def test_a_dry_run_has_no_step_that_judges_or_destroys() -> None:
    assert [step.name for step in STEPS if step.previews] == [
        "observe",
        "hand_off_to_cold",
        "plan_expiration",
        "plan_purge",
    ]


def test_steps_of_one_process_share_a_look_until_something_has_changed() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        table.overwrite(f"f{day}")
    run = Run(lake.on(12).services(), lake.request())
    run.observe()
    first = run.look()
    run.plan_expiration()
    assert run.look() is first
    run.gate_expiration()
    run.expire()
    run.plan_purge()
    assert run.look() is not first


def test_a_dry_run_leaves_what_an_earlier_run_began_and_records_no_storage() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        table.overwrite(f"f{day}")
    earlier = Run(lake.on(12).services(), lake.request())
    earlier.plan_expiration()
    earlier.gate_expiration()
    (plan,) = lake.control.plans.find(run_id=earlier.request.run_id)
    lake.control.plans.move(plan, PlanState.APPLYING)
    before = lake.paths()
    run_chain(lake.services(), replace(lake.request(), dry_run=True))
    assert lake.control.plans.get(plan.id).state is PlanState.APPLYING
    assert lake.paths() == before and len(table.snapshots) == 3
    assert list(lake.control.storage.of(f"{lake.clock.now():%Y-%m-%d}")) == []
