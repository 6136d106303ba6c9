"""Edits made without a JVM, as stock Spark and Iceberg see them: formats 1 to 3, and `variant`."""

from datetime import timedelta

import pytest
from pyspark.sql import Row

from meltline.app.catalog.resolve import find_object
from meltline.app.refs.branches import branch, publish, resync, rollback
from meltline.app.refs.tags import add_tag, remove_tag
from meltline.app.retention.holds import add_hold, remove_hold
from meltline.app.retention.policies import change_policy
from meltline.app.services import ReadContext
from meltline.config.load import load_config
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import RETENTION
from meltline.wiring import Wiring
from tests.spark.setups.warehouse import SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

CATALOG = "edits"
TABLES = {
    "v1": ("format-version=1", ""),
    "v2": ("format-version=2", ""),
    "v3": ("format-version=3", ""),
    "variant": ("format-version=3", ", v VARIANT"),
    "zipped": ("format-version=2,write.metadata.compression-codec=gzip", ""),
}


class Edited:
    """A table of four commits, looked at through stock Spark after each edit of ours."""

    def __init__(self, warehouse: Warehouse, ledgers: ReadContext, table: str) -> None:
        self.warehouse = warehouse
        self.ledgers = ledgers
        self.table = table
        self.name = TableName(CATALOG, (SPACE,), table)

    def sql(self, statement: str) -> list[Row]:
        return self.warehouse.sql(statement.replace("{t}", "{" + self.table + "}"))

    def count(self, version: str = "") -> int:
        return int(self.sql(f"SELECT count(*) FROM {{t}} {version}")[0][0])

    def refs(self) -> dict[str, tuple[str, int, int | None]]:
        """What Iceberg's own metadata table says of branches and tags."""
        found = self.warehouse.spark.sql(f"SELECT * FROM {self.warehouse.name(self.table)}.refs")
        rows = found.collect()
        return {
            r["name"]: (r["type"], r["snapshot_id"], r["max_reference_age_in_ms"]) for r in rows
        }

    def properties(self) -> dict[str, str]:
        return {row[0]: row[1] for row in self.sql("SHOW TBLPROPERTIES {t}")}

    def snapshots(self) -> list[int]:
        """Ids by commit time, oldest first."""
        table = self.warehouse.name(self.table)
        found = self.warehouse.spark.sql(
            f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at"
        )
        return [row[0] for row in found.collect()]

    def history(self) -> list[int]:
        found = self.warehouse.spark.sql(
            f"SELECT snapshot_id FROM {self.warehouse.name(self.table)}.history"
        )
        return [row[0] for row in found.collect()]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, ReadContext]:
    warehouse = Warehouse.empty(tmp_path_factory.mktemp("edits") / "it's a [lake]", CATALOG)
    for table, (properties, column) in TABLES.items():
        pairs = ", ".join("'{}'='{}'".format(*pair.split("=")) for pair in properties.split(","))
        warehouse.sql(
            f"CREATE TABLE {{{table}}} (id BIGINT{column}) USING iceberg TBLPROPERTIES ({pairs})"
        )
        value = ", parse_json('[1]')" if column else ""
        for start in range(0, 40, 10):
            warehouse.sql(
                f"INSERT INTO {{{table}}} SELECT id{value} FROM range({start}, {start}+10)"
            )
        if table != "zipped":
            warehouse.stage(table, timedelta(days=8), timedelta(days=2))
    environ = {"MELTLINE_USER": "tester"}
    config = load_config(warehouse.yaml, environ, warehouse.root)
    ledgers = Wiring(config, environ, lambda line: None).ledgers()
    ledgers.control.database.prepare()
    return warehouse, ledgers


@pytest.fixture(params=TABLES)
def edited(lake: tuple[Warehouse, ReadContext], request: pytest.FixtureRequest) -> Edited:
    return Edited(*lake, request.param)


