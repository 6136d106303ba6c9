"""Snapshot logs that lack a line, or whose times are out of order."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.catalog.metadata import load_state
from meltline.domain.errors import OutsideRetention
from meltline.domain.iceberg.timeline import current_at
from meltline.domain.units import to_millis
from tests.lake.lake import DAY, T0, Lake, Table
from tests.unit.refs.test_time_travel import at, before, daily

Document = dict[str, Any]


def without_line(snapshot_id: int) -> Callable[[Document], None]:
    """Another tool takes a line of the log, and leaves the snapshot."""

    def change(document: Document) -> None:
        log = document["snapshot-log"]
        document["snapshot-log"] = [e for e in log if e["snapshot-id"] != snapshot_id]

    return change


def forget_metadata(document: Document) -> None:
    document["metadata-log"] = []


def tagged(lake: Lake, table: Table, day: float) -> int:
    """What a tag at an instant shows: by the snapshot log alone."""
    state = load_state(lake.services().store, table.name, table.metadata_location)
    return current_at(state, T0 + day * DAY, lake.clock.now())


def test_a_missing_line_is_no_answer_from_the_commit_on_that_it_was_about() -> None:
    lake, table = daily(4)
    first, second, third, _ = table.snapshots
    table.edit(without_line(second))
    table.edit(forget_metadata)
    for answer in (at, tagged):
        assert answer(lake, table, 0.5) == first
        with pytest.raises(OutsideRetention):
            answer(lake, table, 1.5)
        assert answer(lake, table, 2.5) == third


def test_a_missing_line_is_told_by_the_metadata_of_that_time() -> None:
    lake, table = daily(4)
    second = table.snapshots[1]
    table.edit(without_line(second))
    assert (at(lake, table, 1.5), before(lake, table, 2)) == (second, second)


def test_commits_of_a_branch_that_was_published_were_never_mains_before() -> None:
    lake, table = daily(2)
    second = table.head
    table.branch("work", second)
    for day in (2, 3):
        lake.on(day)
        table.append(f"w{day}", ref="work")
    lake.on(4)
    table.fast_forward("main", "work")
    lake.on(5)
    assert (at(lake, table, 3.5), tagged(lake, table, 3.5)) == (second, second)
    assert at(lake, table, 4) == table.head != second


def test_the_log_of_clocks_that_differ_is_read_by_its_times() -> None:
    """Iceberg 1.12 answers with the newest entry up to an instant, wherever it stands."""
    lake, table = daily(4)
    first, second, third, fourth = table.snapshots

    def swap(document: Document) -> None:
        for entry in (*document["snapshot-log"], *document["snapshots"]):
            day = {second: 2, third: 1}.get(entry["snapshot-id"])
            if day is not None:
                entry["timestamp-ms"] = to_millis(T0 + day * DAY)

    table.edit(swap)
    for answer in (at, tagged):
        answers = [answer(lake, table, day) for day in (0.5, 1.5, 2.5, 3.5)]
        assert answers == [first, third, second, fourth]
    assert before(lake, table, 2) == third
