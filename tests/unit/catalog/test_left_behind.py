"""Where a table stood once: names that are gone, second registrations, clones of others.

The planner and the gate must agree on each: a plan that is refused every day deletes nothing.
"""

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from meltline.app.drop.drop import drop
from meltline.app.drop.undrop import undrop
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.run.gate_step import run_gate
from meltline.app.storage.file_status import standing_now
from meltline.domain.deletion.storage import Stage
from meltline.domain.iceberg.locations import location_key
from meltline.domain.retention.policy import ENABLED
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from tests.lake.lake import T0, Lake, Table

THEIRS = "theirs.sea.copy"


def refused(lake: Lake, *days: float) -> list[str]:
    """What the runs of these days were refused or could not do."""
    said = []
    for day in days:
        for line in lake.on(day).run().tables.values():
            said += [word for word in (line.refused, line.failed, line.skipped) if word]
    return said


def of_two_names() -> tuple[Lake, Table, Table, int]:
    """A table under two names, both at its first commit. Each writes metadata files of its own."""
    numbers = count(1)
    lake = Lake(unique=lambda: f"m{next(numbers)}")
    table = lake.on(0).table("t")
    first = table.overwrite("a")
    return lake, table, lake.register("lake.air.second", table.metadata_location), first


def shared(other: str = THEIRS) -> tuple[Lake, Table, Table]:
    """A table and a clone of it. The first snapshot is in both; the clone's second uses it too."""
    lake = Lake(other_catalogs=("theirs",))
    table = lake.on(0).table("t")
    table.overwrite("a")
    copy = lake.clone(table, other)
    lake.on(1)
    table.overwrite("b")
    copy.append("c")
    copy.overwrite("c2")
    lake.run()
    return lake, table, copy


def expire_all_but_the_head(table: Table) -> None:
    """Another tool does."""
    table.expire_elsewhere(*table.snapshots[:-1])


def stage(lake: Lake, path: str) -> Stage:
    return standing_now(lake.services()).files[location_key(path)].stage


# --- names that are gone --------------------------------------------------------------------------


def test_a_hold_on_a_clone_that_was_dropped_keeps_its_groups_files_and_nothing_is_refused() -> None:
    lake, _, copy = shared()
    lake.on(2)
    expire_all_but_the_head(copy)
    lake.on(10).run()
    copy.configure(meltline__hold="audit")
    lake.on(11).run()
    copy.drop()
    waiting = lake.waiting().keys()
    assert refused(lake, 12, 30, 60) == []
    assert waiting and waiting <= lake.waiting().keys() and lake.deleter.deleted == []


def test_a_dropped_second_name_is_kept_as_any_dropped_table_and_the_first_goes_on() -> None:
    lake, table, second, first = of_two_names()
    lake.on(1)
    second.configure(owner="somebody")
    table.overwrite("b")
    lake.run()
    left = second.metadata_location
    second.drop()
    of_first = {table.data("a"), table.manifest_list(first)}
    assert refused(lake, 2, 8.5) == []
    assert table.snapshots == [table.head]
    assert {left, *of_first} <= lake.paths() - lake.waiting().keys()  # the second name has them
    undrop(lake.services(), "lake.air.second")
    assert second.snapshots == [first]
    second.drop()
    assert refused(lake, 9, 20, 30, 40) == []
    assert lake.paths().isdisjoint({left, *of_first})
    assert {table.data("b"), table.manifest_list(table.head)} <= lake.paths()


def test_statistics_that_a_dropped_second_name_tells_of_stay_as_long_as_it_can_return() -> None:
    lake, table, second, first = of_two_names()
    second.statistics(first)
    lake.on(1)
    table.overwrite("b")
    lake.run()
    (file,) = second.document["statistics"]
    second.drop()
    assert refused(lake, 2, 8.5) == []
    assert file["statistics-path"] in lake.paths() and lake.waiting() == {}
    assert refused(lake, 20, 30, 40) == []
    assert file["statistics-path"] not in lake.paths()


def test_statistics_of_a_second_name_depart_with_its_own_entry_for_the_snapshot() -> None:
    lake, table, second, first = of_two_names()
    second.statistics(first)
    (file,) = second.document["statistics"]
    lake.on(1)
    second.append("b")
    assert refused(lake, 2, 20) == []
    assert first in table.snapshots and first not in second.snapshots
    assert file["statistics-path"] in lake.waiting()
    assert lake.run().plans == {}


