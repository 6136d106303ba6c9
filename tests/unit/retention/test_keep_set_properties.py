"""The keep set of random histories, against a brute-force reading of the log."""

from collections import defaultdict
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.iceberg.table_metadata import MAIN
from tests.lives.histories import (
    DAY_MS,
    History,
    days,
    histories,
    instant,
    moments,
)
from tests.seeds import examples

MS = 1 / DAY_MS


MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)
AFTER = st.sampled_from([0, MS, 0.5, 1, 2, 5, 20])
WINDOWS = st.sampled_from([0, MS, 0.5, 1, 3, 7, 30])


def last_day(story: History) -> float:
    return (max(story.times()) - instant(0)) / timedelta(days=1)


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS)
def test_any_instant_in_the_window_that_the_log_answers_stays_readable(
    story: History, after: float, window: float
) -> None:
    as_of = instant(last_day(story) + after)
    kept = story.keeps(0, window, as_of=as_of).reasons
    start = as_of - days(window)
    for at in {*moments(story), start, as_of}:
        if not start <= at <= as_of:
            continue
        answer = None
        for entry in story.log:  # as Iceberg looks it up: the last entry not after the instant
            answer = entry.snapshot_id if entry.at <= at else answer
        assert answer is None or answer not in story.snapshots or answer in kept


@MANY
@given(histories(), AFTER, WINDOWS)
def test_any_instant_in_the_window_keeps_what_main_truly_was_then(
    story: History, after: float, window: float
) -> None:
    as_of = instant(last_day(story) + after)
    kept = story.keeps(0, window, as_of=as_of).reasons
    for at in {*moments(story), as_of - days(window), as_of}:
        if not as_of - days(window) <= at <= as_of:
            continue
        was = next((h.snapshot_id for h in reversed(story.truth) if h.at <= at), None)
        assert was is None or was in kept


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS)
def test_any_instant_in_the_window_stays_readable_on_every_branch_that_stays(
    story: History, after: float, window: float
) -> None:
    as_of = instant(last_day(story) + after)
    keeps, state = story.keeps(0, window, as_of=as_of), story.state()
    for name, head in state.heads.items():
        if name == MAIN or name in keeps.expired_refs:
            continue
        line = list(state.ancestry(head))
        for at in {*moments(story), as_of - days(window), as_of}:
            if as_of - days(window) <= at <= as_of:
                was = next((s.snapshot_id for s in line if s.committed_at <= at), None)
                assert was is None or was in keeps.reasons


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS)
def test_kept_and_expired_share_out_the_snapshots_and_each_ref_that_stays_has_its_target(
    story: History, after: float, window: float
) -> None:
    keeps = story.keeps(last_day(story) + after, window)
    assert keeps.reasons.keys() | set(keeps.expired) == story.snapshots.keys()
    assert keeps.reasons.keys().isdisjoint(keeps.expired)
    assert all(keeps.reasons.values())
    assert set(keeps.expired_refs) <= story.refs.keys() - {MAIN}
    for name in story.refs.keys() - set(keeps.expired_refs):
        assert story.refs[name].snapshot_id in keeps.reasons


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS, WINDOWS)
def test_a_longer_window_never_keeps_less(
    story: History, after: float, one: float, other: float
) -> None:
    day = last_day(story) + after
    assert story.kept(day, min(one, other)) <= story.kept(day, max(one, other))
    assert story.kept(day, max(one, other)) <= story.kept(day, None)


@MANY
@given(histories(foreign_expiry=True), AFTER, AFTER, WINDOWS)
def test_an_earlier_as_of_expires_nothing_that_a_later_one_keeps(
    story: History, one: float, other: float, window: float
) -> None:
    middle = last_day(story) / 2
    early, late = sorted((middle + one, middle + other))
    assert story.expired(early, window) <= story.expired(late, window)
    early_refs = story.keeps(early, window).expired_refs
    assert set(early_refs) <= set(story.keeps(late, window).expired_refs)


@MANY
@given(histories(), AFTER, WINDOWS)
def test_a_second_run_after_the_first_was_applied_expires_nothing_more(
    story: History, after: float, window: float
) -> None:
    story.observe(last_day(story))
    day = last_day(story) + after
    first = story.keeps(day, window)
    for name in first.expired_refs:
        story.drop_ref(name)
    for sid in first.expired:
        story.expired_elsewhere(next(n for n, i in story.ids.items() if i == sid))
    assert not story.keeps(day, window).expired


@MANY
@given(histories(foreign_expiry=True), AFTER, WINDOWS)
def test_each_reason_can_be_given_to_a_person(story: History, after: float, window: float) -> None:
    keeps = story.keeps(last_day(story) + after, window)
    told = defaultdict(set)
    for sid, reasons in keeps.reasons.items():
        for reason in reasons:
            told[str(reason)].add(sid)
    assert told["head"] == {
        ref.snapshot_id
        for name, ref in story.refs.items()
        if ref.is_branch and name not in keeps.expired_refs
    }
    assert told["hold"] == told["not managed"] == told["lease"] == set()
