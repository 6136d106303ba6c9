"""Builds the Spark adapters of chunks for one session; `wiring` calls it."""

from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import SparkSession

from meltline.adapters.chunks.dropper import JvmChunkDropper
from meltline.adapters.chunks.replicator import SparkReplicator
from meltline.adapters.chunks.rollup_engine import SparkRollups
from meltline.adapters.chunks.rows import SparkChunkRows
from meltline.config.load import CatalogConfig
from meltline.ports import ChunkDropper, ChunkRows, Replicator, RollupEngine


class ChunkParts(TypedDict):
    """The adapters, under the names of a run context's fields."""

    replicator: Replicator
    chunk_rows: ChunkRows
    dropper: ChunkDropper
    rollups: RollupEngine


def spark_parts(spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> ChunkParts:
    """Builds the adapters that copy, read and drop chunks in a session of this process."""
    return {
        "replicator": SparkReplicator(spark, catalogs),
        "chunk_rows": SparkChunkRows(spark, catalogs),
        "dropper": JvmChunkDropper(spark, catalogs),
        "rollups": SparkRollups(spark, catalogs),
    }
