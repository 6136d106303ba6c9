"""Another tool expires snapshots and deletes files of a table: each run says how many."""

from meltline.app.doctor.doctor import examine
from meltline.app.run.lifecycle import Run
from meltline.app.run.summary import Summary
from meltline.domain.deletion.plan import PlanState
from tests.lake.lake import Lake, Table


def a_table() -> tuple[Lake, Table]:
    """A table of four commits, each of which replaces all, and which a run has seen."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"d{day}")
    lake.run()
    return lake, table


def sentence(summary: Summary) -> str:
    recap: list[str] = summary.as_json()["recap"]
    return recap[0]


def expired_elsewhere(lake: Lake) -> list[str]:
    return [f.message for f in examine(lake.services()) if f.code == "second_expirer"]


def test_snapshots_that_another_tool_expired_are_named_once_with_their_number() -> None:
    lake, table = a_table()
    table.expire_elsewhere(*table.snapshots[:2])
    first, second = lake.on(4).run(), lake.on(5).run()
    assert "2 snapshots of `lake.air.t` expired by another tool" in sentence(first)
    assert "another tool" not in sentence(second)
    assert (first.exit_code, second.exit_code) == (0, 0)
    (message,) = expired_elsewhere(lake)
    assert message.startswith("another tool expired 2 snapshots")


def test_files_that_another_tool_deleted_while_they_waited_are_counted() -> None:
    lake, table = a_table()
    table.expire_elsewhere(*table.snapshots[:2])
    lake.on(4).run()
    lake.store.delete([table.data("d0"), table.data("d1")])
    summary = lake.on(30).run()
    assert "2 files of `lake.air.t` gone while they waited" in sentence(summary)
    assert summary.exit_code == 0


def test_files_that_a_killed_run_of_ours_deleted_are_nobody_elses() -> None:
    lake, table = a_table()
    lake.on(20).run()
    run = Run(lake.on(28).services(), lake.request())
    run.look_anew()
    run.plan_purge()
    run.gate_purge()
    (plan,) = run.planned
    context = lake.services()
    context.control.plans.move(context.control.plans.get(plan.id), PlanState.APPLYING)
    lake.store.delete([table.data("d0")])
    assert "another tool" not in sentence(lake.on(29).run())


def test_a_table_that_nobody_else_expires_says_nothing_of_another_tool() -> None:
    lake, _ = a_table()
    for day in (12, 20, 28):
        assert "another tool" not in sentence(lake.on(day).run())
    assert not expired_elsewhere(lake)
