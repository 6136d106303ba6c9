"""What `doctor` says of rollups."""

from dataclasses import replace
from datetime import UTC, datetime

from meltline.app.doctor.doctor import rollup_findings
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.iceberg.names import TableName

ROLLUP = Rollup(
    id=1,
    name="hourly",
    table=TableName("lake", ("air",), "_rollup_hourly"),
    table_uuid="r",
    source=TableName("lake", ("air",), "t"),
    source_uuid="t",
    query="SELECT …",
    width="1 hour",
    bucket_column="bucket",
    depends_on=(),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def test_a_rollup_without_a_problem_has_nothing_to_tell() -> None:
    assert not list(rollup_findings([ROLLUP]))


def test_one_that_failed_is_named_with_what_waits_for_it_and_the_way_out() -> None:
    (finding,) = rollup_findings([replace(ROLLUP, problem="its table is gone")])

    assert (finding.level, finding.code, finding.object) == ("error", "rollup_failed", "hourly")
    assert "without a row" in finding.message and "chunks of lake.air.t wait" in finding.message
    assert "meltline rollups drop hourly" in finding.fix


def test_buckets_that_missed_rows_are_counted() -> None:
    missed = TimeRange(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 3, tzinfo=UTC))

    (finding,) = rollup_findings([replace(ROLLUP, missed=(missed,))])

    assert (finding.level, finding.code) == ("warning", "rollup_missed")
    assert "for 3 buckets" in finding.message and "2026-01-05T03:00:00Z" in finding.message
