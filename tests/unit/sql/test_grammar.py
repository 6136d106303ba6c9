"""The statements of the five sources as they are written there, and what they say."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.errors import SqlUnreadable, UsageInvalid
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.retention.policy import INFINITE, MIN_RETENTION, RETENTION
from meltline.domain.time_travel.timetravel import (
    Moment,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
)
from meltline.grammar import parse
from meltline.grammar.points import (
    OffsetSelector,
    PointInTime,
    Shift,
    TimestampSelector,
)
from meltline.grammar.statements import (
    ChangePolicy,
    CloneObject,
    CreateShare,
    CreateTable,
    DropObject,
    DropShare,
    FunctionCall,
    Query,
    ReadView,
    RenameObject,
    ShowHistory,
    Statement,
    TagSnapshot,
    TimeClause,
    UndropObject,
    UpdateShare,
)
from tests.seeds import examples

TABLE, SCHEMA, DATABASE = ObjectKind.TABLE, ObjectKind.SCHEMA, ObjectKind.DATABASE
NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
STATEMENT = StatementPoint("8e5d0ca9-005e-44e6-b858-a8f5b37c5726")
MORNING = TimestampSelector(datetime(2024, 6, 26, 16, 20, tzinfo=UTC))


def at(selector: Any) -> PointInTime:
    return PointInTime(PointSide.AT, selector)


def before(selector: Any) -> PointInTime:
    return PointInTime(PointSide.BEFORE, selector)


def reads(text: str, table: str, point: PointInTime) -> Query:
    """A query of one table as it was; the clause is what follows the table's name."""
    start = text.index(f" {table}") + 1
    clause = start + len(table) + 1
    end = len(text.rstrip("; "))
    return Query(
        text, "SELECT", (TimeClause((table,), point, start, clause - 1, clause, end, True),)
    )


# --- 004: Snowflake Time Travel -------------------------------------------------------------------

AT_TIME = "SELECT * FROM my_table AT(TIMESTAMP => 'Wed, 26 Jun 2024 09:20:00 -0700'::timestamp_tz);"
AT_OFFSET = "SELECT * FROM my_table AT(OFFSET => -60*5);"
BEFORE_STATEMENT = (
    "SELECT * FROM my_table BEFORE(STATEMENT => '8e5d0ca9-005e-44e6-b858-a8f5b37c5726');"
)
FOUR_DAYS_AGO = TimestampSelector(None, (Shift("DAY", -4),))

