"""Rows that executors held and lost are read again, or the step fails: never written in part."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from meltline.adapters.file_index.file_index import spark_file_ledger
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.ingest.ingest import ReadingLimits
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from meltline.ports import IngestRequest
from tests.lake.avro_files import Entry, manifest_bytes
from tests.spark.setups.warehouse import Warehouse

pytestmark = pytest.mark.spark


class BeforeWrites(LedgerTables):
    """Tables before each of whose writes by Spark something happens."""

    happens: Callable[[], None]

    def write(self, table: str, frame: DataFrame, marker: str) -> None:
        self.happens()
        super().write(table, frame, marker)


def lose_blocks(warehouse: Warehouse) -> None:
    """As where the executors are lost that hold what was read so far."""
    context = warehouse.spark.sparkContext
    blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager()  # type: ignore[union-attr]
    held = list(context._jsc.getPersistentRDDs())
    assert held, "nothing was held"
    for number in held:
        blocks.removeRdd(number)


def test_a_manifest_whose_rows_are_lost_with_their_executor_does_not_count_as_read(
    tmp_path: Path,
) -> None:
    warehouse, store = Warehouse.empty(tmp_path, "lost_executors"), ObjectStores({})
    tables = BeforeWrites(warehouse.spark, store, warehouse.catalog, "meltline")
    tables.prepare()
    home = f"file://{tmp_path}/lake/t/"
    path = f"{home}metadata/m.avro"
    entries = [
        Entry(f"{home}data/{n}.parquet", n, FileKind.DATA, EntryStatus.ADDED, 1, 1)
        for n in range(20)
    ]
    content = manifest_bytes(2, entries)
    store.write(path, content)

    def lose() -> None:
        lose_blocks(warehouse)
        store.delete([path])  # for a while the store does not have it, as far as anyone can tell

    tables.happens = lose
    manifests = spark_file_ledger(tables, store, ReadingLimits(here_manifests=0)).manifests
    request = IngestRequest("t", [ManifestFile(path, len(content), 20, 0, 0, 3, 9)], homes=(home,))
    with pytest.raises((PySparkException, Py4JJavaError)):
        manifests.ingest([request], [])
    assert not manifests.counted([path])
    store.write(path, content)
    tables.happens = lambda: None
    (outcome,) = manifests.ingest([request], [])
    assert not outcome.error and manifests.counted([path])
    assert tables.read("entries").count() == 20
