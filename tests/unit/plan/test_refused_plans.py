"""A refused plan is one plan, however often it is refused, and over once it is mended (I-7)."""

from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.retention.policies import change_policy
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.retention.policy import RETENTION
from tests.lake.lake import Lake, Table

NAME = "lake.air.t"


def refused_each_night(nights: int = 1) -> tuple[Lake, Table, bytes]:
    """A table whose head's manifest was cut after it was indexed, and so many nights since."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
        lake.run()
    content = lake.store.read(manifest(lake, table))
    lake.spoil(manifest(lake, table), same_length=True)  # sizes tell nothing
    for night in range(nights):
        assert lake.on(12 + night).run().exit_code == 3
    return lake, table, content


def manifest(lake: Lake, table: Table) -> str:
    return lake.manifests[table.manifest_list(table.head)][-1].path


def refused(lake: Lake) -> list[Plan]:
    return list(lake.control.plans.find(states=[PlanState.REFUSED]))


def named_by_doctor(lake: Lake) -> list[str]:
    return [f.message for f in examine(lake.services()) if f.code == "plan_refused"]


def test_over_a_year_of_nights_a_refused_plan_stays_one_and_its_repeats_are_counted() -> None:
    lake, _, _ = refused_each_night(2)
    plans, commits = len(lake.control.plans.find()), dict(lake.file_tables.commits)
    (first,) = refused(lake)
    for night in range(363):
        lake.on(14 + night).run()
    (last,) = refused(lake)
    assert (last.id, last.digest, last.repeats) == (first.id, first.digest, 364)
    assert len(lake.control.plans.find()) == plans and dict(lake.file_tables.commits) == commits
    assert last.run_id != first.run_id and last.as_of == lake.clock.now()
    (line,) = named_by_doctor(lake)
    assert line.endswith("by 365 runs")


def test_a_second_run_of_the_same_name_counts_no_repeat() -> None:
    lake, _, _ = refused_each_night()
    for _ in range(2):
        lake.run(run_id="again")
    (plan,) = refused(lake)
    assert plan.repeats == 1 and plan.run_id == "again"


def test_once_it_is_mended_the_very_plan_passes_and_doctor_forgets_it() -> None:
    lake, table, content = refused_each_night(3)
    (before,) = refused(lake)
    lake.mend(manifest(lake, table), content)
    assert lake.on(20).run().exit_code == 0
    assert len(table.snapshots) == 1 and not named_by_doctor(lake)
    plan = lake.control.plans.get(before.id)
    assert (plan.state, plan.repeats) == (PlanState.APPLIED, 3)


def test_a_refused_plan_is_over_when_another_plan_takes_its_place() -> None:
    lake, table, content = refused_each_night()
    (before,) = refused(lake)
    lake.mend(manifest(lake, table), content)
    table.overwrite("f4")
    assert lake.on(20).run().exit_code == 0
    assert not named_by_doctor(lake)
    plan = lake.control.plans.get(before.id)
    assert (plan.state, plan.note) == (PlanState.STALE, "a later plan took its place")


def test_a_refused_plan_is_over_when_nothing_of_it_is_left_to_do() -> None:
    lake, _, _ = refused_each_night()
    (before,) = refused(lake)
    services = lake.services()
    change_policy(services, find_object(services, NAME), {RETENTION: "90"}, dry_run=False)
    lake.on(13).run()
    assert not named_by_doctor(lake)
    assert lake.control.plans.get(before.id).note == "a later run found nothing of it left to do"


def test_a_refused_plan_of_a_table_that_is_gone_is_over() -> None:
    lake, table, content = refused_each_night()
    lake.mend(manifest(lake, table), content)
    table.drop()
    for day in (13, 14, 40, 41, 42, 60, 61):
        lake.on(day).run()
    assert not lake.control.plans.find(states=[PlanState.REFUSED]) and not named_by_doctor(lake)


def test_a_run_of_other_tables_leaves_a_refused_plan_as_it_is() -> None:
    lake, _, _ = refused_each_night()
    before = refused(lake)
    lake.table("other")
    lake.on(13).run(tables=("lake.air.other",))
    assert refused(lake) == before and named_by_doctor(lake)


def test_a_plan_whose_stored_files_were_altered_is_not_planned_again_as_that() -> None:
    lake, _, _ = refused_each_night()
    (before,) = refused(lake)
    lake.file_tables.edit_items(before.id, lambda files: files[1:])
    lake.on(13).run()
    (after,) = refused(lake)
    assert after.id != before.id and after.digest == before.digest and after.repeats == 0


def test_a_refused_purge_is_one_plan_too_and_falls_away_when_it_passes() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12).run()
    content = lake.spoil(manifest(lake, table), same_length=True)
    for day in range(20, 30):
        assert lake.on(day).run().exit_code == 3
    (plan,) = refused(lake)
    assert (plan.kind, plan.repeats) == (PlanKind.PURGE, 9)
    lake.mend(manifest(lake, table), content)
    assert lake.on(31).run().exit_code == 0 and not named_by_doctor(lake)
    assert table.data("f0") not in lake.paths()
