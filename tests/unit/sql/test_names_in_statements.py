"""What a statement cannot say yet, and names that look like SQL."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from meltline.domain.errors import (
    MeltlineError,
    SqlUnreadable,
    StatementUnsupported,
    UsageInvalid,
)
from meltline.domain.iceberg.objects import ObjectName
from tests.unit.sql.test_statements import HERE, Session, made, sql

__all__ = ["sql"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM MD_INFORMATION_SCHEMA.{QUERY_HISTORY}",
        "SELECT * FROM MD_INFORMATION_SCHEMA.{STORAGE_INFO} WHERE database_name = 'air'",
        "SELECT share_name FROM MD_INFORMATION_SCHEMA.{OWNED_SHARES}",
        "INSERT INTO t SELECT 1 FROM MD_INFORMATION_SCHEMA.{DATABASES}",
    ],
)
def test_what_this_release_cannot_do_is_said_by_name_and_not_sent_to_spark(
    sql: Session, text: str
) -> None:
    (name,) = re.findall(r"{(.+)}", text)
    with pytest.raises(StatementUnsupported, match="not supported in this release") as refused:
        sql(re.sub("[{}]", "", text))
    assert name in refused.value.message
    assert sql.engine.given == []


INCOMPLETE: list[tuple[ObjectName, str]] = [
    (ObjectName("lake"), "UNDROP TABLE t"),
    (ObjectName("lake"), "SELECT * FROM t AT(OFFSET => 0)"),
    (HERE, "UNDROP DATABASE a.b"),
    (HERE, "UNDROP SCHEMA lake"),
]


@pytest.mark.parametrize(("standing", "text"), INCOMPLETE, ids=str)
def test_a_name_that_is_not_complete_is_refused(
    sql: Session, standing: ObjectName, text: str
) -> None:
    with pytest.raises(UsageInvalid, match="not a complete name"):
        replace(sql, standing=standing)(text)


ATTACKS: list[Callable[[str], str]] = [
    lambda evil: f"UNDROP TABLE `{evil}`",
    lambda evil: f"SHOW TABLES HISTORY LIKE '{evil}'",
    lambda evil: f"SELECT * FROM t FOR TAG '{evil}'",
    lambda evil: f"SELECT * FROM t BEFORE(STATEMENT => '{evil}')",
    lambda evil: f"SELECT * FROM `{evil}` AT(OFFSET => 0)",
    lambda evil: f"CREATE TABLE c CLONE `{evil}`",
    lambda evil: f"CREATE TABLE c CLONE t FOR TAG '{evil}'",
    lambda evil: f"CREATE DATABASE c CLONE air BEFORE(STATEMENT => '{evil}')",
    lambda evil: f"CREATE SHARE s FROM `{evil}`",
    lambda evil: f"UPDATE SHARE `{evil}`",
    lambda evil: f"DROP SHARE `{evil}`",
    lambda evil: f"SELECT * FROM MD_INFORMATION_SCHEMA.`{evil}`",
    lambda evil: f"SELECT lakets.`{evil}`('{evil}')",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_stands_in_quotes_is_a_name_and_never_sql(
    sql: Session, attack: Callable[[str], str]
) -> None:
    evil = "x\\'; DROP TABLE t; --"
    try:
        sql(attack(evil))
    except MeltlineError as refused:
        assert not isinstance(refused, SqlUnreadable)
    assert sql.engine.given == []
    assert sql.lake.catalogs["lake"].location(sql.table.name)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("CREATE TABLE `{evil}` CLONE t", "lake.air.`{evil}`"),
        ("CREATE SCHEMA lake.`{evil}` CLONE lake.air", "lake.`{evil}`.t"),
        ("CREATE SHARE `{evil}` FROM air", "lake.`{evil}`.t"),
        ("ALTER TABLE t RENAME TO `{evil}`", "lake.air.`{evil}`"),
    ],
)
def test_a_name_that_looks_like_sql_is_the_name_of_what_is_made(
    sql: Session, text: str, table: str
) -> None:
    evil, head = 'x"; DROP TABLE t; --', sql.table.head
    sql.rows(text.format(evil=evil))
    assert made(sql, table.format(evil=evil)).snapshots[-1] == head
    sql.rows(f"TAG SNAPSHOT {head} OF {table.format(evil=evil)} AS '{evil}' WITH RETENTION FOREVER")
    assert made(sql, table.format(evil=evil)).refs[evil]["snapshot-id"] == head