def test_a_table_that_started_over_expires_its_past_and_its_second_name_keeps_the_files() -> None:
    lake, table, second, first = of_two_names()
    for one in (table, second):
        one.branch("side", first)
    lake.on(1).run()
    table.drop_ref("side")
    table.start_over("b")
    lake.on(2).run()
    assert refused(lake, 3, 30) == []
    assert table.snapshots == [table.head]
    assert first in second.snapshots  # its own branch holds it, and so its files
    assert {table.data("a"), second.manifest_list(first)} <= lake.paths() - lake.waiting().keys()
    second.drop_ref("side")
    second.start_over("c")
    assert refused(lake, 31, 32, 40) == []
    assert second.snapshots == [second.head]
    assert table.data("a") in lake.waiting()


def test_two_sightings_of_a_snapshot_keep_the_later_end_and_any_branch() -> None:
    on_branch, gone = SnapshotObservation(None, True), SnapshotObservation(T0, False)
    assert on_branch.joined(gone) == gone.joined(on_branch) == SnapshotObservation(None, True)
    later = SnapshotObservation(T0 + timedelta(days=1), False)
    assert gone.joined(later) == later.joined(gone) == later


# --- clones that Meltline does not manage ---------------------------------------------------------


@pytest.mark.parametrize("other", [THEIRS, "lake.air.copy"])
def test_what_a_clone_that_nobody_manages_has_let_go_departs_once_and_is_purged(other: str) -> None:
    lake, table, copy = shared(other)
    copy.configure(meltline__enabled="false")
    lake.on(2)
    expire_all_but_the_head(copy)
    assert refused(lake, 10) == []
    assert len(table.snapshots) == 1
    assert stage(lake, table.data("a")) is Stage.FAILSAFE
    assert refused(lake, 20) == []
    assert stage(lake, table.data("a")) is Stage.DELETED
    deleted, plans = list(lake.deleter.deleted), len(lake.control.plans.find())
    assert table.data("a") in deleted and copy.manifest_list(copy.head) in lake.paths()
    assert refused(lake, 30, 40, 50) == []
    assert lake.deleter.deleted == deleted and len(lake.control.plans.find()) == plans


def test_a_clone_that_lets_go_after_its_source_has_the_files_depart_from_the_source() -> None:
    lake, table, copy = shared()
    assert refused(lake, 10, 20) == []
    assert len(table.snapshots) == 1 and table.data("a") not in lake.waiting()
    expire_all_but_the_head(copy)
    lake.on(21).run()
    assert table.data("a") in lake.waiting()
    lake.on(29).run()
    assert table.data("a") in lake.deleter.deleted


def test_what_a_clone_let_go_before_another_tool_dropped_it_departs_and_the_rest_stays() -> None:
    lake, table, copy = shared()
    head = table.data("b")
    lake.on(2)
    second_copy = lake.clone(table, "theirs.sea.other")
    lake.run()
    expire_all_but_the_head(copy)
    expire_all_but_the_head(second_copy)
    lake.on(3).run()
    second_copy.drop()
    assert refused(lake, 4, 10, 20) == []
    assert table.data("a") in lake.deleter.deleted
    lake.on(21)
    table.overwrite("d")
    assert refused(lake, 22, 40, 60) == []
    assert head in lake.paths() and head not in lake.waiting()  # the dropped clone still has it


def test_a_hold_on_a_clone_keeps_also_what_another_tool_has_expired_of_it() -> None:
    lake, table, copy = shared()
    copy.configure(meltline__hold="audit")
    expire_all_but_the_head(copy)
    assert refused(lake, 20, 40) == []
    assert table.data("a") in lake.paths() and table.data("a") not in lake.waiting()


def test_a_clone_that_was_dropped_with_its_metadata_keeps_what_it_had_and_refuses_nothing() -> None:
    lake, table, copy = shared()
    lake.store.delete([copy.metadata_location])
    copy.drop()
    assert refused(lake, 20, 40) == []
    assert table.snapshots == [table.head]
    assert table.data("a") in lake.paths() and table.data("a") not in lake.waiting()


def test_a_clone_that_lost_manifest_lists_before_it_was_dropped_refuses_nothing_either() -> None:
    lake, table, copy = shared()
    lists = [copy.manifest_list(one) for one in copy.snapshots[1:]]
    lake.store.delete(lists)  # another tool has expired them, and no run has looked since
    copy.drop()
    assert refused(lake, 20, 40) == []
    assert table.snapshots == [table.head]
    assert table.data("a") in lake.paths() and table.data("a") not in lake.waiting()


