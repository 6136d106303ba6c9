"""Statements carried out on a lake in memory: what they do, return or refuse."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.retention.policies import show_policies
from meltline.app.services import RunContext
from meltline.app.sql.statement_results import StatementResult
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.app.time_travel.query import SchemaChoice
from meltline.domain.errors import (
    BeforeCreation,
    ChildInsufficientRetention,
    MeltlineError,
    NameConflict,
    NamespaceNotFound,
    NotDropped,
    OutsideRetention,
    RefNotFound,
    RetentionOutOfRange,
    SnapshotNotFound,
    SqlUnreadable,
    StatementNotFound,
    StatementRefused,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.retention.policy import FOREVER_MS, MIN_RETENTION, RETENTION
from meltline.ports import Lease, PastView, ReadColumn, ReadRows, StatementState
from tests.lake.lake import DAY, Lake, Table

HERE = ObjectName("lake", ("air",))


@dataclass
class WatchingEngine:
    """Carries out nothing, and remembers what it was given and what was leased meanwhile."""

    lake: Lake
    given: list[tuple[str, str]] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    states: list[StatementState] = field(default_factory=list)
    views: list[PastView] = field(default_factory=list)
    refuse: bool = False

    def run(self, text: str, statement_id: str, views: Mapping[str, PastView]) -> object:
        for number, (name, view) in enumerate(views.items()):
            assert re.fullmatch(r"meltline_past_[0-9a-f]{8}_\d+", name)
            text = text.replace(name, f"past{number}")
            self.views.append(view)
        self.given.append((text, statement_id))
        self.leases += self.lake.control.leases.active(self.lake.clock.now())
        known = self.lake.control.statements.get(statement_id)
        assert known is not None
        self.states.append(known.state)
        if self.refuse:
            raise StatementRefused("no")
        return "a frame"

    def fetch(self, frame: object, limit: int | None) -> ReadRows:
        assert frame == "a frame"
        return ReadRows((ReadColumn("limit", "int"),), ((limit,),))


@dataclass
class Session:
    """A lake, a table `lake.air.t` overwritten every day, and somebody who speaks SQL there."""

    lake: Lake
    table: Table
    engine: WatchingEngine
    standing: ObjectName = HERE

    def __call__(self, text: str, **more: Any) -> StatementResult:
        request = replace(StatementRequest(text, self.standing), **more)
        return run_statement(self.lake.services(), lambda: self.engine, request, self.services)

    def services(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        return self.lake.services()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        read = self(text).read
        assert read is not None and self.engine.given == []
        return list(read.rows)

    def sent(self, text: str, **more: Any) -> str:
        """What Spark was given."""
        self(text, **more)
        return self.engine.given[-1][0]


@pytest.fixture
def sql() -> Session:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(3.5)
    return Session(lake, table, WatchingEngine(lake))


def policy(sql: Session, name: str, key: str) -> object:
    services = sql.lake.services()
    lines = show_policies(services, find_object(services, name))
    return next(line.effective for line in lines if line.key == key)


def named_rows(sql: Session, text: str) -> list[dict[str, Any]]:
    read = sql(text).read
    assert read is not None and sql.engine.given == []
    return [dict(zip((c.name for c in read.columns), row, strict=True)) for row in read.rows]


# --- time travel ----------------------------------------------------------------------------------


def test_a_clause_becomes_the_snapshot_and_nothing_else_changes(sql: Session) -> None:
    # TT-26
    first, second, *_ = sql.table.snapshots
    text = "SELECT  a.id -- t AT(x)\nFROM t AT(OFFSET => -60*60*24*2) a, lake.air.t {} b ;"
    before = "BEFORE(TIMESTAMP => '2026-01-02T00:00:00Z')"
    assert sql.sent(text.format(before)) == (
        f"SELECT  a.id -- t AT(x)\nFROM t VERSION AS OF {second} a, "
        f"lake.air.t VERSION AS OF {first} b ;"
    )


def test_a_statement_without_clauses_reaches_spark_as_it_is(sql: Session) -> None:
    for text in ("SELECT 'é' AS `x` FROM t;", "DELETE FROM t WHERE id = 1", "OPTIMIZE what ever"):
        assert sql.sent(text) == text


def renamed(document: dict[str, Any]) -> None:
    field = {"id": 1, "name": "number", "required": False, "type": "long"}
    document["schemas"].append({"type": "struct", "schema-id": 1, "fields": [field]})
    document["current-schema-id"] = 1


def test_where_the_columns_have_changed_old_rows_come_under_the_present_ones(sql: Session) -> None:
    # TT-3
    sql.table.edit(renamed)
    clause, second = "AT(TIMESTAMP => '2026-01-02')", sql.table.snapshots[1]
    assert sql.sent(f"SELECT t.number FROM air.t {clause} WHERE 1=1") == (
        "SELECT t.number FROM past0 AS `t` WHERE 1=1"
    )
    assert sql.sent(f"SELECT * FROM t {clause} x") == "SELECT * FROM past0 x"
    assert sql.engine.views == [PastView(sql.table.name, second)] * 2
    assert sql.sent(f"SELECT * FROM t {clause}", schema=SchemaChoice.SNAPSHOT) == (
        "SELECT * FROM past0 AS `t`"
    )
    assert sql.engine.views[-1] == PastView(sql.table.name, second, 0)


def test_what_spark_refuses_is_said_about_the_statement_as_it_was_written(sql: Session) -> None:
    sql.table.edit(renamed)
    text = "SELECT nope FROM t\n  AT(TIMESTAMP => '2026-01-02') JOIN t AT(OFFSET => 0) u"

    class Engine(WatchingEngine):
        def run(self, text: str, statement_id: str, views: Mapping[str, PastView]) -> object:
            name = next(iter(views))
            raise StatementRefused("no", object=text, found=f"no `nope` in `{name}`.`number`")

    sql.engine = Engine(sql.lake)
    with pytest.raises(StatementRefused) as refused:
        sql(text)
    assert refused.value.object == " ".join(text.split())
    assert refused.value.found == "no `nope` in `lake.air.t`.`number`"


def test_a_table_that_was_empty_then_is_read_with_its_present_columns(sql: Session) -> None:
    sql.lake.on(1)
    fresh = sql.lake.table("fresh")
    sql.lake.on(3)
    assert sql.sent("SELECT * FROM fresh AT(OFFSET => -60)") == "SELECT * FROM past0 AS `fresh`"
    assert sql.engine.views == [PastView(fresh.name)]


def test_all_clauses_of_a_statement_share_one_now(sql: Session) -> None:
    last = sql.table.head
    assert sql.sent("SELECT * FROM t AT(OFFSET => 0), t AT(TIMESTAMP => current_timestamp) u") == (
        f"SELECT * FROM t VERSION AS OF {last}, t VERSION AS OF {last} u"
    )


def test_a_tag_is_read_by_its_snapshot(sql: Session) -> None:
    # AR-42
    sql.table.tag("q'1", sql.table.snapshots[0])
    assert sql.sent("SELECT * FROM t FOR TAG 'q''1'") == (
        f"SELECT * FROM t VERSION AS OF {sql.table.snapshots[0]}"
    )


@pytest.mark.parametrize(
    ("clause", "error"),
    [
        ("AT(TIMESTAMP => '2025-01-01')", OutsideRetention),
        ("AT(TIMESTAMP => '2999-01-01')", OutsideRetention),
        ("AT(OFFSET => 1)", UsageInvalid),
        ("BEFORE(STATEMENT => 'never')", StatementNotFound),
        ("FOR TAG 'never; DROP TABLE t'", RefNotFound),
        ("AT(OFFSET => -1); DROP TABLE t AT(OFFSET => x)", SqlUnreadable),
    ],
)
def test_a_point_that_cannot_be_read_starts_nothing(
    sql: Session, clause: str, error: type[MeltlineError]
) -> None:
    def start() -> WatchingEngine:
        raise AssertionError("a JVM was started for nothing")

    request = StatementRequest(f"SELECT * FROM t {clause}", HERE)
    with pytest.raises(error):
        run_statement(sql.lake.services(), start, request, sql.services)


def test_what_is_read_is_leased_until_its_rows_are_there(sql: Session) -> None:
    sql("SELECT * FROM t AT(TIMESTAMP => '2026-01-02'), t AT(TIMESTAMP => '2026-01-03') u")
    leased = {lease.snapshot_id for lease in sql.engine.leases}
    assert leased == set(sql.table.snapshots[1:3])
    assert sql.lake.control.leases.active(sql.lake.clock.now()) == []


# --- statements as points -------------------------------------------------------------------------


def test_a_statement_has_an_id_by_which_it_is_known_afterwards(sql: Session) -> None:
    outcome = sql("SELECT 1", limit=7)
    text, id = sql.engine.given[0]
    assert (text, id) == ("SELECT 1", outcome.statement_id) and sql.engine.states == [
        StatementState.RUNNING
    ]
    assert outcome.read is not None and outcome.read.rows == ((7,),)
    known = sql.lake.control.statements.get(id)
    assert known is not None and (known.state, known.kind, known.who, known.completed_at) == (
        StatementState.COMPLETED, "SELECT", "tester", sql.lake.clock.now()
    )  # fmt: skip
    sql.lake.on(3.6)
    assert sql.sent(f"SELECT * FROM t AT(STATEMENT => '{id}')") == (
        f"SELECT * FROM t VERSION AS OF {sql.table.head}"
    )


def test_a_statement_that_fails_is_known_to_have_failed(sql: Session) -> None:
    sql.engine.refuse = True
    with pytest.raises(StatementRefused):
        sql("SELECT 1", statement_id="mine")
    known = sql.lake.control.statements.get("mine")
    assert known is not None and known.state is StatementState.FAILED


def test_an_id_is_given_once(sql: Session) -> None:
    sql("SELECT 1", statement_id="mine")
    for id in ("mine", " ", "a\nb", "x" * 256):
        with pytest.raises(NameConflict, match="the id of a new statement"):
            sql("SELECT 1", statement_id=id)


def test_rows_may_be_left_for_spark_to_fetch(sql: Session) -> None:
    outcome = sql("SELECT 1", fetch=False)
    assert (outcome.frame, outcome.read) == ("a frame", None)


# --- drop, undrop, rename, history ----------------------------------------------------------------


def test_a_table_is_dropped_listed_and_brought_back(sql: Session) -> None:
    (line,) = sql.rows("DROP TABLE t")
    assert "lake.air.t is dropped" in line[0]
    (row,) = sql.rows("SHOW TABLES HISTORY LIKE 'T%'")
    read = sql("SHOW TABLES HISTORY").read
    assert read is not None
    named = dict(zip((column.name for column in read.columns), row, strict=True))
    assert (named["name"], named["dropped_on"], named["retention_time"]) == (
        "t", sql.lake.clock.now(), "7"
    )  # fmt: skip
    assert sql.rows("UNDROP TABLE air.t") == [("lake.air.t is back, with 1 tables",)]
    assert [row[-1] for row in sql.rows("SHOW TABLES HISTORY IN air")] == [None]
    with pytest.raises(NotDropped):
        sql("UNDROP TABLE t")


def test_a_namespace_is_a_database_or_a_schema_to_those_who_say_so(sql: Session) -> None:
    standing = replace(sql, standing=ObjectName("lake"))
    assert standing.rows("DROP SCHEMA air")
    assert standing.rows("UNDROP DATABASE lake.air") == [("lake.air is back, with 1 tables",)]
    assert [row[1] for row in standing.rows("SHOW DATABASES HISTORY")] == ["air"]
    assert standing.rows("SHOW SCHEMAS HISTORY IN air") == []
    with pytest.raises(NamespaceNotFound):
        standing.rows("SHOW TABLES HISTORY IN never")


def test_what_is_not_there_is_not_dropped_unless_that_is_fine(sql: Session) -> None:
    with pytest.raises(TableNotFound):
        sql("DROP TABLE never")
    assert sql.rows("DROP TABLE IF EXISTS never") == [("there is no table lake.air.never",)]
    assert sql.rows("DROP DATABASE IF EXISTS never") == [("there is no database lake.never",)]


def test_a_renamed_table_stays_in_its_namespace(sql: Session) -> None:
    sql.rows("ALTER TABLE lake.air.t RENAME TO u")
    assert sql.lake.catalogs["lake"].location(TableName.parse("lake.air.u"))


def test_tables_of_other_scopes_are_listed_where_they_are(sql: Session) -> None:
    sql.lake.table("lake.sea.s")
    assert [row[1] for row in sql.rows("SHOW TABLES HISTORY")] == ["t"]
    assert [row[1] for row in sql.rows("SHOW TABLES HISTORY IN ACCOUNT")] == ["s", "t"]
    assert [row[1] for row in sql.rows("SHOW TABLES HISTORY IN lake")] == ["s", "t"]
    assert [row[1] for row in sql.rows("SHOW TABLES HISTORY IN sea")] == ["s"]
    assert [row[1] for row in sql.rows("SHOW TABLES HISTORY IN lake.sea")] == ["s"]


# --- retention ------------------------------------------------------------------------------------


def test_retention_is_set_and_unset_at_every_level(sql: Session) -> None:
    # TT-12
    assert sql.rows("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS=30;") == [
        ("lake.air.t", RETENTION, "inherited", "30")
    ]
    assert policy(sql, "lake.air.t", RETENTION) == 30
    assert sql.rows("ALTER TABLE t UNSET DATA_RETENTION_TIME_IN_DAYS") == [
        ("lake.air.t", RETENTION, "30", "inherited")
    ]
    sql.rows("ALTER DATABASE air SET SNAPSHOT_RETENTION_DAYS = 9")
    assert policy(sql, "lake.air.t", RETENTION) == 9
    sql.rows("ALTER ACCOUNT SET MIN_DATA_RETENTION_TIME_IN_DAYS = 12")
    assert policy(sql, "lake.air.t", RETENTION) == 12
    assert policy(sql, "lake.air.t", MIN_RETENTION) == 12


@pytest.mark.parametrize("days", ["91", "-1", "1.5", "NULL"])
def test_a_retention_out_of_range_is_refused_and_nothing_changes(sql: Session, days: str) -> None:
    for text in (
        f"ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = {days}",
        f"CREATE TABLE u (a INT) DATA_RETENTION_TIME_IN_DAYS = {days}",
    ):
        with pytest.raises(RetentionOutOfRange):
            sql(text)
    assert policy(sql, "lake.air.t", RETENTION) == 7 and sql.engine.given == []


def test_the_accounts_minimum_is_the_accounts_alone(sql: Session) -> None:
    with pytest.raises(UsageInvalid, match="only the account"):
        sql("ALTER TABLE t SET MIN_DATA_RETENTION_TIME_IN_DAYS = 3")


def test_a_table_is_created_with_its_retention_in_sparks_words(sql: Session) -> None:
    # TT-18
    assert sql.sent("CREATE TABLE u(a NUMBER) DATA_RETENTION_TIME_IN_DAYS=90") == (
        "CREATE TABLE u(a DECIMAL(38, 0)) TBLPROPERTIES ('meltline.retention-days' = '90')"
    )


# --- tags -----------------------------------------------------------------------------------------


def test_a_snapshot_is_tagged_by_its_id_alone(sql: Session) -> None:
    first = sql.table.snapshots[0]
    sql.rows(f"TAG snapshot {first} AS 'incident''s' WITH RETENTION FOREVER;")
    assert sql.table.refs["incident's"] == {
        "type": "tag", "snapshot-id": first, "max-ref-age-ms": FOREVER_MS
    }  # fmt: skip
    sql.rows(f"TAG SNAPSHOT {first} OF t AS 'month' WITH RETENTION 30 DAYS")
    assert sql.table.refs["month"]["max-ref-age-ms"] == (33.5 * DAY) // timedelta(milliseconds=1)


def test_a_snapshot_that_no_table_or_several_tables_have_is_not_tagged_by_its_id(
    sql: Session,
) -> None:
    with pytest.raises(SnapshotNotFound, match="4729"):
        sql("TAG snapshot 4729 AS 'x' WITH RETENTION FOREVER")
    sql.lake.clone(sql.table, "lake.air.copy")
    text = "TAG SNAPSHOT {} {}AS 'x' WITH RETENTION FOREVER"
    with pytest.raises(UsageInvalid, match="several tables"):
        sql(text.format(sql.table.head, ""))
    sql.rows(text.format(sql.table.head, "OF copy "))
    assert "x" not in sql.table.refs


# --- clones ---------------------------------------------------------------------------------------


def made(sql: Session, name: str) -> Table:
    return Table(sql.lake, TableName.parse(name))


def test_a_table_is_cloned_as_it_is_or_was(sql: Session) -> None:
    first, second, *_, head = sql.table.snapshots
    assert sql.rows("CREATE TABLE copy CLONE t") == [
        ("lake.air.copy is a clone of lake.air.t, with 1 tables",)
    ]
    sql.rows("CREATE TABLE day2 CLONE t AT(TIMESTAMP => '2026-01-02T00:00:00Z'::timestamp_tz);")
    sql.rows("CREATE TABLE lake.air.day1 CLONE air.t BEFORE(OFFSET => -60*60*24*2.5)")
    sql.table.tag("q1", second)
    sql.rows("CREATE TABLE q1 CLONE t FOR TAG 'q1'")
    found = [made(sql, f"lake.air.{name}").snapshots for name in ("copy", "day2", "day1", "q1")]
    assert found == [[head], [second], [first], [second]]


def test_a_schema_and_a_database_are_cloned_with_all_their_tables_at_one_point(
    sql: Session,
) -> None:
    other = sql.lake.on(1).table("other")
    sql.lake.on(2)
    other.overwrite("x")
    sql.lake.on(3.5)
    _, second, *_ = sql.table.snapshots
    standing = replace(sql, standing=ObjectName("lake"))
    assert standing.rows("CREATE SCHEMA restored_schema CLONE air AT(OFFSET => -3600);") == [
        ("lake.restored_schema is a clone of lake.air, with 2 tables",)
    ]
    standing.rows("CREATE DATABASE restored_db CLONE air AT(TIMESTAMP => '2026-01-02T12:00:00Z')")
    assert made(sql, "lake.restored_schema.other").snapshots == other.snapshots
    assert made(sql, "lake.restored_db.t").snapshots == [second]
    assert made(sql, "lake.restored_db.other").snapshots == []


def test_a_database_is_cloned_as_it_was_before_a_statement(sql: Session) -> None:
    sql.lake.on(3.6)
    head, id = sql.table.head, sql("INSERT INTO t VALUES (1)").statement_id
    sql.engine.given.clear()
    sql.lake.on(3.7)
    sql.table.overwrite("later")
    sql.rows(f"CREATE DATABASE restored_db CLONE air BEFORE(STATEMENT => '{id}')")
    assert made(sql, "lake.restored_db.t").snapshots == [head]


def test_tables_that_reach_not_so_far_back_are_left_out_only_where_that_is_said(
    sql: Session,
) -> None:
    # TT-37
    sql.lake.on(0).table("short", properties={RETENTION: "1"}).overwrite("s")
    sql.lake.on(3.5)
    text = "CREATE DATABASE restored_db CLONE air AT(OFFSET => -60*60*24*2)"
    with pytest.raises(ChildInsufficientRetention, match="so far back"):
        sql(text)
    ignoring = f"{text} IGNORE TABLES WITH INSUFFICIENT DATA RETENTION;"
    (done, left_out) = sql.rows(ignoring)
    assert done == ("lake.restored_db is a clone of lake.air, with 1 tables",)
    assert left_out[0].startswith("left out: lake.air.short: ")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE TABLE t CLONE t", NameConflict),
        ("CREATE TABLE c CLONE never", TableNotFound),
        ("CREATE TABLE c CLONE t AT(TIMESTAMP => '2025-12-01')", BeforeCreation),
        ("CREATE TABLE c CLONE t AT(OFFSET => 1)", UsageInvalid),
        ("CREATE TABLE c CLONE t BEFORE(STATEMENT => 'never')", StatementNotFound),
        ("CREATE SCHEMA lake.never.s CLONE lake.air", NamespaceNotFound),
        ("CREATE DATABASE air FROM air", NameConflict),
        ("CREATE DATABASE y FROM never", NamespaceNotFound),
        ("CREATE DATABASE y FROM lake.air.t", UsageInvalid),
    ],
)
def test_a_clone_that_cannot_be_made_leaves_nothing(
    sql: Session, text: str, error: type[MeltlineError]
) -> None:
    before = sql.lake.catalogs["lake"].listing()
    with pytest.raises(error):
        sql(text)
    assert sql.lake.catalogs["lake"].listing() == before and sql.engine.given == []
