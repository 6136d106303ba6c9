"""A table that can be purged and cannot be held is not purged."""

from meltline.app.doctor.doctor import examine
from tests.lake.lake import Lake
from tests.unit.archive.test_handoff import daily


def test_while_a_catalog_cannot_be_changed_safely_nothing_of_it_is_expired() -> None:
    lake = Lake()
    table = daily(lake, 12, cold="none")
    lake.catalogs["lake"].unholdable = "no locks"
    before = set(table.snapshots)
    lake.on(60).run()
    assert set(table.snapshots) == before
    lake.catalogs["lake"].unholdable = ""
    lake.run()
    assert set(table.snapshots) < before


def test_what_waits_to_be_purged_waits_as_long_as_nobody_could_hold_it() -> None:
    lake = Lake()
    daily(lake, 12, cold="none")
    lake.on(60).run()
    waiting = set(lake.waiting())
    assert waiting
    lake.catalogs["lake"].unholdable = "no locks"
    lake.on(120).run()
    assert waiting <= lake.paths()
    assert "catalog_not_managed" in {finding.code for finding in examine(lake.services())}
    lake.catalogs["lake"].unholdable = ""
    lake.run()
    assert not waiting & lake.paths()
