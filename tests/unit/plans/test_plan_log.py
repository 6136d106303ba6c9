"""What was planned and run before, as people ask for it: by table, state and day."""

from dataclasses import replace
from datetime import timedelta

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.run.lifecycle import Run, run_step
from meltline.app.run.recorded import keep_summary, run_recorded
from meltline.app.run.steps import STEPS
from meltline.app.run_history.period import Period
from meltline.app.run_history.plan_items import plan_items
from meltline.app.run_history.plan_log import PlanFilter, find_plans, judged
from meltline.app.run_history.run_log import RunFilter, RunLine, RunOutcome, find_runs, run_of
from meltline.app.safety.audit import decisions
from meltline.app.storage.explain import explain_path
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.errors import RunNotFound
from meltline.ports import RunRecord
from tests.contract.ledger.control_ledgers import a_plan
from tests.lake.lake import DAY, ROOMY, T0, Lake, Table


def nights(lake: Lake, *days: float) -> None:
    for day in days:
        run_recorded(lake.on(day).services(), lake.request(f"night-{day}"))


def lake_of_two() -> tuple[Lake, Table, Table]:
    """Two tables of which one is overwritten daily: day 8 expires, and day 15 purges."""
    lake = Lake()
    busy, still = lake.on(0).table("busy"), lake.table("still")
    still.overwrite("s")
    for day in range(2):
        lake.on(day)
        busy.overwrite(f"f{day}")
        nights(lake, day)
    nights(lake, 9, 17)
    return lake, busy, still


def ids(lake: Lake, **wanted: object) -> list[tuple[str, str]]:
    found = find_plans(lake.control, replace(PlanFilter(), **wanted))  # type: ignore[arg-type]
    return [(line.plan.run_id, str(line.plan.kind)) for line in found.plans]


def test_plans_are_found_by_table_state_kind_day_and_run() -> None:
    lake, busy, _ = lake_of_two()
    both = [("night-17", "purge"), ("night-9", "expire")]
    assert ids(lake) == both == ids(lake, tables=("lake.air.b*",))
    assert ids(lake, tables=("lake.air.still",)) == []
    assert ids(lake, kind=PlanKind.PURGE) == both[:1] == ids(lake, limit=1)
    assert ids(lake, period=Period.day("2026-01-10")) == both[1:] == ids(lake, run_id="night-9")
    assert ids(lake, states=(PlanState.APPLIED,)) == both and not ids(
        lake, states=(PlanState.REFUSED,)
    )
    assert busy.name


def test_a_glob_that_no_table_was_ever_called_is_named() -> None:
    lake, _, _ = lake_of_two()
    wanted = PlanFilter(tables=("lake.air.busy", "lake.aire.*"))
    assert find_plans(lake.control, wanted).unmatched == ["lake.aire.*"]


def test_a_plan_tells_its_gate_its_policy_and_its_run() -> None:
    lake, _, _ = lake_of_two()
    expire = find_plans(lake.control, PlanFilter(kind=PlanKind.EXPIRE)).plans[0].as_json()
    assert (expire["gate"], expire["suite"], expire["run_id"]) == (
        "passed",
        "expire",
        "night-9",
    )
    assert expire["policy"] == "retention of 7d, as of 2026-01-10T00:00:00Z"
    assert expire["digest"].startswith("sha256:") and expire["judged_at"]


def test_a_plan_that_drops_chunks_is_found_by_its_kind_and_tells_how_many_and_as_of_when() -> None:
    lake = Lake()
    drop = a_plan(kind=PlanKind.DROP_CHUNKS, as_of=T0, chunks=("2026-01-01", "2026-01-02"))
    lake.control.plans.add([drop, a_plan(kind=PlanKind.PURGE)])
    (line,) = find_plans(lake.control, PlanFilter(kind=PlanKind.DROP_CHUNKS)).plans
    assert line.plan == drop
    assert line.policy == "2 chunks past the drop age, as of 2026-01-01T00:00:00Z"


# --- runs ----------------------------------------------------------------------------------------


