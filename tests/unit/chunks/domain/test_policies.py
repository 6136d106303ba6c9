"""Policies of chunks: which fit together, in whatever order (LT-5, LT-24, LT-35)."""

from datetime import timedelta
from itertools import permutations

import pytest

from meltline.domain.chunks.policies import (
    ChunkPolicy,
    PolicyType,
    require_fits,
    warnings_of,
)
from meltline.domain.errors import InvalidHorizons, PolicyExists
from tests.unit.chunks.chunks import a_policy

DAY = timedelta(days=1)


def tiering(tier: str) -> ChunkPolicy:
    return a_policy(PolicyType.TIERING, tier=tier)


def retention(drop: str) -> ChunkPolicy:
    return a_policy(PolicyType.RETENTION, drop=drop)


def both(tier: str, drop: str) -> ChunkPolicy:
    return a_policy(PolicyType.TIERED_RETENTION, tier, drop)


@pytest.mark.parametrize("policy", [tiering("7d"), retention("90d"), both("7d", "90d")])
def test_each_policy_may_stand_alone(policy: ChunkPolicy) -> None:
    require_fits("t", policy, [])


@pytest.mark.parametrize(
    ("tier", "drop"),
    [("90d", "90d"), ("91d", "90d"), ("1w", "7d"), ("30d", "1mo"), ("1mo", "30d"), ("1y", "12mo")],
)
def test_lt_24_a_tier_age_that_is_not_shorter_is_refused(tier: str, drop: str) -> None:
    with pytest.raises(InvalidHorizons) as refused:
        require_fits("t", both(tier, drop), [])
    assert f"tier after {tier}, drop after {drop}" in str(refused.value.found)


@pytest.mark.parametrize("order", list(permutations([tiering("7d"), retention("90d")])))
def test_two_policies_that_fit_stand_together_in_either_order(
    order: tuple[ChunkPolicy, ...],
) -> None:
    first, second = order
    require_fits("t", second, [first])


@pytest.mark.parametrize("tier", ["90d", "91d", "3mo"])
@pytest.mark.parametrize("is_first", [True, False])
def test_h8_lt_35_the_second_of_two_that_contradict_each_other_is_refused(
    tier: str, is_first: bool
) -> None:
    pair = [tiering(tier), retention("90d")]
    first, second = pair if is_first else reversed(pair)
    require_fits("t", first, [])
    with pytest.raises(InvalidHorizons):
        require_fits("t", second, [first])


KINDS = [tiering("7d"), retention("90d"), both("7d", "90d")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (first, second)
        for first in KINDS
        for second in KINDS
        if {first.type, second.type} != {PolicyType.TIERING, PolicyType.RETENTION}
    ],
    ids=lambda policy: policy.type,
)
def test_h8_what_a_policy_says_already_no_other_says_again(
    first: ChunkPolicy, second: ChunkPolicy
) -> None:
    with pytest.raises(PolicyExists) as refused:
        require_fits("t", second, [first])
    assert f"forget-policy t {first.type}" in str(refused.value.next)


def test_a_third_policy_is_refused_beside_two() -> None:
    for third in KINDS:
        with pytest.raises(PolicyExists):
            require_fits("t", third, [tiering("7d"), retention("90d")])


def test_a_policy_says_what_it_does() -> None:
    policy = a_policy(PolicyType.TIERED_RETENTION, "7 days", "3 months", keep_latest=2)
    assert policy.sentence == "tier after 7d, drop after 3mo, keep the latest 2"
    assert tiering("12h").sentence == "tier after 12h"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (a_policy(PolicyType.RETENTION, drop="7d", max_lateness=7 * DAY), "LT-31"),
        (a_policy(PolicyType.RETENTION, drop="7d", max_lateness=8 * DAY), "LT-31"),
        (a_policy(PolicyType.RETENTION, drop="1mo", max_lateness=28 * DAY), "LT-31"),
        (tiering("23h"), "once a day"),
        (retention("47h"), "fewer than two chunks"),
    ],
)
def test_what_is_risky_is_said(policy: ChunkPolicy, words: str) -> None:
    assert [line for line in warnings_of(policy, DAY) if words in line]


def test_what_is_not_risky_is_not_said() -> None:
    policy = a_policy(PolicyType.TIERED_RETENTION, "24h", "7d", max_lateness=7 * DAY - DAY / 24)
    assert warnings_of(policy, DAY) == []
    assert warnings_of(retention("48h"), DAY) == []
