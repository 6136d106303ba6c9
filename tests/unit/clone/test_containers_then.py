"""Schemas and databases cloned as of a time at which they, or some of their tables, were not."""

import pytest

from meltline.app.clone.clone import clone
from meltline.domain.errors import BeforeCreation, ChildInsufficientRetention
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.time_travel.timetravel import PointSide, TravelPoint
from tests.lake.lake import Lake
from tests.unit.clone.test_clones import at, names


def made_on_day_two(*tables: str) -> Lake:
    """A database `lake.air` whose tables were made on day 2; it is day 3."""
    lake = Lake()
    for name in tables:
        lake.on(2).table(f"lake.air.{name}").append("a")
    return lake.on(3)


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        (ObjectKind.DATABASE, "lake.air", "lake.copy"),
        (ObjectKind.SCHEMA, "lake.air.eu", "lake.air.copy"),
    ],
)
@pytest.mark.parametrize("point", [at(1), at(2), at(2, PointSide.BEFORE), at(-400)])
@pytest.mark.parametrize("ignoring", [False, True])
def test_a_time_before_any_of_its_tables_is_a_time_before_it(
    kind: ObjectKind, source: str, target: str, point: TravelPoint, ignoring: bool
) -> None:
    # TT-38
    lake = made_on_day_two("eu.t", "eu.u")
    before, namespaces = names(lake), lake.catalogs["lake"].listing().namespaces
    with pytest.raises(BeforeCreation) as refused:
        clone(lake.services(), source, target, kind, point=point, ignore_insufficient=ignoring)
    assert source in refused.value.object and "lake.air.eu.t: " in refused.value.found
    assert names(lake) == before
    assert lake.catalogs["lake"].listing().namespaces == namespaces


def test_a_database_that_had_one_of_its_tables_then_comes_with_that_one() -> None:
    lake = made_on_day_two("t")
    lake.table("lake.air.new").append("n")
    done = clone(lake.services(), "lake.air", "lake.copy", point=at(2.5))
    assert [str(one.table) for one in done.created] == ["lake.copy.t"]
    assert [str(one.table) for one in done.skipped] == ["lake.air.new"]


def test_a_database_without_any_table_is_cloned_as_what_it_is() -> None:
    lake = Lake()
    lake.catalogs["lake"].set_namespace_properties(("air",), {})
    lake.on(3)
    done = clone(lake.services(), "lake.air", "lake.copy", point=at(2))
    assert (done.created, done.skipped) == ((), ())


def test_a_table_that_reaches_not_so_far_back_is_still_said_first() -> None:
    lake = made_on_day_two("t")
    lake.on(12)
    with pytest.raises(ChildInsufficientRetention):
        clone(lake.services(), "lake.air", "lake.copy", point=at(2.5))
