"""Declaring rollups: what is refused leaves nothing behind."""

from dataclasses import replace

import pytest

from meltline.app.chunks.rollups.declare import RollupWish, create_rollup
from meltline.domain.errors import NameConflict
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import chunk_table, reading
from tests.chunks.rolled_up import KINDS
from tests.unit.rollups.rolled_up_table import RolledUp


def test_a_name_that_a_rollup_of_another_schema_has_is_refused_before_a_table_is_made() -> None:
    rolled = RolledUp()
    rolled.declare()
    other = chunk_table(rolled.lake, "lake.water.chunks")
    other.append_rows(reading(1, 0.5))
    before = rolled.lake.control.rollups.all(), names(rolled)

    with pytest.raises(NameConflict, match="a rollup daily already"):
        wish = RollupWish("daily", KINDS["daily"].query)
        create_rollup(rolled.lake.services(), wish, lambda parts: other.name)

    assert (rolled.lake.control.rollups.all(), names(rolled)) == before
    assert replace(rolled.known().table, namespace=("water",)) not in names(rolled)


def names(rolled: RolledUp) -> list[TableName]:
    """All tables of the catalog."""
    return [entry.name for entry in rolled.lake.catalogs["lake"].listing().entries]
