"""Work dealt out to executors."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def spread(spark: SparkSession, rows: pa.Table, weights: Sequence[int]) -> DataFrame:
    """Rows in one part for each core, each of about the same weight.

    There are no more parts than cores, and no shuffle: to start a Python task takes a tenth of a
    second, which is as long as it takes to read a hundred small files.
    """
    cores = spark.sparkContext.defaultParallelism
    heaviest_first = np.argsort(-np.asarray(weights, np.int64), kind="stable")
    dealt = np.concatenate([heaviest_first[core::cores] for core in range(cores)])
    return spark.createDataFrame(rows.take(pa.array(dealt, pa.int64())))
