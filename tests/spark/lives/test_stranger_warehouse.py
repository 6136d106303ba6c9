"""A warehouse that stock Spark prepared comes out with exactly what nobody needs gone.

The issue's "Done when": what is right is found by a walk of the metadata that shares nothing with
Meltline, and by what stock Spark read before.
"""

import pytest

from meltline.domain.units import to_millis
from tests.spark.setups.stranger import FOREIGN, Story, stranger
from tests.spark.setups.warehouse import DAY, TODAY, Contents

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def story() -> Story:
    return stranger()


def same_rows(before: Contents, after: Contents) -> int:
    """Compares what both know, row for row; returns how many snapshots that were."""
    compared = 0
    for table, snapshots in after.items():
        for snapshot, rows in snapshots.items():
            assert rows == before[table][snapshot], f"{table}@{snapshot}"
            compared += 1
    return compared


def test_the_stranger_left_what_strangers_leave(story: Story) -> None:
    w = story.warehouse

    def files(table: str, what: str) -> set[str]:
        found = w.sql(f"SELECT DISTINCT file_format FROM {w.name(table)}.{what}")
        return {row[0] for row in found}

    assert {w.document(table)["format-version"] for table in w.tables()} == {1, 2, 3}
    assert files("v2", "all_delete_files") == {"PARQUET"}
    assert files("v3", "all_delete_files") == {"PUFFIN"}
    assert w.document("source")["table-uuid"] == w.document("twin")["table-uuid"]
    assert w.document("origin")["table-uuid"] != w.document("cloned")["table-uuid"]
    assert {"main", "forever", "brief", "audit"} == story.heads["v2"].keys()


def test_the_first_run_deletes_nothing_and_refuses_nothing(story: Story) -> None:
    before, after = story.looks[0], story.after(1)
    assert before.disk.keys() <= after.disk.keys()
    assert story.summaries[0].exit_code == 0
    assert sum(table.snapshots_expired for table in story.summaries[0].tables.values()) > 30


def test_what_the_window_promises_is_still_there_after_the_first_run(story: Story) -> None:
    story.after(1)
    start = to_millis(TODAY - 7 * DAY)
    for table, log in story.logs.items():
        ends = [at for at, _ in log[1:]] + [None]
        promised = {id for (_, id), end in zip(log, ends, strict=True) if not end or end >= start}
        assert promised <= story.first[table].keys(), table
    expired = sum(len(ids) for ids in story.before.values()) - same_rows(story.before, story.first)
    assert expired == sum(t.snapshots_expired for t in story.summaries[0].tables.values())


def test_a_staged_snapshot_waits_from_when_it_was_first_seen(story: Story) -> None:
    story.settled()
    w = story.warehouse
    never = next(id for id, rows in story.before["wap"].items() if _starts(rows) == {0, 10})
    assert never in story.first["wap"]
    assert never not in w.snapshots("wap")


def _starts(rows: list[str]) -> set[int]:
    return {int(row.partition('"id":')[2].partition(",")[0]) // 10 * 10 for row in rows}


def test_every_snapshot_that_is_left_reads_row_for_row_as_before(story: Story) -> None:
    story.settled()
    left = story.warehouse.all_contents()
    assert same_rows(story.before, left) == sum(map(len, left.values()))
    for table, refs in story.warehouse.heads().items():
        assert set(refs.values()) == left[table].keys(), f"{table} keeps more than its refs"


def test_heads_stay_and_of_all_tags_only_the_one_past_its_age_goes(story: Story) -> None:
    story.settled()
    expected = {table: dict(refs) for table, refs in story.heads.items()}
    del expected["v2"]["brief"]
    assert story.warehouse.heads() == expected


def test_exactly_the_unreachable_owned_files_are_gone(story: Story) -> None:
    """Files that nothing referred to when Meltline came were never seen; the sweep finds those.

    They are the files of a table dropped before, and metadata files that had left the log before.
    """
    settled = story.settled()
    foreign = str(story.warehouse.root / FOREIGN)
    owned = {path for path in settled.reachable if not path.startswith(foreign)}
    assert settled.disk.keys() == owned | story.orphans
    assert story.orphans
    assert len(story.looks[0].disk.keys() - settled.disk.keys()) > 100


def test_a_foreign_file_is_left_alone(story: Story) -> None:
    story.settled()
    files = list((story.warehouse.root / FOREIGN).glob("*.parquet"))
    assert len(files) == 1
    assert str(files[0]) in story.looks[0].reachable
    assert str(files[0]) not in story.settled().reachable


def test_running_once_more_changes_nothing(story: Story) -> None:
    """Not a row of the catalog, the ledger's tables included; not a file."""
    settled = story.settled()
    runs = len(story.looks)
    assert story.after(runs) == settled
    assert story.summaries[-1].plans == {}
    assert story.summaries[-1].exit_code == 0
