"""Looks at rollups: what they read, and what they say where their source cannot be read."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.rollups.status import rollup_lines
from meltline.app.chunks.rollups.waits import chunks_not_rolled_up
from meltline.app.services import RunContext
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.errors import CatalogUnlistable, RollupRefused
from meltline.ports import Catalog, CatalogListing
from tests.chunks.chunk_tables import chunk_table, day_name, reading
from tests.lake.lake import DAY, T0
from tests.unit.rollups.rolled_up_table import RolledUp


@dataclass
class Listed:
    """A catalog that counts how often it is listed, or cannot be."""

    catalog: Catalog
    is_down: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> object:
        return getattr(self.catalog, name)

    def listing(self) -> CatalogListing:
        self.counts["listing"] += 1
        if self.is_down:
            raise CatalogUnlistable("it is down", object="lake", next="wait")
        return self.catalog.listing()


def two_rollups() -> RolledUp:
    rolled = RolledUp()
    rolled.declare()
    rolled.declare("three_days")
    return rolled


def beside(rolled: RolledUp, listed: Listed) -> RunContext:
    services = rolled.lake.services()
    return replace(services, catalogs={**services.catalogs, "lake": listed})


def test_how_all_rollups_stand_takes_one_listing() -> None:
    rolled = two_rollups()
    rolled.append(reading(90, 5.5))
    listed = Listed(rolled.lake.catalogs["lake"])

    lines = rollup_lines(beside(rolled, listed))

    assert [(line.rollup.name, line.lag, line.dirty) for line in lines] == [
        ("daily", 1, 1),
        ("three_days", 1, 1),
    ]
    assert listed.counts["listing"] == 1


def test_the_gate_lists_nothing_for_the_rollups_over_its_table() -> None:
    rolled = two_rollups()
    rolled.append(reading(90, 5.5))
    listed = Listed(rolled.lake.catalogs["lake"])
    services = beside(rolled, listed)
    (table,) = chunked_tables(rolled.lake.services(), only=[rolled.lake.uuid])
    ranges = {day_name(n): TimeRange(T0 + n * DAY, T0 + (n + 1) * DAY) for n in (0, 5)}

    assert set(chunks_not_rolled_up(services, table, ranges, None)) == {day_name(5)}
    assert listed.counts["listing"] == 0


def test_the_gate_stores_no_registration_of_a_table_in_the_place_of_a_rollups() -> None:
    rolled = two_rollups()
    place = rolled.known().table
    rolled.lake.catalogs["lake"].drop(place)
    chunk_table(rolled.lake, str(place))
    services = rolled.lake.services()
    (table,) = chunked_tables(services, only=[rolled.lake.uuid])
    before = services.control.registrations.all()

    with pytest.raises(RollupRefused, match="is not the table of rollup"):
        chunks_not_rolled_up(services, table, {}, None)
    assert services.control.registrations.all() == before


def test_where_a_catalog_cannot_be_listed_each_rollup_says_so() -> None:
    rolled = two_rollups()

    lines = rollup_lines(beside(rolled, Listed(rolled.lake.catalogs["lake"], is_down=True)))

    assert [line.lag for line in lines] == [None, None]
    assert [line.problem for line in lines] == ["it is down", "it is down"]
