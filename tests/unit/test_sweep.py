"""The sweep on a lake in memory: what departs, what stays, and why."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.memory.sweeper import InventoryContent, MemoryListing, MemorySweeper
from meltline.app.explain import explain_path
from meltline.app.report import standing_now, storage_rows
from meltline.app.steps import StepRequest, run_step
from meltline.app.summary import Summary
from meltline.app.sweep import SweepServices
from meltline.domain.errors import (
    ClockRefused,
    LedgerOutOfStep,
    LockHeld,
    StoreRefused,
    UsageInvalid,
)
from meltline.domain.files import DepartureState, FileKind
from meltline.domain.locations import location_key
from meltline.domain.orphans import Stray, SweepSettings, SweptPlaces
from meltline.ports import Inventory, StopSwitch, StoredObject
from tests.unit.lake import DAY, T0, WAREHOUSE, Lake, Table

FIRST, SECOND = 10, 17  # the days of two weekly sweeps
HOUR = timedelta(hours=1)


def a_lake(**more: Any) -> Lake:
    """A lake whose tables may share a location: no two metadata files have one name."""
    numbers = count()
    return Lake(unique=lambda: f"m{next(numbers)}", **more)


@dataclass
class Swept:
    """A lake that is swept, and the table that most tests are about."""

    lake: Lake = field(default_factory=a_lake)

    def __post_init__(self) -> None:
        self.sweeper = MemorySweeper(self.lake.store, self.lake.files)
        self.table = self.lake.on(0).table("t")
        self.table.append("a")
        self.lake.run()

    def services(self, **changes: Any) -> SweepServices:
        chain = self.lake.services()
        return SweepServices(**{**vars(chain), "sweeper": self.sweeper, **changes})

    def sweep(self, day: float, services: SweepServices | None = None, **asked: Any) -> Summary:
        """One sweep on a day; nothing that is needed may be missing afterwards."""
        self.lake.on(day)
        run = replace(self.lake.request(tables=asked.pop("tables", ())),
                      dry_run=asked.pop("dry_run", False))  # fmt: skip
        summary = run_step("sweep", services or self.services(), StepRequest(run, **asked))
        self.lake.check_nothing_is_missing()
        return summary

    def sweep_twice(self, **asked: Any) -> Summary:
        self.sweep(FIRST, **asked)
        return self.sweep(SECOND, **asked)

    def leave(self, path: str, content: bytes = b"left behind", day: float = 1) -> str:
        """A file that no commit names; a bare name is one in the table's data folder."""
        self.lake.on(day)
        path = self.table.data(path)
        self.lake.store.write(path, content)
        return path

    def waiting(self) -> set[str]:
        return set(self.lake.waiting())


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
    (departure,) = swept.lake.files.departures(frozenset(DepartureState), paths=[orphan])
    assert departure.state is DepartureState.DELETED


def test_the_document_says_what_was_found() -> None:
    swept = Swept()
    swept.leave("orphan", b"12345")
    swept.sweep(FIRST)
    swept.leave("next", day=1)
    swept.leave("young", day=SECOND - 1)
    document = swept.sweep(SECOND).as_json()["sweep"]
    assert document["tables"] == [
        {"table": "lake.air.t", "departed": 1, "departed_bytes": 5, "first_seen": 1,
         "seen_recently": 0, "young": 1}
    ]  # fmt: skip
    here = {p: o for o in swept.lake.store.list(swept.table.location) if (p := o.path)}
    assert document["files"] == len(here)
    assert document["bytes"] == sum(o.bytes for o in here.values())
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
    for path in kinds:
        swept.leave(path)
    swept.sweep_twice()
    departures = swept.lake.files.departures(frozenset({DepartureState.FAILSAFE}))
    assert {d.path: d.kind for d in departures} == kinds
    swept.lake.on(SECOND + 7).run()
    assert not kinds.keys() & swept.lake.paths()


def test_a_second_sweep_right_away_records_nothing() -> None:
    swept = Swept()
    swept.leave("orphan")
    for day in (FIRST, SECOND):
        swept.sweep(day)
        commits = (swept.sweeper.commits, dict(swept.lake.files.commits))
        swept.sweep(day)
        assert (swept.sweeper.commits, dict(swept.lake.files.commits)) == commits


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
    # As if an earlier listing had taken it for old enough.
    swept.sweep(SECOND - 1, minimum_age=DAY)
    swept.sweep(SECOND)
    assert (orphan in swept.waiting()) is departs


