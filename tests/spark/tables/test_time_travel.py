"""Time travel on real tables: the right rows, under the present columns or the old ones."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meltline.adapters.spark.snapshot_reader import SparkSnapshotReader, collected
from meltline.app.time_travel.query import Answer, SchemaChoice, query
from meltline.domain.errors import OutsideRetention, SchemaIncompatible, StatementNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import (
    Moment,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
)
from tests.spark.setups.warehouse import SPACE, Warehouse, setting

pytestmark = pytest.mark.spark

STATEMENT = "spark.sql.iceberg.snapshot-property.meltline.statement-id"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    made = Warehouse.empty(tmp_path_factory.mktemp("past"), "past")
    made.init(datetime.now(UTC))
    yield made


def answer(
    lake: Warehouse, table: str, point: TravelPoint, schema: SchemaChoice = SchemaChoice.CURRENT
) -> Answer:
    services = lake.services(datetime.now(UTC) + timedelta(seconds=1))
    reader = SparkSnapshotReader(lake.spark, services.config.catalogs)
    name = TableName(lake.catalog, (SPACE,), table)
    return query(services, lambda: reader, name, point, schema=schema)


def rows(lake: Warehouse, table: str, point: TravelPoint, **more: Any) -> list[tuple[Any, ...]]:
    read = answer(lake, table, point, **more).read
    return sorted(read.rows, key=json.dumps)


def at_snapshot(lake: Warehouse, table: str, position: int) -> TravelPoint:
    """The point at which a table's snapshot of that position was committed."""
    log = lake.document(table)["snapshot-log"][position]
    moment = datetime.fromtimestamp(log["timestamp-ms"] / 1000, UTC)
    return TravelPoint(PointSide.AT, Moment(moment))


def columns(lake: Warehouse, table: str, point: TravelPoint, **more: Any) -> list[tuple[str, str]]:
    return [(c.name, c.type) for c in answer(lake, table, point, **more).read.columns]


def test_old_rows_come_under_the_present_columns_by_field_id(lake: Warehouse) -> None:
    lake.sql(
        "CREATE TABLE {evolved} (id INT, `my name` STRING, gone STRING, d DECIMAL(9,2),"
        " s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<y: INT>>)"
        " USING iceberg",
        "INSERT INTO {evolved} VALUES (1, 'one', 'bye', 1.50, struct(7, 'b'),"
        " array(struct(3), null), map('k', struct(4))), (2, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    for change in (
        "DROP COLUMN gone",
        "ADD COLUMN gone INT",  # the old name, another column
        "RENAME COLUMN `my name` TO `na``me`",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN d TYPE DECIMAL(12,2)",
        "RENAME COLUMN s.a TO z",
        "ADD COLUMN s.new STRING",
        "ADD COLUMN l.element.w STRING",
        "RENAME COLUMN m.value.y TO yy",
        "ALTER COLUMN gone FIRST",
    ):
        lake.sql(f"ALTER TABLE {{evolved}} {change}")
    lake.sql("INSERT INTO {evolved} (id) VALUES (3)")
    point = at_snapshot(lake, "evolved", 0)
    assert columns(lake, "evolved", point) == [
        ("gone", "int"), ("id", "bigint"), ("na`me", "string"), ("d", "decimal(12,2)"),
        ("s", "struct<z:int,b:string,new:string>"), ("l", "array<struct<x:int,w:string>>"),
        ("m", "map<string,struct<yy:int>>"),
    ]  # fmt: skip
    one, two = rows(lake, "evolved", point)
    assert one == (
        None, 1, "one", 1.5, {"z": 7, "b": "b", "new": None}, [{"x": 3, "w": None}, None],
        {"k": {"yy": 4}},
    )  # fmt: skip
    assert two == (None, 2, None, None, None, None, None)
    own = rows(lake, "evolved", point, schema=SchemaChoice.SNAPSHOT)
    assert own[0] == (1, "one", "bye", 1.5, {"a": 7, "b": "b"}, [{"x": 3}, None], {"k": {"y": 4}})


def test_after_a_change_of_the_partitioning_old_and_new_times_have_their_rows(
    lake: Warehouse,
) -> None:
    lake.create("parted", more="PARTITIONED BY (part)")
    lake.append("parted", 0)
    lake.sql("ALTER TABLE {parted} REPLACE PARTITION FIELD part WITH bucket(4, id)")
    lake.append("parted", 10)
    lake.sql("DELETE FROM {parted} WHERE id IN (1, 11)")
    ids = [
        [row[0] for row in rows(lake, "parted", at_snapshot(lake, "parted", position))]
        for position in range(3)
    ]
    assert [sorted(found) for found in ids] == [
        [0, 1, 2, 3], [0, 1, 2, 3, 10, 11, 12, 13], [0, 2, 3, 10, 12, 13]
    ]  # fmt: skip


