"""Lakes that were never maintained: first nights expire the backlog in portions, none fails."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from meltline.app.run.lifecycle import run_chain
from meltline.app.run.summary import Summary
from meltline.app.status.purge_status import purge_status
from meltline.domain.deletion.limits import Limits
from meltline.domain.retention.backlog import Backlog, longest_prefixes
from meltline.domain.retention.policy import RETENTION
from tests.lake.lake import Lake, Table
from tests.unit.status.nightly import NightlyLake

COMMITS = 60
FIRST = COMMITS + 30


def a_backlog(limit: float = 0.5) -> tuple[Lake, Table]:
    """A table that was replaced as a whole each day, for two months before Meltline came."""
    lake = Lake(limits=Limits(max_delete_ratio=limit, lock_wait=timedelta(0)))
    table = lake.on(0).table("t")
    for day in range(COMMITS):
        lake.on(day)
        table.overwrite(f"d{day}")
    return lake, table


def notices(summary: Summary) -> list[str]:
    return [notice for notice in summary.notices if "catching up" in notice]


def test_the_oldest_expire_first_and_the_night_says_when_all_are_gone() -> None:
    lake, table = a_backlog()
    oldest = table.snapshots[0]
    first = lake.on(FIRST).run()
    assert first.exit_code == 0
    (notice,) = notices(first)
    assert "oldest of 59 snapshots expire first, all in about 3 nights" in notice
    assert [plan["gate"] for plan in first.as_json()["plans"]] == ["passed"]
    assert "1 table catching up" in first.as_json()["recap"][0]
    assert oldest not in table.snapshots and 1 < len(table.snapshots) < COMMITS
    for night in range(1, 6):
        assert lake.on(FIRST + night).run().exit_code == 0
    assert len(table.snapshots) == 1
    assert not notices(lake.run())


@pytest.mark.parametrize("steps", ["in one process", "each in a process"])
def test_status_and_metrics_count_the_tables_that_catch_up_until_they_have(
    tmp_path: Path, steps: str
) -> None:
    nightly = NightlyLake(tmp_path / "metrics", a_backlog()[0])
    run = nightly.stepwise if steps == "each in a process" else nightly.night
    run(FIRST)
    assert purge_status(nightly.services()).catching_up == 1
    assert "meltline_tables_catching_up 1\n" in nightly.file.read_text()
    for night in range(1, 6):
        run(FIRST + night)
    assert purge_status(nightly.services()).catching_up == 0
    assert "meltline_tables_catching_up 0\n" in nightly.file.read_text()


def test_a_policy_that_suddenly_lets_most_of_a_table_go_is_still_refused() -> None:
    lake, table = a_backlog()
    table.edit(lambda document: document["properties"].update({RETENTION: "58"}))
    assert lake.on(COMMITS + 1).run().exit_code == 0
    before = table.snapshots
    assert len(before) < COMMITS, "it has been maintained"
    table.edit(lambda document: document["properties"].update({RETENTION: "1"}))
    summary = lake.on(COMMITS + 2).run()
    assert summary.exit_code == 3 and not notices(summary)
    assert table.snapshots == before


def test_a_backlog_within_the_share_goes_in_one_night() -> None:
    lake, table = a_backlog(limit=0.95)
    summary = lake.on(FIRST).run()
    assert summary.exit_code == 0 and not notices(summary)
    assert len(table.snapshots) == 1


def test_a_preview_says_the_same() -> None:
    lake, table = a_backlog()
    before = table.snapshots
    request = replace(lake.on(FIRST).request(), dry_run=True)
    summary = run_chain(lake.services(), request)
    assert notices(summary) and table.snapshots == before


def test_where_nothing_remains_no_portion_helps() -> None:
    assert not Backlog((1,), 1, 100, 0).is_too_much(0.95)
    assert Backlog((1,), 1, 100, 1).is_too_much(0.95)
    assert not Backlog((1,), 1, 1000, 1).is_too_much(1.0), "its gate refuses nothing"


@pytest.mark.parametrize("limits", [(0, 7, 12), (3, 1, 0), (5, 5, 5)])
def test_prefixes_are_the_longest_that_fit(limits: Sequence[int]) -> None:
    def fits(lengths: Sequence[int]) -> list[bool]:
        return [length <= limit for length, limit in zip(lengths, limits, strict=True)]

    assert longest_prefixes([13, 13, 13], fits) == list(limits)
