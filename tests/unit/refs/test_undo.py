"""Undo: main goes back, branches are made, compared, published and brought up to date."""

import pytest

from meltline.app.refs.branches import branch, publish, resync, rollback
from meltline.app.refs.diff import Amount, diff
from meltline.domain.errors import (
    LockHeld,
    NameConflict,
    OutsideRetention,
    RefNotFound,
    SnapshotNotFound,
    UndoRefused,
)
from meltline.domain.iceberg.timeline import Point
from meltline.domain.units import to_millis
from tests.lake.lake import DAY, T0, Lake, Table


def daily(count: int = 4, version: int = 2) -> tuple[Lake, Table]:
    """A table with a file more every day, from day 0 on; it is noon of the last day."""
    lake = Lake()
    table = lake.on(0).table("t", version=version)
    for day in range(count):
        lake.on(day)
        table.append(f"f{day}")
    lake.on(count - 0.5)
    return lake, table


# --- rollback -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_rollback_points_main_back_and_loses_no_snapshot(version: int) -> None:
    # DS-16, DS-17
    lake, table = daily(version=version)
    before, files = table.snapshots, lake.paths()
    moved = rollback(lake.services(), table.name, Point(before[1]), dry_run=False)
    assert (moved.before, moved.after, moved.commits) == (before[3], before[1], 2)
    assert lake.paths() == files | {table.metadata_location}
    assert table.head == table.refs["main"]["snapshot-id"] == before[1]
    assert table.snapshots == before
    log = table.document["snapshot-log"]
    assert log[-1] == {"timestamp-ms": to_millis(lake.clock.now()), "snapshot-id": before[1]}


def test_a_rollback_to_a_time_goes_to_what_was_current_then() -> None:
    lake, table = daily()
    rollback(lake.services(), table.name, Point(at=T0 + 2.5 * DAY), dry_run=False)
    assert table.head == table.snapshots[2]


def test_what_was_rolled_back_stays_for_its_window_and_can_be_rolled_forward_to() -> None:
    lake, table = daily()
    last = table.head
    rollback(lake.services(), table.name, Point(table.snapshots[0]), dry_run=False)
    lake.on(10).run()
    assert last in table.snapshots
    rollback(lake.services(), table.name, Point(last), dry_run=False)
    assert table.head == last
    lake.on(30).run()
    assert last in table.snapshots


def test_a_rollback_to_where_main_is_changes_nothing() -> None:
    lake, table = daily()
    before = table.metadata_location
    moved = rollback(lake.services(), table.name, Point(table.head), dry_run=False)
    assert (moved.commits, table.metadata_location) == (0, before)


def test_main_does_not_go_where_it_has_never_been() -> None:
    lake, table = daily()
    staged = table.stage("s")
    table.branch("b", table.head)
    ahead = table.append("g", ref="b")
    for target in (staged, ahead):
        with pytest.raises(UndoRefused, match="never at"):
            rollback(lake.services(), table.name, Point(target), dry_run=False)


def test_a_rollback_to_an_expired_snapshot_or_a_time_before_history_is_refused() -> None:
    lake, table = daily()
    with pytest.raises(SnapshotNotFound):
        rollback(lake.services(), table.name, Point(1), dry_run=False)
    with pytest.raises(OutsideRetention):
        rollback(lake.services(), table.name, Point(at=T0 - DAY), dry_run=False)


def test_a_commit_that_nobody_asked_to_undo_stops_the_rollback() -> None:
    lake, table = daily()
    catalog = table.catalog
    swap = catalog.swap

    def commit_first(*arguments: object) -> bool:
        catalog.swap = swap  # type: ignore[method-assign]
        table.append("late")
        return swap(*arguments)  # type: ignore[arg-type]

    catalog.swap = commit_first  # type: ignore[method-assign]
    with pytest.raises(UndoRefused, match="has moved"):
        rollback(lake.services(), table.name, Point(table.snapshots[0]), dry_run=False)
    assert table.data("late") in {entry.path for entry in table.live()}
    assert lake.control.vetoes.all() == []