SOURCE_004: list[tuple[str, Statement]] = [
    (AT_TIME, reads(AT_TIME, "my_table", at(MORNING))),
    (AT_OFFSET, reads(AT_OFFSET, "my_table", at(OffsetSelector(Fraction(-300))))),
    (BEFORE_STATEMENT, reads(BEFORE_STATEMENT, "my_table", before(STATEMENT))),
    (
        "CREATE TABLE restored_table CLONE my_table\n"
        "      AT(TIMESTAMP => 'Wed, 26 Jun 2024 01:01:00 +0300'::timestamp_tz);",
        CloneObject(
            TABLE,
            ("restored_table",),
            ("my_table",),
            at(TimestampSelector(datetime(2024, 6, 25, 22, 1, tzinfo=UTC))),
        ),
    ),
    (
        "CREATE SCHEMA restored_schema CLONE my_schema AT(OFFSET => -3600);",
        CloneObject(
            SCHEMA, ("restored_schema",), ("my_schema",), at(OffsetSelector(Fraction(-3600)))
        ),
    ),
    (
        "CREATE DATABASE restored_db CLONE my_db\n"
        "      BEFORE(STATEMENT => '8e5d0ca9-005e-44e6-b858-a8f5b37c5726');",
        CloneObject(DATABASE, ("restored_db",), ("my_db",), before(STATEMENT)),
    ),
    (
        "CREATE DATABASE restored_db CLONE my_db\n"
        "      AT(TIMESTAMP => DATEADD(days, -4, current_timestamp)::timestamp_tz)\n"
        "      IGNORE TABLES WITH INSUFFICIENT DATA RETENTION;",
        CloneObject(DATABASE, ("restored_db",), ("my_db",), at(FOUR_DAYS_AGO), True),
    ),
    ("SHOW TABLES HISTORY LIKE 'load%' IN mytestdb.myschema;",
     ShowHistory(TABLE, "load%", ("mytestdb", "myschema"))),
    ("SHOW SCHEMAS HISTORY IN mytestdb;", ShowHistory(SCHEMA, None, ("mytestdb",))),
    ("SHOW DATABASES HISTORY;", ShowHistory(DATABASE)),
    ("SHOW TABLES HISTORY;", ShowHistory(TABLE)),
    ("UNDROP TABLE mytable;", UndropObject(TABLE, ("mytable",))),
    ("UNDROP SCHEMA myschema;", UndropObject(SCHEMA, ("myschema",))),
    ("UNDROP DATABASE mydatabase;", UndropObject(DATABASE, ("mydatabase",))),
    ("UNDROP TABLE loaddata1;", UndropObject(TABLE, ("loaddata1",))),
    ("DROP TABLE loaddata1;", DropObject(TABLE, ("loaddata1",))),
    ("ALTER TABLE loaddata1 RENAME TO loaddata3;",
     RenameObject(TABLE, ("loaddata1",), ("loaddata3",))),
    ("ALTER TABLE loaddata1 RENAME TO loaddata2;",
     RenameObject(TABLE, ("loaddata1",), ("loaddata2",))),
    ("CREATE TABLE mytable(col1 NUMBER, col2 DATE) DATA_RETENTION_TIME_IN_DAYS=90;",
     CreateTable(
         "CREATE TABLE mytable(col1 DECIMAL(38, 0), col2 DATE)"
         " TBLPROPERTIES ('meltline.retention-days' = '90');",
         ("mytable",),
         {RETENTION: "90"},
     )),
    ("ALTER TABLE mytable SET DATA_RETENTION_TIME_IN_DAYS=30;",
     ChangePolicy(TABLE, ("mytable",), {RETENTION: "30"})),
    ("CREATE TABLE loaddata1 (c1 number);",
     CreateTable("CREATE TABLE loaddata1 (c1 DECIMAL(38, 0));", ("loaddata1",), {})),
    ("CREATE TABLE loaddata1 (c1 varchar);",
     CreateTable("CREATE TABLE loaddata1 (c1 STRING);", ("loaddata1",), {})),
    ("INSERT INTO loaddata1 VALUES (1111), (2222), (3333), (4444);",
     Query("INSERT INTO loaddata1 VALUES (1111), (2222), (3333), (4444);", "INSERT")),
]  # fmt: skip

# --- 000, 001: MotherDuck; 002: LakeTS; 003: Artemis ----------------------------------------------

