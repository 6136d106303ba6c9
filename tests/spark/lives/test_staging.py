"""Staged commit times: stock Spark reads the past that was staged, and nothing else changed."""

import json
import sqlite3
from collections.abc import Iterator, KeysView, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from demo.staging import local_path, read_head, stage_commit_times
from demo.warehouse import build
from meltline.adapters.spark.session import open_session
from meltline.config.load import load_config
from meltline.domain.errors import MetadataUnreadable, PlanStale, TableNotFound, UsageInvalid
from meltline.domain.units import to_millis

TODAY = datetime(2026, 3, 1, tzinfo=UTC)
TIMES = ("snapshots", "snapshot-log", "metadata-log", "last-updated-ms")

Document = dict[str, Any]


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)


# --- without Spark: a catalog row and a metadata file are all it takes ---------------------------


@dataclass(frozen=True)
class Lake:
    """A SQL catalog with one table, `air.t`, whose metadata file was written by hand."""

    root: Path

    @classmethod
    def with_commits(cls, root: Path, *made: int, **more: Any) -> "Lake":
        lake = cls(root)
        head = root / "metadata" / "00007-aaaa.metadata.json"
        head.parent.mkdir()
        snapshots = [
            {"snapshot-id": n, "timestamp-ms": at, "manifest-list": f"snap-{n}.avro"}
            for n, at in enumerate(made, start=1)
        ]
        document = {
            "table-uuid": "u",
            "last-updated-ms": made[-1],
            "snapshots": snapshots,
            "snapshot-log": [
                {"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]}
                for s in snapshots
            ],
            "metadata-log": [
                {"timestamp-ms": at, "metadata-file": f"{n:05d}-x.metadata.json"}
                for n, at in enumerate(made[:-1])
            ],
            **more,
        }
        head.write_text(json.dumps(document))
        with closing(sqlite3.connect(lake.db)) as connection, connection:
            connection.execute(
                "CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT,"
                " table_name TEXT, metadata_location TEXT, previous_metadata_location TEXT)"
            )
            connection.execute(
                "INSERT INTO iceberg_tables VALUES ('lake', 'air', 't', ?, NULL)",
                (f"file:{head}",),
            )
        return lake

    @property
    def db(self) -> Path:
        return self.root / "catalog.db"

    def stage(self, times: Mapping[int, datetime]) -> Document:
        stage_commit_times(self.db, "lake", "air", "t", times)
        return self.head()

    def head(self) -> Document:
        return read_head(self.db, "lake", "air", "t")

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.root / "metadata").iterdir())

    def move_head(self, location: str) -> None:
        with closing(sqlite3.connect(self.db)) as connection, connection:
            connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))


def test_all_else_in_the_metadata_stays_also_what_no_one_knows(tmp_path: Path) -> None:
    lake = Lake.with_commits(tmp_path, 1000, 2000, **{"from-the-future": {"deep": [2**62, 0.5]}})
    before = lake.head()
    after = lake.stage({1: day(0), 2: day(1)})
    assert before.keys() == after.keys()
    assert {k: v for k, v in before.items() if k not in TIMES} == {
        k: v for k, v in after.items() if k not in TIMES
    }
    assert [s["timestamp-ms"] for s in after["snapshots"]] == [to_millis(day(0)), to_millis(day(1))]
    assert [s["manifest-list"] for s in after["snapshots"]] == ["snap-1.avro", "snap-2.avro"]


def test_what_happened_between_two_commits_stays_between_them(tmp_path: Path) -> None:
    lake = Lake.with_commits(
        tmp_path,
        1000,
        2000,
        **{
            "last-updated-ms": 2500,
            "snapshot-log": [
                {"snapshot-id": 1, "timestamp-ms": 1000},
                {"snapshot-id": 2, "timestamp-ms": 2000},
                {"snapshot-id": 1, "timestamp-ms": 2400},  # a rollback
            ],
            "metadata-log": [
                {"timestamp-ms": 900, "metadata-file": "created"},
                {"timestamp-ms": 1000, "metadata-file": "first commit"},
                {"timestamp-ms": 1700, "metadata-file": "tag"},
                {"timestamp-ms": 2000, "metadata-file": "second commit"},
                {"timestamp-ms": 2400, "metadata-file": "rollback"},
            ],
        },
    )
    after = lake.stage({1: day(0), 2: day(0) + timedelta(milliseconds=500)})
    first = to_millis(day(0))
    log = {entry["metadata-file"]: entry["timestamp-ms"] - first for entry in after["metadata-log"]}
    assert list(log.values())[:5] == [-100, 0, 499, 500, 900]  # the tag before the second commit
    assert [entry["timestamp-ms"] - first for entry in after["snapshot-log"]] == [0, 500, 900]
    assert after["last-updated-ms"] - first == 1000


