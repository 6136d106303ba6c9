"""Drop, undrop and rename: a registration moves, the table stays what it is (TT-40 to TT-46)."""

import json
from datetime import timedelta

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.drop.drop import DropDone, drop, rename
from meltline.app.drop.undrop import Undropped, undrop
from meltline.app.refs.tags import list_tags
from meltline.app.retention.holds import add_hold
from meltline.app.retention.policies import change_policy
from meltline.app.safety.audit import decisions
from meltline.domain.drop.drops import Drop, read_drop
from meltline.domain.errors import (
    CatalogReadOnly,
    LockHeld,
    NameConflict,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NotDropped,
    ObjectDropped,
    OutsideRetention,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectKind, ObjectName
from meltline.domain.retention.policy import PROFILES, RETENTION, AccountPolicy
from meltline.ports import TableMove
from tests.lake.lake import DAY, T0, Lake, Table, business

MS = timedelta(milliseconds=1)
NAME = "lake.air.t"


def written(name: str = "t", lake: Lake | None = None) -> tuple[Lake, Table]:
    """A table with two commits, a tag and a property; it is day 2."""
    lake = lake or Lake()
    table = lake.on(0).table(name, properties={"owner": "ann"})
    first = table.append("a")
    lake.on(1)
    table.overwrite("b")
    table.tag("q1", first)
    lake.on(2)
    return lake, table


def dropped(lake: Lake, text: str = NAME, kind: ObjectKind | None = None) -> DropDone:
    return drop(lake.services(), text, kind)


def back(lake: Lake, text: str = NAME, kind: ObjectKind | None = None) -> Undropped:
    return undrop(lake.services(), text, kind)


def names(lake: Lake) -> set[str]:
    return {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}


def keep(lake: Lake, text: str, days: int, kind: ObjectKind | None = None) -> None:
    services = lake.services()
    name = find_object(services, text, kind)
    change_policy(services, name, {RETENTION: str(days)}, dry_run=False)


# --- a table --------------------------------------------------------------------------------------


def test_a_dropped_table_stays_registered_under_its_uuid_with_the_facts_of_its_drop() -> None:
    # TT-40
    lake, table = written()
    uuid = table.uuid
    done = dropped(lake)
    place = TableName("lake", (DROPPED_NAMESPACE,), uuid)
    assert names(lake) == {str(place)}
    assert "`" in str(place)  # a UUID is an odd part
    found = read_drop("lake", Table(lake, place).document["properties"])
    assert found == done.drop
    assert found == Drop(
        ObjectName("lake", ("air",), "t"), T0 + 2 * DAY, 7, 7, found.batch, "tester"
    )


def test_an_undrop_brings_back_the_very_same_table_and_no_file_moves() -> None:
    # TT-42
    lake, table = written()
    before, files = table.document, lake.paths()
    dropped(lake)
    done = back(lake)
    after = table.document
    changing = {"last-updated-ms", "metadata-log"}
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
    assert files <= lake.paths()
    (restored,) = done.tables
    assert (restored.table, restored.snapshot_id) == (table.name, table.head)
    assert restored.missing == ()


def test_a_table_without_a_single_commit_comes_back_too() -> None:
    lake = Lake()
    table = lake.table("t")
    uuid = table.uuid
    dropped(lake)
    assert back(lake).tables[0].snapshot_id is None and table.uuid == uuid


def test_odd_names_go_and_come_back_in_backticks() -> None:
    lake = Lake()
    name = TableName("lake", ("it's", "a b"), "t.[1] `ü`")
    table = lake.table(str(name))
    uuid = table.uuid
    dropped(lake, str(name))
    assert back(lake, str(name)).tables[0].table == name and table.uuid == uuid


def test_a_dry_run_changes_nothing() -> None:
    lake, table = written()
    before = table.document
    assert drop(lake.services(), NAME, dry_run=True).drop.retention_days == 7
    assert rename(lake.services(), NAME, "lake.air.other", dry_run=True).tables == 1
    assert table.document == before and names(lake) == {NAME}
    dropped(lake)
    there = names(lake)
    assert undrop(lake.services(), NAME, dry_run=True).tables[0].table == table.name
    assert names(lake) == there
    assert [e.action for e in decisions(lake.services(), NAME)] == ["drop"]


def test_a_name_that_is_taken_is_freed_by_a_rename_and_both_versions_stand_side_by_side() -> None:
    # TT-41, TT-44
    lake, table = written()
    first = table.uuid
    dropped(lake)
    second = lake.table("t", location="file:///w/air/t-2").uuid
    with pytest.raises(NameConflict, match="there already") as refused:
        back(lake)
    assert f"meltline rename {NAME}" in refused.value.next
    rename(lake.services(), NAME, "lake.air.t2")
    back(lake)
    assert table.uuid == first and Table(lake, TableName.parse("lake.air.t2")).uuid == second


def test_of_several_versions_the_one_dropped_last_comes_back_first() -> None:
    # TT-43
    lake = Lake()
    uuids = []
    for day in range(3):
        lake.on(day)
        uuids.append(lake.table("t", location=f"file:///w/air/t-{day}").uuid)
        dropped(lake)
    for version, uuid in enumerate(reversed(uuids)):
        back(lake)
        assert Table(lake, TableName.parse(NAME)).uuid == uuid
        rename(lake.services(), NAME, f"lake.air.v{version}")
    with pytest.raises(NotDropped):
        back(lake)


def test_of_two_versions_dropped_at_one_moment_the_later_drop_comes_back_first() -> None:
    lake = Lake()
    lake.table("t", location="file:///w/air/t-1")
    dropped(lake)
    lake.clock.moment += MS
    later = lake.table("t", location="file:///w/air/t-2").uuid
    dropped(lake)
    assert back(lake).tables[0].uuid == later


# --- how long -------------------------------------------------------------------------------------


def test_a_table_comes_back_to_the_end_of_its_retention_and_not_a_moment_later() -> None:
    # TT-45
    lake, _ = written()
    dropped(lake)
    lake.on(9)
    assert undrop(lake.services(), NAME, dry_run=True).tables
    lake.clock.moment += MS
    with pytest.raises(OutsideRetention, match="any more"):
        back(lake)


def test_a_table_whose_retention_is_zero_cannot_be_brought_back_at_all() -> None:
    # TT-46
    lake, _ = written()
    keep(lake, NAME, 0)
    dropped(lake)
    with pytest.raises(OutsideRetention):
        back(lake)


def test_the_least_retention_of_the_account_counts_for_drops() -> None:
    lake, _ = written(lake=Lake(account=business(min_retention_days=3)))
    keep(lake, NAME, 0)
    assert dropped(lake).drop.retention_days == 3
    lake.on(5)
    assert back(lake).tables


def test_an_infinite_retention_brings_back_after_years() -> None:
    lake, table = written(lake=Lake(account=AccountPolicy(PROFILES["ducklake_managed"])))
    uuid = table.uuid
    assert dropped(lake).drop.retention_days == "infinite"
    lake.on(5000)
    assert back(lake).tables[0].uuid == uuid


def test_a_later_change_of_the_schemas_policy_does_not_touch_what_was_dropped() -> None:
    # TT-22
    lake, _ = written()
    written("u", lake)
    keep(lake, "lake.air", 90)
    dropped(lake)
    keep(lake, "lake.air", 1)
    lake.on(2 + 90)
    assert back(lake).drop.retention_days == 90


def test_a_dropped_tables_policy_cannot_be_changed_before_an_undrop() -> None:
    lake, _ = written()
    dropped(lake)
    (name,) = names(lake)
    with pytest.raises(ObjectDropped):
        keep(lake, name, 30)


# --- schemas and databases ------------------------------------------------------------------------


def container() -> Lake:
    """A database with a schema, three tables in them and properties of their own."""
    lake = Lake()
    for name in ("lake.air.t", "lake.air.eu.a", "lake.air.eu.b", "lake.sea.t"):
        lake.on(0).table(name).append("a")
    catalog = lake.catalogs["lake"]
    catalog.set_namespace_properties(("air",), {"owner": "ann"})
    catalog.set_namespace_properties(("air", "eu"), {"comment": "west"})
    return lake


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("lake.air.never", TableNotFound),
        ("lake.never", TableNotFound),
        ("lake", UsageInvalid),
        ("lake.`x", UsageInvalid),
        ("other.air.t", TableNotFound),
        ("lake.meltline", CatalogReadOnly),
    ],
)
def test_what_cannot_be_dropped_says_why(text: str, error: type[Exception]) -> None:
    lake, _ = written()
    with pytest.raises(error):
        dropped(lake, text)
    assert names(lake) == {NAME}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (NAME, "lake.air.u", NameConflict),
        (NAME, "lake.never.t", NamespaceNotFound),
        (NAME, "sea.air.t", UsageInvalid),
        (NAME, "lake.t", UsageInvalid),
        (NAME, "lake.meltline.t", CatalogReadOnly),
        (NAME, "lake.meltline_dropped.t", ObjectDropped),
        ("lake.air", "lake.air.inside", UsageInvalid),
        ("lake.air.never", "lake.air.v", TableNotFound),
    ],
)
def test_what_cannot_be_renamed_says_why(old: str, new: str, error: type[Exception]) -> None:
    lake, _ = written()
    written("u", lake)
    with pytest.raises(error):
        rename(lake.services(), old, new)
    assert names(lake) == {NAME, "lake.air.u"}


