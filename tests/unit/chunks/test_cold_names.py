"""The name of a table in cold belongs to one hot table, from when its sync is declared."""

import pytest

from meltline.app.chunks.replication.declare import start_sync
from meltline.domain.errors import NameConflict
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import ChunkTable, chunk_table
from tests.chunks.chunked_lake import ChunkedLake

NAME = "rows.shared"


def two_tables() -> tuple[ChunkedLake, ChunkTable, ChunkTable]:
    """Two tables that can be cut into chunks; nothing of them is in cold."""
    lake = ChunkedLake(has_cold=True, sandbox=True)
    lake.begin(2)
    assert lake.hot is not None
    return lake, lake.hot, chunk_table(lake, "lake.air.others", version=2)


def test_a_cold_name_that_was_only_declared_is_refused_to_a_second_table() -> None:
    lake, first, second = two_tables()
    start_sync(lake.services(), first.name, NAME)
    with pytest.raises(NameConflict, match="another table"):
        start_sync(lake.services(), second.name, NAME)
    assert [sync.table_uuid for sync in lake.control.syncs.all()] == [first.uuid]
    assert lake.control.chunks.tracked([second.uuid]) == []


def test_the_same_table_may_declare_its_name_again() -> None:
    lake, first, _ = two_tables()
    before = start_sync(lake.services(), first.name, NAME)
    assert start_sync(lake.services(), first.name, NAME) == before


def test_a_name_that_nobody_chose_gives_way_to_one_that_somebody_did() -> None:
    lake, first, second = two_tables()
    chosen = start_sync(lake.services(), first.name, "meltline_synced.air.others").cold
    other = start_sync(lake.services(), second.name).cold
    assert chosen == TableName("ice", ("meltline_synced", "air"), "others")
    assert other.namespace == chosen.namespace and other.name.startswith("others__")
