"""The bytes that only a tag holds: what would depart, were it taken away (AR-45)."""

from meltline.app.clone.clone import clone
from meltline.app.refs.tags import add_tag, remove_tag
from meltline.app.storage.tag_bytes import bytes_held_alone
from meltline.domain.iceberg.timeline import Point
from meltline.domain.time_travel.timetravel import PointSide, TagPoint, TravelPoint
from tests.lake.lake import Lake, Table


def tagged(*names: str) -> tuple[Lake, Table]:
    """A table overwritten on four days, the first state under these tags; the rest has expired."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    first = table.snapshots[0]
    for name in names:
        add_tag(lake.services(), table.name, name, Point(first), None, dry_run=False)
    lake.on(30).run()
    assert len(table.snapshots) == 2
    return lake, table


def test_a_tag_holds_what_departs_once_it_is_taken_away() -> None:
    # AR-45
    lake, table = tagged("q1")
    held = bytes_held_alone(lake.services(), table.name)["q1"]
    before = set(lake.waiting())
    remove_tag(lake.services(), table.name, "q1", dry_run=False)
    lake.run()
    departed = set(lake.waiting()) - before
    assert table.data("f0") in departed
    assert held == sum(
        lake.store.size(path) or 0 for path in departed if "metadata.json" not in path
    )


def test_of_two_tags_on_one_snapshot_neither_holds_it_alone() -> None:
    lake, table = tagged("q1", "q2")
    assert bytes_held_alone(lake.services(), table.name) == {"q1": 0, "q2": 0}


def test_what_a_clone_needs_too_is_not_held_by_a_tag_alone() -> None:
    lake, table = tagged("q1")
    point = TravelPoint(PointSide.AT, TagPoint("q1"))
    clone(lake.services(), "lake.air.t", "lake.air.copy", point=point)
    lake.run()
    assert bytes_held_alone(lake.services(), table.name) == {"q1": 0}


def test_a_tag_on_what_is_current_holds_nothing_alone() -> None:
    lake, table = tagged("q1")
    add_tag(lake.services(), table.name, "now", Point(), None, dry_run=False)
    assert bytes_held_alone(lake.services(), table.name)["now"] == 0