def test_a_longer_minimum_age_may_be_asked_for_and_none_below_a_day() -> None:
    swept = Swept()
    swept.leave("orphan", day=1)
    swept.sweep_twice(minimum_age=16.5 * DAY)
    assert swept.waiting() == set()
    with pytest.raises(UsageInvalid, match="minimum age") as refused:
        swept.sweep(SECOND, minimum_age=DAY - HOUR)
    assert (refused.value.expected, refused.value.found) == ("at least 1d", "23h")
    with pytest.raises(UsageInvalid):
        SweepSettings(minimum_age=timedelta(0))


@pytest.mark.parametrize(("hours", "departs"), [(11.9, False), (12, True)])
def test_two_listings_must_lie_apart(hours: float, departs: bool) -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.sweep(FIRST)
    swept.sweep(FIRST + hours / 24)
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
    swept.lake.control.set_generation(7)
    with pytest.raises(LedgerOutOfStep):
        swept.sweep(FIRST)
    assert swept.sweeper.commits == 0


def test_a_run_that_is_run_again_weeks_later_records_what_departs_then() -> None:
    swept = Swept()
    orphans = set()
    for day in (FIRST, SECOND, SECOND + 7):
        orphans.add(swept.leave(f"of {day}", day=day - 5))
        request = replace(swept.lake.on(day).request(), run_id="the same")
        run_step("sweep", swept.services(), StepRequest(request))
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


@dataclass
class Meanwhile:
    """A sweeper during whose listing something happens."""

    sweeper: MemorySweeper
    happens: Callable[[], object]

    def list_files(self, places: SweptPlaces, now: datetime) -> MemoryListing:
        listing = self.sweeper.list_files(places, now)
        self.happens()
        return listing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sweeper, name)


def test_a_file_committed_after_the_store_was_listed_stays() -> None:
    swept = Swept()
    late = swept.leave("late")
    swept.sweep(FIRST)
    racing = Meanwhile(swept.sweeper, lambda: swept.table.append("late"))
    swept.sweep(SECOND, swept.services(sweeper=racing))
    assert late not in swept.waiting()
    assert late in {e.path for e in swept.lake.files.contents().entries}


def test_a_file_committed_after_it_departed_is_taken_back_by_the_next_sweep() -> None:
    swept = Swept()
    late = swept.leave("late")
    swept.sweep_twice()
    assert swept.waiting() == {late}
    swept.lake.on(SECOND + 1)
    swept.table.append("late")
    swept.sweep(SECOND + 2)
    assert swept.waiting() == set()
    assert "it is referred to again" in [e.reason for e in swept.lake.control.audit()]
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


# --- whose place it is ---------------------------------------------------------------------------


def test_a_sibling_whose_name_only_begins_alike_is_not_touched() -> None:
    """Iceberg #16493: `tbl` also matched `tbl_backup/...`."""
    swept = Swept()
    orphan = swept.leave("orphan")
    for path in ("t_backup/data/f", "t2/f", "tbl", "other/f"):
        swept.leave(f"{WAREHOUSE}/air/{path}")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_tables_nest_and_each_orphan_departs_with_the_innermost_owner() -> None:
    swept = Swept()
    inner = swept.lake.table("inner", location=f"{swept.table.location}/data/inner")
    inner.append("x")
    inner.configure(**{"meltline.failsafe-days": "20"})
    swept.lake.run()
    mine, its = swept.leave("orphan"), swept.leave(inner.data("orphan"))
    swept.sweep_twice()
    found = swept.lake.files.departures(frozenset({DepartureState.FAILSAFE}))
    assert {d.path: d.owner for d in found} == {mine: swept.table.uuid, its: inner.uuid}
    assert swept.lake.waiting()[its] == T0 + (SECOND + 20) * DAY


def test_a_nested_table_that_is_not_managed_keeps_its_orphans() -> None:
    swept = Swept()
    off = {"meltline.enabled": "false"}
    inner = swept.lake.table("in", location=f"{swept.table.location}/data/in", properties=off)
    inner.append("x")
    swept.lake.run()
    swept.leave(inner.data("orphan"))
    assert swept.sweep_twice().exit_code == 0
    assert swept.waiting() == set()