def test_a_rollback_waits_for_the_run_that_works_on_the_table() -> None:
    lake, table = daily()
    with (
        lake.control.locks.take(table.uuid, "a run", wait=DAY * 0, lease=DAY),
        pytest.raises(LockHeld, match="a run"),
    ):
        rollback(lake.services(), table.name, Point(table.snapshots[0]), dry_run=False)
    assert table.head == table.snapshots[3]


# --- branches -------------------------------------------------------------------------------------


def test_a_branch_begins_at_the_head_or_where_main_was_at_a_time() -> None:
    lake, table = daily()
    ledgers = lake.services()
    branch(ledgers, table.name, "now", Point(), dry_run=False)
    branch(ledgers, table.name, "then", Point(at=T0 + DAY), dry_run=False)
    assert table.refs["now"] == {"type": "branch", "snapshot-id": table.head}
    assert table.refs["then"]["snapshot-id"] == table.snapshots[1]
    with pytest.raises(NameConflict):
        branch(ledgers, table.name, "then", Point(), dry_run=False)


def test_publishing_brings_a_branchs_commits_to_main() -> None:
    # DS-16
    lake, table = daily()
    table.branch("b", table.head)
    table.append("b1", ref="b")
    new = table.append("b2", ref="b")
    moved = publish(lake.services(), table.name, "b", dry_run=False)
    assert (table.head, moved.commits) == (new, 2)
    assert table.document["snapshot-log"][-1]["snapshot-id"] == new
    assert publish(lake.services(), table.name, "b", dry_run=False).commits == 0


def test_publishing_refuses_to_lose_what_main_has_of_its_own() -> None:
    lake, table = daily()
    table.branch("b", table.head)
    table.append("on the branch", ref="b")
    on_main = table.append("on main")
    with pytest.raises(UndoRefused, match="has commits that b has not"):
        publish(lake.services(), table.name, "b", dry_run=False)
    assert table.head == on_main


def test_a_commit_on_main_meanwhile_stops_the_publishing() -> None:
    lake, table = daily()
    table.branch("b", table.head)
    table.append("b1", ref="b")
    catalog = table.catalog
    swap = catalog.swap

    def commit_first(*arguments: object) -> bool:
        catalog.swap = swap  # type: ignore[method-assign]
        table.append("late")
        return swap(*arguments)  # type: ignore[arg-type]

    catalog.swap = commit_first  # type: ignore[method-assign]
    with pytest.raises(UndoRefused):
        publish(lake.services(), table.name, "b", dry_run=False)
    assert table.data("late") in {entry.path for entry in table.live()}


def test_resync_brings_mains_commits_to_a_branch_and_keeps_its_settings() -> None:
    lake, table = daily()
    table.branch("b", table.snapshots[1], **{"min-snapshots-to-keep": 5})
    moved = resync(lake.services(), table.name, "b", dry_run=False)
    assert table.refs["b"] == {
        "type": "branch", "snapshot-id": table.head, "min-snapshots-to-keep": 5
    }  # fmt: skip
    assert moved.commits == 2


def test_resync_refuses_to_lose_a_branchs_own_commits() -> None:
    lake, table = daily()
    table.branch("b", table.snapshots[1])
    own = table.append("b1", ref="b")
    with pytest.raises(UndoRefused, match="has commits that main has not"):
        resync(lake.services(), table.name, "b", dry_run=False)
    assert table.refs["b"]["snapshot-id"] == own


def test_a_tag_or_a_name_that_is_not_there_is_no_branch() -> None:
    lake, table = daily()
    table.tag("t", table.head)
    for name in ("t", "never"):
        with pytest.raises(RefNotFound):
            publish(lake.services(), table.name, name, dry_run=False)
        with pytest.raises(RefNotFound):
            resync(lake.services(), table.name, name, dry_run=False)


