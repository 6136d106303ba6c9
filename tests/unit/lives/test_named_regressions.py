"""How others' sweeps have lost live files, and that ours does not; each names its thread."""

from collections.abc import Callable

import pytest

from tests.lake.lake import Table
from tests.lake.swept import FIRST, SECOND, Meanwhile, Swept

THIRD, FOURTH = SECOND + 7, SECOND + 14


def needed_by(*tables: Table) -> set[str]:
    """Every file that the tables' present metadata refers to."""
    lake = tables[0].lake
    return set().union(*(set(lake._named_by(table.metadata_location)) for table in tables))


@pytest.mark.parametrize("dropped", [False, True], ids=["both stand", "the older one was dropped"])
def test_tables_that_share_one_location_are_swept_against_all_of_them(dropped: bool) -> None:
    """nessie#12363: the garbage collector of Nessie sweeps each content id by itself.

    A table was made anew in the location of an older one, which the history still knew. The older
    one's sweep knew only its own files and deleted all others in that location: every table was
    unreadable, its metadata files gone too.
    """
    swept = Swept()
    older, lake = swept.table, swept.lake
    newer = lake.table("newer", location=older.location)
    newer.append("n0", "n1")
    newer.overwrite("n2")
    lake.run()
    if dropped:
        older.drop()
        lake.run()
    newer.append("n3")
    orphan = swept.leave(newer.data("orphan"))
    standing = [newer] if dropped else [newer, older]
    live = {entry.path for table in standing for entry in table.live()}
    assert {newer.data("n2"), newer.data("n3")} <= live
    for day in (FIRST, SECOND, THIRD, FOURTH, 60, 70):
        swept.sweep(day)
        lake.run()
    assert live | needed_by(*standing) <= lake.paths()
    assert dropped or orphan not in lake.paths()


def expired_by_another_tool(table: Table) -> None:
    """A writer commits, and its own expiration takes every snapshot that there was before."""
    old = table.snapshots
    files = needed_by(table)
    table.append("newest")
    table.expire_elsewhere(*old)
    gone = {path for path in files - needed_by(table) if not path.endswith(".json")}
    table.lake.store.delete(sorted(gone))


def expired_with_its_metadata(table: Table) -> None:
    """The same, and the metadata files from before are deleted as well."""
    before = table.metadata_location
    expired_by_another_tool(table)
    table.lake.store.delete([before])
    table.edit(lambda document: document.update({"metadata-log": []}))


@pytest.mark.parametrize("expire", [expired_by_another_tool, expired_with_its_metadata])
def test_what_another_tool_expires_between_a_sweeps_listing_and_its_reading_costs_nothing_else(
    expire: Callable[[Table], None],
) -> None:
    """paimon#7710: `remove_orphan_files` took a snapshot that was gone for one without files.

    It had listed the snapshots; before it read them another task committed and expired the only
    one of the list. So no file counted as used, and all that were older than a day were deleted.
    """
    swept = Swept()
    table, lake = swept.table, swept.lake
    table.append("b")
    lake.run()
    orphan = swept.leave("orphan")
    swept.sweep(FIRST)
    racing = Meanwhile(swept.sweeper, lambda: expire(table))
    swept.sweep(SECOND, swept.services(sweeper=racing))
    live = needed_by(table)
    assert {table.data("a"), table.data("b"), table.data("newest")} <= live
    assert not live & swept.waiting()
    for day in (THIRD, FOURTH, 60):
        swept.sweep(day)
        lake.run()
    assert live <= lake.paths() and orphan not in lake.paths()
