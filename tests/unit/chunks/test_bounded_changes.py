"""Changes of rows must keep out of what was dropped, by a bound that anybody can read off."""

from dataclasses import replace

import pytest

from meltline.app.catalog.resolve import load_table
from meltline.app.sql.guarded_statements import guarded_statement, require_bounded
from meltline.domain.chunks.chunk import ChunkStatus, new_chunk
from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.sync import TrackedTable
from meltline.domain.errors import LateDataRejected, StatementUnsupported
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar.writes import writes_of
from tests.lake.lake import Lake, Table

HERE = ObjectName("lake", ("air",))
DROPPED = ("2026-01-01", "2026-01-02", "2026-01-05")


@pytest.fixture
def table() -> Table:
    made = Lake().table("t")
    made.append("a")
    return made


def column(type: str, pattern: str = "") -> TimeColumn:
    return TimeColumn.of({"id": 1, "name": "ts", "type": type}, pattern)


def is_bounded(table: Table, text: str, of: TimeColumn | None = None) -> bool:
    """Whether a statement keeps out of what was dropped."""
    state = load_table(table.lake.services(), table.name)
    (write,) = writes_of(text)
    layout = ChunkLayout(of or column("timestamptz"), Unit.DAY)
    try:
        require_bounded(state, write, (layout, DROPPED))
    except LateDataRejected:
        return False
    return True


# --- which table, and under which conditions ------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verb", "target"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT", ("t",)),
        ("insert overwrite table a.b.t SELECT 1", "INSERT", ("a", "b", "t")),
        ("INSERT INTO `odd.name`.t (id) SELECT 1", "INSERT", ("odd.name", "t")),
        ("WITH x AS (SELECT 1 AS delete) INSERT INTO t SELECT * FROM x", "INSERT", ("t",)),
        ("UPDATE t x SET a = 1", "UPDATE", ("t",)),
        ("DELETE FROM n.t", "DELETE", ("n", "t")),
        ("TRUNCATE TABLE t", "TRUNCATE", ("t",)),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON 1 = 1 WHEN MATCHED THEN DELETE",
         "MERGE", ("t",)),
    ],
)  # fmt: skip
def test_the_table_that_is_written_to_is_found(
    text: str, verb: str, target: tuple[str, ...]
) -> None:
    (write,) = writes_of(text)
    assert (write.verb, write.target) == (verb, target)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1",
        "SHOW TABLES",
    ],
)
def test_other_statements_write_to_no_table(text: str) -> None:
    assert writes_of(text) == ()


def test_several_tables_of_one_statement_are_all_found() -> None:
    found = writes_of("FROM s INSERT INTO a SELECT x INSERT OVERWRITE b SELECT y")
    assert [write.target for write in found] == [("a",), ("b",)]


def test_an_edit_keeps_the_name_by_which_columns_are_qualified() -> None:
    for text, expected in (
        ("DELETE FROM n.t WHERE t.a = 1", "z AS `t`"),
        ("DELETE FROM n.t AS x WHERE x.a = 1", "z"),
        ("UPDATE n.t x SET a = 1", "z"),
        ("INSERT INTO n.t SELECT 1", "z"),
        ("TRUNCATE TABLE n.t", "z"),
    ):
        (write,) = writes_of(text)
        start, end, words = write.on("z")
        assert (text[start:end], words) == ("n.t", expected)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        "ts >= TIMESTAMP '2026-01-06 00:00:00Z'",
        "a = 1 AND ts >= '2026-01-06T00:00:00Z'",
        "(a = 1 OR b = 2) AND (ts > '2026-01-06 00:00:00+00:00')",
        "'2026-01-06 00:00:00Z' <= ts",
        "ts BETWEEN '2026-01-03 00:00:00Z' AND '2026-01-04 23:59:59Z' AND a = 1",
        "ts < '2026-01-01 00:00:00Z'",
        "ts >= '2026-01-03 00:00:00Z' AND ts < '2026-01-05 00:00:00Z'",
        "ts = '2026-01-03 12:00:00Z'",
        "ts IN ('2026-01-03 12:00:00Z', TIMESTAMP '2026-01-07 12:00:00Z')",
        "t.ts >= '2026-02-01'",
        "air.t.ts >= '2026-02-01' AND id IN (SELECT id FROM x WHERE a = 1 OR b = 2)",
    ],
)
def test_a_bound_that_keeps_out_of_all_dropped_ranges_is_enough(table: Table, where: str) -> None:
    text = f"DELETE FROM {'air.t' if 'air.' in where else 't'} WHERE {where}"
    assert is_bounded(table, text)