def test_nothing_is_dropped_in_a_catalog_that_is_only_observed() -> None:
    lake = Lake(other_catalogs=("theirs",))
    lake.table("theirs.air.t")
    with pytest.raises(CatalogReadOnly):
        dropped(lake, "theirs.air.t")


def test_what_was_never_dropped_cannot_come_back() -> None:
    lake, _ = written()
    with pytest.raises(NotDropped) as refused:
        back(lake)
    assert "observe" in refused.value.next


def test_a_drop_waits_for_the_run_that_works_on_the_table() -> None:
    lake, table = written()
    wait, lease = timedelta(0), timedelta(minutes=2)
    with (
        lake.control.locks.take(table.uuid, "a run", wait=wait, lease=lease),
        pytest.raises(LockHeld),
    ):
        dropped(lake)
    assert names(lake) == {NAME}


def test_a_commit_that_comes_between_is_dropped_with_the_table_and_not_lost() -> None:
    lake, table = written()
    catalog, seen = lake.catalogs["lake"], table.metadata_location
    moves = 0

    class Interrupted(type(catalog)):  # type: ignore[misc]
        """Somebody commits after the table was read and before its row moves."""

        def apply(self, *arguments: object) -> bool:
            nonlocal moves
            moves += 1
            if moves == 1:
                table.append("late")
            return bool(super().apply(*arguments))

    catalog.__class__ = Interrupted
    dropped(lake)
    back(lake)
    assert moves == 3 and table.metadata_location != seen
    assert table.data("late") in {entry.path for entry in table.live()}


