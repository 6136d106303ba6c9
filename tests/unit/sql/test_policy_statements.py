"""Statements about policies: containers made with them, transient ones, what is risky."""

import pytest

from meltline.app.retention.policies import show_policies
from meltline.domain.errors import (
    NameConflict,
    NamespaceNotFound,
    RetentionOutOfRange,
    SqlUnreadable,
    TransientImmutable,
    UsageInvalid,
)
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.retention.policy import ENABLED, PROFILES, RETENTION, TRANSIENT, AccountPolicy
from tests.unit.sql.test_statements import Session, policy, sql

__all__ = ["sql"]


def properties(sql: Session, *namespace: str) -> dict[str, str]:
    return dict(sql.lake.catalogs["lake"].listing().namespaces[namespace])


# --- what is risky --------------------------------------------------------------------------------


def test_no_retention_at_all_is_warned_of_as_the_command_does(sql: Session) -> None:
    # TT-9, ML-26
    altered = sql("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = 0")
    assert altered.warnings == (
        f"lake.air.t: {RETENTION}=0, what is overwritten cannot be read again",
    )
    created = sql("CREATE TABLE u (a INT) DATA_RETENTION_TIME_IN_DAYS = 0")
    assert "lake.air.u: " in created.warnings[0] and created.read is not None
    assert sql("CREATE SCHEMA s DATA_RETENTION_TIME_IN_DAYS = 0").warnings
    assert sql("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = 1").warnings == ()


def test_for_ever_and_unset_are_two_answers(sql: Session) -> None:
    # ML-33
    sql.lake.account = AccountPolicy(PROFILES["lakehouse"])
    (forever,) = sql.rows("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = NULL")
    assert forever == ("lake.air.t", RETENTION, "inherited", "infinite")
    (unset,) = sql.rows("ALTER TABLE t UNSET DATA_RETENTION_TIME_IN_DAYS")
    assert unset == ("lake.air.t", RETENTION, "infinite", "inherited")


def test_a_number_of_days_is_stored_as_one(sql: Session) -> None:
    (row,) = sql.rows("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = 007")
    assert row[3] == "7"
    assert "'7'" in sql.sent("CREATE TABLE u (a INT) DATA_RETENTION_TIME_IN_DAYS = 007")
    with pytest.raises(SqlUnreadable):
        sql("ALTER TABLE t SET DATA_RETENTION_TIME_IN_DAYS = \u0663")


# --- schemas and databases ------------------------------------------------------------------------


def test_a_schema_and_a_database_are_made_with_a_retention(sql: Session) -> None:
    # TT-12, TT-13
    assert sql.rows("CREATE SCHEMA eu DATA_RETENTION_TIME_IN_DAYS = 30") == [
        ("lake.air.eu is made",)
    ]
    sql.rows("CREATE DATABASE sea SNAPSHOT_RETENTION_DAYS = 9;")
    assert properties(sql, "air", "eu") == {RETENTION: "30"}
    assert properties(sql, "sea") == {RETENTION: "9"}
    sql.lake.table("lake.sea.s")
    assert policy(sql, "lake.sea.s", RETENTION) == 9
    entries = sql.lake.control.audit.entries()[-2:]
    assert [e.object for e in entries] == ["lake.air.eu", "lake.sea"]


