"""A commit that vanishes is an incident: nothing of it goes until it is back or recovered."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.recover import recover
from meltline.app.observe.losses.vanished_commits import KIND
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake, Table

NAME, NEW = "lake.air.t", "lake.air.back"
Loss = Callable[[Table, int], None]


def a_lake() -> tuple[Lake, Table, int]:
    """A table with three commits on main and two on a branch, and the head that is to vanish."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(3):
        lake.on(day)
        head = table.append(f"f{day}")
    table.branch("audit", head)
    table.append("a", ref="audit")
    lake.run()
    return lake, table, head


def forget(table: Table, ref: str, *others: str) -> int:
    """An engine replaces the table by what it was without the newest commit of a branch."""
    head = table.refs[ref]["snapshot-id"]
    parent = table.snapshot(head)["parent-snapshot-id"]

    def change(document: dict[str, Any]) -> None:
        kept = [s for s in document["snapshots"] if s["snapshot-id"] != head]
        document["snapshots"] = kept
        document["refs"][ref]["snapshot-id"] = parent
        document["current-snapshot-id"] = document["refs"]["main"]["snapshot-id"]
        document["snapshot-log"] = [
            entry for entry in document["snapshot-log"] if entry["snapshot-id"] != head
        ]

    table.edit(change)
    return head


def set_back(lake: Lake, table: Table) -> None:
    """A catalog's pointer goes back to the metadata file before the last one."""
    older = table.document["metadata-log"][-1]["metadata-file"]
    table.drop()
    lake.register(NAME, older)


def vanished(lake: Lake) -> list[str]:
    return [i.object for i in lake.control.incidents.all() if i.kind == KIND]


@pytest.mark.parametrize("ref", ["main", "audit"])
def test_a_head_that_vanished_is_an_incident_in_the_same_night_and_ends_no_other_way(
    ref: str,
) -> None:
    lake, table, _ = a_lake()
    head = table.append("lost", ref=ref)
    lake.run()
    assert forget(table, ref) == head
    table.append("later", ref=ref)
    night = lake.on(4).run()
    assert (night.exit_code, vanished(lake)) == (4, [f"{NAME}@{head}"])
    assert any(f"meltline recover {NAME}@{head} --as NEW" in note for note in night.notes)
    assert [f.object for f in examine(lake.services()) if f.code == "incident"] == [
        f"{NAME}@{head}"
    ]
    for day in (9, 20, 40):
        assert lake.on(day).run().exit_code == 4
    assert table.data("lost") in lake.paths()


@pytest.mark.parametrize("ref", ["main", "audit"])
def test_recover_finds_it_in_the_tables_own_log_and_ends_the_incident(ref: str) -> None:
    lake, table, _ = a_lake()
    head = table.append("lost", ref=ref)
    lake.run()
    forget(table, ref)
    lake.on(4).run()
    done = recover(lake.services(), NAME, NEW, reason="lost", snapshot_id=head)
    assert not done.missing and vanished(lake) == []
    made = Table(lake, TableName.parse(NEW))
    assert table.data("lost") in {entry.path for entry in made.live()}
    assert lake.on(5).run().exit_code == 0
    made.drop()
    lake.on(60).run()
    lake.on(120).run()
    assert lake.on(180).run().exit_code == 0 and table.data("lost") not in lake.paths()


def test_a_pointer_that_was_set_back_is_an_incident_until_the_commit_is_recovered() -> None:
    lake, table, _ = a_lake()
    head = table.append("lost")
    lake.run()
    set_back(lake, table)
    assert lake.on(4).run().exit_code == 4 and vanished(lake) == [f"{NAME}@{head}"]
    done = recover(lake.services(), NAME, NEW, reason="lost", snapshot_id=head)
    assert not done.missing and vanished(lake) == []
    assert lake.on(5).run().exit_code == 0


