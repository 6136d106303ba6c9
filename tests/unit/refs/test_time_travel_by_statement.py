"""Time travel to a statement: where it ended, and where it began."""

from datetime import datetime
from typing import Any

import pytest

from meltline.domain.errors import (
    OutsideRetention,
    StatementNotCompleted,
    StatementNotFound,
)
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    PointSide,
    Resolved,
    StatementPoint,
)
from meltline.ports import StatementRecord, StatementState
from tests.lake.lake import DAY, T0, Lake, Table
from tests.unit.refs.test_time_travel import daily, found


def mark(table: Table, statement: str, *snapshots: int) -> None:
    """As if a statement of that id had made these snapshots."""

    def change(document: dict[str, Any]) -> None:
        for snapshot in document["snapshots"]:
            if snapshot["snapshot-id"] in snapshots:
                snapshot["summary"][STATEMENT_ID] = statement

    table.edit(change)


def test_a_statement_of_two_commits_is_at_its_last_and_before_its_first() -> None:
    # DS-4, TT-30
    lake, table = daily(4)
    first, second, third, _ = table.snapshots
    mark(table, "s-1", second, third)
    lake.on(4)
    statement = StatementPoint("s-1")
    assert found(lake, table, PointSide.AT, statement).snapshot_id == third
    assert found(lake, table, PointSide.BEFORE, statement).snapshot_id == first


def test_a_statement_whose_two_commits_share_a_millisecond_is_told_apart_from_its_neighbours() -> (
    None
):
    lake, table = daily(1)
    around = [table.append(name) for name in ("before", "one", "two", "after")]
    mark(table, "s-1", around[1], around[2])
    statement = StatementPoint("s-1")
    assert found(lake, table, PointSide.BEFORE, statement).snapshot_id == around[0]
    assert found(lake, table, PointSide.AT, statement).snapshot_id == around[2]


def test_a_statement_that_a_rollback_brought_back_is_where_it_first_was() -> None:
    lake, table = daily(3)
    first, second, _ = table.snapshots
    mark(table, "s-1", second)
    lake.on(3)
    table.rollback(second)
    lake.on(4)
    statement = StatementPoint("s-1")
    assert found(lake, table, PointSide.AT, statement) == Resolved(second, T0 + DAY, T0 + 2 * DAY)
    assert found(lake, table, PointSide.BEFORE, statement).snapshot_id == first


def test_before_the_statement_that_first_wrote_a_table_it_was_empty() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    lake.on(1)
    mark(table, "s-1", table.append("f"))
    lake.on(2)
    assert found(lake, table, PointSide.BEFORE, StatementPoint("s-1")).snapshot_id is None


def test_before_the_statement_that_replaced_a_table_is_the_table_before() -> None:
    lake, table = daily(2)
    second = table.head
    lake.on(2)
    mark(table, "s-1", table.start_over("n"))
    lake.on(3)
    assert found(lake, table, PointSide.BEFORE, StatementPoint("s-1")).snapshot_id == second


def test_a_statement_on_a_branch_means_its_time_on_main() -> None:
    lake, table = daily(2)
    table.branch("b", table.head)
    lake.on(2)
    mark(table, "s-1", table.append("x", ref="b"))
    lake.on(3)
    table.append("y")
    lake.on(4)
    for side in PointSide:
        assert found(lake, table, side, StatementPoint("s-1")).snapshot_id == table.snapshots[1]


def recorded(lake: Lake, state: StatementState, ended: datetime | None) -> StatementPoint:
    row = StatementRecord("q-1", "SELECT", "ann", state, T0, ended)
    lake.control.statements.save(row)
    return StatementPoint("q-1")


def test_a_query_means_the_instant_at_which_it_was_completed() -> None:
    lake, table = daily(4)
    first, second, *_ = table.snapshots
    statement = recorded(lake, StatementState.COMPLETED, T0 + DAY)
    assert found(lake, table, PointSide.AT, statement).snapshot_id == second
    assert found(lake, table, PointSide.BEFORE, statement).snapshot_id == first


def test_a_running_or_failed_statement_is_no_point() -> None:
    # TT-31
    lake, table = daily()
    for state, ended in ((StatementState.RUNNING, None), (StatementState.FAILED, T0 + DAY)):
        statement = recorded(lake, state, ended)
        mark(table, "q-1", table.head)
        with pytest.raises(StatementNotCompleted, match="q-1"):
            found(lake, table, PointSide.AT, statement)


def test_an_unknown_statement_is_an_error() -> None:
    # TT-31
    lake, table = daily()
    with pytest.raises(StatementNotFound, match="s-9"):
        found(lake, table, PointSide.AT, StatementPoint("s-9"))


def test_a_statement_outside_the_window_is_an_error_although_its_snapshot_is_current() -> None:
    lake, table = daily(1)
    mark(table, "s-1", table.head)
    lake.on(20)
    with pytest.raises(OutsideRetention):
        found(lake, table, PointSide.AT, StatementPoint("s-1"))
