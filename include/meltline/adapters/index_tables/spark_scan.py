"""Answers a query to one of the ledger's tables with Spark.

`tables_io.py` calls it if `parquet_scan.py` cannot read the table in this process.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from meltline.adapters.index_tables.scan_query import Op, Question, plain, shaped


def answer_by_spark(
    question: Question, table: DataFrame, ids: Callable[[str, pa.Array], DataFrame]
) -> pa.Table:
    """Returns the answer from Spark. `ids` makes a frame of many numbers, to be joined with."""
    if question.where:
        table = table.where(reduce(and_, (_column(*condition) for condition in question.where)))
    if question.among is not None:
        table = table.join(ids(*question.among), question.among[0], "leftsemi")
    return shaped(table.select(*question.columns).toArrow(), question.answer)


def _column(name: str, op: Op, operand: Any) -> Column:
    column = F.col(name)
    if op == "is null":
        return column.isNull()
    if op == "not null":
        return column.isNotNull()
    if op == "in":
        return column.isin([plain(scalar) for scalar in operand if scalar is not None])
    return _BY_SPARK[op](column, F.lit(plain(operand)))


_BY_SPARK: Mapping[str, Callable[[Column, Any], Column]] = {
    "=": lambda column, operand: column == operand,
    "<": lambda column, operand: column < operand,
    "<=": lambda column, operand: column <= operand,
    ">": lambda column, operand: column > operand,
    ">=": lambda column, operand: column >= operand,
}
