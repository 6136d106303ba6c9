"""Streaming writers find their mark again: the way from a branch's head to it is kept.

Each proof is the engine's own walk (`tests.lake.streaming`), once before a run and once after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.app.catalog.registrations import load_standing
from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.gate.expire_evidence import cut_off
from meltline.app.observe.observe import observe
from meltline.app.retention.policies import change_policy
from meltline.app.run.gate_step import run_gate
from meltline.app.storage.explain import explain_path, explain_table
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import PlanStale
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import WRITER_KEEP
from meltline.domain.retention.writers import marks_on, still_counting, walks
from tests.lake.lake import DAY, T0, Lake, Table, business
from tests.lake.streaming import (
    answers,
    flink_checkpoint,
    flink_mark,
    kafka_mark,
    kafka_offsets,
    spark_epoch,
    spark_mark,
)
from tests.seeds import examples

Walk = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Stream:
    """An engine's mark, and what its walk answers while it finds it."""

    mark: dict[str, str]
    walk: Walk
    answer: object


STREAMS = {
    "Flink": Stream(
        flink_mark("j1", 7), lambda document: flink_checkpoint(document, "j1", "sink"), 7
    ),
    "an old Flink, whose marks name no operator": Stream(
        flink_mark("j1", 7, None), lambda document: flink_checkpoint(document, "j1", "sink"), 7
    ),
    "Kafka Connect": Stream(
        kafka_mark("cg-sink", 41), lambda document: kafka_offsets(document, "cg-sink"), {"0": 41}
    ),
    "Spark": Stream(spark_mark("q1", 12), lambda document: spark_epoch(document, "q1"), 12),
}
each_engine = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())


def written_on(lake: Lake, table: Table, days: range) -> None:
    """Others write to a table, once a day."""
    for day in days:
        lake.on(day)
        table.overwrite(f"f{day}")


def streamed(stream: Stream, days: int = 20) -> tuple[Lake, Table, int]:
    """A stream commits on day 1 of a table that others overwrite daily; seven days are kept."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    mark = table.append("s", summary=stream.mark)
    written_on(lake, table, range(1, days))
    return lake, table, mark


@each_engine
def test_a_writer_finds_its_mark_after_a_run_as_before(stream: Stream) -> None:
    lake, table, mark = streamed(stream)
    assert stream.walk(table.document) == stream.answer
    summary = lake.run()
    assert summary.exit_code == 0
    assert stream.walk(table.document) == stream.answer
    assert mark in table.snapshots and len(table.snapshots) == 20  # all but the first one


# --- how long a mark counts -----------------------------------------------------------------------


@each_engine
@pytest.mark.parametrize(("day", "found"), [(30, True), (30.001, False)])
def test_a_writer_that_was_silent_for_longer_than_writer_keep_counts_no_more(
    stream: Stream, day: float, found: bool
) -> None:
    lake, table, mark = streamed(stream, days=30)
    assert lake.on(day).run().exit_code == 0
    assert (stream.walk(table.document) == stream.answer) is found is (mark in table.snapshots)


def test_the_policy_of_the_table_says_how_long() -> None:
    stream = STREAMS["Flink"]
    lake, table, _ = streamed(stream)
    table.configure(**{WRITER_KEEP: "18d"})
    lake.on(20).run()
    assert stream.walk(table.document) == -1 and len(table.snapshots) == 8


def test_a_preview_says_how_many_more_would_go_with_a_shorter_policy() -> None:
    lake, table, mark = streamed(STREAMS["Flink"])
    name = find_object(lake.on(20).services(), str(table.name), None)
    preview = change_policy(lake.services(), name, {WRITER_KEEP: "18d"}, dry_run=True)
    (effect,) = preview.effect
    assert (effect.expiring_before, effect.expiring_after) == (1, 13)
    lake.run()
    assert mark in table.snapshots  # nothing has changed


def test_an_as_of_in_the_past_counts_from_that_day() -> None:
    stream = STREAMS["Kafka Connect"]
    lake, table, _ = streamed(stream, days=45)
    lake.on(45).run(as_of=T0 + 30 * DAY)
    assert stream.walk(table.document) == stream.answer


def test_the_oldest_mark_of_a_job_that_is_not_silent_decides() -> None:
    """Each restart without a savepoint has a new job id, and the old one may still come back."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    for day in range(1, 40):
        lake.on(day)
        table.overwrite(f"f{day}")
        table.append(f"s{day}", summary=flink_mark(f"j{day // 5}", day))
    lake.on(40).run()
    document = table.document
    found = {job: flink_checkpoint(document, f"j{job}", "sink") for job in range(8)}
    # The last of job 1 was on day 9, more than thirty days ago; that of job 2 on day 14.
    assert found == {0: -1, 1: -1, 2: 14, 3: 19, 4: 24, 5: 29, 6: 34, 7: 39}
    assert len(document["snapshots"]) == 1 + 2 * (39 - 14)


