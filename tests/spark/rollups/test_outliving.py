"""Rollups outlive their source: what is dropped was aggregated, and stays (LT-27 to LT-30)."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from meltline.app.chunks.rollups.declare import invalidate
from meltline.app.chunks.rollups.drop import drop_rollup
from meltline.app.run.steps import Step, step_of
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import RollupInvalid, TableNotFound
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, deferred, dropped
from tests.spark.rollups.lake_of_rollups import DAILY, HOURLY, RollupLake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RollupLake]:
    yield RollupLake.empty(tmp_path_factory.mktemp("outliving"))


def steps(lake: RollupLake, *left_out: str) -> list[Step]:
    return [step for step in lake.lake.steps if step.name not in left_out]


def table_of(lake: RollupLake, name: str, type: PolicyType = PolicyType.RETENTION) -> None:
    """A table with old and young days, one rollup of hours and one of days above it."""
    lake.lake.create(name)
    for day in (*OLD, *YOUNG):
        lake.lake.insert(name, day)
    if type is not PolicyType.RETENTION:
        lake.lake.sync(name)
        lake.lake.follow(name)
    lake.lake.policy(name, type)
    lake.declare(f"{name}_hourly", HOURLY.format(table=name))
    lake.declare(f"{name}_daily", DAILY.format(table=f"_rollup_{name}_hourly"))


def test_buckets_of_dropped_chunks_stay_and_are_never_aggregated_anew(lake: RollupLake) -> None:
    table_of(lake, "a", PolicyType.TIERED_RETENTION)
    before = {name: lake.rows(name) for name in ("a_hourly", "a_daily")}

    assert dropped(lake.lake.run("a")) == lake.lake.days(*OLD)
    lake.lake.w.sql(f"INSERT INTO {{a}} VALUES (7, TIMESTAMP '{lake.lake.day(9)} 03:00:00', 'x')")
    refreshed = {done.rollup.name: done for done in lake.refresh_all()}

    assert {name: lake.rows(name) for name in before} == before
    assert (refreshed["a_hourly"].buckets, refreshed["a_hourly"].missed) == (0, 24)
    assert lake.known("a_hourly").missed, "who looks at it is told that it is not all"
    assert lake.refresh("a_hourly").buckets == 0


def test_even_a_person_cannot_have_a_frozen_bucket_aggregated_anew(lake: RollupLake) -> None:
    day = datetime.fromisoformat(lake.lake.day(9)).replace(tzinfo=UTC)
    before = lake.rows("a_hourly")

    assert invalidate(lake.services(), "a_hourly", day, day.replace(hour=5)) == 0
    lake.refresh("a_hourly")

    assert lake.rows("a_hourly") == before


def test_a_chunk_with_dirty_buckets_waits_and_the_others_go(lake: RollupLake) -> None:
    table_of(lake, "b")
    lake.lake.insert("b", 9)

    waiting = lake.lake.run("b", steps=steps(lake, "refresh_rollups"))

    assert dropped(waiting) == lake.lake.days(10, 8)
    assert deferred(waiting) == {lake.lake.day(9): "ROLLUP_DIRTY"}
    assert dropped(lake.lake.run("b")) == lake.lake.days(9)
    (samples,) = lake.computed("SELECT sum(samples) FROM {_rollup_b_hourly}")
    assert samples == (12,), "five days of two rows, and two late ones"


def test_the_gate_sees_by_itself_what_a_rollup_has_not_got(lake: RollupLake) -> None:
    table_of(lake, "c")
    run = lake.lake.run("c", steps=steps(lake, "gate_drops", "drop_chunks", "report_chunks"))
    (plan,) = run.planned
    day = datetime.fromisoformat(lake.lake.day(8)).replace(tzinfo=UTC)
    assert invalidate(lake.services(), "c_hourly", day, day.replace(hour=1)) == 1

    run.visit([step_of("gate", PlanKind.DROP_CHUNKS), step_of("drop_chunks")])

    assert deferred(run) == {lake.lake.day(8): "ROLLUP_DIRTY"}
    assert dropped(run) == lake.lake.days(10, 9)
    verdicts = lake.services().control.verdicts.newest([plan.id])
    assert [f.fact for f in verdicts[plan.id].failed] == ["rollups_behind"]


def test_force_does_not_pass_over_a_rollup(lake: RollupLake) -> None:
    lake.lake.insert("c", 1)

    run = lake.lake.run(
        "c",
        steps=steps(lake, "refresh_rollups"),
        chunks=(lake.lake.day(1),),
        force="the disk is full",
    )

    assert (dropped(run), deferred(run)) == ([], {lake.lake.day(1): "ROLLUP_DIRTY"})


def test_a_chunk_waits_until_its_bucket_is_over(lake: RollupLake) -> None:
    lake.lake.create("d")
    for day in (*OLD, *YOUNG):
        lake.lake.insert("d", day)
    lake.lake.policy("d", PolicyType.RETENTION)
    lake.declare(
        "d_by_century",
        "SELECT time_bucket('100 years', ts) AS century, count(*) AS n FROM d GROUP BY 1",
    )

    run = lake.lake.run("d")

    assert dict.fromkeys(lake.lake.days(*OLD), "ROLLUP_DIRTY") == deferred(run)
    assert "bucket goes on until" in run.summary.deferred[0]["detail"]


def test_a_rollup_has_a_retention_of_its_own(lake: RollupLake) -> None:
    table_of(lake, "e")
    lake.lake.policy("_rollup_e_hourly", PolicyType.RETENTION, drop_after="9d")
    midnight = lake.lake.today.replace(hour=0, minute=0)  # chunks are hours: later more are due

    run = lake.lake.run("_rollup_e_hourly", as_of=midnight)
    assert dropped(run) == [f"{lake.lake.day(10)}T03"]
    lake.lake.insert("e", 10)
    refreshed = lake.refresh("e_hourly")

    assert refreshed.buckets == 0, "nothing comes back into what its own policy has dropped"
    (daily,) = lake.computed("SELECT sum(samples) FROM {_rollup_e_daily}")
    assert daily == (10,)


def test_a_rollup_that_others_read_is_not_dropped_before_them(lake: RollupLake) -> None:
    with pytest.raises(RollupInvalid, match="depend on b_hourly"):
        drop_rollup(lake.services(), "b_hourly")
    for name in ("b_daily", "b_hourly"):
        drop_rollup(lake.services(), name)

    assert not [r for r in lake.services().control.rollups.all() if r.name.startswith("b_")]
    with pytest.raises(TableNotFound):
        lake.services().catalogs[lake.lake.w.catalog].location(lake.resolve(("_rollup_b_daily",)))
