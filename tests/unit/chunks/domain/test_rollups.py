"""Rollups: which buckets go stale, which are frozen for ever, and in which order they follow."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.chunks.buckets import BucketWidth, common, without
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.ranges import TimeRange, Unit, merged
from meltline.domain.chunks.rollup import (
    Rollup,
    above,
    changed_ranges,
    dropped_ranges,
    in_order,
    incomplete_buckets,
    stale_buckets,
    with_dependencies,
)
from meltline.domain.errors import RollupInvalid
from meltline.domain.iceberg.names import TableName
from tests.unit.chunks.chunks import DAYS, NOW, TABLE, a_change, at

DAY, HOUR = BucketWidth.parse("1 day"), BucketWidth.parse("1 hour")
WIDTHS = st.sampled_from(
    [BucketWidth.parse(t) for t in ("20 minutes", "1 hour", "1 day", "36 hours", "3 days", "month")]
)
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
RANGES = st.lists(
    st.tuples(MOMENTS, st.integers(1, 10**12)).map(
        lambda drawn: TimeRange(drawn[0], drawn[0] + timedelta(microseconds=drawn[1]))
    ),
    max_size=5,
)


def span(first: str, last: str) -> TimeRange:
    """From a day through another."""
    return TimeRange(Unit.DAY.range(first).start, Unit.DAY.range(last).end)


def a_rollup(name: str, over: str = "t", depends_on: Sequence[str] = ()) -> Rollup:
    own = TableName("lake", ("air",), f"_rollup_{name}")
    return Rollup(
        1, name, own, f"u-{name}", TABLE, over, "SELECT", "1 day", "b", tuple(depends_on), NOW
    )


# --- what goes stale -----------------------------------------------------------------------------


@given(WIDTHS, st.one_of(st.none(), RANGES), RANGES, RANGES)
def test_no_bucket_that_is_aggregated_anew_is_frozen_and_none_that_changed_is_forgotten(
    width: BucketWidth,
    changed: list[TimeRange] | None,
    invalidated: list[TimeRange],
    gone: list[TimeRange],
) -> None:
    stale = stale_buckets(width, changed, invalidated, gone)
    assert not without(merged(gone), stale.frozen)
    if changed is None:
        assert stale.ranges is None
        return
    assert stale.ranges is not None
    assert not common(stale.ranges, stale.frozen)
    assert not without(stale.missed, stale.frozen)
    reached = merged([*stale.ranges, *stale.missed])
    assert reached == width.whole([*changed, *invalidated])


def test_a_bucket_that_reaches_into_a_dropped_chunk_is_frozen_as_a_whole() -> None:
    three_days, gone = BucketWidth.parse("3 days"), span("2026-01-06", "2026-01-06")
    stale = stale_buckets(three_days, [span("2026-01-07", "2026-01-08")], (), [gone])
    assert stale.frozen == stale.missed == (span("2026-01-05", "2026-01-07"),)
    assert stale.ranges == (span("2026-01-08", "2026-01-10"),)


def test_what_a_person_names_is_aggregated_anew_beside_what_changed() -> None:
    changed, named = span("2026-01-05", "2026-01-05"), span("2026-01-09", "2026-01-10")
    stale = stale_buckets(DAY, [changed], [named], [span("2026-01-10", "2026-01-10")])
    assert stale.ranges == (changed, span("2026-01-09", "2026-01-09"))
    assert stale.missed == (span("2026-01-10", "2026-01-10"),)


def test_both_sides_of_a_change_have_changed_and_a_compaction_changes_nothing() -> None:
    moved = a_change(2, added=["2026-01-05"], removed=["2026-01-02"], operation="overwrite")
    compacted = a_change(3, added=["2026-01-09"], removed=["2026-01-09"], operation="replace")
    days = [span("2026-01-02", "2026-01-02"), span("2026-01-05", "2026-01-05")]
    assert changed_ranges([moved, compacted]) == days
    assert changed_ranges([compacted]) == []
    assert changed_ranges([]) == []


@pytest.mark.parametrize("where", ["unbounded", "everywhere"])
def test_a_file_that_tells_no_time_may_have_changed_every_bucket(where: str) -> None:
    assert changed_ranges([a_change(1, added=["2026-01-05", where])]) is None


def test_gone_are_the_times_of_chunks_that_have_one() -> None:
    names = ["2026-01-06", "unbounded", "2026-01-05", "2026-01-09"]
    days = [span("2026-01-05", "2026-01-06"), span("2026-01-09", "2026-01-09")]
    assert dropped_ranges(DAYS, names) == days


def test_a_chunk_waits_until_the_last_bucket_that_it_reaches_into_is_old_enough() -> None:
    chunks = [
        Chunk("u", day, at(day), at(day) + timedelta(days=1))
        for day in ("2026-01-30", "2026-01-31")
    ]
    unbounded = Chunk("u", "unbounded", None, None)
    month = BucketWidth.parse("1 month")
    reaching = incomplete_buckets(month, [*chunks, unbounded], at("2026-01-31T23:00"))
    assert {name: bucket.end for name, bucket in reaching.items()} == {
        "2026-01-30": at("2026-02-01"),
        "2026-01-31": at("2026-02-01"),
    }
    assert not incomplete_buckets(month, chunks, at("2026-02-01"))
    assert set(incomplete_buckets(HOUR, chunks, at("2026-01-31"))) == {"2026-01-31"}


# --- which depend on which -----------------------------------------------------------------------

HOURLY = a_rollup("hourly")
DAILY = a_rollup("daily", "u-hourly", ["hourly"])
YEARLY = a_rollup("a_yearly", "u-daily", ["daily"])
BESIDE = a_rollup("beside", "other")


@given(st.permutations([HOURLY, DAILY, YEARLY, BESIDE]))
def test_each_rollup_comes_after_those_that_it_depends_on(rollups: list[Rollup]) -> None:
    assert [r.name for r in in_order(rollups)] == ["beside", "hourly", "daily", "a_yearly"]
    assert [r.name for r in above(rollups, ["t"])] == ["hourly", "daily", "a_yearly"]
    assert [r.name for r in above(rollups, ["u-hourly"])] == ["daily", "a_yearly"]
    assert above(rollups, ["u-a_yearly"]) == []
    needed = with_dependencies(rollups, "daily")
    assert {r.name for r in needed} == {"hourly", "daily"}


def test_rollups_whose_dependencies_are_not_among_them_come_all_the_same() -> None:
    assert in_order([YEARLY, BESIDE]) == [YEARLY, BESIDE]
    assert with_dependencies([YEARLY], "a_yearly") == [YEARLY]
    assert with_dependencies([YEARLY], "unknown") == []


def test_a_circle_is_refused_and_named() -> None:
    circle = [a_rollup("a", depends_on=["b"]), a_rollup("b", depends_on=["a"]), HOURLY]
    with pytest.raises(RollupInvalid) as refused:
        in_order(circle)
    assert refused.value.object == "a, b"
