"""Each guard alone: what it stops must not rest on the next one behind it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import PlannedFiles, plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.services import RunContext
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    CatalogUnlistable,
    GateNotPassed,
    HoldInForce,
    LockLost,
    MeltlineError,
    PlanAltered,
    PlanNotFound,
    Stopped,
)
from meltline.domain.iceberg.names import TableName
from meltline.ports import Claim, DeleteOutcome, Lock, PlanTransition, StopSwitch
from tests.lake.lake import ROOMY, Lake, Table

FOREIGN = "file:///elsewhere/f.parquet"


def planned(lake: Lake) -> list[PlannedFiles]:
    """Expiration plans as the planner alone makes them: no gate has looked at them."""
    services, request = lake.services(), lake.request()
    return plan_expiration(services, observe(services), run_id=request.run_id, as_of=request.as_of)


def paths(plans: Sequence[PlannedFiles]) -> set[str]:
    return {file.path for one in plans for file in one.files}


SLOW = replace(ROOMY, delete_keys_per_second=1)  # sixty files may go by one proof


def two_tables_in_failsafe(
    limits: Limits = ROOMY, files: int = 1
) -> tuple[Lake, list[Table], list[Plan]]:
    """Each with an expired past that is due on day 20, and the purges planned and gated."""
    lake = Lake(limits=limits)
    tables = [lake.on(0).table(name) for name in ("one", "two")]
    for day in range(3):
        lake.on(day)
        for table in tables:
            table.overwrite(f"f{day}", *(f"f{day}-{number}" for number in range(1, files)))
    lake.on(12).run()
    lake.on(20)
    made = Run(lake.services(), lake.request()).plan_purge()
    return lake, tables, [plan for plan, _ in run_gate(lake.services(), [p.plan for p in made])]


# --- the planner ---------------------------------------------------------------------------------


def test_the_planner_itself_leaves_what_a_second_registration_has_that_is_not_planned() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    services, request = lake.on(12).services(), lake.request()
    seen = observe(services)
    (first,) = seen.tables
    second = replace(first, state=replace(first.state, name=TableName("lake", ("air",), "again")))
    for tables, departs in (((first,), True), ((first, second), False)):
        plans = plan_expiration(
            services,
            replace(seen, tables=tables),
            run_id=request.run_id,
            as_of=request.as_of,
            tables=(str(table.name),),
        )
        assert [plan.plan.table for plan in plans] == [table.name]
        assert (table.data("f0") in paths(plans)) is departs


def test_the_planner_itself_leaves_what_a_clone_still_needs() -> None:
    lake = Lake()
    source = lake.on(0).table("source")
    source.overwrite("shared")
    lake.clone(source, "lake.air.copy")
    lake.on(1)
    source.overwrite("own")
    lake.on(2)
    source.overwrite("now")
    lake.on(20)
    found = paths(planned(lake))
    assert source.data("own") in found  # it does plan
    assert source.data("shared") not in found


def test_the_planner_itself_leaves_files_of_tables_that_it_may_not_manage() -> None:
    lake = Lake(other_catalogs=("theirs",))
    theirs = lake.on(0).table("theirs.sea.t")
    theirs.append("x")
    ours = lake.table("ours")
    borrowed = theirs.data("borrowed")
    ours.append("a", FOREIGN, borrowed)
    lake.on(1)
    ours.overwrite("b")
    lake.on(20)
    found = paths(planned(lake))
    assert ours.data("a") in found
    assert borrowed not in found


def test_a_foreign_file_departs_and_no_purge_plans_it() -> None:
    lake = Lake()
    ours = lake.on(0).table("ours")
    ours.append("a", FOREIGN)
    lake.on(1)
    ours.overwrite("b")
    for day in (20, 30, 40):
        lake.on(day).run()
    assert lake.store.size(ours.data("a")) is None
    assert lake.waiting().keys() == {FOREIGN} and lake.store.size(FOREIGN) is not None


# --- the purge -----------------------------------------------------------------------------------


def test_a_purge_whose_gate_has_ended_does_not_even_begin() -> None:
    lake, _, plans = two_tables_in_failsafe()
    lake.clock.moment += timedelta(hours=6)
    for done in apply_purges(lake.services(), plans):
        assert isinstance(done.error, GateNotPassed)
        assert lake.control.plans.get(done.plan.id).state is PlanState.PASSED
    assert lake.deleter.deleted == []


def test_a_purge_whose_items_were_edited_deletes_nothing() -> None:
    lake, tables, plans = two_tables_in_failsafe()
    spared = next(iter(sorted(lake.waiting())))
    for plan in plans:
        lake.file_tables.edit_items(plan.id, lambda files: [f for f in files if f.path != spared])
    edited = [plan for plan in plans if plan.table == tables[0].name]
    (done,) = apply_purges(lake.services(), edited)
    assert isinstance(done.error, PlanAltered) and lake.deleter.deleted == []


def test_a_purge_whose_items_were_lost_is_refused_and_not_called_done() -> None:
    lake, _, plans = two_tables_in_failsafe()
    for plan in plans:
        lake.file_tables.edit_items(plan.id, lambda _: [])
    for done in apply_purges(lake.services(), plans):
        assert isinstance(done.error, PlanAltered)
    assert lake.deleter.deleted == []


@pytest.mark.parametrize("state", [PlanState.PASSED, PlanState.APPLYING])
def test_a_plan_that_the_ledger_does_not_know_is_not_carried_out(state: PlanState) -> None:
    lake, tables, plans = two_tables_in_failsafe()
    foreign = [replace(plan, id=f"{plan.id}-copy", state=state) for plan in plans]
    before = [len(table.snapshots) for table in tables]
    for apply in (apply_purges, apply_expirations):
        with pytest.raises(PlanNotFound):
            apply(lake.services(), foreign)
    assert lake.deleter.deleted == []
    assert [len(table.snapshots) for table in tables] == before


class Interrupting:
    """A deleter during whose first batch something happens."""

    def __init__(self, lake: Lake, happens: Callable[[], object]) -> None:
        self._lake, self._happens, self.calls = lake, happens, 0

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        self.calls += 1
        if self.calls == 1:
            self._happens()
        return self._lake.deleter.delete(files, keys_per_second)


def test_what_is_needed_again_while_a_purge_runs_is_not_in_its_next_batch() -> None:
    lake, tables, plans = two_tables_in_failsafe(SLOW, files=40)
    by_turn = sorted(plans, key=lambda plan: plan.table_uuid)
    last = next(table for table in tables if table.name == by_turn[-1].table)
    old = last.document["metadata-log"][0 - 1]["metadata-file"]
    deleter = Interrupting(lake, lambda: lake.register("lake.air.again", old))
    apply_purges(lake.services(deleter=deleter), plans)
    assert lake.deleter.deleted  # the first table's files went
    lake.check_nothing_is_missing()
    assert last.data("f0") in lake.paths()


class Claiming:
    """Claims: something happens just before the last of some claims is made, or after."""

    def __init__(
        self, lake: Lake, claims: int, happens: Callable[..., object], *, after: bool = False
    ) -> None:
        self._lake, self._left, self._happens, self._after = lake, claims, happens, after

    def take(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        before, self._left = self._left, self._left - len(claims)
        is_time = self._left <= 0 < before
        if is_time and not self._after:
            self._happens()
        answers = self._lake.control.claims.take(claims)
        if is_time and self._after:
            self._happens([claim.lock for claim in claims])
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake.control.claims, name)


def with_parts(lake: Lake, **parts: Any) -> RunContext:
    """Services in whose control ledger some parts are others."""
    return lake.services(control=replace(lake.control, **parts))


def test_small_purges_of_many_tables_are_proved_and_deleted_together() -> None:
    lake, tables, plans = two_tables_in_failsafe()
    deleter = Interrupting(lake, lambda: None)
    done = apply_purges(lake.services(deleter=deleter), plans)
    assert deleter.calls == 1
    assert all(one.plan.state is PlanState.APPLIED and one.files_purged for one in done)
    assert {path.split("/")[5] for path in lake.deleter.deleted} == {t.name.name for t in tables}
    lake.check_nothing_is_missing()


def test_what_stops_one_table_of_a_wave_leaves_the_others_and_drops_its_claim() -> None:
    lake, (one, two), plans = two_tables_in_failsafe()
    held = lambda: two.configure(**{"meltline.hold": "stop"})  # noqa: E731
    outcome = {
        done.plan.table: done
        for done in apply_purges(with_parts(lake, claims=Claiming(lake, 2, held)), plans)
    }
    assert outcome[one.name].plan.state is PlanState.APPLIED
    assert isinstance(outcome[two.name].error, HoldInForce)
    assert all("/one/" in path for path in lake.deleter.deleted)
    assert lake.control.claims.paths() == {}


def test_a_lock_that_is_lost_after_the_claim_spares_its_tables_files_and_no_others() -> None:
    lake, (one, two), plans = two_tables_in_failsafe()

    def lose(held: Sequence[Lock]) -> None:
        lake.control.locks.rows.release([lock for lock in held if lock.key == two.uuid])

    services = with_parts(lake, claims=Claiming(lake, 2, lose, after=True))
    outcome = {d.plan.table: d for d in apply_purges(services, plans)}
    assert outcome[one.name].plan.state is PlanState.APPLIED
    assert isinstance(outcome[two.name].error, LockLost)
    assert lake.deleter.deleted and all("/one/" in path for path in lake.deleter.deleted)


def test_a_gate_that_is_run_again_and_refuses_holds_a_purge_that_has_begun() -> None:
    lake, _, plans = two_tables_in_failsafe()

    def refuse() -> None:
        verdicts = lake.control.verdicts.newest([plan.id for plan in plans])
        again = [replace(verdict, error="a second look") for verdict in verdicts.values()]
        lake.control.verdicts.save(again)

    outcome = apply_purges(with_parts(lake, plans=AtTheIntent(lake, refuse)), plans)
    assert all(isinstance(done.error, GateNotPassed) for done in outcome)
    assert lake.deleter.deleted == [] and lake.control.claims.paths() == {}


def test_what_stops_a_whole_wave_is_said_of_each_table_and_drops_every_claim() -> None:
    lake, tables, plans = two_tables_in_failsafe()
    unlisted = Claiming(lake, 2, lambda: setattr(lake.catalogs["lake"], "unlistable", "no answer"))
    done = apply_purges(with_parts(lake, claims=unlisted), plans)
    assert [type(one.error) for one in done] == [CatalogUnlistable] * len(tables)
    assert lake.deleter.deleted == [] and lake.control.claims.paths() == {}


def test_a_file_that_cannot_be_deleted_fails_its_own_plan_alone() -> None:
    lake, (one, two), plans = two_tables_in_failsafe()

    class Refusing:
        def delete(self, files: Sequence[DepartedObject], rate: int) -> Sequence[DeleteOutcome]:
            theirs = [file for file in files if "/two/" in file.path]
            mine = lake.deleter.delete([file for file in files if file not in theirs], rate)
            return [*mine, *(DeleteOutcome(file.path, "denied") for file in theirs)]

    outcome = {d.plan.table: d for d in apply_purges(lake.services(deleter=Refusing()), plans)}
    assert outcome[one.name].plan.state is PlanState.APPLIED
    assert outcome[two.name].plan.state is PlanState.FAILED
    assert outcome[two.name].failed and not outcome[two.name].files_purged
    assert lake.control.claims.paths() == {}


# --- the stop ------------------------------------------------------------------------------------


class AtTheIntent:
    """Plans: something happens just as they have begun."""

    def __init__(self, lake: Lake, happens: Callable[[], object]) -> None:
        self._lake, self._happens = lake, happens

    def move_all(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        moved = self._lake.control.plans.move_all(moves)
        if any(isinstance(one, Plan) and one.state is PlanState.APPLYING for one in moved):
            self._happens()
        return moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake.control.plans, name)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_stop_that_comes_between_the_intent_and_the_commit_holds_the_commit(
    goes_on: bool,
) -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    plans = [p for p, _ in run_gate(lake.services(), [one.plan for one in planned(lake)])]
    switch = StopSwitch("eva", "an audit", lake.clock.moment)
    stop = AtTheIntent(lake, lambda: lake.control.switch.set(switch))
    services = with_parts(lake, plans=stop)
    (done,) = apply_expirations(services, plans)
    assert isinstance(done.error, Stopped) and len(table.snapshots) == 3
    if goes_on:
        lake.control.switch.set(None)
        assert lake.run().exit_code == 0 and len(table.snapshots) == 1