def test_a_restart_with_another_operator_stops_at_a_mark_that_names_none() -> None:
    """`SinkUtil.getMaxCommittedCheckpointId` takes a mark without an operator for its own."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("old", summary=flink_mark("j", 3, None))
    lake.on(1)
    table.append("new", summary=flink_mark("j", 4, "a"))
    written_on(lake, table, range(2, 20))
    lake.on(20).run()
    assert flink_checkpoint(table.document, "j", "a") == 4
    assert flink_checkpoint(table.document, "j", "b") == 3


def test_what_lies_behind_a_mark_that_ends_every_operators_walk_is_not_kept_for_one() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    behind = table.append("old", summary=flink_mark("j", 3, "a"))
    lake.on(1)
    table.append("new", summary=flink_mark("j", 4, None))
    written_on(lake, table, range(2, 20))
    lake.on(20).run()
    assert flink_checkpoint(table.document, "j", "a") == 4 and behind not in table.snapshots


# --- branches, and what moves heads ---------------------------------------------------------------


@each_engine
def test_a_mark_on_any_branch_is_found_again(stream: Stream) -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    table.branch("sink", table.head)
    table.append("s", ref="sink", summary=stream.mark)
    for day in range(1, 20):
        lake.on(day)
        table.overwrite(f"f{day}")
        table.append(f"b{day}", ref="sink")
    before = answers(table.document)
    lake.on(20).run()
    assert before and answers(table.document) == before
    assert len(table.snapshots) == 1 + 19 + 8  # the walk on the branch; a week of main


def test_two_writers_on_one_table_each_find_their_own_mark() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    for day, mark in ((1, kafka_mark("slow", 5)), (2, flink_mark("j", 6)), (3, spark_mark("q", 7))):
        lake.on(day)
        table.append(f"s{day}", summary=mark)
    written_on(lake, table, range(4, 20))
    table.append("s", summary=flink_mark("j", 8))
    before = answers(table.document)
    lake.on(20).run()
    assert answers(table.document) == before
    assert kafka_offsets(table.document, "slow") == {"0": 5}
    assert flink_checkpoint(table.document, "j", "sink") == 8


def test_a_mark_that_another_tool_has_cut_off_keeps_nothing() -> None:
    stream = STREAMS["Spark"]
    lake, table, mark = streamed(stream)
    gap = table.snapshots[10]
    table.expire_elsewhere(gap)
    lake.on(20).run()
    assert mark not in table.snapshots and len(table.snapshots) == 8


def test_after_a_rollback_the_way_from_the_new_head_is_kept() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("s1", summary=spark_mark("q", 1))
    written_on(lake, table, range(1, 12))
    before = table.head
    table.append("s2", summary=spark_mark("q", 2))
    table.rollback(before)
    lake.on(20).run()
    assert spark_epoch(table.document, "q") == 1


def test_a_branch_that_is_past_its_age_goes_whatever_was_streamed_to_it() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    table.branch("sink", table.head, **{"max-ref-age-ms": 3 * 86_400_000})
    table.append("s", ref="sink", summary=flink_mark("j", 1))
    written_on(lake, table, range(1, 20))
    for day in (20, 40):
        lake.on(day).run()
    assert "sink" not in table.refs and len(table.snapshots) == 1


def test_a_table_that_replaced_another_has_none_of_its_marks() -> None:
    stream = STREAMS["Flink"]
    lake, table, mark = streamed(stream, days=5)
    table.start_over("anew")
    written_on(lake, table, range(5, 20))
    lake.on(20).run()
    assert mark not in table.snapshots


def test_a_dropped_table_is_let_go_with_its_marks() -> None:
    lake, table, _ = streamed(STREAMS["Kafka Connect"])
    drop(lake.on(20).services(), str(table.name))
    for day in range(21, 40):
        lake.on(day).run()
    assert [t for t in lake.catalogs["lake"]._tables if t.namespace == ("meltline_dropped",)] == []


# --- the gate, and the check before the commit ----------------------------------------------------


def planned_while_marks_count_for_nothing(stream: Stream) -> tuple[Lake, Table, Plan]:
    """The planner is told that no mark counts; after that all count again."""
    lake, table, _ = streamed(stream)
    lake.on(20)
    table.configure(**{WRITER_KEEP: "0d"})
    services, request = lake.services(), lake.request()
    (made,) = plan_expiration(
        services, observe(services), run_id=request.run_id, as_of=request.as_of
    )
    assert len(made.plan.snapshots) == 13
    return lake, table, made.plan


@each_engine
def test_the_gate_finds_out_for_itself_that_a_plan_cuts_a_writer_off(stream: Stream) -> None:
    lake, table, plan = planned_while_marks_count_for_nothing(stream)
    table.unset(WRITER_KEEP)
    ((plan, verdict),) = run_gate(lake.services(), [plan])
    assert plan.state is PlanState.REFUSED
    (failed,) = verdict.failed
    assert failed.expectation.startswith("planned_writer_walks ") and failed.observed == "12"


@each_engine
def test_a_plan_that_names_one_snapshot_on_the_way_is_refused(stream: Stream) -> None:
    lake, table, plan = planned_while_marks_count_for_nothing(stream)
    table.unset(WRITER_KEEP)
    for one in plan.snapshots[1:]:
        assert cut_off(state_of(lake, table), [one], (), T0) == {one}
    assert cut_off(state_of(lake, table), plan.snapshots[:1], (), T0) == set()


def test_what_comes_to_count_between_gate_and_commit_is_not_expired() -> None:
    stream = STREAMS["Flink"]
    lake, table, plan = planned_while_marks_count_for_nothing(stream)
    ((plan, verdict),) = run_gate(lake.services(), [plan])
    assert verdict.passed
    table.unset(WRITER_KEEP)
    (done,) = apply_expirations(lake.services(), [plan], lambda _: None)
    assert isinstance(done.error, PlanStale) and "kept now: writer" in done.error.found
    assert stream.walk(table.document) == stream.answer


@settings(max_examples=examples(few=25, many=100), deadline=None, database=None)
@given(st.lists(st.sampled_from(["commit", "branch", "a", "b", "old", "k", "q"]), max_size=20))
def test_planner_and_gate_agree_on_what_writers_need(events: list[str]) -> None:
    """Two readings of the engines' walks, each by itself, and the engines' own."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f")
    marks = {
        "a": flink_mark("j", 1, "a"),
        "b": flink_mark("j", 1, "b"),
        "old": flink_mark("j", 1, None),
        "k": kafka_mark("g", 1),
        "q": spark_mark("q", 1),
    }
    for day, event in enumerate(events):
        lake.on(day / 10)
        if event == "branch":
            table.branch(f"b{day % 2}", table.snapshots[day % len(table.snapshots)])
        else:
            refs = sorted(table.refs)
            table.append(f"f{day}", ref=refs[day % len(refs)], summary=marks.get(event))
    state = state_of(lake, table)
    since = T0 + DAY / 2
    ways = walks(state, still_counting(marks_on(state, state.heads), since, DAY * 0))
    kept = {snapshot for way in ways.values() for snapshot in way}
    for one in state.snapshots:
        assert bool(cut_off(state, [one], (), since)) is (one in kept), events
    document = table.document
    before = {who: a for who, a in answers(document).items() if a.at >= since}
    gone = [s for s in table.snapshots if s not in kept and s not in state.heads.values()]
    if gone:
        table.expire_elsewhere(*gone)
    assert before.items() <= answers(table.document, of=document).items()


