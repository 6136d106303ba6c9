"""Every control ledger: plans, and the verdicts on them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import create_engine, text

from meltline.domain.clock import FixedClock
from meltline.domain.deletion.gate import FailedExpectation, HeldExpectation
from meltline.domain.deletion.plan import TRANSITIONS, Plan, PlanKind, PlanState
from meltline.domain.errors import (
    LockHeld,
    LockLost,
    MeltlineError,
    PlanNotFound,
    PlanStale,
)
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    Approval,
    Claim,
    ControlLedger,
    Lock,
    PlanTransition,
    Rejection,
)
from tests.contract.ledger.control_ledgers import (
    HUGE,
    LEASE,
    MANY,
    NOW,
    ODD_NAMES,
    SOON,
    SQL,
    OpenSql,
    Shop,
    a_lock,
    a_lost_lock,
    a_passed_plan,
    a_plan,
    a_result,
    a_url,
    add_plan,
    gate_result,
    kinds,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)
from tests.doubles.control.ledger import memory_control_ledger

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_plan_comes_back_as_it_was_stored(ledger: ControlLedger, name: str) -> None:
    plan = a_plan(
        kind=PlanKind.PURGE,
        table=TableName.parse(name),
        snapshots=(-HUGE - 1, HUGE),
        refs=("it's", "ж"),
        gone_snapshots=(7,),
        heads={"main": HUGE, "b": 2},
        window_start=NOW - timedelta(days=7),
        files=3,
        bytes=HUGE,
        note="why",
        batch=3,
    )
    assert add_plan(ledger, plan) == plan
    assert ledger.plans.get(plan.id) == plan


def test_a_plan_stored_twice_keeps_the_first(ledger: ControlLedger) -> None:
    first = a_plan(bytes=1)
    add_plan(ledger, first)
    assert add_plan(ledger, replace(first, bytes=2, state=PlanState.PASSED)) == first
    assert list(ledger.plans.find()) == [first]


def test_a_plan_is_found_by_a_prefix_that_no_other_plan_shares(ledger: ControlLedger) -> None:
    one, other = add_plan(ledger, a_plan(id="ab12")), add_plan(ledger, a_plan(id="ab34"))
    assert ledger.plans.get("ab1") == one
    assert ledger.plans.get("ab34") == other
    with pytest.raises(PlanNotFound, match="start of several") as refused:
        ledger.plans.get("ab")
    assert refused.value.found == "several plans: ab12, ab34"


def test_a_whole_id_is_found_even_where_it_begins_another(ledger: ControlLedger) -> None:
    short = add_plan(ledger, a_plan(id="ab"))
    add_plan(ledger, a_plan(id="ab34"))
    assert ledger.plans.get("ab") == short


@pytest.mark.parametrize("asked", ["last", "", "%", "_", "AB", "ab12x"])
def test_a_plan_that_is_not_there_is_named(ledger: ControlLedger, asked: str) -> None:
    if asked != "last":
        add_plan(ledger, a_plan(id="ab12"))
    with pytest.raises(PlanNotFound) as refused:
        ledger.plans.get(asked)
    assert refused.value.object == asked


def test_the_last_plan_is_the_newest_and_among_equals_the_one_stored_later(
    ledger: ControlLedger,
) -> None:
    add_plan(ledger, a_plan(id="late", created_at=NOW))
    add_plan(ledger, a_plan(id="early", created_at=NOW - timedelta(days=1)))
    assert ledger.plans.get("last").id == "late"
    add_plan(ledger, a_plan(id="later", created_at=NOW))
    assert ledger.plans.get("last").id == "later"
    assert [plan.id for plan in ledger.plans.find()] == ["later", "late", "early"]


def test_plans_are_filtered_by_run_state_and_table(ledger: ControlLedger) -> None:
    add_plan(ledger, a_plan(id="a", run_id="r1"))
    add_plan(ledger, a_plan(id="b", run_id="r2", table_uuid="u-2"))
    add_plan(ledger, a_plan(id="c", run_id="r2"))
    ledger.plans.move(ledger.plans.get("c"), PlanState.REFUSED)
    found = {
        "run": ledger.plans.find(run_id="r2"),
        "table": ledger.plans.find(table_uuid="u-1"),
        "state": ledger.plans.find(states=iter([PlanState.PLANNED, PlanState.STALE])),
        "all": ledger.plans.find(run_id="r2", table_uuid="u-1", states=[PlanState.REFUSED]),
        "limit": ledger.plans.find(limit=2),
        "since": ledger.plans.find(since=NOW),
        "until": ledger.plans.find(until=NOW),
    }
    assert {what: [plan.id for plan in plans] for what, plans in found.items()} == {
        "run": ["c", "b"],
        "table": ["c", "a"],
        "state": ["b", "a"],
        "all": ["c"],
        "limit": ["c", "b"],
        "since": ["c", "b", "a"],
        "until": [],
    }


def test_a_plan_is_held_against_the_sizes_of_its_tables_last_ones(ledger: ControlLedger) -> None:
    of_kind = {"kind": PlanKind.EXPIRE, "state": PlanState.APPLIED}
    for number, changes in enumerate(
        [
            {"bytes": 1},
            {"bytes": 2},
            {"bytes": 3, "table_uuid": "u-2"},
            {"bytes": 4, "kind": PlanKind.PURGE},
            {"bytes": 5, "state": PlanState.STALE},
            {"bytes": 0},
            {"bytes": 6},
        ]
    ):
        at = NOW + timedelta(minutes=number)
        add_plan(ledger, a_plan(**{**of_kind, "created_at": at, **changes}))
    plan = add_plan(ledger, a_plan(**of_kind, bytes=7, created_at=NOW + timedelta(hours=1)))
    assert [*ledger.plans.sizes_before(plan, 10)] == [6, 2, 1]
    assert [*ledger.plans.sizes_before(plan, 2)] == [6, 2]


def test_a_move_keeps_the_base_and_replaces_the_note(ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    applying = ledger.plans.move(plan, PlanState.APPLYING, committed_base="v7", note="intent")
    assert (applying.state, applying.committed_base) == (PlanState.APPLYING, "v7")
    applied = ledger.plans.move(applying, PlanState.APPLIED)
    assert applied == replace(plan, state=PlanState.APPLIED, committed_base="v7", note="")
    assert ledger.plans.get(plan.id) == applied


@pytest.mark.parametrize(
    ("start", "to"),
    [(start, to) for start in PlanState for to in PlanState if to not in TRANSITIONS[start]],
)
def test_a_plan_cannot_make_a_move_that_does_not_exist(start: PlanState, to: PlanState) -> None:
    ledger = memory_control_ledger(FixedClock(NOW))
    ledger.database.prepare()
    _refuses_move(ledger, start, to)


@pytest.mark.parametrize(
    ("start", "to"),
    [(PlanState.PLANNED, PlanState.APPLYING), (PlanState.APPLIED, PlanState.PLANNED)],
)
def test_no_ledger_makes_a_move_that_does_not_exist(
    ledger: ControlLedger, start: PlanState, to: PlanState
) -> None:
    _refuses_move(ledger, start, to)


def _refuses_move(ledger: ControlLedger, start: PlanState, to: PlanState) -> None:
    plan = add_plan(ledger, a_plan(state=start))
    with pytest.raises(PlanStale):
        ledger.plans.move(plan, to)
    assert ledger.plans.get(plan.id).state is start


def test_a_plan_that_another_run_moved_stays_where_it_is(ledger: ControlLedger) -> None:
    seen = a_passed_plan(ledger)
    ledger.plans.move(seen, PlanState.STALE, note="head moved")
    with pytest.raises(PlanStale) as refused:
        ledger.plans.move(seen, PlanState.APPLYING)
    assert refused.value.found == "stale"
    assert ledger.plans.get(seen.id).note == "head moved"


def test_a_plan_that_was_never_stored_cannot_move(ledger: ControlLedger) -> None:
    with pytest.raises(PlanNotFound):
        ledger.plans.move(a_plan(), PlanState.PASSED)


def test_the_gate_result_stored_last_is_the_one_that_counts(ledger: ControlLedger) -> None:
    failed = a_result(
        failed=(FailedExpectation("no head in plan", "it's", "ж 3"),),
        error="x",
        docs="d",
        held=(HeldExpectation("unreadable is 0", "0"), HeldExpectation("ж is true", "true")),
    )
    assert gate_result(ledger, "e1") is None
    ledger.verdicts.save([a_result()])
    ledger.verdicts.save([a_result("e2")])
    ledger.verdicts.save([failed])
    assert gate_result(ledger, "e1") == failed
    assert gate_result(ledger, "e2") == a_result("e2")


def test_a_refused_plan_that_a_later_run_plans_again_is_that_runs_and_is_counted(
    ledger: ControlLedger,
) -> None:
    refused = ledger.plans.move(add_plan(ledger, a_plan()), PlanState.REFUSED, note="why")
    later = replace(
        a_plan(run_id="run-2", as_of=NOW, created_at=NOW + timedelta(days=1), batch=3, files=2),
        id=refused.id,
    )
    ledger.plans.repeat([later])
    assert ledger.plans.get(refused.id) == replace(later, repeats=1)
    assert not ledger.plans.find(run_id="run-1") and len(ledger.plans.find()) == 1
    ledger.plans.repeat([replace(later, run_id="run-3")])  # nobody has refused it since
    assert ledger.plans.get(refused.id).run_id == "run-2"
    ledger.plans.move(ledger.plans.get(refused.id), PlanState.REFUSED)
    ledger.plans.repeat([replace(later, run_id="run-3", digest="sha256:bb")])
    ledger.plans.repeat([replace(later, id="never")])
    assert ledger.plans.get(refused.id).run_id == "run-2"
    ledger.plans.repeat([replace(later, run_id="run-3")])
    assert (ledger.plans.get(refused.id).run_id, ledger.plans.get(refused.id).repeats) == (
        "run-3",
        2,
    )


@pytest.mark.parametrize("kind", SQL)
def test_refusals_of_one_plan_take_one_row_and_a_pass_between_them_stays(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, open_sql: OpenSql
) -> None:
    url = a_url(kind, request, tmp_path)
    ledger = open_sql(url)
    ledger.database.prepare()
    refused = a_result(failed=(FailedExpectation("unreadable is 0", "x", "1"),))
    for verdict in (refused, refused, a_result(), refused, refused, replace(refused, docs="last")):
        ledger.verdicts.save([verdict, replace(verdict, plan_id="e2")])
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        query = text("SELECT plan_id, failed, docs FROM gate_results ORDER BY plan_id, seq")
        rows = [(row[0], "unreadable" in row[1], row[2]) for row in connection.execute(query)]
    engine.dispose()
    assert rows == [
        (plan, is_refusal, docs)
        for plan in ("e1", "e2")
        for is_refusal, docs in ((True, ""), (False, ""), (True, "last"))
    ]


def test_an_approval_holds_for_one_digest(ledger: ControlLedger) -> None:
    approval = Approval("e1", "sha256:aa", "ann", "known\x00", NOW)
    ledger.verdicts.approve(replace(approval, reason="first"))
    ledger.verdicts.approve(replace(approval, reason="second"))
    assert ledger.verdicts.approval("e1", "sha256:aa") == replace(approval, reason="second")
    assert ledger.verdicts.approval("e1", "sha256:bb") is None
    assert ledger.verdicts.approval("e2", "sha256:aa") is None


def test_a_rejection_holds_for_a_digest_whichever_plan_has_it(ledger: ControlLedger) -> None:
    rejection = Rejection("e1", "sha256:aa", "ann", "not yet", NOW)
    ledger.verdicts.reject(replace(rejection, reason="first"))
    ledger.verdicts.reject(rejection)
    ledger.verdicts.reject(replace(rejection, digest="sha256:cc"))
    assert ledger.verdicts.rejections(["sha256:aa", "sha256:bb"]) == {"sha256:aa": rejection}
    assert ledger.verdicts.approval("e1", "sha256:aa") is None


def test_of_several_moves_those_that_may_are_made_and_each_other_has_its_own_error(
    ledger: ControlLedger,
) -> None:
    free, late, unheld, wild, held = plans = ledger.plans.add([a_plan() for _ in range(5)])
    never, lost = a_plan(), a_lost_lock(ledger, "group-1")
    ledger.plans.move(late, PlanState.STALE, note="head moved")
    with ExitStack() as stack:
        alive = a_lock(ledger, stack, "group-2")
        answers = ledger.plans.move_all(
            [
                PlanTransition(free, PlanState.PASSED),
                PlanTransition(late, PlanState.PASSED),
                PlanTransition(never, PlanState.PASSED),
                PlanTransition(unheld, PlanState.PASSED, lost),
                PlanTransition(wild, PlanState.APPLIED, alive),
                PlanTransition(held, PlanState.PASSED, alive),
            ]
        )
    assert kinds(answers) == [Plan, PlanStale, PlanNotFound, LockLost, PlanStale, Plan]
    assert [one.object for one in answers if isinstance(one, MeltlineError)] == [
        late.id, never.id, "group-1", wild.id
    ]  # fmt: skip
    passed = [replace(plan, state=PlanState.PASSED) for plan in (free, held)]
    assert [answers[0], answers[-1]] == passed
    now = ledger.plans.current([plan.id for plan in plans])
    assert [now[plan.id] for plan in plans] == [
        passed[0], replace(late, state=PlanState.STALE, note="head moved"), unheld, wild, passed[1]
    ]  # fmt: skip


def test_one_that_moves_many_plans_is_refused_each_that_another_run_moved(
    shop: Shop, ledger: ControlLedger
) -> None:
    mine, theirs = (a_passed_plan(ledger) for _ in range(2))
    assert kinds(shop.handle().plans.move_all([PlanTransition(theirs, PlanState.APPLYING)])) == [
        Plan
    ]
    moves = [PlanTransition(plan, PlanState.APPLYING) for plan in (theirs, mine)]
    refused, moved = ledger.plans.move_all(moves)
    assert isinstance(refused, PlanStale) and refused.found == "applying"
    assert moved == replace(mine, state=PlanState.APPLYING)


def test_each_move_has_a_note_and_a_base_of_its_own(ledger: ControlLedger) -> None:
    one, other, third = (a_passed_plan(ledger) for _ in range(3))
    begun = ledger.plans.move_all(
        [
            PlanTransition(one, PlanState.APPLYING, note="it's", committed_base="v7"),
            PlanTransition(other, PlanState.APPLYING, committed_base="v8"),
            PlanTransition(third, PlanState.STALE, note="ж"),
        ]
    )
    assert list(begun) == [
        replace(one, state=PlanState.APPLYING, note="it's", committed_base="v7"),
        replace(other, state=PlanState.APPLYING, committed_base="v8"),
        replace(third, state=PlanState.STALE, note="ж"),
    ]
    one, other = (ledger.plans.get(plan.id) for plan in (one, other))
    ended = ledger.plans.move_all(
        [
            PlanTransition(one, PlanState.APPLIED),
            PlanTransition(other, PlanState.FAILED, note="two", committed_base="v9"),
        ]
    )
    assert list(ended) == [
        replace(one, state=PlanState.APPLIED, note="", committed_base="v7"),
        replace(other, state=PlanState.FAILED, note="two", committed_base="v9"),
    ]
    now = ledger.plans.current([one.id, other.id, third.id])
    assert [now[plan.id] for plan in (one, other, third)] == [*ended, begun[2]]


def test_answers_about_nothing_are_nothing(ledger: ControlLedger) -> None:
    add_plan(ledger, a_plan())
    ledger.verdicts.save([a_result()])
    ledger.verdicts.save([])
    ledger.claims.drop([])
    for answers in (
        ledger.plans.add([]),
        ledger.plans.move_all([]),
        ledger.claims.take([]),
        ledger.claims.finish([]),
    ):
        assert list(answers) == []
    assert ledger.plans.current([]) == {} and ledger.verdicts.newest([]) == {}
    assert ledger.locks.lost([]) == {}
    with ledger.locks.take_all({}, wait=SOON, lease=LEASE) as held:
        assert held == {}


@pytest.mark.parametrize("unknown", ["never", "e"])  # and no id is taken for the start of one
def test_plans_of_which_one_was_never_stored_are_not_told(
    ledger: ControlLedger, unknown: str
) -> None:
    plan = add_plan(ledger, a_plan())
    with pytest.raises(PlanNotFound) as refused:
        ledger.plans.current([plan.id, unknown])
    assert refused.value.object == unknown


def test_of_several_plans_those_that_are_there_already_stay_as_they_were(
    ledger: ControlLedger,
) -> None:
    first = add_plan(ledger, a_plan(bytes=1))
    new, other = a_plan(), a_plan()
    again = replace(first, bytes=2, state=PlanState.PASSED)
    assert list(ledger.plans.add([new, again, other])) == [new, first, other]
    assert list(ledger.plans.find()) == [other, new, first]
    assert ledger.plans.current([first.id, new.id]) == {first.id: first, new.id: new}


def test_many_plans_are_added_judged_moved_claimed_and_finished_in_single_calls(
    ledger: ControlLedger,
) -> None:
    plans = [a_plan() for _ in range(MANY)]
    ids = [plan.id for plan in plans]
    assert list(ledger.plans.add(plans)) == plans
    assert ledger.plans.current(ids) == dict(zip(ids, plans, strict=True))
    results = {id: a_result(id) for id in ids}
    ledger.verdicts.save(list(results.values()))
    assert ledger.verdicts.newest([*ids, "never"]) == results
    moved = ledger.plans.move_all([PlanTransition(plan, PlanState.PASSED) for plan in plans])
    assert list(moved) == [replace(plan, state=PlanState.PASSED) for plan in plans]
    paths = {path: id for id in ids for path in (f"file:/{id}/a", f"file:/{id}/it's")}
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claims = [Claim(id, 1, lock, [f"file:/{id}/a", f"file:/{id}/it's"]) for id in ids]
        assert list(ledger.claims.take(claims)) == [True] * MANY
        assert ledger.claims.paths() == paths
        ledger.claims.drop(claims)
        assert not ledger.claims.paths()
        assert list(ledger.claims.take(claims)) == [True] * MANY
        assert ledger.claims.paths() == paths
        assert list(ledger.claims.finish(claims)) == [None] * MANY
        assert not ledger.claims.paths()
        assert list(ledger.claims.take(claims)) == [False] * MANY


def test_the_newest_gate_result_of_each_plan_is_told_and_nothing_of_others(
    ledger: ControlLedger,
) -> None:
    first, second = a_result("e1"), a_result("e1", suite="second")
    third = a_result("e2", suite="third", failed=(FailedExpectation("one", "it's", "ж 3"),))
    ledger.verdicts.save([first, a_result("e3"), a_result("e2")])
    ledger.verdicts.save([third, first, second])
    assert ledger.verdicts.newest(["e2", "e1", "e9"]) == {"e1": second, "e2": third}


def test_of_two_runs_with_the_same_plans_in_other_orders_one_gets_each(
    shop: Shop, ledger: ControlLedger
) -> None:
    plans = list(ledger.plans.add([a_plan(state=PlanState.PASSED) for _ in range(300)]))
    start = Barrier(2, timeout=60)

    def race(handle: ControlLedger, order: Sequence[Plan], lock: Lock) -> tuple[set[str], set[str]]:
        start.wait()
        moved = handle.plans.move_all(
            [PlanTransition(plan, PlanState.APPLYING, lock) for plan in order]
        )
        start.wait()
        claims = [Claim(plan.id, 1, lock, [f"file:/{plan.id}"]) for plan in order]
        claimed = handle.claims.take(claims)
        assert set(kinds(moved)) <= {Plan, PlanStale} and set(kinds(claimed)) <= {bool, LockHeld}
        return (
            {plan.id for plan, answer in zip(order, moved, strict=True) if type(answer) is Plan},
            {plan.id for plan, answer in zip(order, claimed, strict=True) if answer is True},
        )

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        locks = [a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in range(2)]
        runs = [
            pool.submit(race, shop.handle(), order, lock)
            for order, lock in zip([plans, plans[::-1]], locks, strict=True)
        ]
        (moved, claimed), (moved_too, claimed_too) = (run.result(timeout=60) for run in runs)
    everything = {plan.id for plan in plans}
    assert moved | moved_too == everything and not moved & moved_too
    assert claimed | claimed_too == everything and not claimed & claimed_too
    assert ledger.claims.paths() == {f"file:/{id}": id for id in everything}
