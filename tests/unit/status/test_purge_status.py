"""One fact: whether purging works in the whole lake, since when it does not, and why."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.safety.findings import Finding
from meltline.app.safety.switches import arm, disarm, go, stop
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import CatalogUnlistable, HeadChanged
from meltline.domain.purging.purge_status import HaltReason
from meltline.ports import CommitOutcome, Committer
from tests.lake.lake import ROOMY, Lake
from tests.unit.status.nightly import NightlyLake


@dataclass
class WrongCommitter:
    """An expiration after which a head shows something else."""

    committer: Committer

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        raise HeadChanged("main shows something else", object=str(plan.table))

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return self.committer.confirm(plan)

    def withdraw(self, plan: Plan) -> bool:
        return self.committer.withdraw(plan)


@pytest.fixture
def nightly(tmp_path: Path) -> NightlyLake:
    return NightlyLake(tmp_path / "meltline.prom")


def finding(nightly: NightlyLake) -> Finding | None:
    findings = [f for f in examine(nightly.services()) if f.code == "purging_stopped"]
    assert len(findings) < 2
    return findings[0] if findings else None


def test_a_healthy_lake_that_purges_each_night_has_not_stopped(nightly: NightlyLake) -> None:
    for day in range(1, 30):
        assert nightly.night(day).exit_code == 0
        assert nightly.halts() == {}
        assert finding(nightly) is None
    assert nightly.lake.deleter.deleted
    assert nightly.status().last_success == nightly.lake.clock.now()


def test_a_table_that_nobody_can_read_stops_purging_from_the_night_that_met_it(
    nightly: NightlyLake,
) -> None:
    nightly.nights(1, 2)
    dark = nightly.lake.table("lake.dark.t")
    content = nightly.lake.spoil(dark.metadata_location)
    for day in (3, 4, 5):
        summary = nightly.night(day)
        assert summary.exit_code == 4
        first = summary.as_json()["recap"][0]
        assert first.startswith("purging has stopped since 2026-01-04T00:00:00Z: ")
        assert "lake.dark.t" in first and "`meltline doctor`" in first
    assert nightly.halts() == {HaltReason.TABLES: 3}
    found = finding(nightly)
    assert found is not None and found.level == "error" and "2026-01-04" in found.message
    nightly.lake.mend(dark.metadata_location, content)
    assert nightly.night(6).exit_code == 0
    assert nightly.halts() == {} and finding(nightly) is None


def test_a_report_in_a_process_of_its_own_knows_what_the_steps_before_it_met(
    nightly: NightlyLake,
) -> None:
    document = nightly.stepwise(1)
    assert nightly.status().last_success == nightly.lake.clock.now()
    assert "purging" not in document or not document["purging"].get("halts")
    nightly.lake.spoil(nightly.lake.table("lake.dark.t").metadata_location)
    document = nightly.stepwise(2)
    assert nightly.halts() == {HaltReason.TABLES: 2}
    assert document["recap"][0].startswith("purging has stopped since 2026-01-03T00:00:00Z: ")
    assert "lake.dark.t" in document["recap"][0]
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 1


def test_a_failed_step_of_another_process_makes_no_good_run(nightly: NightlyLake) -> None:
    nightly.nights(*range(1, 12))
    before = nightly.status().last_success
    document = nightly.stepwise(12, WrongCommitter(nightly.services().committer))
    assert [table["table"] for table in document["tables"] if table["failed"]] == ["lake.air.busy"]
    assert nightly.status().last_success == before
    nightly.stepwise(13)
    assert nightly.status().last_success == nightly.lake.clock.now()


def test_a_catalog_that_cannot_be_listed_stops_purging_and_keeps_its_first_time(
    tmp_path: Path,
) -> None:
    nightly = NightlyLake(tmp_path / "m.prom", Lake(other_catalogs=("far",)))
    nightly.night(1)
    nightly.lake.catalogs["far"].unlistable = "no route to it"
    nightly.nights(2, 3)
    assert nightly.halts() == {HaltReason.CATALOG: 2}
    nightly.lake.catalogs["far"].unlistable = ""
    assert nightly.halts() == {}


def test_runs_that_the_hot_catalog_ends_at_once_are_dated_by_the_first_of_them(
    nightly: NightlyLake,
) -> None:
    nightly.nights(1, 2)
    nightly.lake.catalogs["lake"].unlistable = "its database is down"
    for day in (3, 4):
        nightly.lake.on(day)
        with pytest.raises(CatalogUnlistable):
            nightly.run()
    assert nightly.halts() == {HaltReason.CATALOG: 3}
    assert nightly.samples()["meltline_purge_stopped", "catalog_unlistable"] == 1


def test_a_stop_and_a_catalog_that_is_not_armed_are_decisions_with_their_own_time(
    nightly: NightlyLake,
) -> None:
    nightly.night(1)
    nightly.lake.on(2)
    stop(nightly.services(), "an incident")
    nightly.lake.on(3)
    disarm(nightly.services(), "lake", "the same")
    nightly.lake.on(4)
    assert nightly.halts() == {HaltReason.STOPPED: 2, HaltReason.NOT_ARMED: 3}
    assert finding(nightly) is None, "doctor has a warning of its own for each"
    go(nightly.services())
    arm(nightly.services(), "lake", "over")
    assert nightly.halts() == {}


def test_after_three_nights_without_a_good_run_purging_has_stopped(nightly: NightlyLake) -> None:
    nightly.nights(1, 2)
    nightly.lake.on(5)
    assert nightly.halts() == {}
    nightly.night(5.1, tables=("lake.other.*",))
    assert nightly.halts() == {HaltReason.NO_RUN: 2}, "a run over some tables is none of the lake"
    nightly.night(6)
    assert nightly.halts() == {}


def test_a_lake_that_was_armed_and_never_run_has_stopped(nightly: NightlyLake) -> None:
    nightly.lake.on(2)
    assert nightly.halts() == {}
    nightly.lake.on(4)
    assert nightly.halts() == {HaltReason.NO_RUN: 0}
    assert nightly.status().last_success is None


def test_an_armed_lake_whose_runs_have_all_failed_has_stopped(nightly: NightlyLake) -> None:
    """No report has recorded a state, and the newest run began just now."""
    nightly.lake.catalogs["lake"].unlistable = "its database is down"
    for day in (1, 2, 3, 4):
        nightly.lake.on(day)
        with pytest.raises(CatalogUnlistable):
            nightly.run()
    assert nightly.halts() == {HaltReason.CATALOG: 1, HaltReason.NO_RUN: 0}


def test_when_every_purge_waits_for_approval_purging_has_stopped_on_the_second_night(
    nightly: NightlyLake,
) -> None:
    nightly.nights(*range(1, 20))
    nightly.lake.limits = replace(ROOMY, approve_above=0)
    assert nightly.night(20).exit_code == 3
    assert nightly.status().waiting.plans == 1
    assert nightly.halts() == {}, "one night's question is an approval, and no stop"
    nightly.night(21)
    assert nightly.halts() == {HaltReason.REFUSED: 20}


def test_another_tables_purge_is_proof_that_purging_works(nightly: NightlyLake) -> None:
    large = nightly.lake.table("large")
    nightly.nights(*range(1, 20))
    purged = nightly.lake.control.plans.find(states=[PlanState.APPLIED])
    night = max(plan.bytes for plan in purged if plan.kind is PlanKind.PURGE)
    nightly.lake.limits = replace(ROOMY, approve_above=2 * night)
    for part in "abcdef":
        large.overwrite(*(f"{part}{number}" for number in range(9)))
    nightly.nights(*range(20, 37))
    assert nightly.status().waiting.plans == 1
    assert nightly.halts() == {}


def test_what_is_due_is_overdue_once_its_day_has_passed_and_it_is_still_there(
    nightly: NightlyLake,
) -> None:
    nightly.nights(*range(1, 10))
    status = nightly.status()
    assert status.due.overdue == 0
    assert status.due.next_day is not None and status.due.next_bytes > 0
    nightly.lake.spoil(nightly.lake.table("lake.dark.t").metadata_location)
    nightly.nights(12, 20, 30)
    assert nightly.status().due.overdue > 0