# --- explain and doctor ---------------------------------------------------------------------------


def test_explain_names_the_writer_its_mark_and_until_when_it_counts() -> None:
    lake, table, mark = streamed(STREAMS["Flink"])
    services = lake.on(20).services()
    lake.run()
    (told,) = explain_table(services, table.name, mark)
    assert told.keep_reasons == ("writer",)
    assert told.due_at == T0 + DAY * 30
    (line,) = told.writers
    assert line == (
        f"Flink job j1 operator sink: its mark is snapshot {mark} on main, last seen "
        "2026-01-01T00:00:00Z, counts until 2026-01-31T00:00:00Z"
    )
    (newer,) = explain_table(services, table.name, table.snapshots[5])
    assert newer.writers == told.writers
    told_of_file = explain_path(services, table.manifest_list(mark))
    assert (told_of_file.keep_reasons, told_of_file.writers) == (("writer",), (line,))


def test_explain_says_of_what_no_writer_needs_nothing_about_writers() -> None:
    lake, table, _ = streamed(STREAMS["Spark"])
    services = lake.on(20).services()
    first = table.snapshots[0]
    assert explain_table(services, table.name, first)[0].writers == ()
    table.tag("keep", first)
    assert explain_table(services, table.name, first)[0].keep_reasons == ("tag",)


