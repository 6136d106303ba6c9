"""Every control ledger: replication and policies of chunks, and plans that drop them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.sync import SyncState, TableSync
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import CommitConflict, InvalidHorizons, MeltlineError, PolicyExists
from meltline.domain.iceberg.names import TableName
from meltline.ports import ControlLedger
from tests.contract.ledger.chunk_rows import (
    ELSEWHERE,
    HEAD,
    NEXT,
    TIERED,
    a_chunk,
    a_policy,
    a_sync,
    at_once,
    track,
)
from tests.contract.ledger.control_ledgers import (
    HUGE,
    NOW,
    ODD_NAMES,
    Shop,
    a_plan,
    add_plan,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]


def test_a_tables_replication_comes_back_as_it_was_stored(
    shop: Shop, ledger: ControlLedger
) -> None:
    full = a_sync(
        table=TableName.parse(ODD_NAMES[1]),
        cold=TableName.parse(ODD_NAMES[2]),
        state=SyncState.FAILED,
        reason="DIVERGED",
        detail="a corrupt \x01 file, it's ж",
        cold_snapshot=-HUGE - 1,
        cold_compared=HUGE,
        allowed_deletes=(HUGE, -HUGE - 1),
        kept_deletes=(1,),
    )
    first = TableSync("u-2", full.table, full.cold, 1, SyncState.COPYING, NOW)
    for sync in (first, full):
        ledger.syncs.save(None, sync)
    assert list(shop.handle().syncs.all()) == [full, first]
    assert list(ledger.syncs.all(["u-2"])) == [first] and list(ledger.syncs.all(())) == []


@pytest.mark.parametrize(
    "seen",
    [
        None,
        a_sync(generation=2),
        a_sync(state=SyncState.LAGGING),
        a_sync(committed=None),
        a_sync(committed=ELSEWHERE),
        a_sync(committed=replace(HEAD, generation=2)),
        a_sync(heartbeat=None),
        a_sync(heartbeat=NOW + timedelta(milliseconds=1)),
        a_sync("u-2"),
    ],
    ids=["nothing", "generation", "state", "none", "place", "counted", "no beat", "beat", "gone"],
)
def test_replication_that_was_changed_meanwhile_is_left_as_it_is(
    ledger: ControlLedger, seen: TableSync | None
) -> None:
    ledger.syncs.save(None, a_sync())
    uuid = seen.table_uuid if seen else "u-1"
    with pytest.raises(CommitConflict) as refused:
        ledger.syncs.save(seen, a_sync(uuid, committed=NEXT))
    assert refused.value.object == "lake.air.flights"
    assert list(ledger.syncs.all()) == [a_sync()]


def test_replication_goes_on_from_what_was_read_in_whatever_zone_and_to_the_millisecond(
    ledger: ControlLedger,
) -> None:
    first = a_sync(committed=None, heartbeat=None)
    zone = timezone(timedelta(hours=5))
    second = a_sync(heartbeat=NOW.astimezone(zone) + timedelta(microseconds=7))
    ledger.syncs.save(None, first)
    ledger.syncs.save(first, second)
    ledger.syncs.save(second, a_sync(committed=NEXT))
    assert list(ledger.syncs.all()) == [a_sync(committed=NEXT)]


def test_of_two_passes_of_replication_one_goes_on(shop: Shop, ledger: ControlLedger) -> None:
    ledger.syncs.save(None, a_sync())
    ends = (NEXT, ELSEWHERE)
    answers = at_once(
        shop, *(lambda h, at=at: h.syncs.save(a_sync(), a_sync(committed=at)) for at in ends)
    )
    (winner,) = [at for at, answer in zip(ends, answers, strict=True) if answer is None]
    assert {type(answer) for answer in answers} == {type(None), CommitConflict}
    assert [sync.committed for sync in ledger.syncs.all()] == [winner]


def test_policies_come_back_under_numbers_that_are_never_given_again(
    shop: Shop, ledger: ControlLedger
) -> None:
    tiered = PolicyType.TIERED_RETENTION
    full = replace(
        a_policy(tiered, "36 hours", "3 months"),
        max_lateness=timedelta(days=4, milliseconds=1),
        keep_latest=2,
        who="it's ж",
    )
    first = ledger.chunk_policies.add(full)
    second = ledger.chunk_policies.add(a_policy(PolicyType.RETENTION, drop="2w", uuid="u-2"))
    assert first == replace(full, id=first.id) and first.id > 0
    assert list(shop.handle().chunk_policies.all()) == [first, second]
    assert list(ledger.chunk_policies.all(["u-2", "u-9"])) == [second]
    assert list(ledger.chunk_policies.all([])) == []
    assert not ledger.chunk_policies.remove("u-2", tiered)
    assert ledger.chunk_policies.remove("u-2", PolicyType.RETENTION)
    assert not ledger.chunk_policies.remove("u-2", PolicyType.RETENTION)
    third = ledger.chunk_policies.add(a_policy(tier="1y", uuid="u-2"))
    assert first.id < second.id < third.id
    assert list(ledger.chunk_policies.all()) == [first, third]


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (a_policy(tier="5d"), PolicyExists),
        (a_policy(PolicyType.TIERED_RETENTION, "5d", "30d"), PolicyExists),
        (a_policy(PolicyType.RETENTION, drop="7d"), InvalidHorizons),
    ],
)
def test_a_policy_that_contradicts_one_that_came_meanwhile_is_refused(
    ledger: ControlLedger, policy: ChunkPolicy, error: type[MeltlineError]
) -> None:
    """H8, LT-35: in whatever order, and whoever comes first."""
    track(ledger)
    first = ledger.chunk_policies.add(a_policy(tier="7d"))
    with pytest.raises(error) as refused:
        ledger.chunk_policies.add(policy)
    assert refused.value.object == "lake.air.flights"
    assert list(ledger.chunk_policies.all()) == [first]
    elsewhere = ledger.chunk_policies.add(replace(policy, table_uuid="u-2"))
    assert list(ledger.chunk_policies.all()) == [first, elsewhere]


@pytest.mark.parametrize(
    ("policies", "error"),
    [
        ((a_policy(tier="7d"), a_policy(tier="8d")), PolicyExists),
        (
            (a_policy(tier="7d"), a_policy(PolicyType.TIERED_RETENTION, "7d", "9d")),
            PolicyExists,
        ),
        ((a_policy(tier="7d"), a_policy(PolicyType.RETENTION, drop="6d")), InvalidHorizons),
    ],
    ids=["of one type", "that say the same", "that contradict each other"],
)
def test_of_two_policies_that_are_added_at_once_one_comes_first(
    shop: Shop,
    ledger: ControlLedger,
    policies: Sequence[ChunkPolicy],
    error: type[MeltlineError],
) -> None:
    works = [lambda handle, policy=policy: handle.chunk_policies.add(policy) for policy in policies]
    answers = at_once(shop, *works)
    (stored,) = ledger.chunk_policies.all()
    assert stored in answers
    assert {type(answer) for answer in answers} == {ChunkPolicy, error}


def test_whatever_is_written_of_chunks_is_the_newest_time(
    shop: Shop, ledger: ControlLedger
) -> None:
    writes: list[Callable[[], object]] = [
        lambda: track(ledger, a_chunk()),
        lambda: ledger.chunks.move([(a_chunk(), a_chunk(**TIERED))]),
        lambda: ledger.syncs.save(None, a_sync()),
        lambda: ledger.chunk_policies.add(a_policy(tier="7d")),
        lambda: ledger.chunk_policies.remove("u-1", PolicyType.TIERING),
        lambda: ledger.chunks.forget("u-1"),
    ]
    for write in writes:
        shop.clock.moment += timedelta(days=1)
        write()
        assert ledger.database.newest_time() == shop.clock.moment


def test_a_plan_that_drops_chunks_comes_back_with_their_names(
    shop: Shop, ledger: ControlLedger
) -> None:
    names = ("2026-01-05", "2026-01-06T07")
    plan = a_plan(kind=PlanKind.DROP_CHUNKS, chunks=names, heads={"main": HUGE}, files=2)
    assert add_plan(ledger, plan) == plan
    stored = shop.handle().plans.get(plan.id)
    assert stored == plan and stored.digest_of([]) == plan.digest_of([])
