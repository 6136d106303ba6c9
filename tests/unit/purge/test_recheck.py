"""Whether a plan may still be carried out on a table that has moved since."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.recheck import still_valid
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.retention.policy import (
    HOLD,
    PROFILES,
    RETENTION,
    AccountPolicy,
    effective_retention,
    is_enabled,
)
from meltline.domain.retention.retained_snapshots import KeepRequest
from tests.lives.histories import History, days, histories, history, instant, millis, tell
from tests.seeds import examples
from tests.unit.retention.test_keep_set_properties import AFTER, MS, WINDOWS, last_day

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)


def planned() -> tuple[History, Plan]:
    """S1 to S5 on days 1 to 5, a branch and an old tag; the plan of day 9: S1, S2, tag `old`."""
    story = history()
    for day in range(1, 6):
        story.commit(f"S{day}", day=day)
    story.branch("side", "S4").tag("old", "S1", max_ref_age_ms=millis(2))
    plan = story.plan(day=9, window=5.5)
    assert story.names(plan.snapshots) == {"S1", "S2"}
    assert plan.refs == ("old",)
    return story, plan


def problem(story: History, plan: Plan, *leased: str) -> str:
    """Asks again as the expire step does: by the table's own properties, where it has any."""
    state = story.state()
    levels = [(str(state.name), state.properties)]
    window = None if plan.window_start is None else plan.as_of - plan.window_start
    if RETENTION in state.properties:
        account = AccountPolicy(PROFILES["lakehouse"])
        window = effective_retention(account, levels).window
    request = KeepRequest(
        state,
        as_of=plan.as_of,
        window=window,
        sightings=dict(story.sightings),
        leased=frozenset(story.ids[name] for name in leased),
        held=HOLD in state.properties,
        managed=is_enabled(levels),
    )
    return still_valid(plan, request)


def test_a_table_that_did_not_move_still_fits_its_plan() -> None:
    story, plan = planned()
    assert problem(story, plan) == ""


def test_an_append_and_a_commit_on_a_branch_do_no_harm() -> None:
    story, plan = planned()
    story.commit("S6", day=9).commit("B1", day=9, branch="side")
    assert problem(story, plan) == ""


def test_a_new_branch_and_a_new_tag_on_snapshots_that_stay_do_no_harm() -> None:
    story, plan = planned()
    assert problem(story.tag("t", "S3").branch("b", "S5"), plan) == ""


@pytest.mark.parametrize("name", ["t", "share__x", "hold__x"])
def test_a_new_tag_on_a_planned_snapshot_makes_the_plan_stale(name: str) -> None:
    story, plan = planned()
    assert problem(story.tag(name, "S2"), plan)


def test_a_new_branch_on_a_planned_snapshot_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.branch("late", "S1"), plan)


def test_a_lease_on_a_planned_snapshot_makes_the_plan_stale_and_on_another_does_not() -> None:
    story, plan = planned()
    assert problem(story, plan, "S2")
    assert problem(story, plan, "S4") == ""


def test_a_rollback_makes_the_plan_stale_even_to_a_snapshot_that_stays() -> None:
    story, plan = planned()
    assert problem(story.rollback_to("S4", day=9), plan)


def test_a_rollback_to_a_planned_snapshot_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.rollback_to("S1", day=9), plan)


def test_a_rollback_to_a_planned_snapshot_and_back_leaves_it_in_the_window() -> None:
    story, plan = planned()
    story.rollback_to("S1", day=9).rollback_to("S5", day=9.1)
    assert problem(story, plan)


def test_a_branch_that_was_reset_makes_the_plan_stale() -> None:
    story, plan = planned()
    story.refs["side"] = replace(story.refs["side"], snapshot_id=story.ids["S3"])
    assert problem(story, plan)


def test_a_branch_that_was_deleted_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.drop_ref("side"), plan)


def test_a_table_that_was_replaced_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.replace("R1", day=9), plan)
    story, plan = planned()
    assert problem(story.replace_by_empty(day=9), plan)


def test_another_tools_expiry_that_cuts_a_head_from_its_past_makes_the_plan_stale() -> None:
    story, plan = planned()
    story.commit("S6", day=9).commit("S7", day=9.1).expired_elsewhere("S6")
    assert problem(story, plan)


def test_a_planned_ref_that_is_gone_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.drop_ref("old"), plan)


def test_a_planned_tag_that_was_given_a_longer_life_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.tag("old", "S1", max_ref_age_ms=millis(8)), plan)
    assert problem(story.tag("old", "S1", max_ref_age_ms=millis(8) - 1), plan) == ""
    assert problem(story.tag("old", "S1"), plan)


def test_a_planned_tag_that_was_moved_to_a_young_snapshot_makes_the_plan_stale() -> None:
    story, plan = planned()
    assert problem(story.commit("S6", day=8).tag("old", "S6", max_ref_age_ms=millis(2)), plan)


def test_a_planned_branch_that_moved_makes_the_plan_stale() -> None:
    story = history().commit("S1", day=1).branch("b", max_ref_age_ms=1).commit("S2", day=2)
    plan = story.plan(day=9, window=90)
    assert plan.refs == ("b",)
    assert problem(story, plan) == ""
    assert problem(story.commit("B1", day=9, branch="b"), plan)