def test_another_table_that_took_the_name_meanwhile_is_not_dropped() -> None:
    lake, table = written()
    catalog = lake.catalogs["lake"]
    edits = 0

    def replaced(move: TableMove) -> None:
        nonlocal edits
        edits += 1

    class Replaced(type(catalog)):  # type: ignore[misc]
        """Another table stands under the name when the drop comes to write."""

        def move(self, moves: list[TableMove], **more: object) -> None:
            replaced(moves[0])
            self.drop(table.name)
            lake.table("t", location="file:///w/air/t-2")
            super().move(moves, **more)

    catalog.__class__ = Replaced
    with pytest.raises(TableNotFound, match="replaced"):
        dropped(lake)
    assert edits == 1 and names(lake) == {NAME}


def test_two_people_who_undrop_the_same_name_bring_it_back_once() -> None:
    lake, table = written()
    dropped(lake)
    catalog = lake.catalogs["lake"]
    first = True

    class Twice(type(catalog)):  # type: ignore[misc]
        """The other one is a moment faster."""

        def move(self, moves: list[TableMove], **more: object) -> None:
            nonlocal first
            if first:
                first = False
                lake.lease_time.seconds += 3600  # the other holds no lock any more
                super().move(moves, **more)
            super().move(moves, **more)

    catalog.__class__ = Twice
    with pytest.raises(TableNotFound):
        back(lake)
    assert names(lake) == {NAME} and read_drop("lake", table.document["properties"]) is None


