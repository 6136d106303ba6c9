"""Declaring rollups: what is refused leaves nothing behind, and what is risky is said."""

from dataclasses import replace
from typing import Any

import pytest

from meltline.app.chunks.rollups.declare import CreatedRollup, RollupWish, create_rollup
from meltline.domain.errors import NameConflict, RollupInvalid, RollupNotFound
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import chunk_table, reading
from tests.chunks.rolled_up import KINDS
from tests.unit.rollups.rolled_up_table import RolledUp

DAILY = KINDS["daily"].query


def test_a_name_that_a_rollup_of_another_schema_has_is_refused_before_a_table_is_made() -> None:
    rolled = RolledUp()
    rolled.declare()
    other = chunk_table(rolled.lake, "lake.water.chunks")
    other.append_rows(reading(1, 0.5))
    before = rolled.lake.control.rollups.all(), names(rolled)

    with pytest.raises(NameConflict, match="a rollup daily already"):
        wish = RollupWish("daily", DAILY)
        create_rollup(rolled.lake.services(), wish, lambda parts: other.name)

    assert (rolled.lake.control.rollups.all(), names(rolled)) == before
    assert replace(rolled.known().table, namespace=("water",)) not in names(rolled)


def names(rolled: RolledUp) -> list[TableName]:
    """All tables of the catalog."""
    return [entry.name for entry in rolled.lake.catalogs["lake"].listing().entries]


@pytest.mark.parametrize(
    ("changes", "expected", "actual"),
    [
        ({"name": "1st"}, "letters, digits and underscores", "1st"),
        ({"name": "a b"}, "letters, digits and underscores", "a b"),
        ({"width": "1 hour"}, "1 day, as the query says", "1 hour"),
        ({"width": "7 minutes"}, "1 day, as the query says", "'7 minutes' is no bucket"),
        ({"source": TableName("lake", ("air",), "other")}, "lake.air.chunks", "lake.air.other"),
        ({"query": DAILY.replace("', at)", "', value)")}, "buckets of at,", "buckets of value"),
        ({"query": DAILY.replace("sum(value)", "sum(worth)")}, "the source's columns", "worth"),
    ],
)
def test_a_wish_that_contradicts_its_query_or_its_source_makes_nothing(
    changes: dict[str, Any], expected: str, actual: str
) -> None:
    rolled = RolledUp()
    before = names(rolled)

    with pytest.raises(RollupInvalid) as refused:
        declare(rolled, replace(RollupWish("daily", DAILY), **changes))

    assert expected in refused.value.expected and actual in refused.value.found
    assert (list(rolled.lake.control.rollups.all()), names(rolled)) == ([], before)


def test_what_a_rollup_depends_on_must_be_there_and_what_it_reads_is_among_it() -> None:
    rolled = RolledUp()
    with pytest.raises(RollupNotFound) as refused:
        declare(rolled, RollupWish("daily", DAILY, depends_on=("hourly",)))
    assert refused.value.found == "hourly"

    for name in ("hourly", "daily", "days_of_hours"):
        depends_on = ("daily",) if name == "days_of_hours" else ()
        declare(rolled, RollupWish(name, KINDS[name].query, depends_on=depends_on))

    assert rolled.known("days_of_hours").depends_on == ("daily", "hourly")
    assert rolled.known("days_of_hours").source == rolled.known("hourly").table


def test_who_declares_is_warned_of_what_has_left_hot_and_of_chunks_that_will_wait_long() -> None:
    rolled = RolledUp()
    assert declare(rolled, RollupWish("daily", DAILY)).notices == []
    rolled.drop()

    notices = declare(rolled, RollupWish("monthly", KINDS["monthly"].query)).notices

    assert [notice.partition(":")[0] for notice in notices] == [
        "2 chunks of lake.air.chunks were dropped before",
        "a bucket is longer than drop after 3d",
    ]


def declare(rolled: RolledUp, wish: RollupWish) -> CreatedRollup:
    def resolve(parts: tuple[str, ...]) -> TableName:
        return TableName("lake", ("air",), parts[-1])

    return create_rollup(rolled.lake.services(), wish, resolve)
