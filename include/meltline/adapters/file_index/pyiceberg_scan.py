"""Reads rows of the ledger's tables with PyIceberg: any Iceberg table, of any size.

`ledger_rows.py` imports it only when it is needed, because PyIceberg starts slowly.
"""

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    LessThan,
    Or,
)
from pyiceberg.expressions import Reference as Column
from pyiceberg.expressions.literals import literal
from pyiceberg.table import DataScan, StaticTable

from meltline.adapters.catalogs.pyiceberg_properties import reading_regular_files
from meltline.adapters.index_tables.scan_query import Condition, Question, plain
from meltline.config.load import CatalogConfig


def scanned_rows(hot: CatalogConfig, location: str, question: Question) -> pa.Table:
    """Returns the complete answer.

    Args:
        hot: The catalog, for the credentials of its files.
        location: The path of the table's metadata.
        question: The query.
    """
    return _scan(hot, location, question).to_arrow()


def scanned_batches(
    hot: CatalogConfig, location: str, question: Question
) -> Iterable[pa.RecordBatch]:
    """Returns the answer of millions of rows in batches, which are never in memory at once."""
    batches: Iterable[pa.RecordBatch] = _scan(hot, location, question).to_arrow_batch_reader()
    return batches


def _scan(hot: CatalogConfig, location: str, question: Question) -> DataScan:
    properties = reading_regular_files(hot.properties, hot.warehouse)
    table = StaticTable.from_metadata(location, properties)
    where: BooleanExpression = AlwaysTrue()
    for condition in question.where:
        where = And(where, _expression(condition))
    return table.scan(row_filter=where, selected_fields=tuple(question.columns))


def _expression(condition: Condition) -> BooleanExpression:
    column, op, operand = condition
    if op == "<":
        return LessThan(term=Column(column), value=literal(plain(operand)))
    values = operand if op == "in" else [operand]
    among: BooleanExpression = AlwaysFalse()
    for each in values:
        among = Or(among, EqualTo(term=Column(column), value=literal(plain(each))))
    return among
