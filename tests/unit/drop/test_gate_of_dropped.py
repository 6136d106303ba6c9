"""The gate lets all of a table go in one case only, and finds out for itself that it is that one.

Each plan here is made by the planner on the day a dropped table's time is up. Then the world
changes, or the plan does, and the gate is asked.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from meltline.app.catalog.dropped import dropped_place
from meltline.app.drop.drop import drop
from meltline.app.expire.plan_expiration import PlannedFiles, plan_expiration, store_plans
from meltline.app.observe.observe import observe
from meltline.app.retention.holds import add_hold
from meltline.app.run.gate_step import run_gate
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import Plan, PlanKind, plan_digest
from meltline.domain.drop.drops import KEYS
from meltline.domain.iceberg.names import TableName
from meltline.ports import Lease, PurgeVeto
from tests.lake.gaps import Gap, with_gaps
from tests.lake.lake import DAY, T0, Lake, Table

STRICT = Limits(max_delete_ratio=0.5, max_growth=2.0, lock_wait=timedelta(0))
NAME = "lake.air.t"
RELAXED = {"planned_main", "planned_young_refs", "planned_in_window", "delete_ratio"}


def lake_with_a_dropped_table(*, seen: bool = True) -> tuple[Lake, Table]:
    """Dropped on day 3, with a branch and seven days of retention; another table stays.

    `seen` says whether a run has looked before the drop.
    """
    lake = Lake(limits=STRICT)
    table = lake.on(0).table("t")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    table.branch("audit", table.head)
    lake.table("lake.air.stays").append("s")
    lake.on(3)
    if seen:
        lake.run()
    place = dropped_place(table.uuid, "lake")
    drop(lake.services(), NAME)
    return lake, Table(lake, place)


def planned(lake: Lake, day: float = 11) -> PlannedFiles:
    """What the planner makes of the dropped table on a day."""
    lake.on(day)
    services = lake.services()
    (plan,) = plan_expiration(
        services, observe(services), run_id="r", as_of=lake.clock.now(), tables=()
    )
    return plan


def judged(lake: Lake, plan: Plan) -> GateResult:
    ((_, result),) = run_gate(lake.services(), [plan])
    return result


def failed(result: GateResult) -> set[str]:
    return {found.expectation.split()[0] for found in result.failed}


def test_all_of_a_dropped_table_may_go_when_its_time_is_up_whatever_the_limits() -> None:
    lake, table = lake_with_a_dropped_table()
    plan = planned(lake).plan
    assert set(plan.refs) == {"main", "audit"} and set(plan.snapshots) == set(table.snapshots)
    assert judged(lake, plan).passed
    assert lake.run().exit_code == 0 and table.snapshots == [] and table.refs == {}


def hold_the_table(lake: Lake, table: Table) -> None:
    table.configure(meltline__hold="audit")
    assert hold_stands(lake, table)


def hold_stands(lake: Lake, table: Table) -> bool:
    state = next(t for t in observe(lake.services()).tables if t.state.name == table.name)
    return state.held


def hold_the_schema(lake: Lake, table: Table) -> None:
    add_hold(lake.services(), "lake.air", reason="audit")
    assert hold_stands(lake, table)


def lease_a_snapshot(lake: Lake, table: Table) -> None:
    until = lake.clock.now() + DAY
    lake.control.leases.save(Lease("l", table.uuid, table.snapshots[0], until))


def want_a_snapshot_back(lake: Lake, table: Table) -> None:
    first = table.snapshots[0]
    now = lake.clock.now()
    wanted = PurgeVeto("w", table.uuid, first, table.manifest_list(first), (), "ann", "x", now)
    lake.control.vetoes.add(wanted)


def bring_it_back_by_hand(lake: Lake, table: Table) -> None:
    at = table.catalog.drop(table.name)
    lake.register(NAME, at)


def drop_it_anew(lake: Lake, table: Table) -> None:
    table.configure(**{KEYS[2]: "2026-01-11T00:00:00Z"})


def forget_what_it_was(lake: Lake, table: Table) -> None:
    table.configure(**{KEYS[0]: ""})


def prolong_its_retention(lake: Lake, table: Table) -> None:
    table.configure(**{KEYS[3]: "30"})


@pytest.mark.parametrize(
    "change",
    [
        hold_the_table, hold_the_schema, lease_a_snapshot, want_a_snapshot_back,
        bring_it_back_by_hand, drop_it_anew, forget_what_it_was, prolong_its_retention,
    ],
)  # fmt: skip
def test_the_gate_refuses_what_the_planner_meant_once_the_world_has_changed(
    change: Callable[[Lake, Table], None],
) -> None:
    lake, table = lake_with_a_dropped_table()
    plan = planned(lake).plan
    change(lake, table)
    assert "planned_main" in failed(judged(lake, plan))


def test_what_the_ledger_alone_remembers_among_the_dropped_tables_is_not_let_go() -> None:
    lake, table = lake_with_a_dropped_table(seen=False)
    plan = planned(lake).plan
    table.drop()  # somebody takes it out of the catalog: it may be on its way to another
    observe(lake.services())
    assert "planned_main" in failed(judged(lake, plan))


def test_what_was_listed_is_not_what_was_read_where_a_dropped_table_moves_meanwhile() -> None:
    lake, table = lake_with_a_dropped_table()
    table.configure(
        write__metadata__delete_after_commit__enabled="true",
        write__metadata__previous_versions_max="1",
    )
    plan = planned(lake).plan
    moves = iter("ab")

    def move(gap: Gap) -> None:
        for letter in moves if gap is Gap.LISTED else ():
            table.configure(comment=letter)

    ((_, result),) = run_gate(with_gaps(lake.services(), move), [plan])
    assert "planned_main" in failed(result)
    assert judged(lake, plan).passed, "it stands still now"


@pytest.mark.parametrize("day", [3, 10])
def test_a_plan_that_comes_too_early_is_refused_whatever_date_it_bears(day: float) -> None:
    lake, _ = lake_with_a_dropped_table()
    early = planned(lake)
    lake.on(day)
    assert failed(judged(lake, early.plan)) >= RELAXED
    lake.on(11)
    dated_back = replace(early.plan, as_of=T0 + day * DAY)
    assert failed(judged(lake, dated_back)) >= RELAXED


def test_a_live_table_is_not_let_go_by_what_its_properties_claim() -> None:
    lake, dropped = lake_with_a_dropped_table()
    facts = {key: dropped.document["properties"][key] for key in KEYS}
    live = Table(lake, TableName.parse("lake.air.stays"))
    live.configure(**facts)
    lake.on(11)
    services = lake.services()
    digest = plan_digest(live.uuid, live.snapshots, ["main"], ())
    forged = Plan(
        id="forged", run_id="r", kind=PlanKind.EXPIRE, table=live.name, table_uuid=live.uuid,
        digest=digest, as_of=lake.clock.now(), created_at=lake.clock.now(),
        base_location=live.metadata_location, snapshots=tuple(live.snapshots), refs=("main",),
    )  # fmt: skip
    store_plans(services, [PlannedFiles(forged, ())])
    expected = {"planned_main", "planned_young_refs", "planned_in_window"}
    assert failed(judged(lake, forged)) >= expected


def test_a_clone_that_appears_after_the_plan_was_made_keeps_what_it_refers_to() -> None:
    lake, table = lake_with_a_dropped_table()
    plan = planned(lake).plan
    lake.clone(table, "lake.sea.copy")
    assert failed(judged(lake, plan)) >= {"planned_referenced"}