@pytest.mark.parametrize(
    "where",
    [
        "a = 1",
        "ts >= '2026-01-05 23:59:59Z'",
        "ts <= '2026-01-01 00:00:00Z'",
        "ts >= '2026-01-03 00:00:00Z'",  # the fifth was dropped too
        "ts >= '2026-01-06 00:00:00Z' OR a = 1",
        "NOT ts >= '2026-01-06 00:00:00Z'",
        "NOT (ts >= '2026-01-06 00:00:00Z')",
        "(ts >= '2026-01-06 00:00:00Z') = false",
        "ts >= '2026-01-06 00:00:00Z' IS NULL",
        "CASE WHEN a = 1 AND ts >= '2026-01-06 00:00:00Z' THEN true ELSE true END",
        "x.ts >= '2026-01-06 00:00:00Z'",
        "other >= '2026-01-06 00:00:00Z'",
        "ts >= '2026-01-06'",  # of which zone?
        "ts >= DATE '2026-01-06'",
        "ts >= '20260106'",
        "ts >= current_timestamp()",
        "ts >= '2026-01-06 00:00:00Z' - INTERVAL 9 DAYS",
        "ts <> '2026-01-06 00:00:00Z'",
        "ts IN ('2026-01-03 12:00:00Z', '2026-01-05 12:00:00Z')",
        "ts IN (SELECT ts FROM x)",
        "ts NOT IN ('2026-01-03 12:00:00Z')",
        "ts NOT BETWEEN '2026-01-03 00:00:00Z' AND '2026-01-04 23:59:59Z'",
        "EXISTS (SELECT 1 FROM x WHERE ts >= '2026-01-06 00:00:00Z')",
    ],
)
def test_a_bound_that_is_not_sure_to_keep_out_is_none(table: Table, where: str) -> None:
    assert not is_bounded(table, f"DELETE FROM t WHERE {where}")


@pytest.mark.parametrize(
    ("type", "pattern", "good", "bad"),
    [
        ("timestamp", "", "'2026-01-06 00:00:00'", "'2026-01-06 00:00:00Z'"),
        ("timestamp", "", "TIMESTAMP_NTZ '2026-01-06'", "TIMESTAMP '2026-01-06 00:00:00'"),
        ("date", "", "DATE '2026-01-06'", "TIMESTAMP '2026-01-06 12:00:00'"),
        ("date", "", "'2026-01-06'", "20260106"),
        ("int", "%Y%m%d", "20260106", "20260105"),
        ("int", "%Y%m%d", "20260201", "20260199"),
        ("long", "ms", "1767657600000", "1767657599999"),
        ("string", "%Y-%m-%d", "'2026-01-06'", "'2026-01-6'"),
    ],
)
def test_constants_are_read_as_the_column_has_its_values(
    table: Table, type: str, pattern: str, good: str, bad: str
) -> None:
    of = column(type, pattern)
    assert is_bounded(table, f"DELETE FROM t WHERE ts >= {good}", of)
    assert not is_bounded(table, f"DELETE FROM t WHERE ts >= {bad}", of)


def test_each_way_in_which_a_merge_changes_rows_must_keep_out(table: Table) -> None:
    since = "t.ts >= '2026-01-06 00:00:00Z'"
    merge = "MERGE INTO t USING s ON t.id = s.id"
    insert = "WHEN NOT MATCHED THEN INSERT *"
    by_source = "WHEN NOT MATCHED BY SOURCE"
    assert is_bounded(table, f"{merge} {insert}")
    assert is_bounded(table, f"{merge} AND {since} WHEN MATCHED THEN DELETE {insert}")
    assert not is_bounded(table, f"{merge} WHEN MATCHED AND {since} THEN DELETE {insert}")
    assert not is_bounded(table, f"{merge} AND {since} {by_source} THEN DELETE")
    assert is_bounded(table, f"{merge} {by_source} AND {since} THEN DELETE")


def test_the_refusal_names_the_bound_to_add(table: Table) -> None:
    state = load_table(table.lake.services(), table.name)
    (write,) = writes_of("DELETE FROM t WHERE user = 5")
    for of, words in (
        (column("timestamptz"), "ts >= TIMESTAMP '2026-01-06 00:00:00Z'"),
        (column("timestamp"), "ts >= TIMESTAMP_NTZ '2026-01-06 00:00:00'"),
        (column("date"), "ts >= DATE '2026-01-06'"),
        (column("int", "%Y%m%d"), "ts >= 20260106"),
        (column("string", "%Y-%m-%d"), "ts >= '2026-01-06'"),
    ):
        with pytest.raises(LateDataRejected) as refused:
            require_bounded(state, write, (ChunkLayout(of, Unit.DAY), DROPPED))
        assert f"AND {words}," in refused.value.expected
        assert is_bounded(table, f"DELETE FROM t WHERE {words} AND user = 5", of)


# --- which statements are guarded -----------------------------------------------------------------


def test_only_writes_to_tables_with_dropped_chunks_are_guarded(table: Table) -> None:
    services = table.lake.services()
    table.lake.table("u")
    insert = "INSERT INTO t SELECT 1"
    assert guarded_statement(services, HERE, insert, "INSERT", ()) is None
    state = load_table(services, table.name)
    layout = ChunkLayout(column("timestamptz"), Unit.DAY)
    gone = replace(new_chunk(layout, state.uuid, DROPPED[0]), status=ChunkStatus.DROPPED)
    services.control.chunks.advance(None, TrackedTable(state.uuid, state.name, layout), [gone])
    found = guarded_statement(services, HERE, insert, "INSERT", ())
    assert found is not None and found.table == table.name
    for text, kind in (
        ("INSERT INTO u SELECT * FROM t", "INSERT"),
        ("INSERT INTO missing SELECT * FROM t", "INSERT"),
        ("INSERT INTO air.t.branch_x SELECT 1", "INSERT"),
        ("SELECT * FROM t", "SELECT"),
        ("WITH x AS (SELECT 1) SELECT * FROM t", "WITH"),
    ):
        assert guarded_statement(services, HERE, text, kind, ()) is None
    for text, kind in (
        ("FROM s INSERT INTO t SELECT x INSERT INTO u SELECT y", "FROM"),
        ("INSERT INTO IDENTIFIER('t') SELECT 1", "INSERT"),
    ):
        with pytest.raises(StatementUnsupported):
            guarded_statement(services, HERE, text, kind, ())
