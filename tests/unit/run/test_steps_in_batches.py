"""The steps of a night as the DAG runs them: planned once, then by batch, each app on its own.

However the batches interleave, are retried or die, the night ends as one app would have ended it.
The lake's deleter holds every delete against a walk of all metadata at that very moment.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from meltline.app.observe.observe import observe
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import step_of
from meltline.app.run.summary import Summary
from meltline.app.safety.stored_plans import PREVIEW
from meltline.app.services import RunContext, SweepServices
from meltline.domain.deletion.batches import BatchSettings
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.iceberg.names import TableName
from tests.doubles.sweeper import MemorySweeper
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed, Process

EXPIRE_DAY, PURGE_DAY = 12, 20
EXPIRE, PURGE = PlanKind.EXPIRE, PlanKind.PURGE
APART = BatchSettings(most_apps=3, files_per_app=1)


@dataclass
class Night:
    """One run of the DAG, step by step."""

    lake: Lake
    run_id: str
    settings: BatchSettings = APART
    planned: dict[PlanKind, Summary] = field(default_factory=dict)

    def services(self, process: Process | None = None, **changes: Any) -> SweepServices:
        config = replace(self.lake.config(), batches=self.settings)
        chain: RunContext = self.lake.services(config=config, **changes)
        if process:
            chain = process.of(chain)
        sweeper = MemorySweeper(self.lake.store, self.lake.file_tables)
        return SweepServices(**vars(chain), sweeper=sweeper)

    def step(
        self,
        name: str,
        kind: PlanKind = EXPIRE,
        batch: int = 0,
        services: SweepServices | None = None,
    ) -> Summary:
        request = self.lake.request(self.run_id)
        return run_step(step_of(name, kind), services or self.services(), request, batch)

    def plan(self, kind: PlanKind, services: SweepServices | None = None) -> list[int]:
        """Plans, and tells which batches there are."""
        name = {EXPIRE: "plan_expiration", PURGE: "plan_purge"}[kind]
        self.planned[kind] = self.step(name, kind, services=services)
        return [batch.number for batch in self.planned[kind].batches]

    def gate(self, kind: PlanKind, batch: int) -> Summary:
        return self.step("gate", kind, batch)

    def apply(self, kind: PlanKind, batch: int, process: Process | None = None) -> Summary:
        return self.step(str(kind), kind, batch, self.services(process))

    def go(self, kind: PlanKind, order: Sequence[int] = ()) -> None:
        """Plans, then gates and applies batch by batch."""
        batches = self.plan(kind)
        for batch in order or batches:
            self.gate(kind, batch)
            self.apply(kind, batch)
        self.lake.check_nothing_is_missing()

    def plans(self, kind: PlanKind, batch: int = 0) -> list[Plan]:
        found = self.lake.control.plans.find(run_id=self.run_id)
        return [p for p in found if p.kind is kind and batch in (0, p.batch)]

    def tables(self, kind: PlanKind, batch: int) -> set[str]:
        return {plan.table.name for plan in self.plans(kind, batch)}


def a_lake() -> Lake:
    """Five tables with history; `orders` and `copy` share files."""
    lake = Lake()
    tables = [lake.on(0).table(name) for name in ("orders", "b", "c", "d")]
    for table in tables:
        table.overwrite(f"{table.name.name}0")
    copy = lake.clone(tables[0], "lake.air.copy")
    for day in (1, 2):
        lake.on(day)
        for table in (*tables, copy):
            table.overwrite(f"{table.name.name}{day}")
    return lake


def end_of(lake: Lake) -> tuple[Any, ...]:
    """What may not depend on how the work was shared out; files' names hold no run."""
    entries = lake.catalogs["lake"].listing().entries
    snapshots = {
        str(entry.name): sorted(
            s["sequence-number"] for s in lake.document(entry.metadata_location)["snapshots"]
        )
        for entry in entries
    }
    return snapshots, lake.paths(), set(lake.waiting()), lake.control.claims.paths()


def in_one_app() -> tuple[Any, ...]:
    lake = a_lake()
    lake.on(EXPIRE_DAY).run()
    lake.on(PURGE_DAY).run()
    return end_of(lake)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))), ids=str)
def test_batches_in_any_order_end_as_one_app_does(order: tuple[int, ...]) -> None:
    lake = a_lake()
    lake.on(EXPIRE_DAY)
    Night(lake, "one").go(EXPIRE, order)
    lake.on(PURGE_DAY)
    Night(lake, "two").go(PURGE, order)
    assert lake.deleter.deleted
    assert end_of(lake) == in_one_app()


def test_all_gates_first_and_then_one_purge_after_the_other_end_as_one_app_does() -> None:
    lake = a_lake()
    Night(lake.on(EXPIRE_DAY), "one").go(EXPIRE)
    night = Night(lake.on(PURGE_DAY), "two")
    batches = night.plan(PURGE)
    for batch in batches:
        night.gate(PURGE, batch)
    for batch in batches:
        assert night.apply(PURGE, batch).exit_code == 0
    assert end_of(lake) == in_one_app()