def test_a_branch_that_a_pointer_set_back_takes_along_is_an_incident_too() -> None:
    lake, table, head = a_lake()
    table.branch("fresh", head)
    only = table.append("lost", ref="fresh")
    lake.run()
    set_back(lake, table)
    set_back(lake, table)
    lake.on(4).run()
    assert vanished(lake) == [f"{NAME}@{only}"]


def test_the_incident_is_over_once_the_metadata_file_is_registered_again() -> None:
    lake, table, _ = a_lake()
    table.append("lost")
    last = table.metadata_location
    lake.run()
    set_back(lake, table)
    lake.on(4).run()
    table.drop()
    lake.register(NAME, last)
    assert lake.on(5).run().exit_code == 0 and vanished(lake) == []


# --- no false alarm -------------------------------------------------------------------------------


def rolled_back_and_expired(table: Table, head: int) -> None:
    table.rollback(table.snapshots[0])
    table.branch("audit", table.snapshots[0])
    table.expire_elsewhere(head)


def branch_dropped_and_expired(table: Table, head: int) -> None:
    lost = table.refs["audit"]["snapshot-id"]
    table.drop_ref("audit")
    table.expire_elsewhere(lost)


def branch_expired_with_its_snapshots(table: Table, head: int) -> None:
    lost = table.refs["audit"]["snapshot-id"]

    def change(document: dict[str, Any]) -> None:
        del document["refs"]["audit"]
        kept = [s for s in document["snapshots"] if s["snapshot-id"] != lost]
        document["snapshots"] = kept

    table.edit(change)


def fast_forwarded_and_expired(table: Table, head: int) -> None:
    table.fast_forward("main", "audit")
    table.append("g")
    table.expire_elsewhere(head)


def replaced_and_expired(table: Table, head: int) -> None:
    table.branch("audit", table.snapshots[0])
    table.start_over("new")
    table.expire_elsewhere(head)


def expired_behind_the_head(table: Table, head: int) -> None:
    table.expire_elsewhere(table.snapshots[0], table.snapshots[1])


def dropped(table: Table, head: int) -> None:
    table.drop()


def dropped_and_made_again(table: Table, head: int) -> None:
    table.drop()
    table.lake.table("t")


ON_PURPOSE: list[Loss] = [
    rolled_back_and_expired,
    branch_dropped_and_expired,
    branch_expired_with_its_snapshots,
    fast_forwarded_and_expired,
    replaced_and_expired,
    expired_behind_the_head,
    dropped,
    dropped_and_made_again,
]


@pytest.mark.parametrize("act", ON_PURPOSE, ids=lambda act: act.__name__)
def test_what_engines_do_on_purpose_is_no_incident(act: Loss) -> None:
    lake, table, head = a_lake()
    act(table, head)
    assert lake.on(4).run().exit_code == 0
    for day in (12, 30, 60):
        lake.on(day).run()
    assert vanished(lake) == []


def test_a_busy_table_that_outgrew_its_log_and_was_expired_is_no_incident() -> None:
    lake, table, _ = a_lake()
    table.configure(write__metadata__previous_versions_max="2")
    lake.run()
    lost = table.refs["audit"]["snapshot-id"]
    table.branch("audit", table.head)
    table.expire_elsewhere(lost)
    for number in range(4):
        table.append(f"busy{number}")
    lake.on(4).run()
    assert vanished(lake) == []


def test_a_copy_of_the_table_elsewhere_ends_no_incident() -> None:
    lake, table, _ = a_lake()
    head = table.append("lost")
    lake.clone(table, "lake.air.copy")
    lake.run()
    forget(table, "main")
    lake.on(4).run()
    assert vanished(lake) == [f"{NAME}@{head}"]


def test_a_second_name_that_still_has_the_commit_makes_it_no_incident() -> None:
    lake, table, _ = a_lake()
    table.append("lost")
    lake.run()
    lake.register("lake.air.again", table.metadata_location)
    set_back(lake, table)
    lake.on(4).run()
    assert vanished(lake) == []
