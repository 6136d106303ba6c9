"""Whether a chunk is proved to be in cold by position: all conditions, each alone (LT-11 to 21)."""

from datetime import timedelta
from typing import Any

import pytest

from meltline.domain.chunks.chunk import Chunk, Deferral
from meltline.domain.chunks.durability import Deferred, is_gated, not_durable
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import Position, SyncState, TableSync
from tests.unit.chunks.chunks import NOW, a_chunk, a_sync

OLDEST = timedelta(minutes=15)
CHUNK = a_chunk("2026-01-05")


def judged(chunk: Chunk = CHUNK, sync: TableSync | None = None) -> Deferred | None:
    return not_durable(chunk, sync or a_sync(), NOW, OLDEST)


def test_lt_11_a_chunk_is_durable_where_all_three_hold() -> None:
    assert judged() is None


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"state": SyncState.STOPPED}, Deferral.NOT_SYNCED),
        ({"state": SyncState.COPYING}, Deferral.NOT_STREAMING),
        ({"state": SyncState.LAGGING}, Deferral.NOT_STREAMING),
        ({"state": SyncState.FAILED}, Deferral.NOT_STREAMING),
        ({"state": SyncState.FAILED, "reason": Deferral.DIVERGED}, Deferral.DIVERGED),
        ({"heartbeat": None}, Deferral.STALE_HEARTBEAT),
        ({"heartbeat": NOW - OLDEST - timedelta(seconds=1)}, Deferral.STALE_HEARTBEAT),
        ({"heartbeat": NOW + timedelta(minutes=6)}, Deferral.STALE_HEARTBEAT),
        ({"committed": None}, Deferral.NOT_STREAMING),
        ({"committed": Position(1, 4, 1004)}, Deferral.BEHIND),
        ({"committed": Position(2, 5, 1005)}, Deferral.OTHER_GENERATION),
        ({"generation": 2}, Deferral.OTHER_GENERATION),
        ({"generation": 2, "committed": Position(2, 5, 1005)}, Deferral.OTHER_GENERATION),
    ],
)
def test_lt_15_each_condition_of_replication_defers_alone(
    facts: dict[str, Any], reason: Deferral
) -> None:
    deferred = judged(sync=a_sync(**facts))
    assert deferred is not None and deferred.reason is reason


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"last_write": None}, Deferral.NO_WRITE_POSITION),
        ({"last_write": 6}, Deferral.BEHIND),
        ({"generation": 2}, Deferral.OTHER_GENERATION),
        ({"generation": 0}, Deferral.OTHER_GENERATION),
    ],
)
def test_lt_8_each_condition_of_the_chunk_defers_alone(
    facts: dict[str, Any], reason: Deferral
) -> None:
    deferred = judged(a_chunk("2026-01-05", **facts))
    assert deferred is not None and deferred.reason is reason


def test_an_unsynced_table_has_nothing_durable() -> None:
    deferred = not_durable(CHUNK, None, NOW, OLDEST)
    assert deferred is not None and deferred.reason is Deferral.NOT_SYNCED


@pytest.mark.parametrize(("committed", "is_durable"), [(99, False), (100, True), (101, True)])
def test_lt_12_equality_passes_and_one_less_does_not(committed: int, is_durable: bool) -> None:
    chunk = a_chunk("2026-01-05", last_write=100)
    sync = a_sync(committed=Position(1, committed, 7))
    assert (judged(chunk, sync) is None) is is_durable


def test_lt_13_the_chunks_own_write_counts_and_never_the_tables_head() -> None:
    quiet = a_chunk("2026-01-05", last_write=48)
    sync = a_sync(committed=Position(1, 50, 7))  # the head is at 900
    assert judged(quiet, sync) is None


def test_behind_says_what_cold_has_and_what_the_chunk_needs() -> None:
    deferred = judged(a_chunk("2026-01-05", last_write=9))
    assert deferred is not None
    assert deferred.detail == "cold has 5, the chunk needs 9"


@pytest.mark.parametrize("heard", [-OLDEST, timedelta(0), timedelta(minutes=5)])
def test_a_heartbeat_counts_up_to_its_age_and_two_clocks_may_differ(heard: timedelta) -> None:
    assert judged(sync=a_sync(heartbeat=NOW + heard)) is None


@pytest.mark.parametrize(
    ("is_synced", "policy", "gated"),
    [
        (True, PolicyType.RETENTION, True),
        (True, PolicyType.TIERED_RETENTION, True),
        (False, PolicyType.TIERED_RETENTION, True),  # LT-20: by intent
        (False, PolicyType.RETENTION, False),
    ],
)
def test_lt_19_a_drop_is_gated_unless_it_is_plain_and_unsynced(
    is_synced: bool, policy: PolicyType, gated: bool
) -> None:
    assert is_gated(a_sync() if is_synced else None, policy) is gated


def test_lt_29_a_late_write_defers_until_it_is_in_cold() -> None:
    late = a_chunk("2026-01-05", last_write=6)
    assert judged(late) is not None
    assert judged(late, a_sync(committed=Position(1, 6, 1006))) is None


@pytest.mark.parametrize("is_synced", [True, False])
@pytest.mark.parametrize("policy", [PolicyType.RETENTION, PolicyType.TIERED_RETENTION])
@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        ({}, None),
        ({"committed": Position(1, 4, 1004)}, Deferral.BEHIND),
        ({"committed": None}, Deferral.NOT_STREAMING),
        ({"state": SyncState.FAILED, "reason": "DIVERGED"}, Deferral.DIVERGED),
    ],
    ids=["durable", "behind", "unknown", "diverged"],
)
def test_lt_11_to_21_the_matrix_of_sync_policy_and_standing(
    is_synced: bool, policy: PolicyType, standing: dict[str, Any], reason: Deferral | None
) -> None:
    sync = a_sync(**standing) if is_synced else None
    deferred = not_durable(CHUNK, sync, NOW, OLDEST) if is_gated(sync, policy) else None
    if is_synced:
        expected = reason
    else:
        expected = Deferral.NOT_SYNCED if policy is PolicyType.TIERED_RETENTION else None
    assert (deferred.reason if deferred else None) == expected