def test_batches_side_by_side_never_wait_for_each_other() -> None:
    lake = a_lake()  # whose runs wait for no lock at all
    night = Night(lake.on(EXPIRE_DAY), "one")
    batches = night.plan(EXPIRE)
    with ThreadPoolExecutor(3) as pool:
        for step in (night.gate, night.apply):
            done = list(pool.map(partial(step, EXPIRE), batches))
            assert [summary.exit_code for summary in done] == [0, 0, 0]
    assert {plan.state for plan in night.plans(EXPIRE)} == {PlanState.APPLIED}
    Night(lake.on(PURGE_DAY), "two").go(PURGE)
    assert end_of(lake) == in_one_app()


def test_what_another_batch_expires_during_a_look_has_not_come_back() -> None:
    """Its metadata was listed before the commit; its departures were recorded after that."""
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    first = night.plan(EXPIRE)[0]
    night.gate(EXPIRE, first)
    waited: list[Mapping[str, Any]] = []

    def meanwhile(line: str) -> None:
        if line.startswith("observe: loading") and not waited:
            waited.append({})  # the other batch looks as well
            assert night.apply(EXPIRE, first).exit_code == 0
            waited.append(dict(lake.waiting()))

    observe(night.services(progress=meanwhile))
    assert len(waited) == 2 and waited[1]
    assert lake.waiting() == waited[1]


def test_tables_that_share_files_are_one_batch_and_an_app_leaves_the_others_alone() -> None:
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    assert night.plan(EXPIRE) == [1, 2, 3]
    assert night.tables(EXPIRE, 1) == {"orders", "copy"}
    gated = night.gate(EXPIRE, 2)
    assert {plan.table.name for plan in gated.plans.values()} == night.tables(EXPIRE, 2)
    night.apply(EXPIRE, 2)
    states = {batch: {p.state for p in night.plans(EXPIRE, batch)} for batch in (1, 2, 3)}
    assert states == {
        1: {PlanState.PLANNED}, 2: {PlanState.APPLIED}, 3: {PlanState.PLANNED},
    }  # fmt: skip


def test_a_small_run_is_one_batch_and_a_run_with_nothing_to_do_none() -> None:
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one", BatchSettings())
    assert night.plan(EXPIRE) == [1]
    (batch,) = night.planned[EXPIRE].batches
    assert (batch.of, batch.plans) == (1, 5)
    assert batch.files == sum(plan.files for plan in night.plans(EXPIRE))
    night.go(EXPIRE)
    again = Night(lake, "two", BatchSettings())
    assert again.plan(EXPIRE) == [] == again.plan(PURGE)
    assert "batches" not in again.planned[EXPIRE].as_json()


def test_a_dry_run_shows_its_plans_and_leaves_no_batch() -> None:
    lake = a_lake()
    run = replace(lake.on(EXPIRE_DAY).request("one"), dry_run=True)
    night = Night(lake, "one")
    summary = run_step(step_of("plan_expiration"), night.services(), run)
    assert len(summary.plans) == 5
    assert summary.batches == ()
    assert {plan.note for plan in lake.control.plans.find()} == {PREVIEW}
    assert lake.control.plans.find(run_id="one") == []


@pytest.mark.parametrize("moves", [False, True], ids=["nothing moved", "a table moved"])
def test_planning_again_gives_the_same_batches(moves: bool) -> None:
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    night.plan(EXPIRE)
    before = {batch: night.tables(EXPIRE, batch) for batch in (1, 2, 3)}
    if moves:  # a tag takes a snapshot out of the plan: it is another plan now
        table = the_table(lake, "b")
        table.tag("keep", table.snapshots[0])
    assert night.plan(EXPIRE) == [1, 2, 3]
    assert {batch: night.tables(EXPIRE, batch) for batch in (1, 2, 3)} == before
    assert len(night.plans(EXPIRE)) == 5 + moves


def test_a_stale_plan_is_made_anew_in_its_batch_and_no_other_table_is_planned() -> None:
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    night.plan(EXPIRE)
    (stale,) = [plan for plan in night.plans(EXPIRE) if plan.table.name == "b"]
    others = [plan.id for plan in night.plans(EXPIRE) if plan.batch != stale.batch]
    night.gate(EXPIRE, stale.batch)
    for name in ("b", "orders"):  # of two batches
        table = the_table(lake, name)
        table.tag("keep", table.snapshots[0])
    assert night.apply(EXPIRE, stale.batch).exit_code == 0
    states = {p.state for p in night.plans(EXPIRE, stale.batch) if p.table.name == "b"}
    assert states == {PlanState.STALE, PlanState.APPLIED}
    assert [plan.id for plan in night.plans(EXPIRE) if plan.batch != stale.batch] == others


