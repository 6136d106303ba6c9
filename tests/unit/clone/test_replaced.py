"""A clone in the place of what has its name: that is dropped, and can come back."""

from datetime import timedelta

import pytest

from meltline.app.clone.replace import clone_over
from meltline.app.clone.shares import create_share
from meltline.app.drop.drop import rename
from meltline.app.drop.undrop import undrop
from meltline.domain.errors import LockHeld, NameConflict, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed, Process
from tests.unit.clone.test_clones import COPY, NAME, at, daily, live, names


def over(lake: Lake, source: str = NAME, target: str = COPY, **more: object) -> bool:
    """Whether something was dropped for the clone."""
    done, dropped = clone_over(lake.services(), source, target, replaces=True, **more)  # type: ignore[arg-type]
    assert str(done.target) == target
    return dropped is not None


def two() -> tuple[Lake, Table, Table]:
    lake, table = daily()
    other = lake.table(COPY)
    other.append("other")
    return lake, table, other


def test_a_free_name_is_simply_taken() -> None:
    lake, table = daily()
    assert not over(lake)
    assert live(Table(lake, TableName.parse(COPY))) == live(table)


def test_what_has_the_name_is_dropped_and_comes_back_once_the_name_is_free() -> None:
    lake, table, other = two()
    theirs = live(other)
    assert over(lake)
    assert live(Table(lake, TableName.parse(COPY))) == live(table)
    assert {name for name in names(lake) if "dropped" not in name} == {NAME, COPY}
    rename(lake.services(), COPY, "lake.air.later")
    undrop(lake.services(), COPY)
    assert live(Table(lake, TableName.parse(COPY))) == theirs


def test_a_table_is_put_back_to_what_it_was_by_a_clone_of_itself() -> None:
    # TT-33
    lake, table = daily()
    then, now = {table.data("f1")}, live(table)
    assert over(lake, target=NAME, point=at(1.5)) and now != then
    assert live(Table(lake, TableName.parse(NAME))) == then


def test_a_database_is_replaced_with_all_that_is_in_it() -> None:
    lake, table = daily()
    lake.table("lake.copy.theirs").append("x")
    assert over(lake, "lake.air", "lake.copy")
    assert live(Table(lake, TableName.parse("lake.copy.t"))) == live(table)
    assert "lake.copy.theirs" not in names(lake)
    rename(lake.services(), "lake.copy", "lake.later", ObjectKind.DATABASE)
    undrop(lake.services(), "lake.copy")
    assert "lake.copy.theirs" in names(lake)


def test_without_a_word_for_it_nothing_is_replaced() -> None:
    lake, _, other = two()
    before = other.document
    with pytest.raises(NameConflict):
        clone_over(lake.services(), NAME, COPY, replaces=False)
    assert other.document == before


def test_a_share_is_never_replaced() -> None:
    lake, _ = daily()
    create_share(lake.services(), "s", NAME)
    before = names(lake)
    with pytest.raises(UsageInvalid, match="is a share"):
        over(lake, "lake.air", "lake.s")
    assert names(lake) == before


def test_a_dry_run_replaces_nothing() -> None:
    lake, _, other = two()
    before, paths = other.document, lake.paths()
    assert over(lake, dry_run=True)
    assert (other.document, lake.paths()) == (before, paths)


def test_where_what_is_there_cannot_be_dropped_it_stays_and_no_clone_beside_it() -> None:
    lake, _, other = two()
    wait, lease = timedelta(0), timedelta(minutes=2)
    with (
        lake.control.locks.take(other.uuid, "a run", wait=wait, lease=lease),
        pytest.raises(LockHeld),
    ):
        over(lake)
    assert {name for name in names(lake) if "dropped" not in name} == {NAME, COPY}


def test_wherever_it_is_killed_both_have_a_name_or_can_be_brought_back() -> None:
    lake, _, _ = two()
    process = Process()
    clone_over(process.of(lake.services()), NAME, COPY, replaces=True)
    for number in range(1, len(process.calls) + 1):
        lake, table, other = two()
        theirs = live(other)
        with pytest.raises(Killed):
            clone_over(Process(number).of(lake.services()), NAME, COPY, replaces=True)
        lake.let_leases_end()
        for day in (5, 6):
            lake.on(day).run()
        if COPY not in names(lake):
            undrop(lake.services(), COPY)
        found = live(Table(lake, TableName.parse(COPY)))
        assert found in (theirs, live(table)) and found <= lake.paths()