def test_a_location_that_two_tables_share_is_swept_against_both() -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location)
    other.append("b")
    other.configure(**{"meltline.failsafe-days": "12"})
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.lake.waiting() == {orphan: T0 + (SECOND + 12) * DAY}
    swept.lake.on(SECOND + 12).run()
    assert orphan not in swept.lake.paths()


@pytest.mark.parametrize(
    "properties",
    [{"meltline.enabled": "false"}, {"meltline.hold": "audit"}],
    ids=["detached", "held"],
)
def test_a_location_shared_with_a_table_that_is_left_alone_is_left_alone(
    properties: dict[str, str],
) -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location, properties=properties)
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    assert swept.sweep_twice().exit_code == 0
    assert swept.waiting() == set()


def test_a_hold_on_a_table_that_shares_files_keeps_orphans_too() -> None:
    swept = Swept()
    copy = swept.lake.clone(swept.table, "lake.air.copy")
    swept.lake.run()
    orphan = swept.leave("orphan")
    copy.configure(**{"meltline.hold": "audit"})
    swept.sweep_twice()
    assert swept.waiting() == set()
    copy.edit(lambda document: document["properties"].clear())
    swept.sweep(SECOND)
    swept.sweep(SECOND + 7)
    assert swept.waiting() == {orphan}


def test_the_place_of_a_dropped_table_is_not_swept() -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.table.drop()
    swept.sweep(FIRST)
    summary = swept.sweep(SECOND)
    assert (summary.exit_code, summary.as_json()["sweep"]["files"]) == (0, 0)
    assert swept.waiting() == set()


def dropped_and_made_again(swept: Swept) -> Table:
    """A table whose place another one had before; both were observed."""
    old = swept.table
    old.drop()
    new = swept.lake.on(2).table("t")
    new.append("new")
    swept.lake.run()
    return new


def test_where_a_dropped_table_lay_too_its_files_stay_and_orphans_go() -> None:
    swept = Swept()
    new = dropped_and_made_again(swept)
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert new.data("a") in swept.lake.paths()


def test_where_a_dropped_table_committed_after_it_was_last_looked_at_nothing_departs() -> None:
    swept = Swept()
    swept.table.append("unseen")
    last = swept.table.metadata_location
    dropped_and_made_again(swept)
    swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert summary.exit_code == 4
    assert last in summary.tables["lake.air.t"].skipped


def test_a_table_that_no_catalog_has_inside_of_one_that_is_swept_is_left_whole() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    for name in ("metadata/v1.metadata.json", "data/f.parquet", "metadata/m0.avro"):
        swept.leave(f"{swept.table.location}/hadoop/{name}")
    summary = swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert (summary.exit_code, len(summary.notes)) == (4, 1)
    assert f"{swept.table.location}/hadoop/" in summary.notes[0]


def test_a_table_that_holds_the_whole_warehouse_is_not_swept_and_that_is_said() -> None:
    swept = Swept()
    swept.lake.table("root", location=WAREHOUSE).append(f"{WAREHOUSE}/data/x")
    swept.lake.run()
    swept.leave(f"{WAREHOUSE}/elsewhere/f")
    orphan = swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert "whole warehouse" in summary.tables["lake.air.root"].skipped


def test_two_registrations_of_a_table_both_keep_their_files() -> None:
    swept = Swept()
    twin = swept.lake.register("lake.air.twin", swept.table.metadata_location)
    swept.lake.on(1)
    twin.append("of the twin")
    swept.table.append("of the table")
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_a_registration_in_a_catalog_that_is_only_observed_keeps_orphans_too() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    swept.lake.register("partner.air.t", swept.table.metadata_location)
    swept.lake.run()
    swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == set()


def test_only_the_selected_tables_are_swept() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    swept.leave(other.data("orphan"))
    mine = swept.leave("orphan")
    document = swept.sweep_twice(tables=("lake.air.t",)).as_json()["sweep"]
    assert swept.waiting() == {mine}
    assert document["files"] == len(list(swept.lake.store.list(swept.table.location)))