STORAGE = "SELECT * FROM MD_INFORMATION_SCHEMA.STORAGE_INFO;"
FOR_TAG = "SELECT * FROM table FOR TAG 'incident-2024-03-15-conjunction-alert'"
ADD_TIERING = "SELECT lakets.add_tiering_policy('metrics', '7 days');"
ADD_RETENTION = "SELECT lakets.add_retention_policy('metrics', '90 days');"
ADD_BOTH = (
    "SELECT lakets.add_tiered_retention_policy('metrics',\n"
    "'7 days', -- tier_after: validate + flag (data stays in Lakebase)\n"
    "'90 days'); -- drop_after: remove the Lakebase partition (gated)"
)
OTHER_SOURCES: list[tuple[str, Statement]] = [
    ("ALTER DATABASE my_ducklake SET SNAPSHOT_RETENTION_DAYS = 7;",
     ChangePolicy(DATABASE, ("my_ducklake",), {RETENTION: "7"})),
    (STORAGE, ReadView("storage_info")),
    ("SELECT * FROM MD_INFORMATION_SCHEMA.STORAGE_INFO_HISTORY;",
     ReadView("storage_info_history")),
    ("SELECT * FROM md_information_schema.databases", ReadView("databases")),
    ("CREATE DATABASE Y FROM X", CloneObject(DATABASE, ("Y",), ("X",))),
    ("CREATE SHARE share FROM database", CreateShare("share", ("database",))),
    ("UPDATE SHARE my_share", UpdateShare("my_share")),
    ("DROP SHARE my_share", DropShare("my_share")),
    (ADD_TIERING, FunctionCall("add_tiering_policy", ADD_TIERING, 32, 52)),
    (ADD_RETENTION, FunctionCall("add_retention_policy", ADD_RETENTION, 34, 55)),
    (ADD_BOTH, FunctionCall("add_tiered_retention_policy", ADD_BOTH, 41, 128)),
    ("TAG snapshot 4729 AS 'incident-2024-03-15-conjunction-alert' WITH RETENTION FOREVER;",
     TagSnapshot(4729, "incident-2024-03-15-conjunction-alert", None)),
    (FOR_TAG,
     reads(FOR_TAG, "table", at(TagPoint("incident-2024-03-15-conjunction-alert")))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [*SOURCE_004, *OTHER_SOURCES], ids=lambda v: str(v)[:60])
def test_every_statement_of_the_sources_is_read_as_it_is_written(
    text: str, said: Statement
) -> None:
    assert parse(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lakets.Tier_Chunk(1), 2",
        "SELECT * FROM lakets.tier_chunk('a', p_force => TRUE) x WHERE lakets = 'lakets.no('",
        "CALL lakets . tier_chunk ( )",
    ],
)
def test_a_function_of_lakets_is_seen_wherever_it_is_called(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Query) and found.calls == ("tier_chunk",)


