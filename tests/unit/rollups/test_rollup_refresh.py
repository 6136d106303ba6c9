"""Refreshes of rollups in memory, and chunks that wait for them.

Every step is held against `tests.chunks.rolled_up`: what a full look at hot's rows says.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType

import pytest

from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.rollups.declare import invalidate
from meltline.app.chunks.rollups.refresh import refresh_rollup
from meltline.app.chunks.rounds import gate_drops
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.rollup import ROLLUP_SNAPSHOT
from meltline.domain.chunks.sync import DROP_PLAN
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import MeltlineError
from tests.chunks.chunk_kills import Bystander, ChunkProcess
from tests.chunks.chunk_tables import ChunkTable, day_name, micros, reading
from tests.chunks.rollup_engines import RollupEngines
from tests.lake.lake import DAY, T0
from tests.lives.kills import Killed
from tests.unit.rollups.rolled_up_table import RolledUp

HOUR = timedelta(hours=1)
BUCKET, LEAST = 1, 5
"""Columns of `daily`: the bucket, and the least id of its rows."""


@pytest.fixture
def rolled() -> RolledUp:
    made = RolledUp()
    made.declare()
    return made


# --- what a refresh writes -----------------------------------------------------------------------


def test_a_late_row_rewrites_its_own_bucket_and_no_other_file(rolled: RolledUp) -> None:
    before = rolled.files()
    rolled.append(reading(50, 2.5))
    done = rolled.refresh()
    assert (done.buckets, done.rows, done.everything) == (1, 1, False)
    assert len(before - rolled.files()) == 1
    assert not rolled.refresh().is_refreshed


def test_rows_beside_a_stale_bucket_in_one_file_stay(rolled: RolledUp) -> None:
    rolled.append(*(reading(60 + n, 5.5 + n / 96, n) for n in range(4)))
    rolled.declare("often")
    before = rolled.rows("often")
    rolled.append(reading(90, 5.5, 7))
    done = rolled.refresh("often")
    assert (done.buckets, done.rows) == (1, 5)
    assert len(rolled.rows("often")) == len(before) + 1
    assert set(before) < set(rolled.rows("often"))


def test_what_a_person_names_is_aggregated_anew_though_no_commit_tells_of_it(
    rolled: RolledUp,
) -> None:
    """A rewrite that calls itself a compaction has changed rows."""
    right = rolled.rows()
    _spoil(rolled)
    assert rolled.rows() != right
    assert not refresh_rollup(rolled.lake.services(), "daily").is_refreshed
    assert invalidate(rolled.lake.services(), "daily", T0 + DAY, T0 + DAY + HOUR) == 1
    assert rolled.refresh().buckets == 1
    assert rolled.rows() == right
    assert rolled.known().invalidated == ()


def test_rows_that_somebody_writes_into_a_rollup_are_mended(rolled: RolledUp) -> None:
    right = rolled.rows()
    _spoil(rolled, "overwrite")
    done = rolled.refresh()
    assert (done.everything, done.buckets) == (True, 1)
    assert rolled.rows() == right


def test_what_passes_itself_off_as_a_drop_of_ours_in_a_rollup_is_mended(rolled: RolledUp) -> None:
    """The plan is one of ours, over that table; the commit did something else."""
    wish = PolicyWish(PolicyType.RETENTION, drop_after="4d")
    add_policy(rolled.lake.services(), rolled.known().table, wish)
    planned = rolled.plan_own()
    assert planned.plan is not None
    right = rolled.rows()
    _spoil(rolled, "overwrite", day=4, summary={DROP_PLAN: planned.plan.plan.id})
    done = rolled.refresh()
    assert (done.everything, done.buckets) == (True, 1)
    assert rolled.rows() == right


def _spoil(
    rolled: RolledUp,
    operation: str = "replace",
    day: int = 1,
    summary: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """The row of a day says something else."""
    table = ChunkTable(rolled.lake, rolled.known().table)
    (path,) = (p for p in rolled.files() if _bucket_of(rolled, p) == micros(T0 + day * DAY))
    (row,) = rolled.own().rows_at(table.head, {path})
    wrong = tuple(sorted({**dict(row), LEAST: 777}.items()))
    RollupEngines(rolled.lake).put(table.name, path, [wrong], operation, summary)


def _bucket_of(rolled: RolledUp, path: str) -> int:
    (row,) = rolled.own().written(path)
    bucket: int = dict(row)[BUCKET]
    return bucket


# --- what has left hot ---------------------------------------------------------------------------


def test_buckets_of_dropped_chunks_stay_and_nothing_counts_as_missed(rolled: RolledUp) -> None:
    before = rolled.rows()
    rolled.drop()
    done = rolled.refresh()
    assert (done.is_refreshed, done.buckets, done.missed) == (True, 0, 0)
    assert rolled.rows() == before
    assert rolled.known().missed == ()


def test_no_late_row_and_no_person_changes_a_frozen_bucket(rolled: RolledUp) -> None:
    rolled.drop()
    before = rolled.rows()
    rolled.append(reading(70, 1.5))
    assert rolled.refresh().missed == 1
    assert invalidate(rolled.lake.services(), "daily", T0, T0 + 2 * DAY) == 0
    rolled.refresh()
    assert rolled.rows() == before
    (missed,) = rolled.known().missed
    assert (missed.start, missed.end) == (T0 + DAY, T0 + 2 * DAY)


def test_frozen_buckets_stay_where_all_others_are_aggregated_anew(rolled: RolledUp) -> None:
    rolled.drop()
    rolled.refresh()
    right = rolled.rows()
    _spoil(rolled, "overwrite", day=4)
    done = rolled.refresh()
    assert (done.everything, done.buckets) == (True, 1)
    assert rolled.rows() == right


def test_a_rollback_that_brings_chunks_back_is_seen_before_any_walk(rolled: RolledUp) -> None:
    first = rolled.hot.head
    rolled.append(reading(71, 0.5))
    rolled.refresh()
    rolled.drop()
    rolled.refresh()
    rolled.hot.rollback(first)
    rolled.lake.accepted.rows = set(rolled.hot.rows_now())
    done = rolled.refresh()
    assert (done.everything, done.buckets) == (True, 1)
    rolled.plan()  # a walk, which notes that nothing is dropped any more
    assert not rolled.refresh().is_refreshed


def test_a_policy_of_its_own_takes_buckets_that_no_refresh_brings_back(rolled: RolledUp) -> None:
    wish = PolicyWish(PolicyType.RETENTION, drop_after="4d")
    add_policy(rolled.lake.services(), rolled.known().table, wish)
    rolled.carry_out(rolled.plan_own())
    rolled.lake.check()
    rolled.append(reading(72, 0.5), reading(73, 5.5))
    done = rolled.refresh()
    assert (done.buckets, done.everything) == (1, False)
    assert len(rolled.rows()) == 4


# --- chunks that wait ----------------------------------------------------------------------------


def test_a_chunk_with_a_late_row_waits_until_its_bucket_is_refreshed(rolled: RolledUp) -> None:
    rolled.append(reading(80, 0.5))
    planned = rolled.plan()
    assert planned.plan is not None and planned.plan.plan.chunks == (day_name(1),)
    reasons = {d.chunk: d.reason for d in planned.deferred}
    assert reasons[day_name(0)] is Deferral.ROLLUP_DIRTY
    rolled.refresh()
    rolled.drop()


def test_a_chunk_waits_for_a_rollup_that_somebody_else_has_written_to(rolled: RolledUp) -> None:
    _spoil(rolled, "overwrite")
    planned = rolled.plan()
    assert planned.plan is None
    assert {d.reason for d in planned.deferred} == {Deferral.ROLLUP_DIRTY}


def test_every_chunk_waits_while_rows_without_a_time_are_newer_than_the_rollup(
    rolled: RolledUp,
) -> None:
    rolled.append(reading(80, None))
    planned = rolled.plan()
    assert planned.plan is None
    assert Deferral.ROLLUP_DIRTY in {d.reason for d in planned.deferred}
    rolled.refresh()
    rolled.drop()


def test_a_bucket_that_is_longer_than_its_chunks_waits_for_the_last_of_them() -> None:
    rolled = RolledUp()
    rolled.declare("monthly")
    planned = rolled.plan()
    assert planned.plan is None
    assert {d.reason for d in planned.deferred} == {Deferral.ROLLUP_DIRTY}


def test_the_gate_refuses_a_chunk_that_was_invalidated_after_it_was_planned(
    rolled: RolledUp,
) -> None:
    planned = rolled.plan()
    assert planned.plan is not None
    invalidate(rolled.lake.services(), "daily", T0, T0 + HOUR)
    plan = planned.plan.plan
    gate_drops(rolled.lake.services(), [plan])
    (stored,) = rolled.lake.control.plans.current([plan.id]).values()
    assert stored.state is PlanState.REFUSED


# --- kills ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 6))
@pytest.mark.parametrize("about", ["rollups", "control.rollups"])
def test_a_refresh_that_is_killed_leaves_rows_and_position_together(
    rolled: RolledUp, about: str, call: int, after: bool
) -> None:
    rolled.append(reading(90, 3.5))
    old = rolled.rows(), rolled.own().document["properties"][ROLLUP_SNAPSHOT]
    process = ChunkProcess(call, after, about, lake=rolled.lake)
    try:
        refresh_rollup(process.of(rolled.lake.services()), "daily")
    except Killed:
        rolled.lake.let_leases_end()
    new = rolled.rows(), rolled.own().document["properties"][ROLLUP_SNAPSHOT]
    assert (new[0] == old[0]) == (new[1] == old[1])
    rolled.lake.check()
    rolled.refresh()
    assert rolled.rows() != old[0]


@pytest.mark.parametrize("call", range(1, 6))
@pytest.mark.parametrize("about", ["rollups", "control.rollups"])
def test_a_refresh_that_is_killed_does_not_forget_what_frozen_buckets_missed(
    rolled: RolledUp, about: str, call: int
) -> None:
    rolled.drop()
    rolled.append(reading(90, 1.5))
    process = ChunkProcess(call, True, about, lake=rolled.lake)
    with suppress(Killed):
        refresh_rollup(process.of(rolled.lake.services()), "daily")
    rolled.lake.let_leases_end()
    rolled.refresh()
    (missed,) = rolled.known().missed
    assert (missed.start, missed.end) == (T0 + DAY, T0 + 2 * DAY)


@pytest.mark.parametrize("call", range(1, 5))
def test_a_refresh_beside_which_somebody_writes_to_the_rollup_publishes_nothing_over_it(
    rolled: RolledUp, call: int
) -> None:
    rolled.append(reading(91, 3.5))
    services = Bystander(call, "rollups", lambda: _spoil(rolled, "overwrite")).of(
        rolled.lake, rolled.lake.services()
    )
    refresh_rollup(services, "daily")
    rolled.refresh()
    assert all(dict(row)[LEAST] != 777 for row in rolled.rows())


def test_a_rollup_whose_source_lost_a_column_stays_and_says_why(rolled: RolledUp) -> None:
    before = rolled.rows()

    def without_value(document: dict[str, list[dict[str, list[dict[str, str]]]]]) -> None:
        for field_ in document["schemas"][0]["fields"]:
            field_["name"] = field_["name"].replace("value", "worth")

    rolled.hot.edit(without_value)
    rolled.append(reading(92, 3.5))
    with pytest.raises(MeltlineError, match="cannot be refreshed"):
        refresh_rollup(rolled.lake.services(), "daily")
    assert rolled.rows() == before
