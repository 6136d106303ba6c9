"""A purge above the limit waits for a person's word: for its own digest, and for days."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.purge.approvals import (
    Approvals,
    FileChanges,
    approve,
    reject,
    require_answered,
)
from meltline.app.purge.purge import apply_purges
from meltline.app.run.lifecycle import run_chain, run_step
from meltline.app.run.run_document import merge
from meltline.app.run.steps import step_of
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.switches import arm, disarm
from meltline.domain.deletion.limits import IoSettings
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import (
    ApprovalMissing,
    ApprovalRejected,
    GateNotPassed,
    PlanStale,
    UsageInvalid,
)
from meltline.domain.iceberg.files import DepartureState
from tests.lake.lake import ROOMY, Lake, Table
from tests.unit.retention.test_holds import hold

ASKED = 20
PURGE = PlanKind.PURGE
HOUR = timedelta(hours=1)


def busy() -> tuple[Lake, Table, Plan]:
    """A table that is written to each day, run each night; on day 20 its first purge is too large.

    One night's files are below the limit, those of several nights are not.
    """
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(12):
        table.overwrite(f"f{day}", f"g{day}")
        lake.on(day + 1)
    lake.on(12).run()
    lake.on(ASKED)
    due = lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    lake.limits = replace(ROOMY, approve_above=sum(departure.bytes for departure in due) - 1)
    summary = lake.run()
    (line,) = summary.as_json()["approvals"]
    return lake, table, lake.control.plans.get(line["plan"])


def step(lake: Lake, name: str, plan: Plan, run_id: str = "approval") -> Summary:
    """A step of the run that asked about the plan."""
    found = step_of("gate" if name == "gate" else name, PURGE)
    return run_step(found, lake.services(), lake.request(run_id), plan=plan.id)


def asked_for(summary: Summary) -> list[str]:
    return [line["plan"] for line in summary.as_json().get("approvals", ())]


def paths(lake: Lake, plan: Plan) -> set[str]:
    return {file.path for file in lake.files.items.of([plan.id])[plan.id]}


def made_since(lake: Lake, plan: Plan) -> Sequence[Plan]:
    purges = [p for p in lake.control.plans.find() if p.kind is PURGE and p.id != plan.id]
    return [p for p in purges if p.created_at >= plan.created_at]


# --- the question ---------------------------------------------------------------------------------


def test_where_nobody_has_armed_the_catalog_nobody_is_asked() -> None:
    lake, _, plan = busy()
    disarm(lake.services(), "lake")
    lake.on(ASKED + 1)
    assert asked_for(lake.run()) == []
    arm(lake.services(), "lake", "looked")
    lake.on(ASKED + 2)
    assert asked_for(lake.run()) == [plan.id] and lake.deleter.deleted == []


def test_a_purge_above_the_limit_waits_and_is_nobodys_failure() -> None:
    lake, _, plan = busy()
    lake.on(ASKED + 0.1)
    summary = lake.run()
    document = summary.as_json()
    assert asked_for(summary) == [plan.id] and lake.deleter.deleted == []
    assert [t["refused"] for t in document["tables"]] == [None]
    assert "1 purge, " in document["recap"][0] and "waits for approval" in document["recap"][0]
    assert summary.exit_code == 3 and "--approve" in document["approvals"][0]["next"]
    assert plan.state is PlanState.PASSED


def test_while_it_is_asked_about_no_other_plan_takes_its_files() -> None:
    lake, table, plan = busy()
    for day in (21, 22):
        table.overwrite(f"f{day}")
        summary = lake.on(day).run()
        assert asked_for(summary) == [plan.id]
    others = [path for p in made_since(lake, plan) for path in paths(lake, p)]
    assert set(others).isdisjoint(paths(lake, plan))
    assert plan.files and paths(lake, plan).isdisjoint(lake.deleter.deleted)


def test_new_files_of_its_table_are_deleted_meanwhile() -> None:
    lake, table, plan = busy()
    table.overwrite("late")
    lake.limits = replace(lake.limits, approve_above=plan.bytes - 1)
    for day in (20.5, 29, 37):  # superseded, expired, past failsafe
        lake.on(day)
        gates = replace(lake.config().gates, approval_wait=timedelta(days=90))
        lake.run(services=lake.services(config=replace(lake.config(), gates=gates)))
        table.overwrite(f"x{day}")
    assert lake.deleter.deleted and paths(lake, plan).isdisjoint(lake.deleter.deleted)


def test_when_nobody_has_answered_in_time_its_files_are_planned_and_asked_about_anew() -> None:
    lake, _, plan = busy()
    (before,) = asked_for(lake.on(ASKED + 2.9).run())
    (after,) = asked_for(lake.on(ASKED + 3).run())
    assert before == plan.id != after
    assert paths(lake, plan) <= paths(lake, lake.control.plans.get(after))


def test_a_preview_leaves_out_what_waits() -> None:
    lake, _, _ = busy()
    request = replace(lake.request(), dry_run=True)
    summary = run_chain(lake.services(), request)
    assert [p for p in summary.plans.values() if p.kind is PURGE] == []
    assert summary.exit_code == 0


def test_a_plan_below_the_limit_waits_for_nobody() -> None:
    lake, _, plan = busy()
    lake.limits = ROOMY
    assert Approvals.of(lake.services()).awaited() == []
    summary = lake.on(ASKED + 1).run()
    assert asked_for(summary) == [] and paths(lake, plan) <= set(lake.deleter.deleted)


# --- the answer -----------------------------------------------------------------------------------


def test_an_approved_plan_of_an_earlier_run_is_judged_again_and_purged_alone() -> None:
    lake, _, plan = busy()
    lake.on(ASKED + 2)
    approve(lake.services(), [plan], "seen")
    gated = step(lake, "gate", plan)
    assert [(p.id, p.state) for p in gated.plans.values()] == [(plan.id, PlanState.PASSED)]
    purged = step(lake, "purge", plan)
    assert purged.exit_code == 0 and asked_for(purged) == []
    assert set(lake.deleter.deleted) == paths(lake, plan)
    assert lake.control.plans.get(plan.id).state is PlanState.APPLIED
    assert step(lake, "purge", plan).exit_code == 0  # a retry finds nothing left to do
    assert asked_for(lake.on(ASKED + 2.1).run()) == []


def test_without_an_approval_the_step_on_one_plan_deletes_nothing() -> None:
    lake, _, plan = busy()
    lake.on(ASKED + 1)
    step(lake, "gate", plan)
    assert asked_for(step(lake, "purge", plan)) == [plan.id] and lake.deleter.deleted == []


def test_an_approval_counts_from_when_it_was_given() -> None:
    lake, _, plan = busy()
    services = lake.on(ASKED + 1).services()
    step(lake, "gate", plan)
    approve(services, [plan], "seen", at=lake.clock.now() - 6 * HOUR)
    (purged,) = apply_purges(services, [plan])
    assert isinstance(purged.error, ApprovalMissing) and lake.deleter.deleted == []
    approve(services, [plan], "seen", at=lake.clock.now() - 5 * HOUR)
    (purged,) = apply_purges(services, [plan])
    assert purged.error is None and lake.deleter.deleted


def test_nobody_can_have_answered_before_the_plan_was_made_or_in_time_to_come() -> None:
    lake, _, plan = busy()
    now = lake.on(ASKED + 1).clock.now()
    require_answered(plan, now, now)
    for at in (plan.created_at - HOUR, now + HOUR):
        with pytest.raises(UsageInvalid):
            require_answered(plan, at, now)


def test_a_word_is_for_the_digest_that_was_seen_and_for_a_plan_that_waits() -> None:
    lake, _, plan = busy()
    approvals = Approvals.of(lake.services())
    approvals.require(plan, plan.digest)
    with pytest.raises(PlanStale, match="other files"):
        approvals.require(plan, "sha256:other")
    for other in (
        replace(plan, state=PlanState.APPLIED),
        replace(plan, kind=PlanKind.EXPIRE),
        replace(plan, bytes=1),
    ):
        with pytest.raises(PlanStale, match="waits for no approval"):
            approvals.require(other, plan.digest)


def test_a_rejected_digest_is_not_asked_about_again_and_its_notice_names_the_ways_out() -> None:
    lake, _, plan = busy()
    reject(lake.services(), plan, "the auditors come")
    summary = lake.on(ASKED + 1).run()
    (again,) = made_since(lake, plan)
    assert again.digest == plan.digest and again.state is PlanState.PASSED
    assert asked_for(summary) == [] and summary.exit_code == 0
    (notice,) = [line for line in summary.notices if "said no" in line]
    assert "tester: the auditors come" in notice
    assert "meltline hold add" in notice and "failsafe" in notice
    assert lake.deleter.deleted == []
    assert ("reject", plan.id) in {(e.action, e.object) for e in lake.control.audit.entries()}


def test_a_no_ends_an_earlier_yes_and_a_later_yes_ends_the_no() -> None:
    lake, _, plan = busy()
    services = lake.services()
    approve(services, [plan], "seen")
    reject(services, plan, "on second thought")
    (purged,) = apply_purges(services, [plan])
    assert isinstance(purged.error, ApprovalRejected) and lake.deleter.deleted == []
    lake.clock.moment += timedelta(minutes=1)
    approve(services, [plan], "no: it is right")
    (purged,) = apply_purges(services, [plan])
    assert purged.error is None and lake.deleter.deleted


def test_what_came_under_a_hold_while_the_question_waited_is_not_deleted() -> None:
    lake, table, plan = busy()
    lake.on(ASKED + 1)
    hold(lake, str(table.name))
    approve(lake.services(), [plan], "seen")
    assert step(lake, "gate", plan).exit_code == 3
    with pytest.raises(PlanStale):
        step(lake, "purge", plan)
    assert lake.deleter.deleted == []


def test_an_approved_plan_goes_at_any_hour_for_the_word_may_be_over_before_the_window_opens() -> (
    None
):
    lake, _, plan = busy()
    services = lake.on(ASKED + 2).services()  # midnight
    services = replace(services, config=replace(services.config, io=IoSettings(0, 60, 300)))
    approve(services, [plan], "seen")
    request = replace(lake.request("approval"), any_hour=True)
    for name in ("gate", "purge"):
        run_step(step_of(name, PURGE), services, request, plan=plan.id)
    assert set(lake.deleter.deleted) == paths(lake, plan)


def test_where_its_files_differ_by_then_nothing_is_deleted_and_it_is_asked_anew() -> None:
    lake, table, plan = busy()
    first = table.data("f0")
    table.append("f0")
    lake.limits = replace(lake.limits, approve_above=1)
    lake.on(ASKED + 1)
    approve(lake.services(), [plan], "seen")
    gated = step(lake, "gate", plan)
    (line,) = gated.as_json()["approvals"]
    assert line["instead_of"] == plan.id and line["digest"] != plan.digest
    assert lake.control.plans.get(plan.id).state is PlanState.STALE
    items = lake.files.items.of([plan.id, line["plan"]])
    changes = FileChanges.between(items[plan.id], items[line["plan"]])
    assert first in {file.path for file in changes.went} and not changes.came
    with pytest.raises(PlanStale):
        step(lake, "purge", plan)
    assert lake.deleter.deleted == []
    anew = lake.control.plans.get(line["plan"])
    assert asked_for(step(lake, "purge", anew)) == [anew.id] and lake.deleter.deleted == []


def test_a_run_that_a_person_approves_plans_what_waits_too_and_the_question_is_over() -> None:
    lake, _, plan = busy()
    lake.on(ASKED + 1)
    request: RunRequest = replace(lake.request(), approve="agreed")
    summary = run_chain(lake.services(), request)
    assert summary.exit_code == 0 and set(lake.deleter.deleted) == paths(lake, plan)
    assert asked_for(lake.on(ASKED + 1.1).run()) == []
    assert lake.control.plans.get(plan.id).state is PlanState.STALE


def test_a_gate_that_has_ended_lets_an_approved_plan_not_pass() -> None:
    lake, _, plan = busy()
    lake.on(ASKED + 1)
    approve(lake.services(), [plan], "seen")
    (purged,) = apply_purges(lake.services(), [plan])
    assert isinstance(purged.error, GateNotPassed) and lake.deleter.deleted == []


def test_the_document_of_a_run_names_each_plan_that_waits_once() -> None:
    lake, _, plan = busy()
    documents: list[dict[str, Any]] = [lake.on(ASKED + n / 10).run().as_json() for n in (1, 2)]
    assert [line["plan"] for line in merge(documents)["approvals"]] == [plan.id]
    assert merge([{"id": "p"}, documents[0]])["run_id"] == documents[0]["run_id"]