def test_a_namespace_that_got_a_table_meanwhile_is_not_dropped_and_nothing_has_moved() -> None:
    lake = container()
    catalog = lake.catalogs["lake"]

    class Busy(type(catalog)):  # type: ignore[misc]
        """Somebody creates a table after the namespace was listed."""

        def move(self, moves: list[TableMove], **more: object) -> None:
            lake.table("lake.air.late")
            super().move(moves, **more)

    before = names(lake)
    catalog.__class__ = Busy
    with pytest.raises(NamespaceNotEmpty):
        dropped(lake, "lake.air")
    assert names(lake) == before | {"lake.air.late"}
    assert not [path for path in lake.paths() if "edit-" in path]


def test_drops_and_undrops_are_in_the_history_of_decisions() -> None:
    lake = container()
    dropped(lake, "lake.air")
    back(lake, "lake.air")
    rename(lake.services(), "lake.air.t", "lake.air.u")
    found = [(e.who, e.action) for e in decisions(lake.services(), "lake.air.t")]
    assert found == [("tester", "drop"), ("tester", "undrop"), ("tester", "rename")]
    of_all = [e.action for e in decisions(lake.services(), "lake.air")]
    assert of_all.count("drop") == 4 and "undrop" in of_all


def test_who_brought_back_whose_table_is_recorded_for_nobody_checks_roles() -> None:
    # TT-51
    lake, _ = written()
    dropped(lake)
    assert back(lake).tables[0].owner == "ann"
    entry = decisions(lake.services(), NAME)[-1]
    assert (entry.who, entry.action) == ("tester", "undrop")
    assert entry.detail.endswith(": 1 tables, of ann")


def test_a_hold_comes_along_and_comes_back() -> None:
    lake, table = written()
    held = add_hold(lake.services(), NAME, reason="audit")
    dropped(lake)
    back(lake)
    assert json.loads(table.document["properties"][held.key])["reason"] == "audit"


def test_a_name_that_has_been_dropped_is_told_from_one_that_never_was() -> None:
    lake, _ = written()
    dropped(lake)
    with pytest.raises(ObjectDropped) as refused:
        keep(lake, NAME, 3)
    assert f"meltline undrop {NAME} --kind table" in refused.value.next
    with pytest.raises(ObjectDropped):
        list_tags(lake.services(), TableName.parse(NAME))
    with pytest.raises(TableNotFound):
        keep(lake, "lake.air.never", 3)
    lake.on(30)
    with pytest.raises(ObjectDropped) as refused:
        keep(lake, NAME, 3)
    assert "meltline recover" in refused.value.next


def test_a_dropped_schema_says_so_too() -> None:
    lake, _ = written()
    dropped(lake, "lake.air")
    with pytest.raises(ObjectDropped) as refused:
        keep(lake, "lake.air", 3)
    assert "meltline undrop lake.air --kind database" in refused.value.next


def test_a_dropped_table_goes_on_from_its_old_name_however_short_its_log() -> None:
    lake, table = written()
    table.drop_ref("q1")
    lake.table("lake.sea.other")
    lake.run()
    for day in range(2, 5):
        lake.on(day)
        table.overwrite(f"f{day}")
        table.edit(
            lambda document: document.update({"metadata-log": document["metadata-log"][-1:]})
        )
    dropped(lake)
    for day in (5, 14, 22, 23, 31):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == {"lake.sea.other"}
    left = [path for path in lake.paths() if "/air/t/" in path]
    # What nobody had seen before its log forgot it is a sweep's to find.
    assert all(path.endswith(".metadata.json") for path in left)
