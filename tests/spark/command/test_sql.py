"""The SQL of the sources on a real lake: by command and in a Python program."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import meltline
from meltline.cli.main import run
from meltline.domain.errors import (
    LeaseLost,
    StatementNotCompleted,
    StatementRefused,
    StatementUnsupported,
)
from meltline.domain.units import format_instant, from_millis
from meltline.wiring import Wiring
from tests.spark.setups.warehouse import SPACE, Warehouse

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    made = Warehouse.empty(tmp_path_factory.mktemp("sql"), "speaking")
    made.init(datetime.now(UTC))
    made.create("t", more="PARTITIONED BY (part)")
    made.append("t", 0, 10)
    made.sql("ALTER TABLE {t} RENAME COLUMN part TO half")
    made.create("u")
    made.append("u", 100)
    before = made.spark.catalog.currentCatalog()
    made.spark.sql(f"USE {made.catalog}.{SPACE}")
    yield made
    made.spark.catalog.setCurrentCatalog(before)


def rows(lake: Warehouse, text: str, **more: Any) -> list[tuple[Any, ...]]:
    found = meltline.sql(lake.spark, text, config=lake.yaml, **more).collect()
    return sorted(tuple(row) for row in found)


def first(lake: Warehouse, table: str = "t", position: int = 0) -> str:
    """When a table's first snapshot was committed, as a clause."""
    log = lake.document(table)["snapshot-log"][position]
    return f"AT(TIMESTAMP => '{format_instant(from_millis(log['timestamp-ms']))}')"


def ids(*values: int) -> list[tuple[int]]:
    return [(value,) for value in values]


# --- where clauses may stand ----------------------------------------------------------------------


def test_rows_of_the_past_come_under_the_present_columns(lake: Warehouse) -> None:
    at = first(lake)
    frame = meltline.sql(lake.spark, f"SELECT * FROM t {at}", config=lake.yaml)
    assert frame.columns == ["id", "half"] and frame.count() == 4
    own = meltline.sql(lake.spark, f"SELECT * FROM t {at}", config=lake.yaml, schema="snapshot")
    assert own.columns == ["id", "part"]
    assert rows(lake, "SELECT count(*) FROM t") == [(8,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.id FROM t {at} WHERE t.half = 1",
        "SELECT x.id FROM t {at} x WHERE x.half = 1",
        "SELECT x.i FROM t {at} AS x(i, h) WHERE h = 1",
        "SELECT id FROM speaking.n.t {at} WHERE half = 1",
        "WITH c AS (SELECT * FROM t {at}) SELECT id FROM c WHERE half = 1",
        "SELECT id FROM (SELECT * FROM n.t {at}) WHERE half = 1",
        "SELECT id FROM t {at} LEFT ANTI JOIN (SELECT 0 AS half) z USING (half)",
        "SELECT t.id FROM t {at} JOIN t {now} n ON t.id = n.id WHERE n.half = 1",
        "SELECT id FROM t {at} WHERE id IN (SELECT id FROM t {now}) AND half = 1",
        "SELECT id FROM t {at} TABLESAMPLE (100 PERCENT) WHERE half = 1",
        "SELECT id FROM t {at} LATERAL VIEW explode(array(1)) e WHERE half = 1",
        "SELECT id FROM t {at} WHERE half = 1 UNION SELECT id FROM t {at} WHERE half = 1",
        "SELECT id, '{at}' IS NULL AS `{at}` FROM t {at} WHERE half = 1 -- FROM t {at}",
    ],
)
def test_a_clause_is_understood_wherever_a_table_stands(lake: Warehouse, text: str) -> None:
    words = text.replace("'{at}'", "'{plain}'").replace("`{at}`", "`{plain}`")
    filled = words.format(at=first(lake), now="AT(OFFSET => 0)", plain="AT(OFFSET => -1)")
    assert [row[0] for row in rows(lake, filled)] == [1, 3]


def test_several_tables_are_read_at_different_times(lake: Warehouse) -> None:
    text = "SELECT (SELECT count(*) FROM t {}), (SELECT count(*) FROM t {}), count(*) FROM u {}"
    filled = text.format(first(lake), first(lake, position=1), first(lake, "u"))
    assert rows(lake, filled) == [(4, 8, 4)]


