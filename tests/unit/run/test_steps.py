"""One list of steps: the run, the Spark apps and the DAG go by it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from meltline.app.chunks.run import ChunkRun
from meltline.app.run.lifecycle import Run, run_chain
from meltline.app.run.steps import CHUNK_STEPS, EVERY_STEP, STEPS, Role, Step, step_of
from meltline.domain.deletion.plan import PlanState
from tests.lake.lake import Lake
from tests.unit.house.test_layout import ROOT


class Noted:
    """A run that notes which of its methods a step calls."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.steps.append(name)


def names(step: Step) -> str:
    return step.name


@pytest.mark.parametrize("step", EVERY_STEP, ids=names)
def test_a_step_is_done_by_the_run_and_has_an_app(step: Step) -> None:
    run = Noted()
    step.run(run)
    assert run.steps == [step.name]
    assert callable(getattr(ChunkRun if step in CHUNK_STEPS else Run, step.name))
    assert (ROOT / "spark_apps" / f"{step.app or step.name}.py").is_file()
    assert step_of(step.app or step.name, step.kind) is step


def test_an_app_does_nothing_but_steps() -> None:
    apps = {path.stem for path in (ROOT / "spark_apps").glob("*.py")}
    assert apps == {step.app or step.name for step in EVERY_STEP}


@pytest.mark.parametrize(
    "steps, names", [(STEPS, ["expire", "purge"]), (CHUNK_STEPS, ["drop_chunks"])]
)
def test_what_destroys_stands_right_behind_its_gate_and_that_behind_its_plan(
    steps: Sequence[Step], names: list[str]
) -> None:
    before = {after.name: step for step, after in pairwise(steps)}
    destroying = [step for step in steps if step.role is Role.APPLY]
    assert [step.name for step in destroying] == names
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
    assert [s.name for s in CHUNK_STEPS if s.previews] == ["evaluate_chunks", "plan_drops"]


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
