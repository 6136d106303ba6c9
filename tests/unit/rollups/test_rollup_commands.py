"""Commands about rollups, as far as they start no JVM: list, drop, and what is refused."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, TimestamptzType

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.cli.main import run
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import ROLLUP_HEAD, ROLLUP_OF, ROLLUP_SNAPSHOT, Rollup
from meltline.domain.clock import WallClock
from meltline.domain.iceberg.names import TableName

SOURCE, ROLLUP = "lake.air.readings", "lake.air._rollup_daily"
DAYS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
BUCKETS = Schema(
    NestedField(1, "bucket", TimestamptzType(), required=False),
    NestedField(2, "n", LongType(), required=False),
)
QUERY = "SELECT time_bucket('1 day', day) AS bucket, count(*) AS n FROM readings GROUP BY 1"
CONFIG = """control: sqlite:///control.db
hot: lake
catalogs:
  lake: {type: sql, uri: "sqlite:///catalog.db", warehouse: w}
"""
FIRST, SECOND = (datetime(2026, 1, day, tzinfo=UTC) for day in (5, 6))


@dataclass(frozen=True)
class Commands:
    """A lake in a folder with a table of one day, and the command line."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> tuple[int, Any]:
        code, text = self.text(*words, "--json")
        return code, json.loads(text)

    def text(self, *words: str) -> tuple[int, str]:
        """What a person sees."""
        self.capsys.readouterr()
        code = run([*words, "--config", str(self.folder / "meltline.yaml")])
        return code, self.capsys.readouterr().out

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(
            "lake",
            uri=f"sqlite:///{self.folder}/catalog.db",
            warehouse=f"file://{self.folder}/w",
        )

    def append(self, day: datetime) -> None:
        """Somebody writes a row of that day."""
        catalog = self.catalog()
        rows = {"id": [1], "day": pa.array([day.date()], pa.date32())}
        catalog.load_table("air.readings").append(pa.table(rows))
        catalog.close()

    def declare(self, name: str = "daily", depends_on: tuple[str, ...] = (), **more: Any) -> None:
        """A rollup that has the table's first day, as a refresh leaves it."""
        catalog = self.catalog()
        source = catalog.load_table("air.readings")
        table = catalog.create_table(f"air._rollup_{name}", BUCKETS)
        bucket = pa.array([FIRST], pa.timestamp("us", tz="UTC"))
        table.append(pa.table({"bucket": bucket, "n": [1]}))
        snapshot, head = source.current_snapshot(), table.current_snapshot()
        assert snapshot and head
        with table.transaction() as change:
            change.set_properties(
                {
                    ROLLUP_OF: str(source.metadata.table_uuid),
                    ROLLUP_SNAPSHOT: str(snapshot.snapshot_id),
                    ROLLUP_HEAD: str(head.snapshot_id),
                }
            )
        rollup = Rollup(
            id=0,
            name=name,
            table=TableName("lake", ("air",), f"_rollup_{name}"),
            table_uuid=str(table.metadata.table_uuid),
            source=TableName("lake", ("air",), "readings"),
            source_uuid=str(source.metadata.table_uuid),
            query=QUERY,
            width="1 day",
            bucket_column="bucket",
            depends_on=depends_on,
            created_at=FIRST,
            **more,
        )
        catalog.close()
        ledger = sql_control_ledger(f"sqlite:///{self.folder}/control.db", WallClock())
        ledger.rollups.add(rollup)
        ledger.database.close()


@pytest.fixture
def meltline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    (tmp_path / "w").mkdir()
    (tmp_path / "meltline.yaml").write_text(CONFIG)
    ledger = sql_control_ledger(f"sqlite:///{tmp_path}/control.db", WallClock())
    ledger.database.prepare()
    ledger.database.close()
    commands = Commands(tmp_path, capsys)
    catalog = commands.catalog()
    catalog.create_namespace("air")
    catalog.create_table("air.readings", DAYS, partition_spec=BY_DAY)
    catalog.close()
    commands.append(FIRST)
    assert commands("chunks", "tier-after", SOURCE, "9000d")[0] == 0  # now it is cut into chunks
    yield commands