def test_old_rows_can_be_written_back(lake: Warehouse) -> None:
    lake.create("w")
    rows(lake, f"INSERT INTO w SELECT * FROM t {first(lake)} WHERE half = 0")
    assert rows(lake, "SELECT id FROM w") == ids(0, 2)
    rows(lake, f"MERGE INTO w USING t {first(lake)} s ON w.id = s.id"
               " WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, s.half)")  # fmt: skip
    assert rows(lake, "SELECT id FROM w") == ids(0, 1, 2, 3)


def test_a_tag_is_read_for_tag(lake: Warehouse) -> None:
    (oldest, *_) = lake.snapshots("u")
    ((said,),) = rows(lake, f"TAG snapshot {oldest} AS 'it''s' WITH RETENTION FOREVER")
    assert "u: it's keeps snapshot" in said
    lake.append("u", 200)
    assert rows(lake, "SELECT id FROM u FOR TAG 'it''s'") == ids(100, 101, 102, 103)


# --- statements as points -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO s SELECT 50, 1",
        "UPDATE s SET part = 9 WHERE id = 0",
        "DELETE FROM s WHERE id = 0",
        "DELETE FROM s WHERE part = 1",  # whole files: metadata alone
        "TRUNCATE TABLE s",
        "INSERT OVERWRITE s SELECT 50, 1",
        "MERGE INTO s USING (SELECT 0 AS id) x ON s.id = x.id WHEN MATCHED THEN DELETE",
    ],
)
def test_every_change_can_be_looked_at_before_and_after(lake: Warehouse, text: str) -> None:
    lake.sql("DROP TABLE IF EXISTS {s}")
    lake.create("s", more="PARTITIONED BY (part)")
    lake.append("s", 0)
    before = rows(lake, "SELECT * FROM s")
    id = f"it's {text}"
    rows(lake, text, statement_id=id)
    after = rows(lake, "SELECT * FROM s")
    lake.append("s", 100)
    quoted = id.replace("'", "''")
    assert rows(lake, f"SELECT * FROM s BEFORE(STATEMENT => '{quoted}')") == before
    assert rows(lake, f"SELECT * FROM s AT(STATEMENT => '{quoted}')") == after != before
    others = [s["summary"].get("meltline.statement-id") for s in lake.document("s")["snapshots"]]
    assert others == [None, id, None]


def test_a_statement_that_spark_refuses_says_why_and_is_no_point(lake: Warehouse) -> None:
    with pytest.raises(StatementRefused, match="Spark") as refused:
        rows(lake, "SELECT nonsense FROM t", statement_id="bad")
    assert "nonsense" in refused.value.found
    with pytest.raises(StatementNotCompleted):
        rows(lake, "SELECT * FROM t AT(STATEMENT => 'bad')")


# --- tables that come, go and come back -----------------------------------------------------------


def test_the_worked_example_of_the_source_runs_as_it_is_written(lake: Warehouse) -> None:
    def say(text: str) -> list[tuple[Any, ...]]:
        return rows(lake, text)

    def listed() -> list[tuple[str, bool]]:
        frame = meltline.sql(lake.spark, "SHOW TABLES HISTORY LIKE '%data%';", config=lake.yaml)
        return [(row["name"], row["dropped_on"] is not None) for row in frame.collect()]

    say("CREATE TABLE loaddata1 (c1 number);")
    say("CREATE TABLE proddata1 (c1 number) DATA_RETENTION_TIME_IN_DAYS=30;")
    say("INSERT INTO loaddata1 VALUES (1), (2);")
    say("DROP TABLE loaddata1;")
    assert listed() == [("proddata1", False), ("loaddata1", True)]
    say("CREATE TABLE loaddata1 (c1 number);")
    say("INSERT INTO loaddata1 VALUES (1111), (2222), (3333), (4444);")
    say("DROP TABLE loaddata1;")
    say("CREATE TABLE loaddata1 (c1 varchar);")
    say("ALTER TABLE loaddata1 RENAME TO loaddata3;")
    say("UNDROP TABLE loaddata1;")
    assert [int(row[0]) for row in say("SELECT * FROM loaddata1")] == [1111, 2222, 3333, 4444]
    say("ALTER TABLE loaddata1 RENAME TO loaddata2;")
    say("UNDROP TABLE loaddata1;")
    assert [int(row[0]) for row in say("SELECT * FROM loaddata1")] == [1, 2]
    assert listed() == [(f"{word}", False) for word in
                        ("loaddata1", "loaddata2", "loaddata3", "proddata1")]  # fmt: skip
    assert lake.document("proddata1")["properties"]["meltline.retention-days"] == "30"


