"""A dry run predicts what the run does at that instant, plan for plan."""

from dataclasses import replace
from typing import Any

import pytest

from meltline.app.run.lifecycle import run_chain, run_step
from meltline.app.run.steps import step_of
from meltline.domain.deletion.plan import PlanKind, PlanState
from tests.lake.lake import Lake


def lake_of(days: int, **properties: str) -> Lake:
    """Two tables that are overwritten every day."""
    lake = Lake(has_cold=True)
    tables = [lake.on(0).table(name, properties=properties) for name in ("t", "u")]
    for day in range(days):
        for table in tables:
            lake.on(day)
            table.overwrite(f"{table.name.name}{day}")
    return lake.on(days)


def deeds(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What each plan is to do, without the run it is of."""
    keys = ("kind", "table", "digest", "snapshots", "files", "bytes")
    return sorted(tuple(plan[key] for key in keys) for plan in document["plans"])


PROPERTIES = {
    "plain": {},
    "history goes to cold first": {"meltline.cold": "all"},
    "without failsafe": {"meltline.failsafe-days": "0"},
    "both": {"meltline.cold": "all", "meltline.failsafe-days": "0"},
}


@pytest.mark.parametrize("days", [3, 12])
@pytest.mark.parametrize("properties", PROPERTIES.values(), ids=PROPERTIES)
def test_it_makes_the_plans_of_the_run(properties: dict[str, str], days: int) -> None:
    lake = lake_of(days, **properties)
    preview = run_chain(lake.services(), replace(lake.request("dry"), dry_run=True)).as_json()
    assert {plan.state for plan in lake.control.plans.find()} <= {PlanState.STALE}
    summary = lake.run().as_json()
    assert deeds(preview) == deeds(summary)
    assert days < 12 or deeds(summary)


def test_each_step_alone_predicts_the_same() -> None:
    lake = lake_of(12, **PROPERTIES["both"])
    request = replace(lake.request("dry"), dry_run=True)
    steps = [step_of("plan_expiration"), step_of("plan_purge", PlanKind.PURGE)]
    previews = [run_step(step, lake.services(), request).as_json() for step in steps]
    summary = lake.run().as_json()
    assert sorted(plan for preview in previews for plan in deeds(preview)) == deeds(summary)


def test_a_second_night_is_predicted_with_what_waits_from_the_first() -> None:
    lake = lake_of(12, **PROPERTIES["history goes to cold first"])
    lake.run()
    lake.on(20)
    preview = run_chain(lake.services(), replace(lake.request("dry"), dry_run=True)).as_json()
    assert {plan["kind"] for plan in preview["plans"]} == {"expire", "purge"}
    assert deeds(preview) == deeds(lake.run().as_json())
