"""A snapshot from which Trino last refreshed a materialized view stays until the next refresh."""

import pytest

from tests.lake.lake import Lake, Table


def refresh(view: Table, sources: str) -> None:
    """As Trino does: a commit to the storage table that names what was read."""
    view.overwrite(f"rows-{len(view.snapshots)}")
    view.edit(
        lambda document: document["snapshots"][-1]["summary"].update({"dependsOnTables": sources})
    )


def lake_with_view() -> tuple[Lake, Table, Table, list[int]]:
    """A source with four snapshots, one a day, and the storage table of a view."""
    lake = Lake()
    source, view = lake.table("source"), lake.table("view")
    for day in range(4):
        lake.on(day)
        source.overwrite(f"f{day}")
    return lake, source, view, list(source.snapshots)


def test_the_snapshot_that_a_view_was_refreshed_from_is_kept_and_the_others_go() -> None:
    lake, source, view, ids = lake_with_view()
    refresh(view, f"air.source={ids[1]},other.gone=5")
    assert lake.on(14).run().exit_code == 0
    assert set(source.snapshots) == {ids[1], ids[3]}
    (lease,) = lake.control.leases.active(lake.clock.now())
    assert (lease.snapshot_id, lease.who) == (ids[1], "materialized view lake.air.view")


def test_the_next_refresh_lets_it_go() -> None:
    lake, source, view, ids = lake_with_view()
    refresh(view, f"air.source={ids[1]}")
    lake.on(14).run()
    refresh(view, f"air.source={ids[3]}")
    lake.run()
    assert set(source.snapshots) == {ids[3]}


def test_a_view_that_is_dropped_lets_it_go_a_week_later() -> None:
    lake, source, view, ids = lake_with_view()
    refresh(view, f"air.source={ids[1]}")
    lake.on(14).run()
    lake.catalogs["lake"].drop(view.name)
    lake.on(20).run()
    assert ids[1] in source.snapshots
    lake.on(22).run()
    assert set(source.snapshots) == {ids[3]}


@pytest.mark.parametrize("sources", ["", "air.source", "air.source=", "=1", "x", "air.source=-1"])
def test_what_names_no_snapshot_keeps_none(sources: str) -> None:
    lake, source, view, ids = lake_with_view()
    refresh(view, sources)
    assert lake.on(14).run().exit_code == 0
    assert set(source.snapshots) == {ids[3]}
    assert not lake.control.leases.active(lake.clock.now())
