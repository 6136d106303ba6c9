"""What the commands answer that drop, rename, clone and share, none of which starts a JVM."""

from typing import Any

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
