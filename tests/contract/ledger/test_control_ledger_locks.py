"""Every control ledger: locks."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from multiprocessing import get_context
from threading import Barrier

import pytest

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import FixedClock
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    LockHeld,
    LockLost,
    PlanStale,
)
from meltline.ports import (
    Claim,
    ControlLedger,
    Lock,
)
from tests.contract.ledger.control_ledgers import (
    LEASE,
    NOW,
    SOON,
    SQL,
    OpenSql,
    Shop,
    a_lock,
    a_lost_lock,
    a_passed_plan,
    claim,
    finish,
    kinds,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]


def test_a_lock_that_is_held_names_its_holder(shop: Shop, ledger: ControlLedger) -> None:
    with (
        ledger.locks.take("group-1", "run-1 on host-a", wait=SOON, lease=LEASE),
        pytest.raises(LockHeld, match="run-1 on host-a") as refused,
        shop.handle().locks.take("group-1", "run-2", wait=SOON, lease=LEASE),
    ):
        pytest.fail("two holders of one lock")
    assert "since 20" in refused.value.found


def test_locks_of_two_keys_are_held_side_by_side(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        ledger.locks.check(a_lock(ledger, stack, "group-1"))
        ledger.locks.check(a_lock(ledger, stack, "group-2"))


def test_tokens_grow_and_are_never_used_again(shop: Shop, ledger: ControlLedger) -> None:
    tokens = []
    for handle in (ledger, shop.handle(), ledger):
        with handle.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


def test_a_lock_is_free_at_the_end_even_after_a_failure(ledger: ControlLedger) -> None:
    with pytest.raises(RuntimeError), ledger.locks.take("k", "a", wait=SOON, lease=LEASE) as first:
        raise RuntimeError
    with pytest.raises(LockLost):
        ledger.locks.check(first)
    with ledger.locks.take("k", "b", wait=SOON, lease=LEASE) as second:
        ledger.locks.check(second)


def test_a_lock_whose_lease_is_over_can_be_taken_over(shop: Shop, ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        shop.let_leases_end()
        with pytest.raises(LockLost):
            ledger.locks.check(dead)
        alive = a_lock(shop.handle(), stack, who="run-2")
        assert alive.token > dead.token
        ledger.locks.check(alive)
        with pytest.raises(LockLost) as refused:
            ledger.locks.check(dead)
        assert "run-2" in refused.value.found


def test_the_end_of_a_former_holder_does_not_free_its_successors_lock(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as successor:
        with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE):
            shop.let_leases_end()
            alive = a_lock(shop.handle(), successor, who="run-2")
        ledger.locks.check(alive)


def test_a_simulated_clock_ages_no_lease(shop: Shop, ledger: ControlLedger) -> None:
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        shop.clock.moment += timedelta(days=90)
        with pytest.raises(LockHeld), ledger.locks.take("group-1", "r", wait=SOON, lease=LEASE):
            pytest.fail("taken over")
        ledger.locks.check(lock)


def test_a_held_lock_outlives_its_lease(shop: Shop, ledger: ControlLedger) -> None:
    short = timedelta(seconds=1.5)
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=short) as lock:
        time.sleep(1.5 * short.total_seconds())
        shop.handle().locks.check(lock)


def test_a_lock_is_waited_for(shop: Shop, ledger: ControlLedger) -> None:
    with ThreadPoolExecutor(1) as pool:
        with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as first:
            waiting = pool.submit(_hold_once, shop.handle(), "run-2", timedelta(seconds=20))
            time.sleep(0.3)
            assert not waiting.done()
        assert waiting.result().token > first.token


def _hold_once(ledger: ControlLedger, holder: str, wait: timedelta) -> Lock:
    with ledger.locks.take("group-1", holder, wait=wait, lease=LEASE) as lock:
        return lock


def test_a_lock_that_was_taken_over_refuses_writes(shop: Shop, ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        claim(ledger, plan.id, 1, ["file:/a"], dead)
        shop.let_leases_end()
        a_lock(shop.handle(), stack, who="run-2")
        with pytest.raises(LockLost):
            ledger.plans.move(plan, PlanState.APPLYING, lock=dead)
        with pytest.raises(LockLost):
            claim(ledger, plan.id, 2, ["file:/b"], dead)
        with pytest.raises(LockLost):
            finish(ledger, plan.id, 1, dead)
    assert ledger.plans.get(plan.id) == plan
    assert ledger.claims.paths() == {"file:/a": plan.id}


def test_a_plan_moves_under_a_lock_that_is_held(ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        moved = ledger.plans.move(plan, PlanState.APPLYING, lock=lock)
    assert moved.state is PlanState.APPLYING


def test_of_many_threads_one_takes_the_lock_and_one_moves_the_plan(
    shop: Shop, ledger: ControlLedger
) -> None:
    # PX-9
    plan = a_passed_plan(ledger)
    racers = 4
    start = Barrier(racers)

    def race(handle: ControlLedger, who: str) -> tuple[bool, bool]:
        start.wait()
        locked = len(handle.locks.rows.take({"group-1": who}, LEASE)) == 1
        start.wait()
        return locked, _moves(handle, plan)

    with ThreadPoolExecutor(racers) as pool:
        runs: list[Future[tuple[bool, bool]]] = [
            pool.submit(race, shop.handle(), f"run-{n}") for n in range(racers)
        ]
        locked, moved = zip(*(run.result() for run in runs), strict=True)
    assert sum(locked) == 1
    assert sum(moved) == 1


def _moves(ledger: ControlLedger, plan: Plan) -> bool:
    try:
        ledger.plans.move(plan, PlanState.APPLYING)
    except PlanStale:
        return False
    return True


def _race_in_a_process(url: str, plan: Plan, start_at: float) -> tuple[int, int]:
    """Holds one lock again and again; returns how often, and how many plan moves it won."""
    ledger = sql_control_ledger(url, FixedClock(NOW))
    ledger.database.is_prepared()
    time.sleep(max(0.0, start_at - time.time()))
    won = int(_moves(ledger, plan))
    tokens = [_hold_once(ledger, "racer", timedelta(seconds=60)).token for _ in range(5)]
    ledger.database.close()
    return len(set(tokens)), won


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_of_two_processes_one_moves_the_plan_and_both_get_the_lock_in_turn(
    url: str, open_sql: OpenSql
) -> None:
    ledger = open_sql(url)
    ledger.database.prepare()
    plan = a_passed_plan(ledger)
    start_at = time.time() + 3
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(_race_in_a_process, url, plan, start_at) for _ in range(2)]
        held, won = zip(*(run.result(timeout=120) for run in runs), strict=True)
    assert held == (5, 5)
    assert sum(won) == 1
    with ledger.locks.take("group-1", "after", wait=SOON, lease=LEASE) as lock:
        assert lock.token == 11


def of_nobody(ledger: ControlLedger, *keys: str) -> bool:
    """Whether each of these locks is free."""
    return all(ledger.locks.rows.holding(key) is None for key in keys)


def test_of_several_locks_all_that_are_free_are_taken_and_freed_also_after_a_failure(
    shop: Shop, ledger: ControlLedger
) -> None:
    wanted = {f"group-{n}": f"run-1 plan {n}" for n in (3, 1, 2)}
    with ledger.locks.take("group-2", "run-2 on host-a", wait=SOON, lease=LEASE) as theirs:
        with (
            pytest.raises(RuntimeError),
            shop.handle().locks.take_all(wanted, wait=SOON, lease=LEASE) as held,
        ):
            first, refused, last = (held[key] for key in sorted(wanted))
            assert isinstance(refused, LockHeld) and "run-2 on host-a" in refused.found
            assert refused.object == "group-2" and len(held) == 3
            assert isinstance(first, Lock) and isinstance(last, Lock)
            assert [first.holder, last.holder] == ["run-1 plan 1", "run-1 plan 3"]
            known = [first, theirs, last]
            assert ledger.locks.lost(known) == {}
            raise RuntimeError
        assert set(ledger.locks.lost(known)) == {known[0], known[2]}
        assert of_nobody(ledger, "group-1", "group-3")
    with ledger.locks.take_all(wanted, wait=SOON, lease=LEASE) as again:
        assert kinds(again.values()) == [Lock] * 3
    assert of_nobody(ledger, *wanted)


def test_locks_are_taken_in_the_order_of_their_keys_up_to_the_first_that_is_not_free(
    ledger: ControlLedger,
) -> None:
    wanted = {f"group-{n}": f"run-{n}" for n in (3, 2, 1)}
    with ledger.locks.take("group-2", "run-9", wait=SOON, lease=LEASE):
        assert list(ledger.locks.rows.take(wanted, LEASE)) == [Lock("group-1", "run-1", 1)]
        assert of_nobody(ledger, "group-3") and not ledger.locks.rows.take(wanted, LEASE)


def test_many_locks_are_taken_used_and_freed_together(shop: Shop, ledger: ControlLedger) -> None:
    wanted = {f"group-{n:04}": f"run-1 plan {n}" for n in reversed(range(1200))}
    with ledger.locks.take_all(wanted, wait=SOON, lease=LEASE) as held:
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert {lock.key: lock.holder for lock in locks} == wanted
        assert ledger.locks.lost(locks) == {}
        claims = [Claim(lock.key, 1, lock, [f"file:/{lock.key}"]) for lock in locks]
        assert list(ledger.claims.take(claims)) == [True] * 1200
        assert list(ledger.claims.finish(claims)) == [None] * 1200
        shop.let_leases_end()
        assert set(ledger.locks.lost(locks)) == set(locks)
        assert kinds(ledger.claims.finish(claims)) == [LockLost] * 1200
    with shop.handle().locks.take_all(wanted, wait=SOON, lease=LEASE) as held:
        assert [one.token for one in held.values() if isinstance(one, Lock)] == [2] * 1200


def test_all_locks_that_are_held_together_outlive_their_lease(
    shop: Shop, ledger: ControlLedger
) -> None:
    short = timedelta(seconds=1.5)
    wanted = {f"group-{n}": "run-1" for n in range(3)}
    with ledger.locks.take_all(wanted, wait=SOON, lease=short) as held:
        time.sleep(1.5 * short.total_seconds())
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert len(locks) == 3 and shop.handle().locks.lost(locks) == {}
    assert of_nobody(ledger, *wanted)


def test_a_lock_in_the_middle_is_waited_for_and_no_later_one_is_held_meanwhile(
    shop: Shop, ledger: ControlLedger
) -> None:
    keys = [f"group-{n}" for n in (1, 2, 3)]
    with ThreadPoolExecutor(1) as pool:
        with ledger.locks.take("group-2", "run-2", wait=SOON, lease=LEASE) as theirs:
            wait = timedelta(seconds=20)
            waiting = pool.submit(_hold_all_once, shop.handle(), keys[::-1], "run-1", wait)
            _wait_until(lambda: ledger.locks.rows.holding("group-1") is not None)
            time.sleep(0.6)  # for some tries
            assert not waiting.done() and of_nobody(ledger, "group-3")
            with ledger.locks.take("group-3", "run-3", wait=SOON, lease=LEASE) as later:
                pass
            assert not waiting.done()
        first, second, third = waiting.result(timeout=30)
    assert [lock.key for lock in (first, second, third)] == keys
    assert second.token > theirs.token and third.token > later.token
    assert of_nobody(ledger, *keys)


def test_runs_that_want_the_same_locks_do_not_wait_for_each_other_in_a_ring(
    shop: Shop, ledger: ControlLedger
) -> None:
    keys = [f"group-{n:02}" for n in range(20)]
    start = Barrier(2, timeout=60)

    def race(handle: ControlLedger, order: Sequence[str], who: str) -> list[Lock]:
        start.wait()
        return _hold_all_once(handle, order, who, timedelta(seconds=5))

    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(race, shop.handle(), order, f"run-{n}")
            for n, order in enumerate([keys, keys[::-1]])
        ]
        one, other = (run.result(timeout=60) for run in runs)
    assert [lock.key for lock in one] == [lock.key for lock in other] == keys
    tokens = ([lock.token for lock in locks] for locks in (one, other))
    assert sorted(tokens) == [[1] * len(keys), [2] * len(keys)]


def _hold_all_once(
    ledger: ControlLedger, keys: Sequence[str], holder: str, wait: timedelta
) -> list[Lock]:
    with ledger.locks.take_all(dict.fromkeys(keys, holder), wait=wait, lease=LEASE) as held:
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert ledger.locks.lost(locks) == {}
        return sorted(locks, key=lambda lock: lock.key)


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_locks_that_are_lost_are_named_and_each_says_why(
    shop: Shop, ledger: ControlLedger
) -> None:
    ended = a_lost_lock(ledger, "group-1")
    with ExitStack() as stack:
        dead, over = (a_lock(ledger, stack, f"group-{n}") for n in (2, 3))
        shop.let_leases_end()
        alive = a_lock(ledger, stack, "group-2", "run-2")
        never = Lock("group-9", "run-1", 1)
        lost = shop.handle().locks.lost([alive, ended, dead, over, never])
        assert lost.keys() == {ended, dead, over, never}
        assert kinds(lost.values()) == [LockLost] * 4
        for lock, error in lost.items():
            with pytest.raises(LockLost) as refused:
                ledger.locks.check(lock)
            assert (refused.value.object, refused.value.found) == (error.object, error.found)
        assert lost[ended].found == lost[never].found == "free"
        assert "run-2" in lost[dead].found