def test_a_replaced_table_shows_its_old_rows_and_refuses_a_column_that_became_another(
    lake: Warehouse,
) -> None:
    lake.sql(
        "CREATE TABLE {replaced} USING iceberg AS SELECT 1 AS id, 'a' AS word",
    )
    old = at_snapshot(lake, "replaced", 0)
    lake.sql("CREATE OR REPLACE TABLE {replaced} USING iceberg AS SELECT 2 AS id, 'b' AS other")
    assert rows(lake, "replaced", old) == [(1, None)]
    assert rows(lake, "replaced", old, schema=SchemaChoice.SNAPSHOT) == [(1, "a")]
    lake.sql("CREATE OR REPLACE TABLE {replaced} USING iceberg AS SELECT 'x' AS id")
    with pytest.raises(SchemaIncompatible, match="id was int then and is string now"):
        rows(lake, "replaced", old)


def test_an_empty_table_has_columns_and_no_rows(lake: Warehouse) -> None:
    lake.create("fresh")
    now = TravelPoint(PointSide.AT, Moment(datetime.now(UTC) + timedelta(seconds=1)))
    found = answer(lake, "fresh", now)
    assert found.located.resolved.snapshot_id is None and found.read.rows == ()
    assert [c.name for c in found.read.columns] == ["id", "part"]
    with pytest.raises(OutsideRetention):
        answer(lake, "fresh", TravelPoint(PointSide.AT, Moment(datetime(2020, 1, 1, tzinfo=UTC))))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {said} SELECT 50, 1",
        "UPDATE {said} SET part = 9 WHERE id = 0",
        "DELETE FROM {said} WHERE id = 0",
        "INSERT OVERWRITE {said} SELECT 50, 1",
        "MERGE INTO {said} t USING (SELECT 0 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_plain_sql_carries_its_statement_id(lake: Warehouse, statement: str) -> None:
    lake.sql("DROP TABLE IF EXISTS {said}")
    lake.create("said", more="PARTITIONED BY (part)")
    lake.append("said", 0)
    before = rows(lake, "said", at_snapshot(lake, "said", 0))
    with setting(lake.spark, STATEMENT, "s-1"):
        lake.sql(statement)
    after = rows(lake, "said", at_snapshot(lake, "said", -1))
    lake.append("said", 100)
    assert rows(lake, "said", TravelPoint(PointSide.BEFORE, StatementPoint("s-1"))) == before
    assert rows(lake, "said", TravelPoint(PointSide.AT, StatementPoint("s-1"))) == after != before


@pytest.mark.parametrize(
    "statement", ["DELETE FROM {said} WHERE part = 1", "TRUNCATE TABLE {said}"]
)
def test_plain_sql_that_deletes_whole_files_carries_none_and_nobody_guesses(
    lake: Warehouse, statement: str
) -> None:
    lake.sql("DROP TABLE IF EXISTS {said}")
    lake.create("said", more="PARTITIONED BY (part)")
    lake.append("said", 0)
    with setting(lake.spark, STATEMENT, "s-1"):
        lake.sql(statement)
    with pytest.raises(StatementNotFound):
        rows(lake, "said", TravelPoint(PointSide.BEFORE, StatementPoint("s-1")))


def test_a_tag_is_read_by_its_snapshot_even_if_its_name_is_odd(lake: Warehouse) -> None:
    lake.create("tagged")
    lake.append("tagged", 0)
    lake.sql("ALTER TABLE {tagged} CREATE TAG `it's`")
    lake.append("tagged", 10)
    found = rows(lake, "tagged", TravelPoint(PointSide.AT, TagPoint("it's")))
    assert [row[0] for row in found] == [0, 1, 2, 3]


def test_values_keep_their_digits(lake: Warehouse) -> None:
    frame = lake.spark.sql(
        "SELECT CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)) AS d,"
        " 9223372036854775807 AS n, TIMESTAMP '2024-06-26 09:20:00.123456-07:00' AS t,"
        " TIMESTAMP_NTZ '2024-06-26 09:20:00.5' AS u, X'00ff' AS b, 0.1D AS f, 1 AS n, NULL AS z"
    )
    read = collected(frame)
    assert [column.name for column in read.columns] == ["d", "n", "t", "u", "b", "f", "n", "z"]
    assert read.rows == (
        (
            "12345678901234567890.123456789012345678", 9223372036854775807,
            "2024-06-26T16:20:00.123456Z", "2024-06-26T09:20:00.500000", "AP8=", 0.1, 1, None,
        ),
    )  # fmt: skip
