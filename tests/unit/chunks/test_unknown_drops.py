"""No row twice and none lost where the history that showed a drop has gone (chunk-facts, R1-R6)."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.run import run_chunks
from meltline.app.chunks.settle import DropAnswer, doubtful_chunks, settle_drops
from meltline.app.doctor.chunk_findings import chunk_findings
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.drop_evidence import record_drops_of_tables
from meltline.app.observe.observe import observe
from meltline.app.run.gate_step import run_gate
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.sync import Deletes
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import SyncRefused, UsageInvalid
from tests.chunks.chunk_tables import day_name, reading, values_of
from tests.doubles.chunks import complete_rows_of
from tests.doubles.chunks.rows import Row
from tests.lives.kills import Killed
from tests.unit.chunks.tiers import DAYS, Tiers

EVERYTHING = list(range(2 * DAYS))
DROPPED = [day_name(day) for day in range(3)]


def dropped() -> tuple[Tiers, int]:
    """Days 0 to 2 were dropped; and main's head from before."""
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    assert tiers.replicate().error is None
    return tiers, before


def view(tiers: Tiers) -> list[int]:
    """The ids of all rows, in order; one that is there twice is told twice."""
    complete = complete_rows(tiers.lake.services(), tiers.hot.name)
    return sorted(values_of(complete_rows_of(complete.read, tiers.lake.store)))


def history_expires(tiers: Tiers) -> None:
    """Another tool leaves main's head alone, and what refs name."""
    named = {ref["snapshot-id"] for ref in tiers.hot.refs.values()}
    tiers.hot.expire_elsewhere(*(set(tiers.hot.snapshots) - named))


def roll_back(tiers: Tiers, before: int) -> None:
    """Main goes back to before the drop, and on from there."""
    tiers.hot.rollback(before)
    tiers.hot.append_rows(reading(40, 5))


def replace_table(tiers: Tiers, rows: Sequence[Row]) -> None:
    """`CREATE OR REPLACE TABLE AS SELECT`: a new line of the same table."""
    tiers.hot.leave_main()
    tiers.hot.append_rows(*rows)


def refused(tiers: Tiers) -> str:
    with pytest.raises(SyncRefused) as error:
        view(tiers)
    return error.value.next


# --- the rollback was seen -----------------------------------------------------------------------


def test_a_rollback_that_a_run_saw_stays_one_once_that_run_has_expired_its_history() -> None:
    """R1: our own expiry takes the commit where the old line was left."""
    tiers, before = dropped()
    roll_back(tiers, before)
    tiers.lake.on(40)
    assert tiers.lake.run().exit_code == 0
    history_expires(tiers)
    assert view(tiers) == [*EVERYTHING, 40]
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 40]
    assert tiers.statuses()[day_name(0)] == "active"


def test_a_drop_that_was_undone_stays_undone_however_often_the_table_is_synced_anew() -> None:
    """R2: history expires weeks after the sync that noted it."""
    tiers, before = dropped()
    roll_back(tiers, before)
    assert tiers.fail_and_begin_anew().error is None
    tiers.hot.append_rows(reading(41, 5))
    assert tiers.replicate().error is None
    history_expires(tiers)
    assert tiers.anew().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 40, 41]


def test_an_expiration_waits_until_the_evidence_about_drops_is_recorded() -> None:
    """The gate's fact `drop_evidence_lost`: nobody has looked since main went back."""
    tiers, before = dropped()
    tiers.lake.on(40)
    services, request = tiers.lake.services(), tiers.lake.request()
    (planned,) = plan_expiration(
        services, observe(services), run_id=request.run_id, as_of=request.as_of
    )
    tiers.hot.rollback(before)
    ((plan, verdict),) = run_gate(services, [planned.plan])
    assert plan.state is PlanState.REFUSED
    assert "drop_evidence_lost" in {one.expectation.split(" ")[0] for one in verdict.failed}


# --- nobody saw it -------------------------------------------------------------------------------


def unseen() -> Tiers:
    """Main went back to before the drop, and its history expired before anybody looked."""
    tiers, before = dropped()
    roll_back(tiers, before)
    history_expires(tiers)
    return tiers


