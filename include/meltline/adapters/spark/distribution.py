"""Distributes rows evenly over executors, for jobs that read manifests."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def spread(spark: SparkSession, rows: pa.Table, weights: Sequence[int]) -> DataFrame:
    """Returns rows in one partition for each core, each of about the same weight.

    There are no more partitions than cores, and no shuffle: starting a Python task takes a tenth
    of a second, as long as reading a hundred small files.
    """
    cores = spark.sparkContext.defaultParallelism
    heaviest_first = np.argsort(-np.asarray(weights, np.int64), kind="stable")
    dealt = np.concatenate([heaviest_first[core::cores] for core in range(cores)])
    return spark.createDataFrame(rows.take(pa.array(dealt, pa.int64())))
