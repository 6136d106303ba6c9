"""The worked example of TT-54, step by step: stock Spark writes and reads, the clock is injected.

Times, names and row counts are the example's own. What an engine commits carries the real time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from pyspark.errors import AnalysisException

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.app.catalog.resolve import find_object
from meltline.app.drop.drop import drop, rename
from meltline.app.drop.history import Listed, history
from meltline.app.drop.undrop import undrop
from meltline.app.retention.policies import change_policy
from meltline.app.services import ReadContext
from meltline.config.load import load_config
from meltline.domain.clock import FixedClock
from meltline.domain.drop.drops import KEYS
from meltline.domain.drop.history import HistoryRow
from meltline.domain.errors import NameConflict, NotDropped
from meltline.domain.retention.policy import RETENTION
from meltline.wiring import Wiring
from tests.spark.setups.warehouse import SPACE, Warehouse

pytestmark = pytest.mark.spark

CATALOG = "worked"
DROPPED_V1, DROPPED_V2 = "2016-05-13T19:04:46-07:00", "2016-05-13T19:05:51-07:00"


@dataclass
class Example:
    """The schema of the example; commands run at the times that it names."""

    warehouse: Warehouse
    ledgers: ReadContext

    def at(self, moment: str) -> ReadContext:
        return replace(self.ledgers, clock=FixedClock(datetime.fromisoformat(moment)))

    def name(self, table: str) -> str:
        return f"{CATALOG}.{SPACE}.{table}"

    def create(self, table: str, rows: int, kind: str = "BIGINT") -> None:
        self.warehouse.sql(f"CREATE TABLE {{{table}}} (a {kind}) USING iceberg")
        if rows:
            self.warehouse.sql(f"INSERT INTO {{{table}}} SELECT id FROM range({rows})")

    def rows_of(self, table: str) -> int:
        return int(self.warehouse.sql(f"SELECT count(*) FROM {{{table}}}")[0][0])

    def listing(self, moment: str) -> list[HistoryRow]:
        within = f"{CATALOG}.{SPACE}"
        return history(self.at(moment), Listed.TABLES, within=within)[0]

    def shown(self, moment: str) -> list[tuple[str, int | None, bool]]:
        """Name, rows, and whether it is a dropped one."""
        found = self.listing(moment)
        return [(row.name, row.rows, row.dropped_on is not None) for row in found]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    warehouse = Warehouse.empty(tmp_path_factory.mktemp("worked"), CATALOG)
    # As the docs advise: a table made anew under an old name gets a folder of its own.
    warehouse.spark.conf.set(f"spark.sql.catalog.{CATALOG}.unique-table-location", "true")
    config = load_config(warehouse.yaml, {"MELTLINE_USER": "tester"}, warehouse.root)
    # The ledger's clock stands before all of it: it writes the newest time that there was.
    before = FixedClock(datetime.fromisoformat("2016-05-13T00:00:00-07:00"))
    control = sql_control_ledger(config.control, before)
    ledgers = replace(Wiring(config).ledgers(), clock=before, control=control)
    ledgers.control.database.prepare()
    made = Example(warehouse, ledgers)
    schema = find_object(ledgers, f"{CATALOG}.{SPACE}")
    change_policy(ledgers, schema, {RETENTION: "1"}, dry_run=False)
    yield made


def test_the_worked_example_goes_as_it_is_written(example: Example) -> None:
    load, sql = example.name("loaddata1"), example.warehouse.sql
    # 1: two live tables
    example.create("loaddata1", 48)
    example.create("proddata1", 12)
    now = "2016-05-13T19:00:00-07:00"
    assert example.shown(now) == [("loaddata1", 48, False), ("proddata1", 12, False)]
    first = example.listing(now)[0]
    assert first.retention_time == 1 and first.bytes

    # 2: the first version is dropped
    drop(example.at(DROPPED_V1), load)
    assert example.shown(DROPPED_V1) == [("proddata1", 12, False), ("loaddata1", 48, True)]
    with pytest.raises(AnalysisException):
        example.rows_of("loaddata1")

    # 3: a second version comes and goes, a third is there
    example.create("loaddata1", 4)
    second = example.listing(DROPPED_V1)[0]
    drop(example.at(DROPPED_V2), load)
    example.create("loaddata1", 0, "STRING")
    now = "2016-05-13T19:06:01-07:00"
    assert example.shown(now) == [
        ("loaddata1", 0, False), ("proddata1", 12, False),
        ("loaddata1", 4, True), ("loaddata1", 48, True),
    ]  # fmt: skip
    third = example.listing(now)[0]
    assert third.bytes == 0
    assert [row.dropped_on for row in example.listing(now)][2:] == [
        datetime.fromisoformat(DROPPED_V2), datetime.fromisoformat(DROPPED_V1)
    ]  # fmt: skip

    # 4: the name is in use; once it is free, the second version is back
    with pytest.raises(NameConflict):
        undrop(example.at(now), load)
    rename(example.at(now), load, example.name("loaddata3"))
    undrop(example.at(now), load)
    assert example.rows_of("loaddata1") == 4 and example.rows_of("loaddata3") == 0
    assert example.shown(now) == [
        ("loaddata1", 4, False), ("loaddata3", 0, False), ("proddata1", 12, False),
        ("loaddata1", 48, True),
    ]  # fmt: skip
    assert example.listing(now)[0].created_on == second.created_on

    # 5: once more, and all four are there
    rename(example.at(now), load, example.name("loaddata2"))
    undrop(example.at(now), load)
    assert example.shown(now) == [
        ("loaddata1", 48, False), ("loaddata2", 4, False), ("loaddata3", 0, False),
        ("proddata1", 12, False),
    ]  # fmt: skip
    back = example.listing(now)[0]
    assert (back.created_on, back.bytes) == (first.created_on, first.bytes)
    with pytest.raises(NotDropped):
        undrop(example.at(now), example.name("loaddata9"))

    # and stock Spark finds each of them whole, and writes to it
    for table, rows in (("loaddata1", 48), ("loaddata2", 4), ("loaddata3", 0), ("proddata1", 12)):
        assert example.rows_of(table) == rows
        properties = {row[0] for row in sql(f"SHOW TBLPROPERTIES {{{table}}}")}
        assert not properties & set(KEYS)
    sql("INSERT INTO {loaddata1} VALUES (48)")
    assert example.rows_of("loaddata1") == 49


def test_a_dropped_schema_is_gone_for_spark_and_comes_back_with_its_tables(
    example: Example,
) -> None:
    sql = example.warehouse.spark.sql
    sql(f"CREATE NAMESPACE {CATALOG}.deep WITH DBPROPERTIES ('steward'='ann')")
    sql(f"CREATE TABLE {CATALOG}.deep.t USING iceberg AS SELECT 1 a")
    now = "2016-05-14T08:00:00-07:00"
    drop(example.at(now), f"{CATALOG}.deep")
    assert ("deep",) not in {tuple(row) for row in sql(f"SHOW NAMESPACES IN {CATALOG}").collect()}
    undrop(example.at(now), f"{CATALOG}.deep")
    assert sql(f"SELECT a FROM {CATALOG}.deep.t").collect()[0][0] == 1
    described = sql(f"DESCRIBE NAMESPACE EXTENDED {CATALOG}.deep").collect()
    assert "ann" in str([tuple(row) for row in described])