def test_where_nobody_saw_the_rollback_the_view_refuses_and_names_the_command() -> None:
    tiers = unseen()
    assert "meltline chunks settle lake.air.chunks" in refused(tiers)
    assert tiers.replicate().sync.reason == "DIVERGED"
    error = tiers.anew().error
    assert error is not None and "chunks settle" in error.next
    assert tiers.statuses()[day_name(0)] == "unknown"
    assert tiers.ids() == EVERYTHING  # cold was not touched


def test_the_evidence_is_shown_and_one_answer_is_for_all_chunks_of_the_table() -> None:
    tiers = unseen()
    tiers.anew()
    lines = doubtful_chunks(tiers.lake.services(), tiers.hot.name)
    assert [line.chunk for line in lines] == DROPPED
    assert {(line.dropped_rows, line.hot_rows, line.cold_rows) for line in lines} == {(2, 2, 2)}
    settled = settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "we saw it")
    assert settled == DROPPED
    assert view(tiers) == [*EVERYTHING, 40]
    assert tiers.replicate().error is None  # it goes on by itself
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 40]
    assert doubtful_chunks(tiers.lake.services(), tiers.hot.name) == []


def test_a_person_may_answer_before_replication_is_begun_anew() -> None:
    tiers = unseen()
    assert settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "") == DROPPED
    assert view(tiers) == [*EVERYTHING, 40]
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.ids() == [*EVERYTHING, 40]


def test_where_the_drops_are_in_force_hot_has_late_rows_alone() -> None:
    tiers, _ = dropped()
    tiers.hot.append_rows(reading(42, 0))
    tiers.replicate()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.hot.append_rows(reading(43, 5))
    history_expires(tiers)
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate().sync.reason == Deferral.UNKNOWN_DROP
    answer = DropAnswer.IN_FORCE
    assert settle_drops(tiers.lake.services(), tiers.hot.name, answer, "") == [day_name(0)]
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert view(tiers) == [*EVERYTHING, 42, 43]
    assert tiers.replicate().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 42, 43]


def test_where_a_rollback_went_to_between_two_drops_chunks_are_named_and_no_row_is_lost() -> None:
    tiers, _ = dropped()
    between = tiers.hot.head
    tiers.hot.append_rows(reading(45, 0))
    tiers.lake.on(11)
    assert tiers.run("drops day 3")[day_name(3)] == "dropped"
    tiers.hot.rollback(between)
    tiers.hot.append_rows(reading(46, 0))
    history_expires(tiers)
    services, name = tiers.lake.services(), tiers.hot.name
    lines = doubtful_chunks(services, name)
    assert [(line.chunk, line.hot_rows) for line in lines if line.hot_rows] == [
        (day_name(0), 1),
        (day_name(3), 2),
    ]
    with pytest.raises(UsageInvalid, match="fewer rows"):
        settle_drops(services, name, DropAnswer.UNDONE, "")
    both = [day_name(0), day_name(3)]
    assert settle_drops(services, name, DropAnswer.UNDONE, "", both) == both
    # Day 0 had been dropped before, and that was in force.
    assert settle_drops(services, name, DropAnswer.IN_FORCE, "") == [day_name(0)]
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 46]


def test_a_healthy_table_whose_history_others_expired_is_asked_nothing() -> None:
    """Hot has no row of what was dropped: cold answers."""
    tiers, _ = dropped()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.hot.append_rows(reading(43, 5))
    history_expires(tiers)
    assert view(tiers) == [*EVERYTHING, 43]
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate().error is None
    assert tiers.statuses()[day_name(0)] == "dropped"
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 43]
    tiers.hot.append_rows(reading(44, 0))
    assert tiers.replicate().error is None
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 43, 44]


def test_chunks_that_nobody_can_tell_are_neither_dropped_nor_passed_over_in_silence() -> None:
    tiers = unseen()
    tiers.anew()
    tiers.lake.on(20)
    services = tiers.lake.services()
    run = run_chunks(services, tiers.lake.request("again"), at_once=True)
    reasons = {line["chunk"]: line["reason"] for line in run.summary.deferred}
    assert {reasons[name] for name in DROPPED} == {"UNKNOWN_DROP"}
    (finding,) = [
        one
        for one in chunk_findings(services, {tiers.lake.uuid})
        if one.code == "chunks_unknown_drops"
    ]
    assert finding.level == "error" and "3 chunks" in finding.message


