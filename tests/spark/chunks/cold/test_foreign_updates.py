"""Stock Spark updates rows of dropped chunks in cold: as many rows, found by their checksums."""

from collections.abc import Iterator

import pytest

from meltline.app.chunks.cold_overrides import accept_cold
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import SyncRefused
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake
from tests.spark.setups.warehouse import SPACE

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("updates"))


def in_cold(lake: ChunkLake, statement: str) -> None:
    """Somebody else's statement, in the catalog of cold."""
    lake.w.spark.sql(statement)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.slow("a drop, an update and a compaction in cold, and passes after each")
def test_an_update_in_cold_is_found_and_a_compaction_is_none(lake: ChunkLake, mode: str) -> None:
    table = f"updated_{mode}".replace("-", "_")
    lake.synced(table, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lake.run(table)
    lake.w.sql(f"ALTER TABLE {{{table}}} ADD COLUMN note STRING")
    late = lake.insert(table, OLD[0])
    lake.follow(table)
    cold, name = lake.cold_name(table), f"meltline_synced.{SPACE}.{table}"
    in_cold(
        lake,
        f"CALL {lake.cold_catalog}.system.rewrite_data_files(table => '{name}',"
        " options => map('rewrite-all', 'true'))",
    )
    lake.follow(table)  # it has late rows apart again
    lake.follow(table)
    assert complete_rows(lake.services(), lake.name(table)).notice == ""
    in_cold(lake, f"ALTER TABLE {cold} SET TBLPROPERTIES ('write.update.mode'='{mode}')")
    first = lake.cold(table)[0][0]
    assert first not in late
    in_cold(lake, f"UPDATE {cold} SET v = 'forged' WHERE id = {first}")
    assert "rewritten 1 dropped chunk" in complete_rows(lake.services(), lake.name(table)).notice
    refused = lake.replicate(table)
    assert refused.sync.reason == COLD_CHANGED, refused.error
    with pytest.raises(SyncRefused, match="other rows"):
        complete_rows(lake.services(), lake.name(table))
    assert len(accept_cold(lake.services(), lake.name(table), "a correction")) == 1
    assert complete_rows(lake.services(), lake.name(table)).notice == ""
    lake.follow(table)