def test_where_tables_share_a_location_an_orphan_departs_with_one_that_was_selected() -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location)
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    swept.sweep_twice(tables=("lake.air.other",))
    (departure,) = swept.lake.files.departures(frozenset({DepartureState.FAILSAFE}))
    assert departure.owner == other.uuid


def test_the_ledgers_own_tables_are_never_swept() -> None:
    swept = Swept()
    own = swept.lake.table("lake.meltline.entries")
    own.append("rows")
    swept.lake.run()
    swept.leave(own.data("orphan"))
    swept.sweep_twice()
    assert swept.waiting() == set()


def test_meltlines_own_files_and_the_catalogs_database_stay_wherever_they_lie() -> None:
    swept = Swept()
    at = swept.table.location.removeprefix("file://")
    own = [f"{at}/{name}" for name in ("control.db", "control.db-wal", "catalog.db",
           "meltline.yaml", "meltline-docs/gates-1.html")]  # fmt: skip
    for path in own:
        swept.leave(f"file://{path}")
    services = swept.services()
    hot = replace(services.config.catalogs["lake"], uri=f"sqlite:///{own[2]}")
    config = replace(
        services.config, path=type(services.config.path)(own[3]), catalogs={"lake": hot},
        control=f"sqlite:///{own[0]}?timeout=3",
    )  # fmt: skip
    services = replace(services, config=config)
    orphan = swept.leave("orphan")
    swept.sweep(FIRST, services)
    said = swept.sweep(SECOND, services).as_json()["sweep"]
    assert swept.waiting() == {orphan}
    assert said["odd_files"] == len(own)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "data/.hidden",
        "data/_SUCCESS",
        "data/.trash/f.parquet",
        "_staging/f.parquet",
        "data/.f.parquet.crc",
        "data/.f.tmp.crc",
        "metadata/version-hint.text",
        ".meltline-sandbox",
        ".meltline-clock",
        "data/../data/f",
        "data/two\nlines",
    ],
)
def test_hidden_files_hints_and_odd_names_stay(name: str) -> None:
    swept = Swept()
    swept.leave(f"{swept.table.location}/{name}")
    swept.sweep_twice()
    assert swept.waiting() == set()


@pytest.mark.parametrize(
    "name",
    [
        "data/_temporary/0/task_1/part-0.parquet",
        "metadata/.00003.metadata.json.0a1b.tmp",
        "data/_day=3/f.parquet",
        "data/a b/x#y.parquet",
        "data/a%20b/100%.parquet",
    ],
)
def test_temporary_files_that_were_left_and_partitions_of_odd_columns_are_orphans(
    name: str,
) -> None:
    swept = Swept()
    path = swept.leave(f"{swept.table.location}/{name}")
    swept.sweep_twice()
    assert swept.waiting() == {path}
    swept.lake.on(SECOND + 7).run()
    assert path not in swept.lake.paths()


def test_a_checksum_file_goes_with_its_file() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    crc = swept.leave(f"{swept.table.location}/data/.orphan.parquet.crc")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}
    swept.lake.on(SECOND + 7).run()
    assert not {orphan, crc} & swept.lake.paths()


def test_two_names_that_may_mean_one_file_stay_both() -> None:
    swept = Swept()
    swept.leave("a b")
    swept.leave("a%20b")
    said = swept.sweep_twice().as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 2)


class WideLake(Lake):
    """A lake with files in buckets, and some that are reached by a link."""

    def paths(self, under: str = "") -> set[str]:
        roots = (under,) if under else (WAREHOUSE, "s3://lake", "s3://alias", "file:///mnt")
        return {stored.path for root in roots for stored in self.store.list(root)}


def test_a_file_under_another_authority_holds_its_whole_table_back() -> None:
    """Iceberg #4194, #4346: another prefix made every file an orphan."""
    lake = WideLake()
    table = lake.on(0).table("u", location="s3://lake/u")
    table.append("s3://alias/u/data/needed.parquet", "plain")
    lake.run()
    swept = Swept(lake)
    for path in ("s3://lake/u/data/needed.parquet", "s3://lake/u/data/orphan.parquet"):
        swept.leave(path)
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert summary.exit_code == 4
    assert "s3://alias/u/data/needed.parquet" in summary.tables["lake.air.u"].skipped


