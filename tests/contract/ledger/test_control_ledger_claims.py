"""Every control ledger: claims on purge batches."""

from contextlib import ExitStack

import pytest

from meltline.domain.errors import (
    LockHeld,
    LockLost,
)
from meltline.ports import (
    Claim,
    ControlLedger,
)
from tests.contract.ledger.control_ledgers import (
    Shop,
    a_lock,
    a_lost_lock,
    claim,
    drop,
    finish,
    kinds,
    ledger,
    postgres_server,
    shop,
)

__all__ = ["ledger", "postgres_server", "shop"]


def test_claimed_paths_are_known_until_the_batch_is_finished(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        assert claim(ledger, "e1", 1, ["file:/a", "file:/it's", "file:/a"], lock)
        assert claim(ledger, "e1", 2, ["file:/b"], lock)
        finish(ledger, "e1", 1, lock)
        assert ledger.claims.paths() == {"file:/b": "e1"}
        finish(ledger, "e1", 1, lock)
        assert not claim(ledger, "e1", 1, ["file:/a"], lock)
        assert ledger.claims.paths() == {"file:/b": "e1"}


def test_a_dropped_claim_can_be_made_again(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claim(ledger, "e1", 1, ["file:/a"], lock)
        drop(ledger, "e1", 1, lock)
        assert not ledger.claims.paths()
        with pytest.raises(LockLost):
            finish(ledger, "e1", 1, lock)
        assert claim(ledger, "e1", 1, ["file:/a"], lock)


def test_a_claim_of_a_finished_batch_cannot_be_dropped(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claim(ledger, "e1", 1, ["file:/a"], lock)
        finish(ledger, "e1", 1, lock)
        drop(ledger, "e1", 1, lock)
        drop(ledger, "e1", 99, lock)
        assert not claim(ledger, "e1", 1, ["file:/a"], lock)


def test_a_batch_of_a_dead_holder_is_claimed_again_with_a_newer_token(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        claim(ledger, "e1", 1, ["file:/a", "file:/b"], a_lock(ledger, stack))
        shop.let_leases_end()
        alive = a_lock(ledger, stack, who="run-2")
        with pytest.raises(LockLost):
            finish(ledger, "e1", 1, alive)
        assert claim(ledger, "e1", 1, ["file:/b"], alive)
        assert set(ledger.claims.paths()) == {"file:/a", "file:/b"}
        finish(ledger, "e1", 1, alive)
        assert not ledger.claims.paths()


def test_a_batch_under_another_living_lock_is_left_alone(shop: Shop, ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        claim(ledger, "e1", 1, ["file:/a"], a_lock(ledger, stack, "group-1", "run-1"))
        other = a_lock(ledger, stack, "group-2", "run-2")
        with pytest.raises(LockHeld, match="run-1"):
            claim(ledger, "e1", 1, ["file:/a"], other)
        shop.let_leases_end()
        heir = a_lock(ledger, stack, "group-3", "run-3")
        assert claim(ledger, "e1", 1, ["file:/a"], heir)


def test_of_several_claims_each_has_its_own_answer_and_the_rest_are_made(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack, "group-3", "run-3")
        claim(ledger, "e5", 1, ["file:/5a"], dead)
        shop.let_leases_end()
        mine, other = (a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in (1, 2))
        claim(ledger, "e1", 1, ["file:/1"], mine)
        finish(ledger, "e1", 1, mine)
        claim(ledger, "e2", 1, ["file:/2"], other)
        answers = ledger.claims.take(
            [
                Claim("e1", 1, mine, ["file:/1"]),
                Claim("e2", 1, mine, ["file:/2", "file:/2b"]),
                Claim("e3", 1, dead, ["file:/3"]),
                Claim("e4", 1, mine, ["file:/4"]),
                Claim("e4", 2, other, ["file:/4b"]),
                Claim("e5", 1, mine, ["file:/5b"]),
            ]
        )
        assert answers[0] is False
        held, lost = answers[1:3]
        assert isinstance(held, LockHeld) and held.found == "run-2 holds the lock group-2"
        assert isinstance(lost, LockLost) and lost.object == "group-3"
        assert list(answers[3:]) == [True, True, True]
        assert ledger.claims.paths() == {
            "file:/2": "e2",
            "file:/4": "e4",
            "file:/4b": "e4",
            "file:/5a": "e5",
            "file:/5b": "e5",
        }
        # Each is claimed under the lock that asked for it.
        ours = [Claim("e4", 1, mine), Claim("e4", 2, other), Claim("e5", 1, mine)]
        assert list(ledger.claims.finish(ours)) == [None] * 3
        assert ledger.claims.paths() == {"file:/2": "e2"}


def test_a_batch_that_is_not_ours_is_named_and_the_others_are_finished(
    ledger: ControlLedger,
) -> None:
    lost = a_lost_lock(ledger, "group-3")
    with ExitStack() as stack:
        mine, other = (a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in (1, 2))
        claims = [Claim(f"e{n}", 1, lock, [f"file:/{n}"]) for n, lock in enumerate([mine] * 3)]
        ledger.claims.take([*claims, Claim("e9", 1, other, ["file:/9"])])
        finish(ledger, "e2", 1, mine)
        answers = ledger.claims.finish(
            [claims[0], Claim("e9", 1, mine), Claim("e7", 1, mine), Claim("e1", 1, lost), *claims]
        )
        assert kinds(answers) == [type(None), LockLost, LockLost, LockLost, *[type(None)] * 3]
        refused = [one.object for one in answers if one is not None]
        assert refused == ["e9/1", "e7/1", "group-3"]
        assert ledger.claims.paths() == {"file:/9": "e9"}
        assert list(ledger.claims.take(claims)) == [False] * 3
        assert claim(ledger, "e9", 1, [], other)


def test_of_several_claims_one_that_a_later_lock_took_over_is_not_dropped(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        claims = [Claim(id, 1, dead, [f"file:/{id}"]) for id in ("e1", "e2", "e3")]
        assert list(ledger.claims.take(claims)) == [True] * 3
        shop.let_leases_end()
        alive = a_lock(ledger, stack, who="run-2")
        assert claim(ledger, "e2", 1, ["file:/e2"], alive)
        ledger.claims.drop([*claims, Claim("never", 1, dead)])
        assert ledger.claims.paths() == {"file:/e2": "e2"}
        finish(ledger, "e2", 1, alive)