def test_commits_of_the_same_millisecond_are_told_apart(tmp_path: Path) -> None:
    after = Lake.with_commits(tmp_path, 1000, 1000).stage({1: day(0), 2: day(1)})
    assert [s["timestamp-ms"] for s in after["snapshots"]] == [to_millis(day(0)), to_millis(day(1))]
    assert [s["timestamp-ms"] for s in after["snapshot-log"]] == [
        to_millis(day(0)),
        to_millis(day(1)),
    ]


def test_the_former_head_stays_and_is_in_the_log(tmp_path: Path) -> None:
    lake = Lake.with_commits(tmp_path, 1000)
    after = lake.stage({1: day(0)})
    former, new = lake.files()
    assert former == "00007-aaaa.metadata.json"
    assert new.startswith("00008-")
    assert after["metadata-log"][-1]["metadata-file"] == f"file:{tmp_path}/metadata/{former}"


def test_a_commit_that_is_not_named_keeps_its_time(tmp_path: Path) -> None:
    today = to_millis(TODAY)
    after = Lake.with_commits(tmp_path, today, today + 5).stage({1: day(0)})
    assert [s["timestamp-ms"] for s in after["snapshots"]] == [to_millis(day(0)), today + 5]


@pytest.mark.parametrize(
    "times",
    [{1: day(1), 2: day(0)}, {1: day(0), 2: day(0)}, {1: day(0), 9: day(1)}, {1: day(0)}],
    ids=["swapped", "equal", "unknown", "later-than-one-not-named"],
)
def test_times_that_do_not_fit_change_nothing(
    tmp_path: Path, times: Mapping[int, datetime]
) -> None:
    lake = Lake.with_commits(tmp_path, 1000, 2000)
    before = lake.head()
    with pytest.raises(UsageInvalid):
        lake.stage(times)
    assert lake.head() == before
    assert lake.files() == ["00007-aaaa.metadata.json"]


def test_a_commit_in_the_meantime_wins_and_no_file_is_left_behind(tmp_path: Path) -> None:
    lake = Lake.with_commits(tmp_path, 1000)
    theirs = tmp_path / "metadata" / "00008-theirs.metadata.json"
    theirs.write_text("{}")

    class Meddling(dict[int, datetime]):
        """Times during whose reading somebody else commits."""

        def keys(self) -> KeysView[int]:  # type: ignore[override]
            lake.move_head(str(theirs))
            return super().keys()

    with pytest.raises(PlanStale):
        lake.stage(Meddling({1: day(0)}))
    assert lake.head() == {}
    assert lake.files() == ["00007-aaaa.metadata.json", theirs.name]


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    lake = Lake.with_commits(tmp_path, 1000)
    with pytest.raises(TableNotFound) as refused:
        stage_commit_times(lake.db, "lake", "air", "other", {})
    assert refused.value.object == "lake.air.other"


@pytest.mark.parametrize("name", ["00008-a.gz.metadata.json", "v8.metadata.json"])
def test_a_metadata_file_of_another_kind_is_left_alone(tmp_path: Path, name: str) -> None:
    lake = Lake.with_commits(tmp_path, 1000)
    other = tmp_path / "metadata" / name
    other.write_text(json.dumps(lake.head()))
    lake.move_head(f"file:{other}")
    with pytest.raises(MetadataUnreadable):
        lake.stage({1: day(0)})


def test_only_local_files_are_staged() -> None:
    assert local_path("file:///a/t[1]") == local_path("file:/a/t[1]") == Path("/a/t[1]")
    with pytest.raises(MetadataUnreadable):
        local_path("s3://bucket/a")


# --- with Spark: is it a past to those who read it? ----------------------------------------------


@dataclass(frozen=True)
class Warehouse:
    """A session and a catalog of its own."""

    spark: SparkSession
    root: Path
    catalog: str = "staging"

    @property
    def db(self) -> Path:
        return self.root / "catalog.db"

    def one(self, query: str) -> Any:
        return self.spark.sql(query).collect()[0][0]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    root = tmp_path_factory.mktemp("staging")
    (root / "meltline.yaml").write_text(
        "control: sqlite:///control.db\n"
        "hot: staging\n"
        "catalogs:\n"
        "  staging:\n"
        "    type: sql\n"
        f"    uri: sqlite:///{root}/catalog.db\n"
        f"    warehouse: file://{root}/wh\n"
    )
    spark = open_session(load_config(root / "meltline.yaml", {}, root), "test_staging")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield Warehouse(spark, root)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


