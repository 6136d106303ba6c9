"""The last task's judgement: whatever was left undone is named."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.dags.airflow_home import AirflowHome
from tests.dags.project import plan, table

pytestmark = pytest.mark.airflow

DONE = {"observe": "success", "expire": "success", "purge": "skipped"}


@pytest.fixture
def complaints(airflow: AirflowHome) -> Callable[..., str]:
    from meltline.airflow.dags.verdict import judge

    def of(*summaries: dict[str, Any], states: dict[str, str] = DONE, dry_run: bool = False) -> str:
        return "; ".join(judge(summaries, states, dry_run=dry_run).complaints)

    return of


def summary(*tables: dict[str, Any], plans: Any = (), notes: Any = ()) -> dict[str, Any]:
    return {"run_id": "r", "as_of": "2026-01-05T00:00:00Z", "tables": list(tables),
            "plans": list(plans), "notes": list(notes)}  # fmt: skip


def test_a_run_in_which_all_went_well_has_no_complaints(complaints: Callable[..., str]) -> None:
    done = summary(table("lake.a.t"), plans=[plan("lake.a.t", "expire", "applied")])
    assert complaints(done) == ""


@pytest.mark.parametrize("how", ["skipped", "refused", "failed"])
def test_a_table_is_named_with_what_happened_and_why(
    complaints: Callable[..., str], how: str
) -> None:
    assert complaints(summary(table("lake.a.t", **{how: "the reason"}), table("lake.a.u"))) == (
        f"lake.a.t: {how}: the reason"
    )


def test_a_table_stays_named_when_a_later_step_had_nothing_to_say(
    complaints: Callable[..., str],
) -> None:
    first = summary(table("lake.a.t", skipped="unreadable"))
    assert complaints(first, summary(table("lake.a.t"))) == "lake.a.t: skipped: unreadable"


def test_a_task_that_failed_is_named_and_what_it_kept_from_running(
    complaints: Callable[..., str],
) -> None:
    states = {"observe": "success", "expire": "failed", "purge": "upstream_failed"}
    assert complaints(summary(), states=states) == "task expire: failed; never ran: purge"


def test_what_held_everything_back_is_named(complaints: Callable[..., str]) -> None:
    assert "nothing is purged anywhere" in complaints(
        summary(notes=["nothing is purged anywhere: a catalog is gone"])
    )


@pytest.mark.parametrize("kind", ["expire", "purge", "drop_chunks"])
@pytest.mark.parametrize("state", ["planned", "passed", "applying"])
def test_a_plan_that_was_passed_over_is_no_success(
    complaints: Callable[..., str], state: str, kind: str
) -> None:
    planned = summary(plans=[plan("lake.a.t", kind, state)])
    states = {"expire": "success", "purge": "success"} | {kind: "skipped"}
    told = complaints(planned, states=states)
    assert f"plan {kind}-lake.a.t to {kind.replace('_', ' ')} was passed over" in told
    assert complaints(planned, states=states, dry_run=True) == ""


def test_of_a_run_in_batches_the_one_that_was_passed_over_is_named(
    complaints: Callable[..., str],
) -> None:
    one, two = (plan(f"lake.a.t{n}", "expire", "passed") | {"batch": n} for n in (1, 2))
    states = {"expire_0": "success", "expire_1": "skipped"}
    assert complaints(summary(plans=[one, two]), states=states) == (
        "lake.a.t2: plan expire-lake.a.t2 to expire was passed over"
    )


def test_a_batch_that_failed_is_named_and_what_it_kept_from_running(
    complaints: Callable[..., str],
) -> None:
    states = {
        "gate_expiration_0": "success", "gate_expiration_1": "failed",
        "expire_0": "success", "expire_1": "upstream_failed", "plan_purge": "upstream_failed",
    }  # fmt: skip
    assert complaints(summary(), states=states) == (
        "task gate_expiration (batch 2): failed; never ran: expire (batch 2), plan_purge"
    )


def test_a_step_that_ran_has_spoken_for_its_plans(complaints: Callable[..., str]) -> None:
    # It may have found one stale and made another, or none.
    stale = summary(plans=[plan("lake.a.t", "expire", "passed")])
    assert complaints(stale, states={"expire": "success"}) == ""


def test_a_run_that_did_nothing_at_all_is_judged_by_its_tasks(
    complaints: Callable[..., str],
) -> None:
    assert complaints(states={"observe": "failed"}) == "task observe: failed"


@pytest.mark.parametrize(
    "gate, step", [("gate_expiration", "expire"), ("gate_drops", "drop_chunks")]
)
def test_a_step_that_only_failed_for_its_gate_has_not_run(
    complaints: Callable[..., str], gate: str, step: str
) -> None:
    states = {
        f"{gate}_0": "failed", f"{gate}_1": "success", f"{step}_0": "failed", f"{step}_1": "failed",
    }  # fmt: skip
    assert complaints(summary(), states=states) == (
        f"task {gate} (batch 1): failed; task {step} (batch 2): failed; never ran: {step} (batch 1)"
    )


def test_each_table_is_named_with_what_a_person_does_next(complaints: Callable[..., str]) -> None:
    refused = table("lake.a.t", refused="too much", next="`meltline show plan p1 --items`")
    assert complaints(summary(refused)) == (
        "lake.a.t: refused: too much; next: `meltline show plan p1 --items`"
    )


def test_what_was_done_and_what_was_not_stand_in_one_document(airflow: AirflowHome) -> None:
    from meltline.airflow.dags.verdict import judge

    tables = [table("lake.a.t", snapshots_expired=2), table("lake.a.u", skipped="unreadable")]
    document = judge([summary(*tables)], DONE).document
    assert document["recap"] == ["2 snapshots of `lake.a.t` expired; 1 table skipped"]
    assert document["complaints"] == ["lake.a.u: skipped: unreadable"]