def test_dry_runs_change_nothing_and_what_is_done_is_audited() -> None:
    lake, table = daily()
    table.branch("b", table.head)
    table.append("b1", ref="b")
    table.branch("old", table.snapshots[0])
    ledgers = lake.services()
    for dry_run in (True, False):
        before = table.metadata_location
        publish(ledgers, table.name, "b", dry_run=dry_run)
        resync(ledgers, table.name, "old", dry_run=dry_run)
        branch(ledgers, table.name, "new", Point(), dry_run=dry_run)
        rollback(ledgers, table.name, Point(table.snapshots[0]), dry_run=dry_run)
        assert (table.metadata_location == before) is dry_run
    actions = [entry.action for entry in lake.control.audit.entries("lake.air.t")]
    assert actions == ["publish", "resync", "branch", "rollback"]


# --- diff -----------------------------------------------------------------------------------------


def summed(lake: Lake, table: Table) -> None:
    """Gives every snapshot the summary that an engine writes: rows and bytes, too."""

    def change(document: dict[str, list[dict[str, dict[str, str]]]]) -> None:
        total = 0
        for snapshot in document["snapshots"]:
            files = int(snapshot["summary"]["total-data-files"])
            added = files - total
            total = files
            snapshot["summary"] |= {
                "added-data-files": str(max(0, added)),
                "deleted-data-files": str(max(0, -added)),
                "added-records": str(max(0, added) * 10),
                "deleted-records": str(max(0, -added) * 10),
                "added-files-size": str(max(0, added) * 100),
                "removed-files-size": str(max(0, -added) * 100),
                "total-records": str(files * 10),
                "total-files-size": str(files * 100),
            }

    table.edit(change)


def test_a_diff_adds_up_what_the_commits_in_between_say_of_themselves() -> None:
    # DS-16
    lake, table = daily()
    table.replace(remove=["f0"])
    summed(lake, table)
    first, head = table.snapshots[0], table.head
    found = diff(lake.services(), table.name, str(first), "main")
    assert (found.a, found.b, found.commits) == (first, head, 4)
    assert found.added == Amount(3, 30, 300) and found.removed == Amount(1, 10, 100)
    assert found.net == Amount(2, 20, 200)


def test_a_diff_the_other_way_round_is_its_mirror() -> None:
    lake, table = daily()
    summed(lake, table)
    table.tag("start", table.snapshots[0])
    found = diff(lake.services(), table.name, "main", "start")
    assert (found.added.files, found.removed, found.net.rows) == (0, Amount(3, 30, 300), -30)


def test_a_diff_of_two_branches_goes_by_way_of_where_they_parted() -> None:
    lake, table = daily()
    table.branch("b", table.snapshots[2])
    table.append("b1", ref="b")
    found = diff(lake.services(), table.name, "main", "b")
    assert (found.commits, found.added.files, found.removed.files) == (2, 1, 1)


def test_where_summaries_do_not_add_up_the_manifest_lists_are_asked() -> None:
    lake, table = daily()  # this lake's summaries have totals of files alone
    found = diff(lake.services(), table.name, str(table.snapshots[0]), "main")
    assert found.added == Amount(3, None, None) and found.removed == Amount(0, None, None)


def test_across_expired_commits_only_the_net_is_known() -> None:
    lake, table = daily()
    table.tag("start", table.snapshots[0])
    lake.on(60).run()
    found = diff(lake.services(), table.name, "start", "main")
    assert (found.commits, found.added.files, found.removed.files) == (None, None, None)
    assert found.net.files == 3


def test_a_diff_with_itself_is_nothing_and_an_unknown_name_is_said() -> None:
    lake, table = daily()
    same = diff(lake.services(), table.name, "main", "main")
    assert (same.commits, same.added.files, same.net.files) == (0, 0, 0)
    for word in ("never", "12345"):
        with pytest.raises(SnapshotNotFound):
            diff(lake.services(), table.name, "main", word)