def test_other_spellings_of_scheme_authority_and_slashes_are_the_same_file() -> None:
    lake = WideLake()
    table = lake.on(0).table("u", location="s3a://lake/u")
    table.append("s3n://lake/u/data/x.parquet", "s3://lake/u/data/y%20z.parquet")
    lake.run()
    swept = Swept(lake)
    for name in ("x.parquet", "y z.parquet", "y%20z.parquet"):
        swept.leave(f"s3://lake/u/data/{name}")
    orphan = swept.leave("s3://lake/u/data/orphan.parquet")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_a_file_that_a_table_may_know_by_way_of_a_link_stays() -> None:
    swept = Swept(WideLake())
    swept.table.append("file:///mnt/w/air/t/data/linked.parquet")
    swept.lake.run()
    swept.leave("linked")
    orphan = swept.leave("orphan")
    said = swept.sweep_twice().as_json()["sweep"]
    assert swept.waiting() == {orphan}
    assert list(said["odd"]) == [swept.table.data("linked")]


def test_manifests_of_a_flink_job_and_metadata_that_the_engine_deletes_stay() -> None:
    swept = Swept()
    swept.table.edit(lambda d: d["snapshots"][0]["summary"].update({"flink.job-id": "4af1"}))
    swept.table.configure(**{"write.metadata.delete-after-commit.enabled": "true"})
    for name in ("4af1-1-00000-0-3-00001.avro", "00009-x.metadata.json"):
        swept.leave(f"{swept.table.location}/metadata/{name}")
    said = swept.sweep_twice().as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 2)


# --- what cannot be seen -------------------------------------------------------------------------


def test_a_table_that_cannot_be_read_keeps_its_strays_and_others_go_on() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    its = swept.leave(other.data("orphan"))
    spoilt = swept.table.manifests(swept.table.append("late"))[-1]
    swept.lake.spoil(spoilt)
    summary = swept.sweep_twice()
    assert swept.waiting() == {its}
    assert summary.exit_code == 4
    assert [note for note in summary.notes if "files not judged: lake.air.t" in note]


def test_what_shares_files_with_a_table_that_cannot_be_read_keeps_its_strays() -> None:
    swept = Swept()
    copy = swept.lake.clone(swept.table, "lake.air.copy")
    swept.lake.run()
    swept.leave("orphan")
    swept.lake.spoil(copy.manifests(copy.append("late"))[-1])
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()


def test_where_a_dropped_table_that_was_never_read_completely_lay_too_nothing_departs() -> None:
    swept = Swept()
    odd = swept.lake.table("odd", location=swept.table.location)
    swept.lake.spoil(odd.manifests(odd.append("o"))[0])
    swept.lake.run()
    odd.drop()
    swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert [note for note in summary.notes if "never read completely" in note]


def test_while_a_table_was_never_read_nothing_departs_but_the_listing_counts() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    new = swept.lake.on(FIRST).table("new")
    (manifest,) = new.manifests(new.append("n"))
    before = swept.lake.spoil(manifest)
    first, second = swept.sweep(FIRST), swept.sweep(SECOND)
    assert swept.waiting() == set()
    assert (first.exit_code, second.exit_code) == (4, 4)
    assert any("nothing departs" in note and "lake.air.new" in note for note in second.notes)
    swept.lake.mend(manifest, before)
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_while_a_catalog_cannot_be_listed_nothing_departs_but_the_listing_counts() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    orphan = swept.leave("orphan")
    partner = swept.lake.catalogs["partner"]
    partner.unlistable = "it is down"
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()
    partner.unlistable = ""
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_a_table_of_a_catalog_that_cannot_be_listed_keeps_what_lies_with_it() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    swept.lake.table("partner.air.t", location=swept.table.location).append("p")
    swept.lake.run()
    swept.leave("orphan")
    swept.lake.catalogs["partner"].unlistable = "it is down"
    summary = swept.sweep_twice()
    assert [note for note in summary.notes if "partner.air.t lies there too" in note]
    assert swept.sweeper.commits == 0