def test_stock_spark_reads_and_writes_the_table_after_every_kind_of_edit(edited: Edited) -> None:
    ledgers, name = edited.ledgers, edited.name
    first, second, _, head = edited.snapshots()
    in_spark = f"{CATALOG}.{SPACE}.{edited.table}"

    add_tag(ledgers, name, "audit 1", Point(first), None, dry_run=False)
    assert edited.refs()["audit 1"] == ("TAG", first, 2**63 - 1)
    assert edited.count("VERSION AS OF 'audit 1'") == 10

    branch(ledgers, name, "try", Point(second), dry_run=False)
    assert edited.refs()["try"] == ("BRANCH", second, None)
    assert edited.count("VERSION AS OF 'try'") == 20

    rollback(ledgers, name, Point(second), dry_run=False)
    assert edited.count() == 20 and edited.history()[-1] == second

    rollback(ledgers, name, Point(head), dry_run=False)
    assert edited.count() == 40 and edited.history()[-2:] == [second, head]

    resync(ledgers, name, "try", dry_run=False)
    assert edited.refs()["try"][1] == head

    change_policy(ledgers, find_object(ledgers, in_spark), {RETENTION: "30"}, dry_run=False)
    assert edited.properties()[RETENTION] == "30"

    held = add_hold(ledgers, f"{in_spark}@{second}", reason='it\'s "odd" ж')
    assert edited.refs()[held.tag][:2] == ("TAG", second)
    whole = add_hold(ledgers, in_spark, reason="all of it")
    assert whole.key in edited.properties()

    write_on_branch(edited)
    publish(ledgers, name, "try", dry_run=False)
    assert edited.count() == 41

    edited.sql("INSERT INTO {t} SELECT * FROM {t} LIMIT 1")
    assert edited.count() == 42

    remove_tag(ledgers, name, "audit 1", dry_run=False)
    remove_hold(ledgers, held.id, reason="over")
    remove_hold(ledgers, whole.id, reason="over")
    assert edited.refs().keys() == {"main", "try"}
    assert whole.key not in edited.properties() and held.key not in edited.properties()


def write_on_branch(edited: Edited) -> None:
    """A stock commit on the branch that we made and moved."""
    table = edited.warehouse.name(edited.table)
    edited.warehouse.spark.sql(
        f"INSERT INTO {table}.branch_try SELECT * FROM {table} LIMIT 1"
    ).collect()


def test_everything_that_stock_iceberg_does_with_metadata_still_works(edited: Edited) -> None:
    """Its own commits, its expiry and its time travel, on metadata files that we have written."""
    add_tag(edited.ledgers, edited.name, "kept", Point(), 30, dry_run=False)
    head = edited.refs()["main"][1]
    edited.sql("ALTER TABLE {t} SET TBLPROPERTIES ('by'='spark')")
    edited.sql("ALTER TABLE {t} ADD COLUMN later INT")
    edited.sql("INSERT INTO {t} SELECT * FROM {t} LIMIT 1")
    now = (TODAY + timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    edited.sql(
        f"CALL expire_snapshots(table => '{SPACE}.{edited.table}', older_than => "
        f"TIMESTAMP '{now}', retain_last => 1)"
    )
    assert head in edited.snapshots()  # the tag kept it
    assert edited.count("VERSION AS OF 'kept'") == edited.count() - 1


def test_the_metadata_log_leads_back_through_our_files_and_iceberg_reads_it(
    edited: Edited,
) -> None:
    table = edited.warehouse.name(edited.table)
    rows = edited.warehouse.spark.sql(f"SELECT file FROM {table}.metadata_log_entries").collect()
    files = [row[0] for row in rows]
    numbers = [int(file.rpartition("/")[2].split("-")[0]) for file in files]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    suffix = ".gz.metadata.json" if edited.table == "zipped" else ".metadata.json"
    assert all(file.endswith(suffix) for file in files)