# --- other ways to lose the line -----------------------------------------------------------------


def test_a_table_that_was_replaced_by_all_of_its_rows_has_none_twice() -> None:
    """R3: the new line is whole, and no drop can be told on it."""
    tiers, _ = dropped()
    rows = [reading(id, id // 2) for id in EVERYTHING]
    replace_table(tiers, rows)
    assert tiers.hot.document["snapshots"][-1].get("parent-snapshot-id") is None
    assert "chunks settle" in refused(tiers)
    assert tiers.replicate().sync.reason == "DIVERGED"
    assert tiers.anew().error is not None
    settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "")
    assert tiers.replicate().error is None
    assert tiers.ids() == view(tiers) == EVERYTHING


def test_a_table_that_was_replaced_by_what_hot_had_keeps_what_cold_alone_has() -> None:
    tiers, _ = dropped()
    rows = tiers.hot.rows_now()
    replace_table(tiers, rows)
    assert view(tiers) == EVERYTHING
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.ids() == view(tiers) == EVERYTHING


@pytest.mark.parametrize("then", ["", "history expires", "history expires and a run goes on"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_drop_that_a_dying_run_made_counts_though_main_was_replaced_before_anybody_noted_it(
    is_whole: bool, then: str
) -> None:
    """The ledger has a plan that was begun, and main's history shows nothing of it."""
    tiers = Tiers()
    tiers.add_policy()
    every, begun = tiers.hot.rows_now(), tiers.hot.head
    with suppress(Killed):
        tiers.run("dies", tiers.die_after("dropper", 1).of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    assert tiers.hot.head != begun and tiers.statuses()[day_name(0)] == "tiered"
    replace_table(tiers, every if is_whole else tiers.hot.rows_now())
    if then.startswith("history expires"):
        history_expires(tiers)
    if then.endswith("a run goes on"):
        tiers.run("finds a begun plan")
    if is_whole:
        assert "chunks settle" in refused(tiers)
        assert tiers.fail_and_begin_anew().error is not None
        settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "")
        assert tiers.replicate().error is None
    else:
        assert view(tiers) == EVERYTHING
        assert tiers.replicate().sync.reason == "DIVERGED"
        start_sync(tiers.lake.services(), tiers.hot.name)
        assert tiers.replicate(Deletes.MIRROR).error is None
    assert tiers.ids() == view(tiers) == EVERYTHING
    tiers.run("goes on")
    assert tiers.replicate().error is None
    assert tiers.ids() == view(tiers) == EVERYTHING


def test_a_begun_plan_is_not_given_up_before_it_is_noted_that_it_may_have_been_carried_out() -> (
    None
):
    tiers = Tiers()
    tiers.add_policy()
    with suppress(Killed):
        tiers.run("dies", tiers.die_after("dropper", 1).of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    replace_table(tiers, tiers.hot.rows_now())
    history_expires(tiers)
    (begun,) = tiers.lake.control.plans.find(states=[PlanState.APPLYING])
    (given_up,) = drop_chunks(tiers.lake.services(), [begun])
    assert given_up.plan.state is PlanState.STALE
    assert view(tiers) == EVERYTHING
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.ids() == view(tiers) == EVERYTHING


def test_a_drop_whose_manifests_cannot_be_read_stops_no_observation() -> None:
    tiers = Tiers()
    tiers.add_policy()
    with suppress(Killed):
        tiers.run("dies", tiers.die_after("dropper", 1).of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    hidden = [m.path for m in tiers.lake.manifests_of(tiers.hot.snapshot(tiers.hot.head))]
    replace_table(tiers, tiers.hot.rows_now())
    observed = tiers.lake.services()
    for path in hidden:
        tiers.lake.store.delete([path])
        tiers.lake.store.write(path, b"no manifest")
    record_drops_of_tables(observed, [HotTable.load(observed, tiers.hot.name).state])
    assert tiers.statuses()[day_name(0)] == "tiered"


def test_an_older_metadata_file_that_is_put_back_has_no_row_twice() -> None:
    """R4: sequence numbers come a second time."""
    tiers = Tiers()
    older = tiers.hot.metadata_location
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    name = tiers.hot.name
    tiers.hot.drop()
    tiers.lake.register(str(name), older)
    for id in range(60, 64):
        tiers.hot.append_rows(reading(id, 5))
    history_expires(tiers)
    assert "chunks settle" in refused(tiers)
    assert tiers.fail_and_begin_anew().error is not None
    settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "")
    assert tiers.replicate().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 60, 61, 62, 63]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_drop_that_only_cold_tells_of_is_undone_by_no_rollback_without_a_question(
    is_lost: bool,
) -> None:
    """R6: chunks that others emptied and cold keeps; or the ledger was lost."""
    tiers = Tiers()
    before = tiers.hot.head
    if is_lost:
        tiers.add_policy()
        tiers.run("drops")
        stop_sync(tiers.lake.services(), tiers.hot.name)
        tiers.lake.control.chunks.forget(tiers.lake.uuid)
    else:
        stop_sync(tiers.lake.services(), tiers.hot.name)
        tiers.hot.delete_chunks(*DROPPED)
        tiers.hot.append_rows(reading(39, 5))
        history = set(tiers.hot.snapshots) - {tiers.hot.head, before}
        tiers.hot.expire_elsewhere(*history)
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate(Deletes.KEEP).error is None
    assert tiers.statuses()[day_name(0)] == "dropped"
    tiers.hot.rollback(before)
    assert "chunks settle" in refused(tiers)
    assert tiers.fail_and_begin_anew().error is not None
    settle_drops(tiers.lake.services(), tiers.hot.name, DropAnswer.UNDONE, "")
    assert tiers.replicate().error is None
    assert tiers.ids() == view(tiers) == EVERYTHING


# --- main between two drops -----------------------------------------------------------------------


def between_two_drops() -> Tiers:
    """Main is back at a late row between two drops of day 0; cold was copied after both."""
    tiers, before = dropped()
    tiers.hot.append_rows(reading(40, 0))
    between = tiers.hot.head
    assert tiers.replicate().error is None
    assert tiers.run("again")[day_name(0)] == "dropped"
    after = tiers.hot.head
    for head in (before, after):
        tiers.hot.rollback(head)
        assert tiers.fail_and_begin_anew().error is None
    tiers.hot.rollback(between)
    return tiers


def test_nobody_can_tell_what_cold_had_before_a_drop_that_main_left_again() -> None:
    """Cold was copied anew after the later drop: what it has is of both together."""
    tiers = between_two_drops()
    assert "chunks settle" in refused(tiers)
    assert tiers.replicate().sync.reason == "DIVERGED"
    assert tiers.anew().sync.reason == "UNKNOWN_DROP"
    assert settle_drops(
        tiers.lake.services(), tiers.hot.name, DropAnswer.IN_FORCE, "seen", [day_name(0)]
    )
    assert tiers.anew().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 40]


def test_where_hot_has_no_row_cold_answers_for_both_drops() -> None:
    tiers = between_two_drops()
    tiers.hot.delete_chunks(day_name(0))
    assert view(tiers) == EVERYTHING


def test_main_returns_to_where_the_ledger_has_walked_and_its_history_has_expired() -> None:
    """What is recorded of the drop is of the line that main was on meanwhile."""
    tiers, before = dropped()
    tiers.hot.append_rows(reading(50, 5))
    walked = tiers.hot.head
    assert tiers.replicate().error is None
    tiers.hot.tag("kept", walked)
    roll_back(tiers, before)
    assert tiers.replicate().sync.reason == "DIVERGED"
    assert {drop.standing for drop in tiers.lake.chunks()[day_name(0)].drops} == {"undone"}
    history_expires(tiers)
    tiers.hot.rollback(walked)
    assert tiers.run("walks on")[day_name(0)] == "dropped"
    assert tiers.anew().error is None
    assert tiers.ids() == view(tiers) == [*EVERYTHING, 50]
