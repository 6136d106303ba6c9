"""Statements about shares."""

import pytest

from meltline.app.run.lifecycle import run_chain
from meltline.domain.errors import (
    MeltlineError,
    NameConflict,
    NamespaceNotEmpty,
    ShareNotFound,
    TableNotFound,
    UsageInvalid,
)
from tests.unit.sql.test_statements import Session, made, named_rows, sql

__all__ = ["sql"]


SHARES = "SELECT * FROM MD_INFORMATION_SCHEMA.OWNED_SHARES;"


def test_a_share_is_made_listed_updated_and_dropped(sql: Session) -> None:
    assert named_rows(sql, SHARES) == []
    pinned, pinned_at = sql.table.head, sql.lake.clock.now()
    assert sql.rows("CREATE SHARE s FROM air") == [("lake.air is shared as lake.s, with 1 tables",)]
    sql.lake.on(4)
    sql.table.overwrite("later")
    row = {"share_name": "s", "source": "lake.air", "source_table": "lake.air.t",
           "pinned_snapshot_id": pinned, "pinned_at": pinned_at, "update_mode": "manual",
           "state": "behind"}  # fmt: skip
    assert named_rows(sql, SHARES) == [row]
    made(sql, "lake.s.t").overwrite("mine")
    assert sql.rows("UPDATE SHARE s") == [
        ("lake.s shows lake.air as it is now, with 1 tables",),
        ("writes undone: lake.s.t",),
    ]
    now = {"pinned_snapshot_id": sql.table.head, "pinned_at": sql.lake.clock.now()}
    assert named_rows(sql, SHARES) == [row | now | {"state": "current"}]
    (line,) = sql.rows("DROP SHARE s")
    assert "lake.s is dropped, with 1 tables" in line[0]
    assert named_rows(sql, SHARES) == []
    for text in ("UPDATE SHARE s", "DROP SHARE s", "DROP SHARE `lake.s`"):
        with pytest.raises(ShareNotFound):
            sql(text)


def test_an_update_says_which_tables_have_left(sql: Session) -> None:
    sql.lake.table("u").overwrite("x")
    sql.rows("CREATE SHARE s FROM lake.air")
    sql.rows("DROP TABLE u")
    assert sql.rows("UPDATE SHARE s")[1:] == [("taken out: lake.s.u",)]


def test_a_share_of_nothing_yet_is_listed_too(sql: Session) -> None:
    sql.lake.catalogs["lake"].set_namespace_properties(("empty",), {})
    sql.rows("CREATE SHARE one FROM empty")
    (row,) = named_rows(sql, SHARES)
    assert (row["share_name"], row["source"], row["source_table"]) == ("one", "lake.empty", None)


def test_a_share_whose_table_was_dropped_still_shows_what_it_pins(sql: Session) -> None:
    # ML-21
    sql.rows("CREATE SHARE one FROM air.t")
    pinned = sql.table.head
    sql.rows("DROP TABLE lake.one.t")
    (row,) = named_rows(sql, SHARES)
    assert (row["source_table"], row["pinned_snapshot_id"], row["state"]) == (
        "lake.air.t", pinned, "table gone"
    )  # fmt: skip


def test_a_database_made_from_a_share_is_no_share(sql: Session) -> None:
    sql.rows("CREATE SHARE s FROM air")
    sql.rows("CREATE DATABASE y FROM s")
    assert [row["share_name"] for row in named_rows(sql, SHARES)] == ["s"]
    for text in ("UPDATE SHARE y", "DROP SHARE y"):
        with pytest.raises(ShareNotFound):
            sql(text)
    sql.rows("CREATE SHARE again FROM y")
    for name in ("again", "s"):
        sql.rows(f"DROP SHARE {name}")
    shown = sql.table.head
    for day in (4, 20, 21, 40, 41):  # long enough for all that nobody needs any more to go
        sql.lake.on(day)
        sql.table.overwrite(f"day{day}")
        run_chain(sql.lake.services(), sql.lake.request())
    assert shown not in sql.table.snapshots
    assert made(sql, "lake.y.t").snapshots == [shown]
    sql.lake.check_nothing_is_missing()


def test_a_share_keeps_its_name_and_has_a_drop_of_its_own(sql: Session) -> None:
    sql.rows("CREATE SHARE s FROM air")
    for text in ("ALTER DATABASE s RENAME TO moved", "DROP DATABASE s", "DROP SCHEMA lake.s"):
        with pytest.raises(UsageInvalid, match="is a share"):
            sql(text)
    sql.rows("ALTER DATABASE air RENAME TO sky")
    (row,) = named_rows(sql, SHARES)
    assert (row["share_name"], row["source"], row["state"]) == ("s", "lake.sky", "current")


def test_a_table_beside_those_of_a_share_is_said_and_left_alone(sql: Session) -> None:
    sql.rows("CREATE SHARE s FROM air")
    sql.rows("CREATE TABLE lake.s.mine CLONE air.t")
    assert sql.rows("UPDATE SHARE s")[1:] == [("not of the share, left alone: lake.s.mine",)]
    with pytest.raises(NamespaceNotEmpty, match="not the share's"):
        sql("DROP SHARE s")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE SHARE air FROM air", NameConflict),
        ("CREATE SHARE `a.b` FROM air", UsageInvalid),
        ("CREATE SHARE s FROM never", TableNotFound),
        ("CREATE SHARE s FROM lake", UsageInvalid),
    ],
)
def test_a_share_that_cannot_be_made_is_refused(
    sql: Session, text: str, error: type[MeltlineError]
) -> None:
    with pytest.raises(error):
        sql(text)
    assert named_rows(sql, SHARES) == [] and set(sql.table.refs) == {"main"}