# --- more of the same -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alter account set min_data_retention_time_in_days = 2",
         ChangePolicy(ObjectKind.ACCOUNT, (), {MIN_RETENTION: "2"})),
        ("ALTER ACCOUNT SET DATA_RETENTION_TIME_IN_DAYS = 1, MIN_DATA_RETENTION_TIME_IN_DAYS = 0",
         ChangePolicy(ObjectKind.ACCOUNT, (), {RETENTION: "1", MIN_RETENTION: "0"})),
        ("ALTER ACCOUNT UNSET MIN_DATA_RETENTION_TIME_IN_DAYS",
         ChangePolicy(ObjectKind.ACCOUNT, (), {MIN_RETENTION: None})),
        ("ALTER SCHEMA a.`b c` UNSET DATA_RETENTION_TIME_IN_DAYS",
         ChangePolicy(SCHEMA, ("a", "b c"), {RETENTION: None})),
        ("ALTER DATABASE d SET SNAPSHOT_RETENTION_DAYS = NULL",
         ChangePolicy(DATABASE, ("d",), {RETENTION: INFINITE})),
        ("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = -1",
         ChangePolicy(TABLE, ("t",), {RETENTION: "-1"})),
        ("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = 1.5",
         ChangePolicy(TABLE, ("t",), {RETENTION: "1.5"})),
        ("SHOW TABLES HISTORY IN ACCOUNT", ShowHistory(TABLE, None, ())),
        ("SHOW TABLES HISTORY LIKE 'it''s' IN SCHEMA a.b", ShowHistory(TABLE, "it's", ("a", "b"))),
        ("TAG SNAPSHOT 1 OF lake.air.t AS 'q' WITH RETENTION 30 DAYS",
         TagSnapshot(1, "q", 30, ("lake", "air", "t"))),
        ("DROP TABLE IF EXISTS a.b", DropObject(TABLE, ("a", "b"), True)),
        ("DROP DATABASE d CASCADE", DropObject(DATABASE, ("d",))),
        ("DROP NAMESPACE lake.air", DropObject(SCHEMA, ("lake", "air"))),
        ("CREATE TABLE a CLONE b FOR TAG 'q1'",
         CloneObject(TABLE, ("a",), ("b",), at(TagPoint("q1")))),
        ("-- first\nUNDROP /* it */ TABLE `my ``t`; ;", UndropObject(TABLE, ("my `t",))),
        ("CREATE TABLE t (a number(9, 2), number varchar, c varchar(3), s STRUCT<x: INT>)"
         " USING iceberg AS SELECT 1",
         CreateTable(
             "CREATE TABLE t (a DECIMAL(9, 2), number STRING, c varchar(3), s STRUCT<x: INT>)"
             " USING iceberg AS SELECT 1", ("t",), {})),
    ],
    ids=lambda v: str(v)[:60],
)  # fmt: skip
def test_other_forms_of_these_statements(text: str, said: Statement) -> None:
    assert parse(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TABLES IN air",
        "SHOW TABLES LIKE 'history'",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t ADD COLUMN data_retention_time_in_days INT",
        "UPDATE share SET a = 1",
        "UPDATE share AS s SET a = 1",
        "UPDATE share s SET a = 1",
        "DROP VIEW v",
        "CREATE TABLE t (id BIGINT) USING iceberg TBLPROPERTIES ('a' = 'b')",
        "CREATE TABLE clone (id INT)",
        "CREATE TABLE IF NOT EXISTS t AS SELECT 1",
        "CREATE VIEW undrop AS SELECT 1",
        "SELECT at, before FROM t at",
        "SELECT * FROM t AT (a, b)",
        "SELECT * FROM t at(timestamp, offset)",
        "SELECT at(timestamp => 1), before(offset => x), 1 + at(tag => 'x') FROM f(at(tag => 1))",
        "SELECT 'FROM t AT(OFFSET => -1)', `a AT(OFFSET => -1)` FROM t -- FROM t AT(OFFSET => 1)",
        'SELECT /* FROM t AT(OFFSET => -1) */ "FROM t AT(OFFSET => -1)" FROM t',
        "SELECT r'\\' , 'a\\' AT(OFFSET => 1)' FROM t",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT * FROM t FOR SYSTEM_VERSION AS OF 1",
        "(SELECT 1)",
        "BEGIN SELECT 1; SELECT 2; END",
    ],
)
def test_what_is_for_spark_has_nothing_of_ours_in_it(text: str) -> None:
    said = parse(text)
    assert isinstance(said, Query) and said.text == text
    assert (said.clauses, said.views) == ((), ())


# --- where clauses are ----------------------------------------------------------------------------


def cut(text: str) -> str:
    """The statement with `[table|clause]` where each clause was; `+` where an alias is needed."""
    said = parse(text)
    assert isinstance(said, Query)
    for clause in reversed(said.clauses):
        assert text[clause.name_start : clause.name_end].replace("`", "") == ".".join(clause.table)
        mark = f"[{'.'.join(clause.table)}{'+' if clause.needs_alias else ''}]"
        text = text[: clause.name_start] + mark + text[clause.end :]
    return text