def by_id(lake: Lake, **wanted: object) -> dict[str, RunLine]:
    lines = find_runs(lake.control, replace(RunFilter(), **wanted))  # type: ignore[arg-type]
    return {line.run.id: line for line in lines}


def test_runs_tell_what_each_let_go_and_deleted() -> None:
    lake, _, _ = lake_of_two()
    lines = by_id(lake)
    assert list(lines) == ["night-17", "night-9", "night-1", "night-0"]
    departed, purged = lines["night-9"].as_json(), lines["night-17"].as_json()
    assert departed["files_departed"] > 0 and departed["files_purged"] == 0
    assert purged["files_purged"] == departed["files_departed"]
    assert purged["bytes_purged"] == departed["bytes_departed"] > 0
    assert {line.outcome for line in lines.values()} == {RunOutcome.DONE}


def test_runs_are_found_by_table_day_and_what_they_came_to() -> None:
    lake, _, still = lake_of_two()
    lake.spoil(still.metadata_location)
    nights(lake, 18)
    assert list(by_id(lake, outcomes=(RunOutcome.SKIPPED,))) == ["night-18"]
    assert list(by_id(lake, tables=("lake.air.busy",))) == ["night-17", "night-9"]
    assert list(by_id(lake, period=Period.day("2026-01-02"))) == ["night-1"]
    assert list(by_id(lake, limit=1)) == ["night-18"]
    (line,) = by_id(lake, limit=1).values()
    assert "lake.air.still" in line.skipped


def test_a_run_is_shown_with_its_plans_by_the_start_of_its_id() -> None:
    lake, _, _ = lake_of_two()
    line, plans = run_of(lake.control, "night-1")
    assert (line.run.id, plans) == ("night-1", [])
    line, plans = run_of(lake.control, "last")
    assert line.run.id == "night-17" and [p.plan.kind for p in plans] == [PlanKind.PURGE]
    with pytest.raises(RunNotFound):
        run_of(lake.control, "nigh")


def test_a_run_that_did_something_and_left_a_table_out_is_done() -> None:
    lake, busy, still = lake_of_two()
    lake.spoil(still.metadata_location)
    busy.overwrite("late")
    nights(lake, 30)
    (line,) = by_id(lake, limit=1).values()
    assert line.as_json()["files_departed"] > 0
    assert (line.outcome, line.outcome_text) == (RunOutcome.DONE, "done, 1 table left out")


def test_a_run_that_nobody_saw_end_is_unfinished() -> None:
    lake, _, _ = lake_of_two()
    lake.control.runs.start(RunRecord("killed", T0, lake.clock.now() + DAY))
    assert by_id(lake)["killed"].outcome is RunOutcome.UNFINISHED


def test_steps_in_processes_of_their_own_leave_a_summary_and_the_last_one_ends_the_run() -> None:
    lake, _, still = lake_of_two()
    lake.spoil(still.metadata_location)
    services = lake.on(18).services()
    record = RunRecord("dag", lake.clock.now(), lake.clock.now())
    lake.control.runs.start(record)
    ended = replace(record, ended_at=lake.clock.now() + timedelta(minutes=5))
    for step in STEPS:
        assert by_id(lake)["dag"].run.ended_at is None
        summary = run_step(step, services, lake.request("dag"))
        keep_summary(lake.control.runs, ended, step, summary)
    line = by_id(lake)["dag"]
    assert (line.outcome, line.took) == (RunOutcome.SKIPPED, timedelta(minutes=5))
    assert list(line.skipped) == ["lake.air.still"]


def test_a_day_is_a_day() -> None:
    assert Period.day("2026-01-02").holds(T0 + DAY) and not Period.day("2026-01-02").holds(T0)
    assert Period.day("").holds(T0)
    with pytest.raises(ValueError, match="write one such as"):
        Period.day("2026-02-30")


# --- files ---------------------------------------------------------------------------------------