# --- by command, and by lease ---------------------------------------------------------------------


def test_the_command_answers_with_columns_and_rows(
    lake: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MELTLINE_CONFIG", str(lake.yaml))

    def say(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    text = f"SELECT max(id) AS m FROM t {first(lake)}"
    code, said = say("sql", text, "--in", f"{lake.catalog}.{SPACE}", "--statement-id", "one")
    assert code == 0 and said["columns"] == [{"name": "m", "type": "bigint"}]
    assert (said["rows"], said["statement_id"]) == ([[3]], "one")
    code, said = say("sql", f"SELECT * FROM {SPACE}.t", "--limit", "2")
    assert code == 0 and len(said["rows"]) == 2 and said["statement_id"]
    code, said = say("sql", "SELEC 1")
    assert (code, said["error"]["type"]) == (2, "StatementRefused")
    code, said = say("query", f"{lake.catalog}.{SPACE}.t", "--at", "--statement", "one")
    assert code == 0 and [column["name"] for column in said["columns"]] == ["id", "half"]
    assert said["resolved"] == {
        "snapshot_id": lake.document("t")["current-snapshot-id"],
        "valid_from": said["resolved"]["valid_from"],
        "valid_to": None,
        "tier": "hot",
    }
    code, shown = say("query", f"{lake.catalog}.{SPACE}.t", "--at", "--offset", "0", "--limit", "0")
    assert code == 0 and shown["rows"] == []


def test_a_program_can_keep_what_it_reads(lake: Warehouse) -> None:
    ledgers = Wiring(lake.services(datetime.now(UTC)).config).ledgers()
    name = f"{lake.catalog}.{SPACE}.u"
    oldest = lake.snapshots("u")[0]
    with meltline.lease(name, snapshot_id=oldest, ttl="1h", config=lake.yaml) as mine:
        (kept,) = ledgers.control.leases.active(datetime.now(UTC))
        assert (kept.id, kept.snapshot_id) == (mine.id, oldest)
    assert ledgers.control.leases.active(datetime.now(UTC)) == []
    with pytest.raises(LeaseLost), meltline.lease(name, config=lake.yaml) as mine:
        ledgers.control.leases.remove(mine.id)


def test_a_clone_and_a_share_made_in_sql_are_read_in_sql(lake: Warehouse) -> None:
    there = rows(lake, "SELECT * FROM t")
    rows(lake, "CREATE TABLE copy CLONE t")
    rows(lake, f"CREATE SHARE shared FROM {SPACE}.t")
    assert rows(lake, "SELECT * FROM copy") == there
    assert rows(lake, f"SELECT * FROM {lake.catalog}.shared.t") == there
    (share,) = rows(lake, "SELECT * FROM MD_INFORMATION_SCHEMA.OWNED_SHARES")
    assert (share[0], share[-1]) == ("shared", "current")
    rows(lake, "DROP SHARE shared")
    assert rows(lake, "SELECT * FROM MD_INFORMATION_SCHEMA.OWNED_SHARES") == []


def test_a_program_filters_what_the_views_say(lake: Warehouse) -> None:
    lake.run(datetime.now(UTC))
    here = f"database_name = '{SPACE}'"

    def of(view: str) -> dict[str, Any]:
        text = f"SELECT * FROM MD_INFORMATION_SCHEMA.{view}"
        (row,) = meltline.sql(lake.spark, text, config=lake.yaml).where(here).collect()
        return dict(row.asDict())

    now, today, database = map(of, ("STORAGE_INFO", "STORAGE_INFO_HISTORY", "DATABASES"))
    assert now.pop("computed_ts") >= today.pop("computed_ts") and now == today
    assert today["active_bytes"] and today["database_id"] == f"{lake.catalog}.{SPACE}"
    assert (database["retention_days_effective"], database["transient"]) == ("7", False)


def test_what_this_release_cannot_do_is_refused(lake: Warehouse) -> None:
    with pytest.raises(StatementUnsupported):
        rows(lake, "SELECT lakets.create_chronotable('metrics', 'at', '7 days')")