def gated(kind: PlanKind) -> tuple[Lake, Night]:
    """A night whose plans of a kind have all passed."""
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    if kind is PURGE:
        night.go(EXPIRE)
        night = Night(lake.on(PURGE_DAY), "two")
    for batch in night.plan(kind):
        night.gate(kind, batch)
    return lake, night


@pytest.mark.parametrize("kind", [EXPIRE, PURGE])
def test_an_app_that_was_killed_goes_on_with_its_own_batch_when_it_is_tried_again(
    kind: PlanKind,
) -> None:
    expected, killed = in_one_app(), 0
    for dies_at in range(1, 1000, 5):
        lake, night = gated(kind)
        try:
            night.apply(kind, 1, Process(dies_at=dies_at, after=bool(dies_at % 2)))
            break
        except Killed:
            killed += 1
        lake.let_leases_end()
        assert {p.state for p in night.plans(kind) if p.batch != 1} == {PlanState.PASSED}
        for batch in (3, 1, 2):
            assert night.apply(kind, batch).exit_code == 0
        assert {plan.state for plan in night.plans(kind)} == {PlanState.APPLIED}
        if kind is EXPIRE:
            Night(lake.on(PURGE_DAY), "two").go(PURGE)
        assert end_of(lake) == expected
    assert killed > 10


def begun_and_left(night: Night, name: str) -> Plan:
    """The purge of one table, as an app leaves it that dies right after its intent."""
    (plan,) = [plan for plan in night.plans(PURGE) if plan.table.name == name]
    return night.lake.control.plans.move(plan, PlanState.APPLYING)


def test_what_an_earlier_run_began_is_finished_by_one_batch() -> None:
    lake, earlier = gated(PURGE)
    begun = begun_and_left(earlier, "c")
    night = Night(lake, "three")
    batches = night.plan(PURGE)
    assert "c" not in {plan.table.name for plan in night.plans(PURGE)}
    assert [batch for batch in batches if begun.id in night.gate(PURGE, batch).plans] == [1]
    for batch in batches:
        assert night.apply(PURGE, batch).exit_code == 0
    assert lake.control.plans.get(begun.id).state is PlanState.APPLIED
    assert end_of(lake) == in_one_app()


def test_with_nothing_but_what_an_earlier_run_began_there_is_one_batch() -> None:
    lake, earlier = gated(PURGE)
    for batch in (1, 2, 3):
        for plan in earlier.plans(PURGE, batch):
            begun_and_left(earlier, plan.table.name)
    night = Night(lake, "three")
    assert night.plan(PURGE) == [1]
    assert night.planned[PURGE].batches[0].plans == 5
    night.gate(PURGE, 1)
    assert night.apply(PURGE, 1).exit_code == 0
    assert end_of(lake) == in_one_app()


def test_what_an_earlier_run_began_goes_with_its_own_groups_plans() -> None:
    lake, earlier = gated(PURGE)
    begun = begun_and_left(earlier, "c")
    for name in ("orders", "b", "c", "d"):
        the_table(lake, name).overwrite(f"{name}9")
    Night(lake.on(PURGE_DAY + 9), "three").go(EXPIRE)
    night = Night(lake.on(PURGE_DAY + 18), "four")
    batches = night.plan(PURGE)
    (own,) = [plan for plan in night.plans(PURGE) if plan.table.name == "c"]
    assert own.batch != 1
    work = {batch: night.gate(PURGE, batch).plans for batch in batches}
    assert [batch for batch in batches if begun.id in work[batch]] == [own.batch]


class Unaware:
    """Registrations of which is not known yet which share files."""

    def __init__(self, registrations: Any) -> None:
        self._registrations = registrations

    def sharing(self) -> Sequence[tuple[str, str]]:
        return ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registrations, name)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))), ids=str)
def test_even_where_tables_that_share_files_came_apart_no_needed_file_goes(
    order: tuple[int, ...],
) -> None:
    lake = a_lake()
    night = Night(lake.on(EXPIRE_DAY), "one")
    registrations = Unaware(lake.control.registrations)
    control = replace(lake.control, registrations=registrations)
    night.plan(EXPIRE, night.services(control=control))
    places = {plan.table.name: plan.batch for plan in night.plans(EXPIRE)}
    assert places["orders"] != places["copy"]
    for batch in order:  # the gate finds what the other table needs; it is planned without that
        assert night.gate(EXPIRE, batch).exit_code == 0
        assert night.apply(EXPIRE, batch).exit_code == 0
    states = {plan.state for plan in night.plans(EXPIRE, places["orders"])}
    owner_first = order.index(places["orders"]) < order.index(places["copy"])
    assert (PlanState.STALE in states) is owner_first
    for day in (PURGE_DAY, PURGE_DAY + 1, PURGE_DAY + 9):
        lake.on(day).run()
    assert end_of(lake) == in_one_app()


def the_table(lake: Lake, name: str) -> Table:
    return Table(lake, TableName.parse(f"lake.air.{name}"))