@dataclass
class Shut:
    """A store that cannot list a folder."""

    store: Any
    folder: str

    def list(self, prefix: str) -> Iterator[StoredObject]:
        if prefix.startswith(self.folder):
            raise StoreRefused("cannot list it: permission denied", object=prefix)
        yield from self.store.list(prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def test_while_a_folder_cannot_be_listed_nothing_departs_but_what_was_listed_counts() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweeper._store = Shut(swept.lake.store, other.location)
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == (set(), 4)
    assert any(other.location in n and "permission denied" in n for n in summary.notes)
    swept.sweeper._store = swept.lake.store
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_while_stopped_nothing_departs() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.lake.control.set_stop(StopSwitch("somebody", "looking", swept.lake.clock.now()))
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()
    swept.lake.control.set_stop(None)
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_two_sweeps_at_once_do_not_get_in_each_others_way() -> None:
    swept = Swept()
    nested: list[BaseException] = []

    def again() -> None:
        with pytest.raises(LockHeld) as held:
            run_step("sweep", swept.services(), StepRequest(swept.lake.request()))
        nested.append(held.value)

    swept.sweep(FIRST, swept.services(sweeper=Meanwhile(swept.sweeper, again)))
    assert len(nested) == 1


# --- an inventory instead of a listing -----------------------------------------------------------


def inventory(swept: Swept, day: float, *rows: Stray, name: str = "inv") -> Inventory:
    """What somebody listed on a day: everything in the store, and further rows."""
    listed = [Stray(o.path, o.bytes, o.modified_at) for o in swept.lake.store.list(WAREHOUSE)]
    content = InventoryContent(T0 + day * DAY, (*listed, *rows))
    swept.sweeper.inventories[name] = content
    return Inventory(name)


def test_an_inventory_replaces_the_listing() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.leave(f"{WAREHOUSE}/air/t_backup/f")
    swept.sweep(FIRST, inventory=inventory(swept, FIRST - 1))
    # The same again is no second listing.
    swept.sweep(FIRST + 1, inventory=Inventory("inv"))
    assert swept.waiting() == set()
    swept.sweep(SECOND, inventory=inventory(swept, SECOND - 2))
    assert swept.waiting() == {orphan}


@pytest.mark.parametrize("day", [SECOND - 2.01, SECOND + 0.01])
def test_an_inventory_that_is_old_or_of_a_time_to_come_is_refused(day: float) -> None:
    swept = Swept()
    with pytest.raises(UsageInvalid, match="inv does not show"):
        swept.sweep(SECOND, inventory=inventory(swept, day))


def test_what_an_inventory_does_not_tell_keeps_a_file_and_what_is_gone_is_left() -> None:
    swept = Swept()
    at = swept.table.data
    rows = (
        Stray(at("no size"), None, T0),
        Stray(at("no time"), 5, None),
        Stray(at("gone since"), 5, T0),
    )
    swept.sweep(FIRST, inventory=inventory(swept, FIRST, *rows))
    said = swept.sweep(SECOND, inventory=inventory(swept, SECOND, *rows)).as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 3)


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
        lake.files.rebuild([table.uuid])
    else:
        swept.sweep(day) if step == "sweep" else lake.run()


@settings(max_examples=60, deadline=None)
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
    (row,) = storage_rows(standing_now(services))
    assert row.failsafe_bytes == 321
    told = explain_path(services, orphan)
    assert (told.stage, told.keep_reasons, told.referenced_by) == ("failsafe", ("failsafe",), ())
    assert told.due_at == T0 + (SECOND + 7) * DAY
    swept.lake.on(SECOND + 7).run()
    assert explain_path(services, orphan).stage == "deleted"
    assert [row.deleted_bytes for row in storage_rows(standing_now(services))] == [321]


def test_what_a_sweep_took_is_in_the_audit() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    (entry,) = [e for e in swept.lake.control.audit() if e.action == "sweep"]
    assert (entry.who, entry.object, entry.detail) == ("tester", "1 files", orphan)


def test_a_forgotten_departure_is_found_and_waits_a_whole_failsafe_anew() -> None:
    swept = Swept()
    swept.lake.on(1)
    swept.table.overwrite("b")
    swept.lake.on(9).run()
    forgotten = swept.waiting()
    assert swept.table.data("a") in forgotten
    swept.lake.files._newest.clear()  # the ledger's departures are lost, and its index
    swept.lake.files.rebuild([swept.table.uuid])
    swept.sweep(FIRST)
    swept.sweep(SECOND)
    assert forgotten - swept.waiting() <= {swept.table.metadata_location}
    assert set(swept.lake.waiting().values()) == {T0 + (SECOND + 7) * DAY}