def test_main_in_a_plan_is_refused_whatever_its_age() -> None:
    story, plan = planned()
    story.drop_ref("old").main_keeps(max_ref_age_ms=1)
    assert problem(story, replace(plan, refs=(MAIN,)))


def test_the_default_age_of_the_table_is_asked_where_a_ref_has_none() -> None:
    story = history().commit("S1", day=1).commit("S2", day=2).tag("t", "S1")
    plan = story.having("history.expire.max-ref-age-ms", millis(3)).plan(day=9, window=90)
    assert problem(story, plan) == ""
    assert problem(story.having("history.expire.max-ref-age-ms", millis(8)), plan)
    assert problem(story.having("history.expire.max-ref-age-ms", "ever"), plan)


@pytest.mark.parametrize(("ms", "stale"), [(-1, False), (0, True), (1, True)])
def test_a_planned_snapshot_must_have_ended_before_the_window(ms: int, stale: bool) -> None:
    story, plan = planned()
    start = plan.window_start
    assert start is not None
    end = (start - instant(0)) / days(1) + ms / 86_400_000
    story.log.clear()
    story.rollback_to("S2", day=1).rollback_to("S5", day=end)  # told anew: S2 ends at `end`
    assert bool(problem(story, plan)) is stale


def test_no_snapshot_may_go_where_the_retention_is_infinite() -> None:
    story, plan = planned()
    assert problem(story, replace(plan, window_start=None))


def test_refs_alone_may_go_where_the_retention_is_infinite() -> None:
    story, _ = planned()
    plan = story.plan(day=9, window=None)
    assert (plan.snapshots, plan.refs) == ((), ("old",))
    assert problem(story, plan) == ""


def test_a_planned_snapshot_that_is_gone_makes_the_plan_stale() -> None:
    story, plan = planned()
    story.drop_ref("old").tag("old", "S2", max_ref_age_ms=millis(2)).expired_elsewhere("S1")
    assert problem(story, plan)


def test_a_new_branch_that_asks_for_ancestors_makes_the_plan_stale() -> None:
    story, plan = planned()
    story.branch("late", "S4", min_snapshots_to_keep=3)
    assert "S2" in story.kept(day=9, window=5.5)
    assert problem(story, plan)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("history.expire.min-snapshots-to-keep", 5),
        ("history.expire.max-snapshot-age-ms", millis(30)),
    ],
)
def test_a_property_that_now_keeps_a_planned_snapshot_makes_the_plan_stale(
    key: str, value: int
) -> None:
    story, plan = planned()
    story.having(key, value)
    assert "S2" in story.kept(day=9, window=5.5)
    assert problem(story, plan)


def test_a_new_branch_that_grew_on_a_planned_snapshot_makes_the_plan_stale() -> None:
    story, plan = planned()
    story.branch("late", "S2").commit("B1", day=9, branch="late")
    assert story.why("S2", day=9, window=5.5) == {"window"}
    assert problem(story, plan)


@pytest.mark.parametrize("value", ["infinite", "90"])
def test_a_longer_retention_set_after_the_plan_makes_the_plan_stale(value: str) -> None:
    story, plan = planned()
    assert problem(story.having("meltline.retention-days", value), plan)


@pytest.mark.parametrize(("key", "value"), [("meltline.hold", "audit"), ("meltline.enabled", "no")])
def test_a_hold_or_an_opt_out_set_after_the_plan_makes_the_plan_stale(key: str, value: str) -> None:
    story, plan = planned()
    assert problem(story.having(key, value), plan)


def test_planner_and_recheck_read_an_odd_default_age_alike() -> None:
    story = history().commit("S1", day=1).commit("S2", day=2).tag("t", "S1")
    story.having("history.expire.max-ref-age-ms", "-1")
    assert problem(story, story.plan(day=9, window=5)) == ""


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS)
def test_a_plan_always_fits_the_table_it_was_made_for(
    story: History, after: float, window: float
) -> None:
    assert problem(story, story.plan(last_day(story) + after, window)) == ""


LATER = st.sampled_from([1, 2, 5, 20])  # so that most plans let something go
SHORTER = st.sampled_from([0, MS, 0.5, 1, 3])
MOVES = ("commit", "rollback", "stage", "cherry-pick", "tag", "branch", "branch commit", "publish")


@MANY
@given(
    histories(),
    LATER,
    SHORTER,
    st.lists(st.sampled_from(MOVES), min_size=1, max_size=4),
    st.data(),
)
def test_a_plan_that_still_fits_takes_nothing_that_the_keep_set_would_keep_now(
    story: History, after: float, window: float, moves: list[str], data: st.DataObject
) -> None:
    story.observe(last_day(story))
    day = last_day(story) + after
    plan = story.plan(day, window)
    assume(plan.snapshots)
    for number, move in enumerate(moves, start=1):
        tell(data.draw, story, move, day + number / 24)
    if problem(story, plan) == "":
        assert set(plan.snapshots) <= set(story.keeps(day, window).expired)