def test_what_is_there_is_not_made_anew(sql: Session) -> None:
    with pytest.raises(NameConflict):
        sql("CREATE DATABASE air DATA_RETENTION_TIME_IN_DAYS = 3")
    assert sql.rows("CREATE DATABASE IF NOT EXISTS air DATA_RETENTION_TIME_IN_DAYS = 3") == [
        ("there is a database lake.air already",)
    ]
    assert properties(sql, "air") == {}
    assert [entry.action for entry in sql.lake.control.audit.entries()] == ["init"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE SCHEMA eu DATA_RETENTION_TIME_IN_DAYS = 91", RetentionOutOfRange),
        ("CREATE SCHEMA nowhere.eu DATA_RETENTION_TIME_IN_DAYS = 1", NamespaceNotFound),
        ("CREATE DATABASE d MIN_DATA_RETENTION_TIME_IN_DAYS = 1", UsageInvalid),
        ("CREATE DATABASE d COMMENT 'x' DATA_RETENTION_TIME_IN_DAYS = 1", SqlUnreadable),
        ("CREATE OR REPLACE SCHEMA eu DATA_RETENTION_TIME_IN_DAYS = 1", SqlUnreadable),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is(
    sql: Session, text: str, error: type[Exception]
) -> None:
    before = sql.lake.catalogs["lake"].listing().namespaces
    with pytest.raises(error):
        sql(text)
    assert sql.lake.catalogs["lake"].listing().namespaces == before


def test_a_schema_without_policies_is_for_spark(sql: Session) -> None:
    for text in ("CREATE SCHEMA eu", "CREATE DATABASE IF NOT EXISTS d COMMENT 'x'"):
        assert sql.sent(text) == text


# --- transient ------------------------------------------------------------------------------------


def test_a_transient_schema_passes_that_on(sql: Session) -> None:
    # ML-29
    sql.rows("CREATE TRANSIENT SCHEMA tmp")
    sql.rows("CREATE TRANSIENT DATABASE d DATA_RETENTION_TIME_IN_DAYS = 0")
    assert properties(sql, "air", "tmp") == {TRANSIENT: "true"}
    assert properties(sql, "d") == {TRANSIENT: "true", RETENTION: "0"}
    sql.lake.table("lake.air.tmp.u")
    lines = show_policies(sql.lake.services(), ObjectName("lake", ("air", "tmp"), "u"))
    assert {line.key: line.effective for line in lines}[TRANSIENT] is True


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (
            "CREATE TRANSIENT TABLE u (a INT) USING iceberg PARTITIONED BY (a) AS SELECT 1 AS a",
            "CREATE TABLE u (a INT) USING iceberg TBLPROPERTIES ('meltline.transient' = 'true')"
            " PARTITIONED BY (a) AS SELECT 1 AS a",
        ),
        (
            "CREATE OR REPLACE TRANSIENT TABLE u (a NUMBER) DATA_RETENTION_TIME_IN_DAYS = 0",
            "CREATE OR REPLACE TABLE u (a DECIMAL(38, 0)) TBLPROPERTIES"
            " ('meltline.transient' = 'true', 'meltline.retention-days' = '0')",
        ),
        (
            "CREATE TRANSIENT TABLE u TBLPROPERTIES ('x' = 'y') AS SELECT 1",
            "CREATE TABLE u TBLPROPERTIES ('meltline.transient' = 'true', 'x' = 'y') AS SELECT 1",
        ),
    ],
)
def test_a_transient_table_is_made_in_sparks_words(sql: Session, text: str, sent: str) -> None:
    assert sql.sent(text) == sent


def test_a_table_that_is_not_new_does_not_become_transient_by_being_replaced(sql: Session) -> None:
    with pytest.raises(TransientImmutable):
        sql("CREATE OR REPLACE TRANSIENT TABLE t (a INT)")
    assert sql.engine.given == []


def test_a_transient_clone_is_refused_by_name(sql: Session) -> None:
    with pytest.raises(SqlUnreadable, match="transient where its source is"):
        sql("CREATE TRANSIENT TABLE u CLONE t")


# --- auto maintenance -----------------------------------------------------------------------------


def test_auto_maintenance_is_switched_for_what_is_named(sql: Session) -> None:
    # ML-34
    assert sql.rows("ALTER DATABASE air SET AUTO_MAINTENANCE = FALSE") == [
        ("lake.air", ENABLED, "inherited", "false")
    ]
    assert policy(sql, "lake.air.t", ENABLED) is False
    sql.rows("ALTER DATABASE air UNSET AUTO_MAINTENANCE")
    assert policy(sql, "lake.air.t", ENABLED) is True
    with pytest.raises(SqlUnreadable, match="TRUE or FALSE"):
        sql("ALTER DATABASE air SET AUTO_MAINTENANCE = 1")