def test_without_a_rollup_there_is_nothing_to_list_or_refresh(meltline: Commands) -> None:
    assert meltline("rollups", "list") == (0, {"rollups": []})
    assert "lakets.create_rollup" in meltline.text("rollups", "list")[1]
    assert meltline("rollups", "refresh") == (0, {"rollups": []})
    assert meltline.text("rollups", "refresh")[1] == "There is no rollup.\n"


def test_a_rollup_that_has_everything_is_listed_without_a_lag(meltline: Commands) -> None:
    meltline.declare()
    code, document = meltline("rollups", "list")
    (line,) = document["rollups"]
    assert (code, line["name"], line["table"], line["source"]) == (0, "daily", ROLLUP, SOURCE)
    assert (line["bucket"], line["watermark"]) == ("1 day", "2026-01-05T00:00:00Z")
    assert (line["lag"], line["dirty"], line["missed"], line["problem"]) == (0, 0, 0, None)


def test_rows_that_came_since_are_a_lag_and_make_their_buckets_dirty(meltline: Commands) -> None:
    meltline.declare()
    meltline.append(FIRST)
    meltline.append(SECOND)
    (line,) = meltline("rollups", "list")[1]["rollups"]
    assert (line["lag"], line["dirty"]) == (2, 2)


def test_what_frozen_buckets_have_missed_and_what_went_wrong_is_said(meltline: Commands) -> None:
    meltline.declare(missed=(TimeRange(FIRST, SECOND),), problem="somebody has locked it")
    (line,) = meltline("rollups", "list")[1]["rollups"]
    assert (line["missed"], line["problem"]) == (1, "somebody has locked it")
    assert "daily: somebody has locked it" in meltline.text("rollups", "list")[1]


def test_a_dropped_rollup_is_forgotten_and_its_table_can_be_brought_back(
    meltline: Commands,
) -> None:
    meltline.declare()
    assert meltline("rollups", "drop", "daily") == (0, {"name": "daily", "table": ROLLUP})
    assert meltline("rollups", "list") == (0, {"rollups": []})
    catalog = meltline.catalog()
    assert not catalog.table_exists("air._rollup_daily")
    catalog.close()
    assert meltline("undrop", ROLLUP)[0] == 0


def test_who_drops_a_rollup_without_an_engine_is_told_of_the_view_that_stays(
    meltline: Commands,
) -> None:
    meltline.declare(realtime_view="lake.air._rollup_rt_daily")
    code, text = meltline.text("rollups", "drop", "daily")
    assert code == 0 and "DROP VIEW lake.air._rollup_rt_daily" in text


def test_a_rollup_whose_table_was_dropped_by_itself_says_so_and_can_be_forgotten(
    meltline: Commands,
) -> None:
    meltline.declare()
    assert meltline("drop", ROLLUP)[0] == 0
    (line,) = meltline("rollups", "list")[1]["rollups"]
    assert "the table of rollup daily, is gone" in line["problem"]
    assert meltline("rollups", "drop", "daily") == (0, {"name": "daily", "table": ROLLUP})
    assert meltline("rollups", "list") == (0, {"rollups": []})


def test_a_rollup_that_another_one_reads_is_not_dropped(meltline: Commands) -> None:
    meltline.declare()
    meltline.declare("weekly", depends_on=("daily",))
    code, document = meltline("rollups", "drop", "daily")
    assert (code, document["error"]["type"]) == (2, "RollupInvalid")
    assert document["error"]["found"] == "weekly"
    assert meltline("rollups", "drop", "weekly")[0] == 0
    assert meltline("rollups", "drop", "daily")[0] == 0


@pytest.mark.parametrize("word", ["refresh", "drop"])
def test_a_name_that_is_none_is_answered_with_those_there_are(
    word: str, meltline: Commands
) -> None:
    meltline.declare()
    code, document = meltline("rollups", word, "dayly")
    assert (code, document["error"]["type"]) == (2, "RollupNotFound")
    assert document["error"]["expected"] == "daily"
