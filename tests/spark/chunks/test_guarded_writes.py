"""Rows for ranges that were dropped are refused, and no drop can come between (LT-30)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from meltline.adapters.chunks.guarded_writer import ArrowGuardedWriter, SparkGuardedWriter
from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import Unit
from meltline.domain.errors import CommitConflict, LateDataRejected
from meltline.ports import GuardedWriter
from tests.spark.setups import late_writes as lw
from tests.spark.setups.guarded_tables import Guarded
from tests.spark.setups.late_writes import DAY_1, DAY_2, DAY_3
from tests.spark.setups.warehouse import TODAY, Warehouse

pytestmark = pytest.mark.spark

Row = tuple[int, str, int]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    made = Warehouse.empty(tmp_path_factory.mktemp("guarded"), "guarding")
    made.init(TODAY)
    yield made


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def framed(lake: Warehouse, rows: Sequence[Row]) -> Any:
    moments = [(id, moment(text), user) for id, text, user in rows]
    return lake.spark.createDataFrame(moments, "id BIGINT, ts TIMESTAMP, user INT")


def in_arrow(lake: Warehouse, rows: Sequence[Row]) -> Any:
    ids, texts, users = zip(*rows, strict=True)
    instants = pa.array([moment(text) for text in texts], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "ts": instants,
                     "user": pa.array(users, pa.int32())})  # fmt: skip


KINDS: dict[str, tuple[Callable[[Guarded], GuardedWriter], Callable[..., Any]]] = {
    "spark": (Guarded.spark, framed),
    "arrow": (Guarded.arrow, in_arrow),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_of_a_frame_is_refused_if_one_row_is_late(lake: Warehouse, kind: str) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    writer, frame = KINDS[kind]
    before, head = guarded.ids(), lw.head(lake, "t")
    late = [(1, f"{DAY_1}T23:59:59.999999", 0), (2, f"{DAY_1}T00:00:00", 0)]
    fresh: list[Row] = [(300, f"{DAY_2}T00:00:00", 0)]
    with pytest.raises(LateDataRejected, match="nothing was written") as refused:
        guarded.append(writer(guarded), frame(lake, late + fresh))
    assert refused.value.found == "2026-01-01 (2 rows)"
    assert refused.value.expected == "rows from 2026-01-02T00:00Z on"
    assert "chunks status guarding.n.t" in refused.value.next
    assert guarded.ids() == before and lw.head(lake, "t") == head and guarded.refs() == {"main"}
    guarded.append(writer(guarded), frame(lake, fresh))
    assert guarded.ids() == [*before, 300] and guarded.refs() == {"main"}
    (log,) = [s for s in lake.document("t")["snapshots"] if s["snapshot-id"] == lw.head(lake, "t")]
    assert log["parent-snapshot-id"] == head and log["summary"]["added-records"] == "1"


def test_a_table_of_which_nothing_was_dropped_takes_everything(lake: Warehouse, kind: str) -> None:
    guarded = Guarded.of(lake, "t")
    writer, frame = KINDS[kind]
    guarded.append(writer(guarded), frame(lake, [(7, f"{DAY_1}T01:00:00", 0)]))
    assert 7 in guarded.ids() and guarded.refs() == {"main"}


@dataclass
class Interrupted:
    """A writer that waits after it has looked, while something else happens."""

    writer: GuardedWriter
    meanwhile: list[Callable[[], None]]

    def late(self, *args: Any) -> Any:
        return self.writer.late(*args)

    def append(self, *args: Any) -> bool:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return self.writer.append(*args)


def test_a_drop_between_look_and_commit_refuses_the_rows(lake: Warehouse, kind: str) -> None:
    guarded = Guarded.of(lake, "t")
    writer, frame = KINDS[kind]
    slow = Interrupted(writer(guarded), [lambda: guarded.drop(DAY_1)])
    with pytest.raises(LateDataRejected):
        guarded.append(slow, frame(lake, [(7, f"{DAY_1}T01:00:00", 0)]))
    assert guarded.ids() == [100, 101, 102, 200, 201, 202] and guarded.refs() == {"main"}


def test_another_commit_between_look_and_commit_only_makes_it_look_again(
    lake: Warehouse, kind: str
) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    writer, frame = KINDS[kind]
    others = [lambda: lw.insert(lake, "t", DAY_3, 300), lambda: lw.insert(lake, "t", DAY_3, 301)]
    guarded.append(Interrupted(writer(guarded), others), frame(lake, [(7, f"{DAY_2}T01:00:00", 0)]))
    assert {7, 300, 301} <= set(guarded.ids()) and guarded.refs() == {"main"}


def test_a_table_where_others_are_always_first_is_given_up(lake: Warehouse) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    others = [lambda id=id: lw.insert(lake, "t", DAY_3, id) for id in range(300, 310)]
    with pytest.raises(CommitConflict, match="first"):
        guarded.append(
            Interrupted(guarded.spark(), list(others)),
            framed(lake, [(7, f"{DAY_2}T01:00:00", 0)]),
        )
    assert 7 not in guarded.ids() and guarded.refs() == {"main"}


def test_rows_that_are_others_each_time_they_are_made_are_looked_at_as_written(
    lake: Warehouse,
) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)

    class Fickle(SparkGuardedWriter):
        def late(self, rows: Any, layout: ChunkLayout, dropped: Any) -> Any:
            moved = rows.withColumn("ts", F.expr("ts + INTERVAL 1 DAY"))
            return super().late(moved, layout, dropped)

    fickle = Fickle(lake.spark, guarded.services.config.catalogs)
    with pytest.raises(LateDataRejected) as refused:
        guarded.append(fickle, framed(lake, [(7, f"{DAY_1}T01:00:00", 0)]))
    assert refused.value.found == "2026-01-01 (1 rows)"
    assert 7 not in guarded.ids() and guarded.refs() == {"main"}


def test_a_renamed_column_is_still_the_one_that_tells_the_time(lake: Warehouse, kind: str) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    writer, frame = KINDS[kind]
    lake.sql("ALTER TABLE {t} RENAME COLUMN ts TO moment")
    rows = frame(lake, [(7, f"{DAY_1}T01:00:00", 0)])
    if kind == "spark":
        rows = rows.withColumnRenamed("ts", "moment")
    else:
        rows = rows.rename_columns(["id", "moment", "user"])
    with pytest.raises(LateDataRejected):
        guarded.append(writer(guarded), rows)


# --- which rows are late --------------------------------------------------------------------------

VALUES: list[tuple[str, str, str, pa.DataType, list[Any]]] = [
    ("timestamp", "", "TIMESTAMP_NTZ", pa.timestamp("us"), [
        datetime(2026, 1, 1), datetime(2026, 1, 1, 23, 59, 59, 999999), datetime(2026, 1, 2), None,
        datetime(2025, 12, 31, 23, 59, 59, 999999)]),
    ("date", "", "DATE", pa.date32(), [
        datetime(2026, 1, 1).date(), datetime(2026, 1, 1).date(), datetime(2026, 1, 2).date(),
        None, datetime(2025, 12, 31).date()]),
    ("long", "ms", "BIGINT", pa.int64(), [
        1767225600000, 1767311999999, 1767312000000, None, 1767225599999]),
    ("int", "%Y%m%d", "INT", pa.int32(), [20260101, 20260101, 20260102, None, 20251231]),
    ("int", "d", "INT", pa.int32(), [20454, 20454, 20455, None, 20453]),
    ("string", "%Y-%m-%d", "STRING", pa.string(), [
        "2026-01-01", "2026-01-01", "2026-01-02", None, "2025-12-31"]),
]  # fmt: skip


@pytest.mark.parametrize(("type", "pattern", "sql_type", "arrow_type", "values"), VALUES)
def test_late_rows_are_counted_for_every_kind_of_column(
    lake: Warehouse,
    type: str,
    pattern: str,
    sql_type: str,
    arrow_type: pa.DataType,
    values: list[Any],
) -> None:
    column = TimeColumn.of({"id": 1, "name": "ts", "type": type}, pattern)
    layout = ChunkLayout(column, Unit.DAY)
    catalogs = lake.services(TODAY).config.catalogs
    frame = lake.spark.createDataFrame([(value,) for value in values], f"ts {sql_type}")
    spark = SparkGuardedWriter(lake.spark, catalogs)
    arrow = ArrowGuardedWriter(catalogs)
    table = pa.table({"ts": pa.array(values, arrow_type)})
    for dropped in ((DAY_1,), (DAY_1, "unbounded"), (DAY_1, "2019-01-01")):
        assert spark.late(frame, layout, dropped) == {DAY_1: 2}
        assert arrow.late(table, layout, dropped) == {DAY_1: 2}
    both = ("2025-12-31", DAY_2)
    assert spark.late(frame, layout, both) == {"2025-12-31": 1, DAY_2: 1}
    assert arrow.late(table, layout, both) == {"2025-12-31": 1, DAY_2: 1}


@pytest.mark.parametrize(
    "parts",
    [
        "",
        "hours(ts)",
        "months(ts), user",
        "days(day), truncate(2, word)",
        "bucket(4, id), years(ts)",
    ],
)
def test_arrow_rows_lie_in_the_partitions_where_spark_looks_for_them(
    lake: Warehouse, parts: str
) -> None:
    lake.sql("DROP TABLE IF EXISTS {parts} PURGE")
    cut = f"PARTITIONED BY ({parts})" if parts else ""
    lake.sql(
        "CREATE TABLE {parts} (id BIGINT, ts TIMESTAMP_NTZ, day DATE, user INT, word STRING)"
        f" USING iceberg {cut}"
    )
    moments = [datetime(1969, 12, 31, 23, 30), datetime(2026, 3, 31, 23, 59, 59, 999999), None]
    rows = pa.table({
        "id": pa.array([1, 2, 3], pa.int64()),
        "ts": pa.array(moments, pa.timestamp("us")),
        "word": pa.array(["abc", None, "abd"]),
        "user": pa.array([7, None, 9], pa.int64()),
        "day": pa.array([None if m is None else m.date() for m in moments], pa.date32()),
    })  # fmt: skip
    writer = ArrowGuardedWriter(lake.services(TODAY).config.catalogs)
    assert writer.append(lw.name(lake, "parts"), rows, None)
    assert writer.append(lw.name(lake, "parts"), rows, lw.head(lake, "parts"))
    assert not writer.append(lw.name(lake, "parts"), rows, None)
    found = {}
    for id, where in (
        (1, "ts < TIMESTAMP_NTZ '1970-01-01 00:00:00' AND day = DATE '1969-12-31' AND user = 7"),
        (2, "ts >= TIMESTAMP_NTZ '2026-03-31 23:00:00' AND word IS NULL AND user IS NULL"),
        (3, "ts IS NULL AND day IS NULL AND word = 'abd' AND id = 3"),
    ):
        (count,) = lake.sql(f"SELECT count(*) FROM {{parts}} WHERE {where}")
        found[id] = count[0]
    assert found == {1: 2, 2: 2, 3: 2}
    assert set(lake.document("parts")["refs"]) == {"main"}
