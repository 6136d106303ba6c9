"""The sweep on a lake in memory: what departs, when, and what becomes of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.app.storage.explain import explain_path
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.orphans import SweepSettings
from meltline.domain.errors import (
    ClockRefused,
    LedgerOutOfStep,
    UsageInvalid,
)
from meltline.domain.iceberg.files import DepartureState, FileKind
from meltline.domain.iceberg.locations import location_key
from tests.lake.lake import DAY, T0, Lake
from tests.lake.swept import FIRST, HOUR, SECOND, Meanwhile, Swept
from tests.seeds import examples


def test_an_orphan_departs_at_its_second_listing_waits_in_failsafe_and_is_purged() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    first = swept.sweep(FIRST)
    assert (swept.waiting(), first.exit_code) == (set(), 0)
    second = swept.sweep(SECOND)
    assert swept.lake.waiting() == {orphan: T0 + (SECOND + 7) * DAY}
    assert second.as_json()["tables"][0]["files_departed"] == 1
    assert second.exit_code == 0
    swept.lake.on(SECOND + 6.9).run()
    assert orphan in swept.lake.paths()
    run = swept.lake.on(SECOND + 7).run()
    assert orphan not in swept.lake.paths()
    assert [line.files_purged for line in run.tables.values()] == [1]
    (departure,) = swept.lake.files.departures.in_states(frozenset(DepartureState), paths=[orphan])
    assert departure.state is DepartureState.DELETED


def test_the_document_says_what_was_found() -> None:
    swept = Swept()
    swept.leave("orphan", b"12345")
    swept.sweep(SECOND - 3)
    swept.leave("young", day=SECOND - 2)
    swept.sweep(SECOND - 1)
    swept.leave("next", day=1)
    swept.leave("written just now", day=SECOND)
    document = swept.sweep(SECOND).as_json()["sweep"]
    assert document["tables"] == [
        {"table": "lake.air.t", "departed": 1, "departed_bytes": 5, "first_seen": 2,
         "seen_recently": 0, "young": 1}
    ]  # fmt: skip
    assert document["files"] == len(list(swept.lake.store.list(swept.table.location)))
    assert document["listed_at"] == "2026-01-18T00:00:00Z"


def test_leaked_manifests_lists_and_metadata_of_failed_commits_are_orphans_by_their_kind() -> None:
    swept = Swept()
    at = f"{swept.table.location}/metadata"
    kinds = {
        f"{at}/leaked-m0.avro": FileKind.MANIFEST,
        f"{at}/snap-1-1-leaked.avro": FileKind.MANIFEST_LIST,
        f"{at}/00009-leaked.metadata.json": FileKind.METADATA,
        f"{at}/leaked.stats": FileKind.STATISTICS,
        f"{swept.table.location}/data/leaked.avro": FileKind.DATA,
        f"{swept.table.location}/at the top": FileKind.DATA,
    }
    for path, kind in kinds.items():
        swept.leave(path, swept.ours if kind is FileKind.METADATA else b"left behind")
    swept.sweep_twice()
    departures = swept.lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    assert {d.path: d.kind for d in departures} == kinds
    swept.lake.on(SECOND + 7).run()
    assert not kinds.keys() & swept.lake.paths()


def test_a_second_sweep_right_away_records_nothing() -> None:
    swept = Swept()
    swept.leave("orphan")
    for day in (FIRST, SECOND):
        swept.sweep(day)
        commits = (swept.sweeper.commits, dict(swept.lake.file_tables.commits))
        swept.sweep(day)
        assert (swept.sweeper.commits, dict(swept.lake.file_tables.commits)) == commits


def test_a_dry_run_says_what_would_depart_and_records_nothing() -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.sweep(FIRST, dry_run=True)
    assert swept.sweeper.commits == 0
    swept.sweep(FIRST)
    said = swept.sweep(SECOND, dry_run=True).as_json()
    assert said["tables"][0]["files_departed"] == 1
    assert swept.waiting() == set()


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "departs"), [(71.9, False), (72, True)])
def test_a_file_must_have_reached_its_minimum_age_when_it_is_listed(
    hours: float, departs: bool
) -> None:
    swept = Swept()
    orphan = swept.leave("orphan", day=SECOND - hours / 24)
    swept.sweep(SECOND - hours / 24)
    swept.sweep(SECOND)
    assert (orphan in swept.waiting()) is departs


@pytest.mark.parametrize(("hours", "departs"), [(71.9, False), (72, True)])
def test_a_file_that_came_with_the_time_of_an_older_one_waits_from_its_first_sighting(
    hours: float, departs: bool
) -> None:
    """As copies with `cp -p`, `rsync -t` and `distcp -pt` do, before `add_files`, for example."""
    swept = Swept()
    swept.sweep(SECOND - 4)
    copied = swept.leave("copied", day=1)
    swept.sweep(SECOND - hours / 24)
    swept.sweep(SECOND)
    assert (copied in swept.waiting()) is departs


def test_sweeps_in_between_neither_shorten_nor_prolong_the_wait_of_a_file() -> None:
    swept = Swept()
    copied = swept.leave("copied", day=1)
    for hours in range(0, 72, 8):
        swept.sweep(FIRST + hours / 24)
        assert swept.waiting() == set()
    swept.sweep(FIRST + 3)
    assert swept.waiting() == {copied}
    assert swept.sweeper.commits == 1, "it was sighted once"


def test_a_longer_minimum_age_may_be_asked_for_and_none_below_a_day() -> None:
    # AR-11
    swept = Swept()
    swept.leave("orphan", day=1)
    swept.sweep_twice(minimum_age=16.5 * DAY)
    assert swept.waiting() == set()
    with pytest.raises(UsageInvalid, match="minimum age") as refused:
        swept.sweep(SECOND, minimum_age=DAY - HOUR)
    assert (refused.value.expected, refused.value.found) == ("at least 1d", "23h")
    with pytest.raises(UsageInvalid):
        SweepSettings(minimum_age=timedelta(0))


@pytest.mark.parametrize(("hours", "departs"), [(95.9, False), (96, True)])
def test_two_listings_must_lie_apart(hours: float, departs: bool) -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    config = swept.lake.config()
    apart = replace(config.sweep, minimum_age=DAY, listings_apart=4 * DAY)
    services = swept.services(config=replace(config, sweep=apart))
    swept.sweep(FIRST, services)
    swept.sweep(FIRST + hours / 24, services)
    assert (orphan in swept.waiting()) is departs


@pytest.mark.parametrize(
    ("content", "day"), [(b"left behind", FIRST + 1), (b"longer than before", 1)]
)
def test_a_file_that_changed_between_the_listings_begins_anew(content: bytes, day: float) -> None:
    swept = Swept()
    orphan = swept.leave("orphan", day=1)
    swept.sweep(FIRST)
    swept.leave("orphan", content, day=day)
    swept.sweep(SECOND)
    assert swept.waiting() == set()
    swept.sweep(SECOND + 7)
    assert swept.waiting() == {orphan}


def test_a_time_to_come_and_a_time_that_stores_do_not_know_keep_a_file() -> None:
    swept = Swept()
    swept.leave("of tomorrow", day=SECOND + 1)
    swept.lake.clock.moment = datetime(1970, 1, 1, tzinfo=UTC)
    swept.lake.store.write(swept.table.data("of no time"), b"x")
    assert swept.sweep_twice().as_json()["sweep"]["odd_files"] == 1
    assert swept.waiting() == set()


def test_failsafe_is_as_long_as_the_owners() -> None:
    swept = Swept()
    swept.table.configure(**{"meltline.failsafe-days": "30"})
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.lake.waiting() == {orphan: T0 + (SECOND + 30) * DAY}


def test_an_empty_folder_of_an_object_store_is_no_orphan() -> None:
    swept = Swept()
    swept.leave(f"{swept.table.location}/data/marker", b"")
    orphan = swept.leave("empty but a file", b"")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_a_ledger_of_another_generation_sweeps_nothing() -> None:
    swept = Swept()
    swept.lake.control.database.set_generation(7)
    with pytest.raises(LedgerOutOfStep):
        swept.sweep(FIRST)
    assert swept.sweeper.commits == 0


def test_a_run_that_is_run_again_weeks_later_records_what_departs_then() -> None:
    swept = Swept()
    orphans = set()
    for day in (FIRST, SECOND, SECOND + 7):
        orphans.add(swept.leave(f"of {day}", day=day - 5))
        request = replace(swept.lake.on(day).request(), run_id="the same")
        run_step(SWEEP, swept.services(), request)
    assert swept.waiting() == orphans - {swept.table.data(f"of {SECOND + 7}")}


def test_a_clock_behind_the_ledger_refuses_to_sweep() -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.sweep(FIRST)
    with pytest.raises(ClockRefused):
        swept.sweep(FIRST - 9.99)


# --- what is referred to -------------------------------------------------------------------------


def test_nothing_that_any_snapshot_names_is_a_stray_nor_what_departed_already() -> None:
    swept = Swept()
    for day in range(1, 5):
        swept.lake.on(day)
        swept.table.overwrite(f"f{day}")
        swept.table.statistics(swept.table.head)
    swept.lake.on(12).run()
    waiting = swept.lake.waiting()
    assert waiting
    assert swept.sweep(13).as_json()["sweep"]["tables"] == []
    swept.sweep(14)
    assert swept.lake.waiting() == waiting
    swept.lake.on(19).run()
    assert swept.sweep(20).as_json()["sweep"]["tables"] == []


def test_a_file_that_only_a_tombstone_names_was_leaked_by_another_tool() -> None:
    lake = Lake()
    table = lake.on(0).table("u")
    before = table.append("leaked")
    table.overwrite("b")
    table.expire_elsewhere(before)  # its files stay behind
    lake.run()
    swept = Swept(lake)
    swept.sweep_twice()
    assert table.data("leaked") in swept.waiting()


def test_a_file_committed_between_the_listings_stays() -> None:
    swept = Swept()
    late = swept.leave("late")
    swept.sweep(FIRST)
    swept.lake.on(FIRST + 1)
    swept.table.append("late")
    swept.sweep(SECOND)
    assert late not in swept.waiting()


def test_a_file_committed_after_the_store_was_listed_stays() -> None:
    # AR-16
    swept = Swept()
    late = swept.leave("late")
    swept.sweep(FIRST)
    racing = Meanwhile(swept.sweeper, lambda: swept.table.append("late"))
    swept.sweep(SECOND, swept.services(sweeper=racing))
    assert late not in swept.waiting()
    assert late in {e.path for e in swept.lake.file_tables.contents().entries}


def test_a_file_committed_after_it_departed_is_taken_back_by_the_next_sweep() -> None:
    swept = Swept()
    late = swept.leave("late")
    swept.sweep_twice()
    assert swept.waiting() == {late}
    swept.lake.on(SECOND + 1)
    swept.table.append("late")
    swept.sweep(SECOND + 2)
    assert swept.waiting() == set()
    assert "it is referred to again" in [e.reason for e in swept.lake.control.audit.entries()]
    swept.lake.on(SECOND + 30).run()
    assert late in swept.lake.paths()


def test_a_file_committed_after_it_departed_is_taken_back_when_its_time_is_up() -> None:
    swept = Swept()
    late = swept.leave("late")
    swept.sweep_twice()
    swept.lake.on(SECOND + 1)
    swept.table.append("late")
    swept.lake.on(SECOND + 8).run()
    assert late in swept.lake.paths()
    assert swept.waiting() == set()


def test_a_deleted_file_that_is_there_again_is_kept_until_it_was_seen_twice_anew() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    swept.lake.on(SECOND + 7).run()
    assert orphan not in swept.lake.paths()
    # By its time it might be the very file that was seen before.
    swept.leave("orphan", day=1)
    said = swept.sweep(SECOND + 8).as_json()["sweep"]
    assert said["tables"][0]["first_seen"] == 1
    assert swept.waiting() == set()
    swept.sweep(SECOND + 15)
    assert swept.lake.waiting() == {orphan: T0 + (SECOND + 22) * DAY}


def test_an_expired_file_that_was_purged_and_is_there_again_is_an_orphan_in_the_end() -> None:
    swept = Swept()
    swept.table.overwrite("b")
    swept.lake.on(8).run()
    swept.lake.on(16).run()
    again = swept.leave("a", day=16)
    for day in (20, 27):
        assert again not in swept.waiting()
        swept.sweep(day)
    assert swept.waiting() == {again}


def test_a_deleted_file_that_is_there_again_and_committed_again_stays() -> None:
    swept = Swept()
    swept.table.overwrite("b")
    swept.lake.on(8).run()
    gone = swept.table.data("a")
    swept.lake.on(16).run()
    assert gone not in swept.lake.paths()
    swept.table.append("a")
    for day in (20, 27, 34):
        swept.sweep(day)
        assert gone not in swept.waiting()


# --- any history ---------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "commit", "overwrite"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["wait", "roll back"]), st.integers(1, 9)),
    st.tuples(st.sampled_from(["sweep", "run", "rebuild", "expire elsewhere"]), st.just(0)),
)


def take(swept: Swept, step: str, number: int) -> None:
    lake, table, name = swept.lake, swept.table, f"f{number}"
    day = (lake.clock.moment - T0) / DAY
    if step == "write" and lake.store.size(table.data(name)) is None:
        lake.store.write(table.data(name), b"d" * (100 + len(table.data(name))))
    elif step == "commit":
        table.append(name)
    elif step == "overwrite":
        table.overwrite(name)
    elif step == "wait":
        lake.on(day + number)
    elif step == "roll back":
        table.rollback(table.snapshots[number % len(table.snapshots)])
    elif step == "expire elsewhere":
        table.expire_elsewhere(*{*table.snapshots} - {table.head})
    elif step == "rebuild":
        lake.files.upkeep.rebuild([table.uuid])
    else:
        swept.sweep(day) if step == "sweep" else lake.run()


@settings(max_examples=examples(few=15, many=60), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_no_sweep_takes_what_is_needed_and_in_the_end_nothing_else_is_left(
    steps: list[tuple[str, int]],
) -> None:
    """The deleter of this lake holds each delete against a walk of all metadata."""
    swept = Swept()
    for step, number in steps:
        take(swept, step, number)
        swept.lake.check_nothing_is_missing()
    for _ in range(6):
        take(swept, "wait", 8)
        take(swept, "sweep", 0)
        take(swept, "run", 0)
    left = {location_key(path) for path in swept.lake.paths(swept.table.location)}
    assert left - swept.lake.needed() == set()


# --- afterwards ----------------------------------------------------------------------------------


def test_reports_and_explanations_know_what_was_swept() -> None:
    swept = Swept()
    orphan = swept.leave("orphan", b"x" * 321)
    swept.sweep_twice()
    services = swept.lake.services()
    (row,) = storage_rows(totals_now(services))
    assert row.failsafe_bytes == 321
    told = explain_path(services, orphan)
    assert (told.stage, told.keep_reasons, told.referenced_by) == ("failsafe", ("failsafe",), ())
    assert told.due_at == T0 + (SECOND + 7) * DAY
    swept.lake.on(SECOND + 7).run()
    assert explain_path(services, orphan).stage == "deleted"
    assert [row.deleted_bytes for row in storage_rows(totals_now(services))] == [321]


def test_what_a_sweep_took_is_in_the_audit() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    (entry,) = [e for e in swept.lake.control.audit.entries() if e.action == "sweep"]
    assert (entry.who, entry.object, entry.detail) == ("tester", "1 files", orphan)


def test_a_forgotten_departure_is_found_and_waits_a_whole_failsafe_anew() -> None:
    swept = Swept()
    swept.lake.on(1)
    swept.table.overwrite("b")
    swept.lake.on(9).run()
    forgotten = swept.waiting()
    assert swept.table.data("a") in forgotten
    swept.lake.file_tables.newest.clear()  # the ledger's departures are lost, and its index
    swept.lake.files.upkeep.rebuild([swept.table.uuid])
    swept.sweep(FIRST)
    swept.sweep(SECOND)
    assert forgotten - swept.waiting() <= {swept.table.metadata_location}
    assert set(swept.lake.waiting().values()) == {T0 + (SECOND + 7) * DAY}
