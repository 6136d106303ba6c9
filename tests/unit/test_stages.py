"""One list of stages: the run, the Spark apps and the DAG go by it."""

from itertools import pairwise

import pytest

from meltline.app.run.lifecycle import Run
from meltline.app.run.stages import STAGES, SWEEP, Role, Stage, stage_of
from tests.unit.lake import Lake
from tests.unit.test_layout import ROOT

EVERY = (*STAGES, SWEEP)


def names(stage: Stage) -> str:
    return stage.name


@pytest.mark.parametrize("stage", EVERY, ids=names)
def test_a_stage_is_done_by_the_run_and_has_an_app(stage: Stage) -> None:
    assert callable(getattr(Run, stage.name))
    assert (ROOT / "spark_apps" / f"{stage.app or stage.name}.py").is_file()
    assert stage_of(stage.app or stage.name, stage.kind) is stage


def test_an_app_does_nothing_but_stages() -> None:
    apps = {path.stem for path in (ROOT / "spark_apps").glob("*.py")}
    assert apps == {stage.app or stage.name for stage in EVERY}


def test_what_destroys_stands_right_behind_its_gate_and_that_behind_its_plan() -> None:
    before = {after.name: stage for stage, after in pairwise(STAGES)}
    destroying = [stage for stage in STAGES if stage.role is Role.APPLY]
    assert [stage.name for stage in destroying] == ["expire", "purge"]
    for stage in destroying:
        gate = before[stage.name]
        plan = before[gate.name]
        assert (gate.role, plan.role) == (Role.GATE, Role.PLAN)
        assert stage.kind == gate.kind == plan.kind


def test_a_dry_run_has_no_stage_that_judges_or_destroys() -> None:
    assert [stage.name for stage in STAGES if stage.previews] == [
        "observe",
        "hand_off_to_cold",
        "plan_expiration",
        "plan_purge",
    ]


def test_stages_of_one_process_share_a_look_until_something_has_changed() -> None:
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
