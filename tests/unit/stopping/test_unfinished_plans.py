"""Plans that were begun and not finished: `doctor` says what stops every run, if anything does."""

from dataclasses import dataclass
from typing import Any

from meltline.app.doctor.doctor import examine
from meltline.app.run.recorded import run_recorded
from meltline.app.safety.findings import Finding
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError
from meltline.ports import CommitOutcome, Committer
from tests.lake.lake import Lake, Table


@dataclass
class BrokenCatalog:
    """A committer whose catalog refuses one table, in words of its own."""

    real: Committer
    refused: Table
    words: str = "its database is read-only"

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        if plan.table == self.refused.name:
            raise MeltlineError(
                f"the expiration commit on {plan.table} failed",
                object=str(plan.table),
                expected="a commit or a conflict",
                found=self.words,
                next="run again: the catalog tells what became of it",
            )
        return self.real.expire(plan, base_location)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def a_lake() -> tuple[Lake, BrokenCatalog, Table]:
    lake = Lake()
    stuck, well = (lake.on(0).table(name) for name in ("stuck", "well"))
    lake.on(1)
    stuck.overwrite("s")
    stuck.overwrite("t")
    well.overwrite("w")
    well.overwrite("x")
    lake.on(12)
    return lake, BrokenCatalog(lake.services().committer, stuck), well


def recorded(lake: Lake, catalog: BrokenCatalog) -> None:
    """A run whose summary the ledger keeps."""
    run_recorded(lake.services(committer=catalog), lake.request())


def unfinished(lake: Lake) -> Finding:
    (finding,) = [f for f in examine(lake.services()) if f.code == "plan_unfinished"]
    return finding


def test_after_one_run_that_was_stopped_the_next_one_is_said_to_finish_it() -> None:
    lake, catalog, well = a_lake()
    recorded(lake, catalog)
    assert len(well.snapshots) == 1
    assert unfinished(lake).level == "warning"
    assert unfinished(lake).fix == "the next run finishes it"


def test_after_two_runs_that_were_stopped_by_the_same_it_is_an_error_with_the_cause() -> None:
    lake, catalog, _ = a_lake()
    for day in (12, 13, 14):
        recorded(lake.on(day), catalog)
    finding = unfinished(lake)
    assert finding.level == "error"
    assert "3 runs in a row" in finding.message and "read-only" in finding.message
    assert "the next run finishes it" not in finding.fix


def test_a_cause_that_changed_is_a_new_one() -> None:
    lake, catalog, _ = a_lake()
    recorded(lake, catalog)
    catalog.words = "no space left"
    recorded(lake.on(13), catalog)
    assert unfinished(lake).level == "warning"


def test_it_is_finished_once_the_cause_is_mended() -> None:
    lake, catalog, _ = a_lake()
    for day in (12, 13):
        recorded(lake.on(day), catalog)
    lake.on(14).run()
    assert not [f for f in examine(lake.services()) if f.code == "plan_unfinished"]
    assert len(catalog.refused.snapshots) == 1
