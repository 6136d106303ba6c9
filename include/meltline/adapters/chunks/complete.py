"""All rows of a table as a frame: hot's, and those that cold alone has.

The cold table is read from its metadata file, by no catalog: a session that carries out SQL does
not know cold's, so nobody writes there by SQL (AR-34).
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.chunks.pinned import PinnedTables, column_of, fields_of
from meltline.adapters.chunks.predicates import in_chunks, near_chunks
from meltline.adapters.chunks.rows import refusing
from meltline.adapters.spark.session import file_io_settings
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.complete import ColdPart, CompleteRead

_FILE = "file"


def complete_frame(
    spark: SparkSession, catalogs: Mapping[str, CatalogConfig], read: CompleteRead
) -> DataFrame:
    """The rows of a `CompleteRead`, under hot's columns: cold's are found by field id.

    Args:
        spark: A session of this process, with hot's catalog.
        catalogs: What its catalogs stand for, and cold's.
        read: What is read.

    Raises:
        SyncRefused: It cannot be read.
    """
    tables = PinnedTables(spark, catalogs)
    with refusing(read.table, read.hot.snapshot_id):
        hot = tables.at(tables.load(read.table).io(), read.hot.location)
        if read.hot.snapshot_id is None:
            rows = tables.frame(hot).limit(0)
        else:
            rows = tables.frame(tables.pinned(hot, read.hot.snapshot_id))
        if read.cold is None:
            return rows
        schema = hot.schema()
    with refusing(read.cold.pinned.table, read.cold.pinned.snapshot_id):
        return rows.union(_of_cold(tables, catalogs, read.cold, schema))


def _of_cold(
    tables: PinnedTables, catalogs: Mapping[str, CatalogConfig], part: ColdPart, schema: Any
) -> DataFrame:
    name, snapshot_id, layout = part.pinned.table, part.pinned.snapshot_id, part.layout
    assert snapshot_id is not None  # a table without a snapshot is not read
    io = tables.file_io(*file_io_settings(catalogs[name.catalog]))
    pinned = tables.pinned(tables.at(io, part.pinned.location), snapshot_id, schema)
    names = [column_of(field) for field in fields_of(tables.schema(pinned))]
    time = f"c{layout.column.field_id}"
    frame = tables.frame(pinned)
    copies = part.copies
    if not (copies.whole or copies.parts):
        frame = frame.toDF(*names)
    else:
        frame = frame.select("*", F.col("_file")).toDF(*names, _FILE)
        if copies.whole:
            frame = frame.where(~F.col(_FILE).isin(list(copies.whole)))
        for chunks, paths in copies.parts.items():
            is_copy = F.col(_FILE).isin(list(paths)) & F.expr(in_chunks(layout, time, chunks))
            frame = frame.where(~is_copy)
    rows = frame.where(near_chunks(layout, time, part.chunks))
    return rows.where(in_chunks(layout, time, part.chunks)).select(*names)
