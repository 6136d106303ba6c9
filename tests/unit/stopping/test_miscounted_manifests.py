"""Tables whose manifest lists count their manifests' entries wrongly: their group waits alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.owner_guards import trust
from tests.lake.lake import Lake, Table
from tests.unit.stopping.odd_lists import Row, all_as_existing, count_wrongly, nothing, one_more

Count = Callable[[Row], Mapping[str, int]]
LAST_DAY = 30  # windows of 7 days and failsafes of 7 days are over
WRONG = pytest.mark.parametrize("count", [nothing, one_more, all_as_existing])
REASON = "our writer counts wrongly, its rows are right"


@dataclass
class MiscountedLake:
    """A table whose writer counts in its own way, and a sound one."""

    count: Count

    def __post_init__(self) -> None:
        self.lake = Lake()
        self.odd: Table = self.lake.on(0).table("odd")
        self.well: Table = self.lake.table("well")
        for day in range(3):
            self.lake.on(day)
            self.append(f"o{day}")
            self.well.overwrite(f"w{day}")

    def append(self, *files: str) -> None:
        self.odd.append(*files)
        count_wrongly(self.lake, self.odd, self.count)

    def overwrite(self, *files: str) -> None:
        self.odd.overwrite(*files)
        count_wrongly(self.lake, self.odd, self.count)

    def nights(self, first: int = 3, last: int = LAST_DAY) -> set[int]:
        """Runs every fifth day; returns their exit codes."""
        return {self.lake.on(day).run().exit_code for day in range(first, last, 5)}


@WRONG
def test_a_table_that_is_counted_wrongly_stops_no_other_tables_purge(count: Count) -> None:
    staged = MiscountedLake(count)
    lake, odd, well = staged.lake, staged.odd, staged.well
    assert staged.nights() == {4}
    assert len(well.snapshots) == 1
    assert not {well.data("w0"), well.data("w1")} & lake.paths()
    assert len(odd.snapshots) == 3
    assert {row.status for row in lake.control.registrations.all() if row.name == odd.name} == {
        "contradictory"
    }
    findings = examine(lake.services())
    assert [f for f in findings if f.object == str(odd.name)]
    assert not [f for f in findings if f.code == "purging_held_back"]


@WRONG
def test_what_it_names_of_another_table_stays(count: Count) -> None:
    staged = MiscountedLake(count)
    staged.append(staged.well.data("w0"))
    staged.nights()
    paths = staged.lake.paths()
    assert staged.well.data("w0") in paths and staged.well.data("w1") in paths


@WRONG
def test_a_file_that_waits_is_taken_back_when_it_is_named_and_not_counted(count: Count) -> None:
    staged = MiscountedLake(lambda row: {})
    lake, well = staged.lake, staged.well
    staged.nights(3, 14)
    assert well.data("w0") in lake.waiting()
    staged.count = count
    staged.append(well.data("w0"))
    lake.on(14).run()
    assert well.data("w0") not in lake.waiting()
    assert staged.nights(15) == {4} and well.data("w0") in lake.paths()


@WRONG
def test_a_person_who_trusts_its_manifests_has_it_expired_and_purged(count: Count) -> None:
    staged = MiscountedLake(count)
    lake, odd = staged.lake, staged.odd
    staged.nights()
    trust(lake.services(), odd.name, REASON)
    staged.overwrite("new")
    for day in range(LAST_DAY, 2 * LAST_DAY, 5):
        assert lake.on(day).run().exit_code == 0
    assert len(odd.snapshots) == 1 and odd.data("o0") not in lake.paths()
    lake.check_nothing_is_missing()


@WRONG
def test_no_file_of_a_trusted_table_is_passed_over_because_it_is_not_counted(count: Count) -> None:
    staged = MiscountedLake(count)
    lake, odd = staged.lake, staged.odd
    staged.nights()
    trust(lake.services(), odd.name, REASON)
    for day in range(LAST_DAY, LAST_DAY + 12, 3):
        lake.on(day)
        staged.append(f"more{day}")
        assert lake.run().exit_code == 0
    staged.overwrite("new")
    for day in range(LAST_DAY + 15, 3 * LAST_DAY, 5):
        lake.on(day).run()
    lake.check_nothing_is_missing()
    assert not [path for path in lake.paths() if "/odd/data/" in path and "new" not in path]


@WRONG
def test_a_table_known_by_its_changes_whose_newest_list_counts_wrongly_waits_and_goes_on(
    count: Count,
) -> None:
    staged = MiscountedLake(lambda row: {})
    lake, odd = staged.lake, staged.odd
    assert lake.on(3).run().exit_code == 0
    staged.count = count
    staged.append("late")
    assert lake.on(4).run().exit_code == 4
    assert lake.on(5).run().exit_code == 4  # though all manifests have been read by now
    trust(lake.services(), odd.name, REASON)
    assert lake.on(6).run().exit_code == 0
    assert lake.files.snapshots.live_totals(sorted(lake.files.snapshots.known()))
    lake.check_nothing_is_missing()


def test_a_torn_manifest_of_a_table_that_is_counted_wrongly_holds_it_back_as_ever() -> None:
    staged = MiscountedLake(nothing)
    lake, odd = staged.lake, staged.odd
    staged.nights()
    trust(lake.services(), odd.name, REASON)
    staged.overwrite("new")
    lake.spoil(odd.manifests(odd.head)[0])
    assert lake.on(LAST_DAY + 20).run().exit_code == 4
    assert len(odd.snapshots) == 4


def test_a_gate_refuses_a_table_that_is_counted_wrongly_since_its_plan() -> None:
    staged = MiscountedLake(lambda row: {})
    lake, odd = staged.lake, staged.odd
    services = lake.on(LAST_DAY).services()
    planned = [p.plan for p in Run(services, lake.request()).plan_expiration()]
    staged.count = one_more
    staged.append("late")
    verdicts: dict[Any, Any] = {plan.table: v for plan, v in run_gate(services, planned)}
    assert verdicts[odd.name].failed_on("unreadable")
    assert verdicts[staged.well.name].passed


def test_lists_that_count_rightly_raise_nothing() -> None:
    staged = MiscountedLake(lambda row: {})
    assert staged.nights() == {0}
    assert len(staged.odd.snapshots) == 1
