"""No orphan is destroyed that was written in the last day before a sweep let it depart (PX-4)."""

from meltline.domain.deletion.plan import PlanKind, PlanState
from tests.lake.lake import DAY, T0
from tests.lake.swept import SECOND, Swept

CONTENT = b"left behind"


def departed() -> tuple[Swept, str]:
    """An orphan that departed with the second sweep."""
    swept = Swept()
    path = swept.leave("x.parquet", CONTENT)
    swept.sweep_twice()
    assert swept.lake.waiting()[path] == T0 + (SECOND + 7) * DAY
    return swept, path


def test_an_orphan_that_was_old_enough_is_purged_on_its_day() -> None:
    swept, path = departed()
    assert swept.lake.on(SECOND + 8).run().exit_code == 0
    assert path not in swept.lake.paths()


def test_an_orphan_that_was_written_while_the_sweep_looked_stays_and_is_named() -> None:
    swept, path = departed()
    swept.lake.on(SECOND - 0.5).store.write(path, CONTENT)
    assert swept.lake.on(SECOND + 8).run().exit_code == 3
    (plan,) = swept.lake.control.plans.find(states=[PlanState.REFUSED])
    assert plan.kind is PlanKind.PURGE and path in swept.lake.paths()
    assert plan.note.startswith("planned_young_orphans is 0") and path in plan.note


def test_what_was_written_there_after_it_departed_is_left_alone_and_refuses_nothing() -> None:
    swept, path = departed()
    other = swept.leave("y.parquet", CONTENT, day=SECOND + 1)
    swept.lake.on(SECOND + 1).store.write(path, CONTENT)
    swept.lake.on(SECOND + 8).run()
    assert {path, other} <= swept.lake.paths()
    assert not swept.lake.control.plans.find(states=[PlanState.REFUSED])


def test_what_a_commit_let_go_of_may_be_young() -> None:
    swept, _ = departed()
    lake, table = swept.lake, swept.table
    for day in (18, 18.1):
        lake.on(day)
        table.overwrite(f"f{day}")
    for day in (26, 34, 35):
        assert lake.on(day).run().exit_code == 0
    assert table.data("f18") not in lake.paths()