A = "AT(OFFSET => -60)"
B = "BEFORE(STATEMENT => 's')"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"SELECT * FROM t {A}", "SELECT * FROM [t+]"),
        (f"SELECT * FROM a.`b c`.t {A} WHERE x", "SELECT * FROM [a.b c.t+] WHERE x"),
        (f"SELECT * FROM t {A} x", "SELECT * FROM [t] x"),
        (f"SELECT * FROM t {A} AS `x y`", "SELECT * FROM [t] AS `x y`"),
        (f"SELECT * FROM `t`{A}x", "SELECT * FROM [t]x"),
        (f"SELECT * FROM t {A}, u {B} v, w", "SELECT * FROM [t+], [u] v, w"),
        (f"SELECT * FROM t {A} JOIN u {B} ON 1", "SELECT * FROM [t+] JOIN [u+] ON 1"),
        (f"SELECT * FROM t {A} LEFT JOIN u {B} USING (i)",
         "SELECT * FROM [t+] LEFT JOIN [u+] USING (i)"),
        (f"WITH c AS (SELECT * FROM t {A}) SELECT * FROM c",
         "WITH c AS (SELECT * FROM [t+]) SELECT * FROM c"),
        (f"SELECT (SELECT max(i) FROM t {A}) FROM u", "SELECT (SELECT max(i) FROM [t+]) FROM u"),
        (f"SELECT 1 WHERE EXISTS (SELECT 1 FROM t {B} x WHERE x.i IN (SELECT i FROM u {A}))",
         "SELECT 1 WHERE EXISTS (SELECT 1 FROM [t] x WHERE x.i IN (SELECT i FROM [u+]))"),
        (f"SELECT 1 FROM t {A} UNION ALL SELECT 1 FROM t {B}",
         "SELECT 1 FROM [t+] UNION ALL SELECT 1 FROM [t+]"),
        (f"INSERT INTO w SELECT * FROM t {A}", "INSERT INTO w SELECT * FROM [t+]"),
        (f"CREATE TABLE w AS TABLE t {A}", "CREATE TABLE w AS TABLE [t+]"),
        (f"MERGE INTO w USING t {A} s ON w.i = s.i WHEN MATCHED THEN DELETE",
         "MERGE INTO w USING [t] s ON w.i = s.i WHEN MATCHED THEN DELETE"),
        (f"SELECT * FROM t {A} TABLESAMPLE (1 ROWS)", "SELECT * FROM [t] TABLESAMPLE (1 ROWS)"),
        (f"SELECT * FROM t {A} LATERAL VIEW explode(a) e",
         "SELECT * FROM [t+] LATERAL VIEW explode(a) e"),
        ("SELECT * FROM t FOR TAG 'q''1' o", "SELECT * FROM [t] o"),
        (f"SELECT 'é', /* ж */ 1 -- ü\nFROM t {A} -- 𝄞",
         "SELECT 'é', /* ж */ 1 -- ü\nFROM [t+] -- 𝄞"),
        ("SELECT * FROM t AT /* a */ ( OFFSET\n=>\t-60 ) ;", "SELECT * FROM [t+] ;"),
    ],
    ids=lambda v: str(v)[:70],
)  # fmt: skip
def test_clauses_are_found_in_any_position_and_nothing_else_is_touched(
    text: str, left: str
) -> None:
    # TT-26
    assert cut(text) == left


PIECES = ["SELECT", "*", "FROM", "t", ",", "(", ")", "'it''s'", "`q`", "-- c\n", "/* x */", "AT",
          "=>", "OFFSET", "WHERE", "a.b", "é", "\n", "::", "12L", "1e3", '"s"', "||"]  # fmt: skip