def test_the_files_of_a_plan_tell_since_when_of_which_snapshots_due_when_and_why() -> None:
    lake, busy, _ = lake_of_two()
    reader = lake.services().reader
    purge, expire = find_plans(lake.control, PlanFilter()).plans
    data = busy.data("f0")
    for line in (purge, expire):
        item = next(i for i in plan_items(reader, lake.control, line) if i.path == data)
        assert item.snapshots == (f"lake.air.busy@{expire.plan.snapshots[0]}",)
        assert (item.since, item.due_at) == (T0 + 9 * DAY, T0 + 16 * DAY)
        assert item.why == f"expired by plan {expire.plan.id} of run night-9, {expire.policy}"


def test_the_files_of_a_plan_that_is_not_carried_out_have_not_departed() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.overwrite("a")
    lake.on(1)
    table.overwrite("b")
    run = Run(lake.on(9).services(), lake.request("r"))
    (planned,) = run.plan_expiration()
    (line,) = judged(lake.control, [planned.plan])
    items = plan_items(lake.services().reader, lake.control, line)
    item = next(item for item in items if item.path == table.data("a"))
    assert (item.since, item.due_at) == (None, None)
    assert item.snapshots == (f"lake.air.t@{planned.plan.snapshots[0]}",)
    assert item.why.startswith("expire planned: retention of 7d")


def test_a_deleted_file_is_explained_by_both_plans_with_gate_digest_policy_and_run() -> None:
    lake, busy, _ = lake_of_two()
    purge, expire = (line.plan for line in find_plans(lake.control, PlanFilter()).plans)
    told = explain_path(lake.services(), busy.data("f0"))
    assert told.stage == "deleted"
    departed, deleted = told.decisions
    assert (departed.action, departed.plan, departed.run) == ("departed", expire.id, "night-9")
    assert (departed.digest, departed.at) == (expire.digest, T0 + 9 * DAY)
    assert departed.gate.startswith("expire passed") and "retention of 7d" in departed.policy
    assert (deleted.action, deleted.plan, deleted.run) == ("deleted", purge.id, "night-17")
    assert (deleted.digest, deleted.at) == (purge.digest, T0 + 17 * DAY)
    assert deleted.gate.startswith("purge passed")
    assert expire.id in departed.sentence and purge.digest in deleted.sentence


def test_a_file_that_waits_is_explained_by_the_plan_that_let_it_go() -> None:
    lake, busy, _ = lake_of_two()
    lake.on(10)
    (departed,) = [
        d
        for d in explain_path(lake.services(), busy.data("f0")).decisions
        if d.action == "departed"
    ]
    assert departed.run == "night-9"


def test_deletions_stand_in_the_audit() -> None:
    # PX-13
    lake, _, _ = lake_of_two()
    purge = find_plans(lake.control, PlanFilter(kind=PlanKind.PURGE)).plans[0].plan
    (entry,) = [e for e in decisions(lake.services(), "lake.air.busy") if e.action == "purge"]
    assert (entry.who, entry.at) == ("tester", T0 + 17 * DAY)
    assert entry.reason == f"plan {purge.id} of run night-17"
    assert entry.detail.startswith(f"{purge.files} files, ") and purge.digest in entry.detail
    assert not [e for e in decisions(lake.services(), "lake.air.still") if e.action == "purge"]


# --- approvals -----------------------------------------------------------------------------------


def waiting(lake: Lake) -> list[str]:
    return [f.object for f in examine(lake.services()) if f.code == "approval_waiting"]


def test_doctor_lists_each_purge_that_waits_for_a_persons_word_until_it_is_planned_anew() -> None:
    lake, busy, _ = lake_of_two()
    lake.limits = replace(ROOMY, approve_above=0)
    lake.on(18)
    busy.overwrite("f18")
    nights(lake, 26, 34, 35, 37)
    plans = find_plans(lake.control, PlanFilter(kind=PlanKind.PURGE, limit=2)).plans
    assert [line.plan.run_id for line in plans] == ["night-37", "night-34"]
    assert waiting(lake) == [plans[0].plan.id]
    (finding,) = [f for f in examine(lake.services()) if f.code == "approval_waiting"]
    assert finding.object in finding.fix and "--approve REASON" in finding.fix
    request = replace(lake.request("by hand"), approve="checked")
    run_recorded(lake.services(), request)
    assert waiting(lake) == []
