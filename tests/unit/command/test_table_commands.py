"""What the commands answer that drop, rename, clone and share, none of which starts a JVM."""

from typing import Any

import pytest

from meltline.cli.main import run
from meltline.domain.units import format_instant
from tests.unit.command.test_commands_without_spark import (
    COMMITS,
    TABLE,
    Home,
    committed_at,
    home,
    meltline,
)

__all__ = ["home", "meltline"]


def test_a_table_goes_comes_back_and_is_listed_with_the_columns_that_people_know(
    meltline: Any, home: Home
) -> None:
    before = home.document()
    code, gone = meltline("drop", TABLE)
    assert code == 0 and (gone["object"], gone["kind"], gone["tables"]) == (TABLE, "table", [TABLE])
    code, listed = meltline("history", "tables")
    (row,) = listed["rows"]
    assert code == 0 and list(row) == [
        "created_on", "name", "database_name", "schema_name", "kind", "comment", "cluster_by",
        "rows", "bytes", "owner", "retention_time", "dropped_on",
    ]  # fmt: skip
    assert row["name"] == "it's t" and row["rows"] == 10_000_000
    assert row["dropped_on"] == gone["dropped_on"]
    code, back = meltline("undrop", TABLE)
    assert code == 0 and back["tables"][0]["snapshot_id"] == COMMITS and back["missing"] == []
    after = home.document()
    changing = {"last-updated-ms", "metadata-log"}
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }


def test_a_clone_says_what_came_and_what_was_left_out(meltline: Any, home: Home) -> None:
    then = ("--at", "--timestamp", format_instant(committed_at(1)))
    code, would = meltline("clone", TABLE, "lake.air.c", *then, "--dry-run")
    assert code == 0 and would["dry_run"] and home.document()["properties"] == {}
    code, done = meltline("clone", TABLE, "lake.air.c", *then)
    (made,) = done["created"]
    assert code == 0 and done["skipped"] == [] and done["kind"] == "table"
    assert made.pop("uuid")
    assert made == {
        "source": TABLE,
        "table": "lake.air.c",
        "snapshot_id": 2,
        "committed_at": format_instant(committed_at(1)),
    }
    code, whole = meltline("clone", "lake.air", "lake.sea", "--kind", "database", *then)
    assert code == 0 and [one["table"] for one in whole["created"]] == ["lake.sea.`it's t`"]
    (skipped,) = whole["skipped"]
    assert skipped["table"] == "lake.air.c" and "it was made at" in skipped["reason"]
    assert meltline("clone", TABLE, "lake.air.c")[1]["error"]["type"] == "NameConflict"


def test_a_share_comes_is_listed_and_goes(meltline: Any, home: Home) -> None:
    code, made = meltline("share", "create", "q1", "--from", TABLE)
    assert code == 0 and (made["share"], made["source"], made["mode"]) == ("q1", TABLE, "manual")
    assert (made["place"], made["who"]) == ("lake.q1", "ann")
    table = {
        "source": TABLE,
        "table": "lake.q1.`it's t`",
        "snapshot_id": COMMITS,
        "behind": False,
        "written": False,
        "gone": False,
    }
    assert made["tables"] == [table]
    code, listed = meltline("share", "list")
    assert code == 0 and [one["tables"] for one in listed["shares"]] == [[table]]
    meltline("rollback", TABLE, "--to", "2")
    code, updated = meltline("share", "update", "q1")
    assert code == 0 and updated["tables"] == [{**table, "snapshot_id": 2, "behind": True}]
    assert home.document()["refs"]["share__q1"]["snapshot-id"] == 2
    code, gone = meltline("share", "drop", "q1")
    assert code == 0 and gone["removed"] == [] and meltline("share", "list")[1] == {"shares": []}
    assert "share__q1" not in home.document()["refs"]


def test_a_statement_may_begin_with_a_comment(meltline: Any) -> None:
    for comment in ("-- which ones\n", "--which ones\n", "-- a = b\n", "/* a */ -- b\n"):
        code, listed = meltline("sql", f"{comment}SHOW TABLES HISTORY", "--in", "lake.air")
        assert code == 0 and listed["rows"][0][1] == "it's t"
    code, refused = meltline("sql", "-- nothing but that")
    assert (code, refused["error"]["type"]) == (2, "SqlUnreadable")
    code, refused = meltline("sql", "SHOW TABLES HISTORY", "--limti", "3")
    assert (code, refused["error"]["object"]) == (2, "command line")


def test_a_clone_replaces_what_has_its_name_only_where_that_is_said(meltline: Any) -> None:
    then = ("--at", "--timestamp", format_instant(committed_at(1)))
    assert meltline("clone", TABLE, "lake.air.c")[1]["replaced"] is False
    code, done = meltline("clone", TABLE, "lake.air.c", *then, "--replace")
    assert code == 0 and done["replaced"] and done["created"][0]["table"] == "lake.air.c"
    code, listed = meltline("history", "tables", "--like", "c")
    assert [row["dropped_on"] is None for row in listed["rows"]] == [True, False]


def test_a_branch_is_taken_away(meltline: Any, home: Home) -> None:
    code, would = meltline("branch", TABLE, "wip", "--drop", "--dry-run")
    assert code == 0 and would["before"] == COMMITS and "wip" in home.document()["refs"]
    assert meltline("branch", TABLE, "wip", "--drop")[0] == 0
    assert "wip" not in home.document()["refs"]
    code, refused = meltline("branch", TABLE, "main", "--drop")
    assert (code, refused["error"]["type"]) == (3, "UndoRefused")


def test_a_table_is_explained_with_how_many_more_names_there_are(
    meltline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        assert meltline("branch", TABLE, name)[0] == 0
    assert run(["explain", TABLE]) == 0
    shown = capsys.readouterr().out
    assert "a, b, c and 2 more" in shown
    (newest, *_) = meltline("explain", TABLE)[1]["snapshots"]
    assert newest["referenced_by"] == ["a", "b", "c", "main", "wip"]


def test_a_share_that_lost_its_table_says_what_it_still_pins(
    meltline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert meltline("share", "create", "q1", "--from", TABLE)[0] == 0
    assert meltline("drop", "lake.q1.`it's t`")[0] == 0
    (table,) = meltline("share", "list")[1]["shares"][0]["tables"]
    assert (table["gone"], table["snapshot_id"], table["source"]) == (True, COMMITS, TABLE)
    assert run(["share", "list"]) == 0
    assert "table gone" in capsys.readouterr().out