@pytest.mark.spark
def test_spark_travels_to_staged_times_and_commits_on(warehouse: Warehouse) -> None:
    table = "staging.air.t"
    sql = warehouse.spark.sql
    sql("CREATE NAMESPACE IF NOT EXISTS staging.air")
    sql(f"CREATE TABLE {table} (n BIGINT) USING iceberg")
    sql(f"INSERT INTO {table} VALUES (1)")
    sql(f"ALTER TABLE {table} CREATE TAG first")
    sql(f"INSERT INTO {table} VALUES (2)")
    sql(f"INSERT INTO {table} VALUES (3)")
    first, second, third = (
        row[0]
        for row in sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    )
    sql(f"CALL staging.system.rollback_to_snapshot('air.t', {second})")

    times = {first: day(0), second: day(10), third: day(20)}
    stage_commit_times(warehouse.db, "staging", "air", "t", times)

    for number, rows in ((5, 1), (10, 2), (19, 2), (20, 3)):
        moment = f"{day(number):%Y-%m-%d %H:%M:%S}"
        assert warehouse.one(f"SELECT count(*) FROM {table} TIMESTAMP AS OF '{moment}'") == rows
    with pytest.raises((AnalysisException, IllegalArgumentException)):
        warehouse.one(f"SELECT count(*) FROM {table} TIMESTAMP AS OF '2025-12-31 00:00:00'")
    assert warehouse.one(f"SELECT count(*) FROM {table} VERSION AS OF 'first'") == 1
    assert warehouse.one(f"SELECT count(*) FROM {table}") == 2  # rolled back

    sql(f"INSERT INTO {table} VALUES (4)")
    document = read_head(warehouse.db, "staging", "air", "t")
    log = [entry["timestamp-ms"] for entry in document["metadata-log"]]
    assert all(earlier <= later for earlier, later in pairwise(log))
    named = {local_path(entry["metadata-file"]).name for entry in document["metadata-log"]}
    there = {p.name for p in (warehouse.root / "wh/air/t/metadata").glob("[!.]*.metadata.json")}
    assert len(there - named) == 1  # the head, which its successor will name
    assert named < there


@pytest.mark.spark
@pytest.mark.slow("the demo's warehouse is built")
def test_the_demos_warehouse_has_the_past_it_promises(warehouse: Warehouse) -> None:
    facts = build(
        warehouse.spark,
        warehouse.catalog,
        warehouse.root / "wh",
        warehouse.db,
        TODAY,
        days=14,
    )
    one = warehouse.one
    flights = "staging.air.flights"
    # created, 14 loads, 2 merges, an update, a compaction, a delete, one commit on the branch
    assert [table.commits for table in facts.tables] == [21, 16, 15]
    assert [table.name.rpartition(".")[2] for table in facts.tables] == [
        "flights",
        "weather",
        "planes",
    ]
    assert {table.last_commit.date() for table in facts.tables} == {
        (TODAY - timedelta(days=1)).date()
    }
    first = one(f"SELECT CAST(min(committed_at) AS STRING) FROM {flights}.snapshots")
    assert first == "2026-02-15 01:00:00"
    in_a_week = "TIMESTAMP AS OF '2026-02-21 12:00:00'"  # the seventh day, after its merge
    assert one(f"SELECT max(day) FROM {flights} {in_a_week}") == datetime(2013, 1, 7).date()
    # The merge has brought all that the loads had left out: the package's own counts.
    assert one(f"SELECT count(*) FROM {flights} {in_a_week}") == 6099
    assert one(f"SELECT count(*) FROM {flights} VERSION AS OF '{facts.tag}'") == 6099
    assert one(f"SELECT count(*) FROM {flights}.refs WHERE name = '{facts.tag}'") == 1
    assert (
        one(f"SELECT max_reference_age_in_ms FROM {flights}.refs WHERE name = '{facts.tag}'")
        is None
    )
    audited = f"FROM {flights} VERSION AS OF '{facts.branch}'"
    assert one(f"SELECT count(*) {audited} WHERE carrier = 'HA' AND day < DATE '2013-01-08'") == 0
    operations = f"SELECT count(*) FROM {flights}.snapshots WHERE operation ="
    assert one(f"{operations} 'replace'") == 1
    assert one(f"SELECT count(*) FROM {flights}.all_delete_files") > 0
    vectors = "SELECT count(*) FROM staging.air.weather.delete_files WHERE file_format = 'PUFFIN'"
    assert one(vectors) > 0
    assert one("SELECT count(*) FROM staging.air.planes.all_data_files") >= 14
    assert one("SELECT count(*) FROM staging.air.planes.data_files") == 1
    assert one(f"SELECT count(*) FROM {flights}") == facts.tables[0].rows
    assert warehouse.spark.catalog.listTables() == []  # the source's views are gone


@pytest.mark.parametrize(
    ("today", "days"), [(TODAY + timedelta(hours=1), 45), (TODAY, 13), (TODAY, 366)]
)
def test_a_past_that_cannot_be_told_is_refused(today: datetime, days: int) -> None:
    nobody: Any = None
    with pytest.raises(UsageInvalid):
        build(nobody, "lake", Path(), Path(), today, days=days)