def test_doctor_names_the_writer_that_keeps_much_and_the_way_out() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f")
    table.append("s", summary=kafka_mark("cg-orders", 5))
    for number in range(120):
        table.append(f"f{number}")
    lake.on(12.5)
    table.append("last")
    lake.on(20).run()
    (advice,) = [f for f in examine(lake.services()) if f.code == "writer_keeps_much"]
    assert (advice.level, advice.object) == ("info", "lake.air.t")
    assert "Kafka Connect control.cg-orders is silent since 2026-01-01T00:00:00Z" in advice.message
    assert "121 snapshots of main stay" in advice.message
    assert "`meltline policy set lake.air.t --writer-keep 20d`" in advice.fix
    table.configure(**{WRITER_KEEP: "19d"})
    assert not [f for f in examine(lake.services()) if f.code == "writer_keeps_much"]
    lake.on(28).run()
    assert len(table.snapshots) == 1


def test_doctor_is_silent_about_a_writer_that_was_seen_today() -> None:
    lake = Lake(account=business(retention_days=0))
    table = lake.on(0).table("t")
    table.append("s", summary=kafka_mark("cg-orders", 5))
    for number in range(120):
        table.append(f"f{number}")
    lake.on(0.9).run()
    assert len(table.snapshots) == 121
    assert not [f for f in examine(lake.services()) if f.code == "writer_keeps_much"]


def test_doctor_is_silent_about_a_mark_that_keeps_little() -> None:
    lake, *_ = streamed(STREAMS["Flink"])
    lake.on(20).run()
    assert not [f for f in examine(lake.services()) if f.code == "writer_keeps_much"]


def state_of(lake: Lake, table: Table) -> TableMetadata:
    (entry,) = [e for e in lake.catalogs["lake"].listing().entries if e.name == table.name]
    return load_standing(lake.services(), entry.name, entry.metadata_location)
