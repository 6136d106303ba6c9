"""How other tools have lost files, or leaked them, and what becomes of the same histories here.

The lake's deleter holds every delete against a walk of all metadata at that moment, and each run
ends with a look for files that are needed and gone.
"""

from meltline.domain.iceberg.files import EntryStatus
from tests.lake.avro_files import Entry
from tests.lake.lake import DAY, Lake, Table

LATE = (12, 20, 28, 36)  # the window is 7 days here, and so is failsafe


def through(lake: Lake, *days: float) -> None:
    for day in days or LATE:
        lake.on(day).run()


def on_disk(lake: Lake, table: Table, *names: str) -> list[bool]:
    return [table.data(name) in lake.paths() for name in names]


def unless_on_main(table: Table) -> set[str]:
    """The naive rule of #13568 and Amoro #4231: what main does not read now is free."""
    return ever_named(table) - {entry.path for entry in table.live()}


def by_tombstones(table: Table) -> set[str]:
    """The naive rule of #8255 and #10982: what some commit has removed is free."""
    return {e.path for e in entries(table) if e.status is EntryStatus.DELETED}


def ever_named(table: Table) -> set[str]:
    return {entry.path for entry in entries(table)}


def entries(table: Table) -> list[Entry]:
    lists = [table.manifest_list(snapshot) for snapshot in table.snapshots]
    return [e for at in lists for manifest in table.lake.manifests[at] for e in manifest.entries]


def test_iceberg_13568_files_of_a_branch_stay_when_main_has_long_dropped_them() -> None:
    """Iceberg #13568: expiration walked main alone and deleted what other refs still read."""
    lake = Lake()
    table = lake.on(0).table("t")
    first = table.append("a", "b")
    table.branch("audit", first)
    lake.on(1)
    table.overwrite("c")  # main lets go of a and b
    table.append("d", ref="audit")
    lake.on(2)
    table.overwrite("e")
    assert {table.data(name) for name in "abd"} <= unless_on_main(table)
    through(lake)
    assert on_disk(lake, table, "a", "b", "d", "e") == [True] * 4
    assert on_disk(lake, table, "c") == [False]


def test_iceberg_8255_a_path_that_was_removed_and_added_again_stays() -> None:
    """Iceberg #8255: a tombstone of an expired snapshot deleted a file that was back since."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("again", "x")
    lake.on(1)
    table.overwrite("y")  # a tombstone for `again`
    lake.on(2)
    table.append("again")
    lake.on(3)
    table.append("z")
    assert table.data("again") in by_tombstones(table)
    through(lake)
    assert len(table.snapshots) == 1  # all that removed and re-added it has expired
    assert on_disk(lake, table, "again", "y", "z", "x") == [True, True, True, False]


def test_iceberg_8255_a_path_that_comes_back_while_it_waits_is_taken_back() -> None:
    """Iceberg #8255, later: the file has departed already when a commit names it again."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("again")
    lake.on(1)
    table.overwrite("y")
    lake.on(12).run()
    assert table.data("again") in lake.waiting()
    table.append("again")
    lake.on(13).run()
    assert table.data("again") not in lake.waiting()  # at once, not when it would be due
    through(lake, 21, 30)
    assert on_disk(lake, table, "again") == [True]


def test_iceberg_8255_a_snapshot_that_comes_back_brings_all_its_waiting_files_back() -> None:
    """Iceberg #8255, with the old metadata: what it names waits no longer, and then anew."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("a")
    lake.on(1)
    table.overwrite("b")
    described = table.metadata_location
    lake.on(12).run()
    waiting = set(lake.waiting())
    assert table.data("a") in waiting
    lake.on(13)
    lake.register("lake.air.again", described)
    lake.run("look")
    again = lake.waiting()
    assert all(due == lake.clock.moment + 7 * DAY for path, due in again.items() if path in waiting)
    lake.on(19.5).run()  # when they would have been due, had they never come back
    assert on_disk(lake, table, "a") == [True]


def test_iceberg_10982_a_middle_snapshot_expired_by_id_takes_no_file_of_its_neighbours() -> None:
    """Iceberg #10982: expiring an id in the middle deleted what older snapshots still had."""
    lake = Lake()
    table = lake.on(0).table("t")
    first = table.append("a")
    middle = table.overwrite("b")
    table.overwrite("c")
    table.tag("first", first)
    assert table.data("a") in by_tombstones(table)
    lake.run()  # all three are known
    table.expire_elsewhere(middle)
    through(lake)
    assert on_disk(lake, table, "a", "c") == [True, True]
    assert on_disk(lake, table, "b") == [False]


def test_iceberg_17715_a_missing_manifest_stops_its_table_and_no_other_and_only_until_mended() -> (
    None
):
    """Iceberg #17715: one missing manifest ended the file phase for good, after the commit."""
    lake = Lake()
    broken, well = lake.on(0).table("broken"), lake.table("well")
    for day in range(3):
        lake.on(day)
        broken.overwrite(f"b{day}")
        well.overwrite(f"w{day}")
    victim = broken.manifests(broken.snapshots[1])[0]
    content = lake.spoil(victim)
    summary = lake.on(12).run()
    assert len(broken.snapshots) == 3 and summary.tables["lake.air.broken"].skipped
    assert len(well.snapshots) == 1
    lake.mend(victim, content)
    through(lake, 13, 21)
    assert len(broken.snapshots) == 1
    assert on_disk(lake, broken, "b0", "b1", "b2") == [False, False, True]


def test_amoro_4231_a_missing_parent_does_not_cut_history_short() -> None:
    """Amoro #4231: ancestors behind an expired parent were taken for unreachable and deleted."""
    lake = Lake()
    table = lake.on(0).table("t")
    oldest = table.append("a")
    lake.on(1)
    gone = table.overwrite("b")
    lake.on(2)
    table.overwrite("c")
    table.tag("kept", oldest)
    table.expire_elsewhere(gone)  # the line is broken between c and a
    assert table.data("a") in unless_on_main(table)
    lake.on(3).run()
    assert on_disk(lake, table, "a", "c") == [True, True]
    through(lake)
    assert on_disk(lake, table, "a", "c") == [True, True]
    table.drop_ref("kept")
    through(lake, 50, 60, 70)
    assert on_disk(lake, table, "a", "c") == [False, True]