@settings(max_examples=examples(few=50, many=200), deadline=None, database=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
def test_whatever_stands_around_a_clause_reaches_spark_as_it_is(pieces: list[str]) -> None:
    rest = " ".join(["SELECT 1 FROM v", *pieces])
    try:
        alone, with_clause = parse(rest), parse(f"{rest}\n, t {A}\n")
    except SqlUnreadable:
        return  # what the pieces make is none of a statement's business
    assert isinstance(alone, Query) and isinstance(with_clause, Query)
    assert (alone.text, len(with_clause.clauses)) == (rest, len(alone.clauses) + 1)
    clause, text = with_clause.clauses[-1], with_clause.text
    assert text[: clause.name_start] + text[clause.end :] == f"{rest}\n, \n"


# --- points ---------------------------------------------------------------------------------------


def point(expression: str) -> TravelPoint:
    said = parse(f"SELECT * FROM t AT({expression})")
    assert isinstance(said, Query)
    return said.clauses[0].point.at(NOW)


@pytest.mark.parametrize(
    ("expression", "moment"),
    [
        ("TIMESTAMP => '2024-06-26T16:20:00Z'", datetime(2024, 6, 26, 16, 20)),
        ("TIMESTAMP => '2024-06-26 09:20:00 -07:00'::timestamp", datetime(2024, 6, 26, 16, 20)),
        ("TIMESTAMP => TIMESTAMP '2024-06-26T16:20:00Z'", datetime(2024, 6, 26, 16, 20)),
        ("TIMESTAMP => to_timestamp_tz('26 Jun 2024 16:20:00 GMT')", datetime(2024, 6, 26, 16, 20)),
        ("TIMESTAMP => CAST('2024-06-26' AS TIMESTAMP_LTZ)", datetime(2024, 6, 26)),
        ("TIMESTAMP => current_timestamp()", datetime(2026, 3, 31, 12)),
        ("TIMESTAMP => DATEADD(hour, -2*3, current_timestamp)", datetime(2026, 3, 31, 6)),
        ("TIMESTAMP => DATEADD(month, -1, current_timestamp)", datetime(2026, 2, 28, 12)),
        ("TIMESTAMP => DATEADD(years, -1, '2024-02-29')", datetime(2023, 2, 28)),
        ("TIMESTAMP => DATEADD(day, -1, DATEADD(month, -1, current_timestamp))",
         datetime(2026, 2, 27, 12)),
        ("OFFSET => -60*5", datetime(2026, 3, 31, 11, 55)),
        ("OFFSET => 0", datetime(2026, 3, 31, 12)),
        ("OFFSET => -(24 * 60) * 60 + 30*2", datetime(2026, 3, 30, 12, 1)),
        ("OFFSET => - -60 - 1.5e2", datetime(2026, 3, 31, 11, 58, 30)),
        ("OFFSET => -3600 / 60 / 2", datetime(2026, 3, 31, 11, 59, 30)),
    ],
)  # fmt: skip
def test_a_point_is_a_moment_of_the_statements_own_now(expression: str, moment: datetime) -> None:
    assert point(expression) == TravelPoint(PointSide.AT, Moment(moment.replace(tzinfo=UTC)))


def test_a_statement_is_a_point_whatever_is_in_its_id() -> None:
    assert point("STATEMENT => 'it''s \\\\ \\'x'") == TravelPoint(
        PointSide.AT, StatementPoint("it's \\ 'x")
    )


@pytest.mark.parametrize(
    "expression",
    ["OFFSET => 1", "OFFSET => -9e99", "TIMESTAMP => DATEADD(year, -9999, current_timestamp)"],
)
def test_a_point_to_come_or_outside_the_calendar_is_refused(expression: str) -> None:
    with pytest.raises(UsageInvalid):
        point(expression)


# --- what is not right ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "expected", "found"),
    [
        ("", "line 1, column 1", "a statement", "the end"),
        ("-- nothing", "line 1, column 11", "a statement", "the end"),
        ("SELECT 'a", "line 1, column 8", "quotes and comments that end", "Missing '"),
        ("SELECT 1,\n  `a", "line 2, column 3", "quotes and comments that end", "Missing `"),
        ("UNDROP VIEW v", "line 1, column 8", "TABLE or SCHEMA or DATABASE", "'VIEW'"),
        ("UNDROP TABLE", "line 1, column 13", "a name", "the end"),
        ("UNDROP TABLE a.", "line 1, column 16", "a name", "the end"),
        ("UNDROP TABLE a; DROP TABLE b", "line 1, column 17", "the end of the statement", "'DROP'"),
        ("UNDROP TABLE a b", "line 1, column 16", "the end of the statement", "'b'"),
        ("SHOW TABLES HISTORY LIKE load", "line 1, column 26", "a pattern in quotes", "'load'"),
        ("SELECT *\nFROM t AT(OFFSET = -1)", "line 2, column 18", "`=>`", "'='"),
        ("SELECT * FROM t AT(TIME => 1)", "line 1, column 20",
         "TIMESTAMP or OFFSET or STATEMENT or TAG", "'TIME'"),
        ("SELECT * FROM t AT(OFFSET => x)", "line 1, column 30", "a number of seconds", "'x'"),
        ("SELECT * FROM t AT(OFFSET => 1/0)", "line 1, column 32", "a number that is not 0", "0"),
        ("SELECT * FROM t AT(OFFSET => -1, TIMESTAMP => 'x')", "line 1, column 32",
         "`)` after one point", "','"),
        ("SELECT * FROM t AT(TIMESTAMP => 'noon')", "line 1, column 33",
         "a time with its offset, such as '2024-06-26T09:20:00-07:00'", "'noon'"),
        ("SELECT * FROM t AT(TIMESTAMP => '2024-06-26 09:20:00'::timestamp_ntz)",
         "line 1, column 33", "a time with its offset, such as '2024-06-26T09:20:00-07:00'",
         "'2024-06-26 09:20:00'"),
        ("SELECT * FROM t AT(TIMESTAMP => '2024-06-26'::int)", "line 1, column 47",
         "TIMESTAMP_TZ, TIMESTAMP_LTZ or TIMESTAMP", "'int'"),
        ("SELECT * FROM t AT(TIMESTAMP => DATEADD(eon, 1, current_timestamp))",
         "line 1, column 41", "a unit: second, minute, hour, day, week, month, quarter, year",
         "'eon'"),
        ("SELECT * FROM t AT(STATEMENT => last_query_id())", "line 1, column 33",
         "the statement's id in quotes", "'last_query_id'"),
        ("SELECT * FROM t x AT(OFFSET => -1)", "line 1, column 19",
         "the clause right after a table's name, and an alias after it", "'AT'"),
        ("SELECT * FROM (SELECT 1) AT(OFFSET => -1)", "line 1, column 26",
         "a table's name before the clause", "'AT'"),
        ("WITH c AS (SELECT 1) SELECT * FROM c AT(OFFSET => -1)", "line 1, column 36",
         "a table: a WITH query has no past", "c"),
        ("WITH c(x) AS (SELECT 1) SELECT * FROM C AT(OFFSET => -1)", "line 1, column 39",
         "a table: a WITH query has no past", "C"),
        ("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS 3", "line 1, column 47", "`=`", "'3'"),
        ("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = soon", "line 1, column 49",
         "a number of days, or NULL for ever", "'soon'"),
        ("DROP TABLE t PURGE", "line 1, column 14",
         "the end: a drop keeps everything for its retention, and takes all in it along",
         "'PURGE'"),
        ("TAG SNAPSHOT x AS 'a' WITH RETENTION FOREVER", "line 1, column 14",
         "a snapshot's id", "'x'"),
        ("TAG SNAPSHOT 1 AS 'a'", "line 1, column 22", "WITH", "the end"),
        ("CREATE TABLE a CLONE b AT('x')", "line 1, column 27",
         "TIMESTAMP or OFFSET or STATEMENT or TAG", "\"'x'\""),
        ("CREATE DATABASE a CLONE b IGNORE TABLES", "line 1, column 40", "WITH", "the end"),
        ("CREATE SHARE s OF d", "line 1, column 16", "FROM", "'OF'"),
        ("CREATE TABLE t (a INT) DATA_RETENTION_TIME_IN_DAYS=1 DATA_RETENTION_TIME_IN_DAYS=2",
         "line 1, column 54",
         "either DATA_RETENTION_TIME_IN_DAYS or 'meltline.retention-days' in TBLPROPERTIES, once",
         "both"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('x'='y') DATA_RETENTION_TIME_IN_DAYS=2",
         "line 1, column 24",
         "either TBLPROPERTIES or 'meltline.retention-days' in TBLPROPERTIES, once", "both"),
    ],
    ids=lambda v: str(v)[:50],
)  # fmt: skip
def test_what_cannot_be_read_says_where_and_what_was_expected(
    text: str, place: str, expected: str, found: str
) -> None:
    with pytest.raises(SqlUnreadable) as refused:
        parse(text)
    said = refused.value
    assert (said.object, said.expected, said.found) == (place, expected, found)
    assert place in said.message and said.next