@pytest.mark.parametrize("lost", ["metadata", "manifest lists"])
def test_the_gate_itself_finds_what_a_clone_had_that_lost_its_metadata(lost: str) -> None:
    lake, table, copy = shared()
    copy.expire_elsewhere(copy.snapshots[0])
    lake.on(2).run()
    uuid, lists = copy.uuid, [copy.manifest_list(one) for one in copy.snapshots]
    lake.store.delete([copy.metadata_location] if lost == "metadata" else lists)
    copy.drop()
    lake.on(20)
    seen = observe(lake.services())
    live = frozenset(key for key in seen.live if key.table_uuid != uuid)
    forgotten = replace(seen, live=live, read=seen.read | {uuid}, left_behind=())
    planned = plan_expiration(lake.services(), forgotten, run_id="r", as_of=lake.clock.now())
    assert table.data("a") in {file.path for one in planned for file in one.files}
    (judged,) = run_gate(lake.services(), [one.plan for one in planned])
    assert judged[1].failed_on("planned_referenced")


# --- dropped tables that were let go --------------------------------------------------------------


def test_two_dropped_names_of_a_table_go_in_the_same_run_and_leave_no_metadata_behind() -> None:
    lake, table, second, _ = of_two_names()
    lake.table("lake.sea.stays")
    lake.on(1).run()
    for one in (table, second):
        drop(lake.services(), str(one.name))
    assert refused(lake, 2, 10, 20, 30) == []
    assert {path for path in lake.paths() if "/air/" in path} == set()


@pytest.mark.parametrize("followed", [False, True])
def test_what_a_second_name_had_when_an_engine_dropped_it_stays_as_long_as_it_can_return(
    followed: bool,
) -> None:
    lake, table, second, first = of_two_names()
    lake.table("lake.sea.stays")
    lake.on(1)
    second.configure(owner="somebody")
    left, of_head, data = second.metadata_location, table.manifest_list(first), table.data("a")
    lake.run()
    second.drop()
    drop(lake.services(), str(table.name))
    if followed:  # another table takes the name, and with it the folder
        lake.table("t")
    lake.on(2).run()
    assert {left, of_head, data} <= lake.paths() - lake.waiting().keys()
    assert refused(lake, 10, 20, 30, 40) == []
    assert lake.paths().isdisjoint({left, of_head, data})


@pytest.mark.parametrize(("key", "value"), [("meltline.hold", "audit"), (ENABLED, "false")])
def test_a_dropped_table_is_not_let_go_while_a_table_in_its_folder_is_left_alone(
    key: str, value: str
) -> None:
    lake = Lake(unique=iter(map(str, count())).__next__)
    lake.table("lake.sea.stays")
    table = lake.on(0).table("t")
    table.append("a")
    lake.run()
    drop(lake.services(), str(table.name))
    new = lake.table("t")
    new.edit(lambda document: document["properties"].update({key: value}))
    old = {path for path in lake.paths() if "/air/t/" in path} - {new.metadata_location}
    assert refused(lake, 1, 10, 30) == []
    assert old <= lake.paths()
    new.unset(key)
    assert refused(lake, 31, 40, 50) == []
    log = {entry["metadata-file"] for entry in new.document["metadata-log"]}
    assert {path for path in lake.paths() if "/air/t/" in path} == {new.metadata_location, *log}


@pytest.mark.parametrize(("key", "value"), [("meltline.hold", "audit"), (ENABLED, "false")])
def test_what_another_table_lets_go_of_beside_one_that_is_left_alone_goes_once_that_ends(
    key: str, value: str
) -> None:
    lake = Lake()
    table, other = lake.on(0).table("t"), lake.table("other")
    table.append("a")
    other.append(path := table.data("a"))
    lake.on(1)
    table.overwrite("b")
    assert refused(lake, 10, 20) == []
    table.edit(lambda document: document["properties"].update({key: value}))
    lake.on(21)
    other.overwrite("c")
    assert refused(lake, 30, 40, 90) == []
    assert path in lake.paths() and path in lake.waiting()
    table.unset(key)
    assert refused(lake, 91, 100) == []
    assert path not in lake.paths()
    assert {table.data("b"), other.data("c")} <= lake.paths()


def test_a_second_run_finds_nothing_to_let_go_that_the_first_could_have() -> None:
    lake = Lake()
    lake.table("lake.sea.stays")
    table = lake.on(0).table("t")
    table.append("a")
    lake.run()
    drop(lake.services(), str(table.name))
    for day in (1, 8, 16, 24):
        lake.on(day).run()
        before = (lake.catalogs["lake"].listing(), dict(lake.file_tables.commits))
        assert lake.run().plans == {}
        assert (lake.catalogs["lake"].listing(), dict(lake.file_tables.commits)) == before
    assert {path for path in lake.paths() if "/air/" in path} == set()


def test_a_drop_that_is_noticed_long_after_it_was_seen_ends_in_the_run_that_notices_it() -> None:
    lake = Lake()
    lake.table("lake.sea.stays")
    table = lake.on(0).table("t")
    lake.run()
    table.drop()
    lake.on(1)
    observe(lake.services())
    lake.on(20).run()
    assert len(lake.catalogs["lake"].listing().entries) == 1
