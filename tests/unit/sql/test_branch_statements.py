"""Statements with the verbs of git, and clones in the place of something (DS-16)."""

import pytest

from meltline.app.refs.branches import drop_branch
from meltline.domain.errors import (
    MeltlineError,
    NameConflict,
    RefNotFound,
    SnapshotNotFound,
    SqlUnreadable,
    TableNotFound,
    UndoRefused,
)
from tests.unit.sql.test_statements import Session, made, sql

__all__ = ["sql"]


def test_a_branch_is_made_committed_to_main_and_dropped(sql: Session) -> None:
    first, head = sql.table.snapshots[0], sql.table.head
    assert sql.rows("CREATE BRANCH wip OF t") == [(f"lake.air.t: wip is at snapshot {head}",)]
    then = "AT(TIMESTAMP => '2026-01-01T12:00:00Z')"
    assert sql.rows(f"CREATE BRANCH old OF lake.air.t {then}") == [
        (f"lake.air.t: old is at snapshot {first}",)
    ]
    assert sql.rows("RESYNC BRANCH old OF t") == [(f"lake.air.t: old is at snapshot {head}",)]
    assert sql.rows("COMMIT BRANCH `wip` OF t;") == [(f"lake.air.t: main is at snapshot {head}",)]
    assert sql.rows("DROP BRANCH wip OF t") == [
        (f"lake.air.t: branch wip, at snapshot {head}, is dropped",)
    ]
    assert "wip" not in sql.table.refs and "old" in sql.table.refs
    actions = [entry.action for entry in sql.lake.control.audit.entries()]
    assert actions[1:] == ["branch", "branch", "resync", "branch drop"]


def test_main_goes_back_to_what_it_was_before_a_statement_or_at_a_snapshot(sql: Session) -> None:
    first, second, *_, head = sql.table.snapshots
    (line,) = sql.rows("ROLLBACK TABLE t BEFORE(TIMESTAMP => '2026-01-03T00:00:00Z')")
    assert line == (f"lake.air.t: main is at snapshot {second}, was at {head}",)
    sql.rows(f"ROLLBACK TABLE t TO SNAPSHOT {first}")
    assert sql.table.head == first


def test_two_states_are_compared(sql: Session) -> None:
    first, *_, head = sql.table.snapshots
    sql.table.tag("q1", first)
    rows = sql.rows(f"DIFF TABLE t BETWEEN q1 AND {head}")
    assert [row[0] for row in rows] == ["added", "removed", "net"]
    assert rows == sql.rows("DIFF TABLE t BETWEEN 'q1' AND main") and rows[2][1] == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("DROP BRANCH main OF t", UndoRefused),
        ("DROP BRANCH no OF t", RefNotFound),
        ("COMMIT BRANCH no OF t", RefNotFound),
        ("CREATE BRANCH main OF t", NameConflict),
        ("CREATE BRANCH b OF air", TableNotFound),
        ("CREATE BRANCH b OF fresh AT(OFFSET => 0)", SnapshotNotFound),
        ("ROLLBACK TABLE t TO SNAPSHOT 4729", SnapshotNotFound),
        ("COMMIT", SqlUnreadable),
        ("ROLLBACK", SqlUnreadable),
        ("CREATE BRANCH b", SqlUnreadable),
        ("ROLLBACK TABLE t", SqlUnreadable),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    sql: Session, text: str, error: type[MeltlineError]
) -> None:
    sql.lake.table("fresh")
    before = sql.table.document
    with pytest.raises(error):
        sql(text)
    assert sql.table.document == before and sql.engine.given == []


def test_a_branch_that_is_not_there_may_be_named_where_that_is_fine(sql: Session) -> None:
    assert sql.rows("DROP BRANCH IF EXISTS no OF t") == [("lake.air.t: there is no branch no",)]


def test_a_dry_run_drops_no_branch(sql: Session) -> None:
    sql.rows("CREATE BRANCH wip OF t")
    drop_branch(sql.lake.services(), sql.table.name, "wip", dry_run=True)
    assert "wip" in sql.table.refs


def test_iceberg_s_own_words_about_branches_are_for_spark(sql: Session) -> None:
    for text in ("ALTER TABLE t CREATE BRANCH b", "ALTER TABLE t DROP BRANCH b"):
        assert sql.sent(text) == text


# --- clones ---------------------------------------------------------------------------------------


def test_a_clone_takes_the_place_of_what_has_its_name(sql: Session) -> None:
    first = sql.table.data("f0")
    then = "AT(TIMESTAMP => '2026-01-01T12:00:00Z')"
    clone, dropped = sql.rows(f"CREATE OR REPLACE TABLE t CLONE t {then}")
    assert clone == ("lake.air.t is a clone of lake.air.t, with 1 tables",)
    assert dropped[0].startswith("what was lake.air.t is dropped. `UNDROP lake.air.t`")
    assert {entry.path for entry in made(sql, "lake.air.t").live()} == {first}


def test_a_clone_is_left_out_where_its_name_is_taken_and_that_is_fine(sql: Session) -> None:
    assert sql.rows("CREATE TABLE IF NOT EXISTS t CLONE t") == [
        ("there is a table lake.air.t already",)
    ]
    sql.rows("CREATE TABLE IF NOT EXISTS u CLONE t")
    assert made(sql, "lake.air.u").live()
