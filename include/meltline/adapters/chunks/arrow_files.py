"""Writes an Arrow table as data files of each partition, and appends them to a branch.

`guarded_writer` calls it. PyIceberg alone cannot partition rows by time.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import count
from operator import and_
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import bin_pack_arrow_table, schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table, WriteTask
from pyiceberg.types import DateType, TimestampType, TimestamptzType

_TARGET = 512 * 1024 * 1024  # bytes of Arrow in a file


def append_to_branch(table: Table, rows: pa.Table, branch: str) -> None:
    """Appends rows to a branch.

    Raises:
        ValueError: The rows do not fit the table.
    """
    fitting = _fitting(table, rows)
    if table.spec().is_unpartitioned():
        table.append(fitting, branch=branch)
        return
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(branch=branch).fast_append() as files,
    ):
        for file in _written(table, fitting):
            files.append_data_file(file)


def _fitting(table: Table, rows: pa.Table) -> pa.Table:
    """Returns the rows under the table's columns and types; missing columns are null."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    if foreign := sorted(set(rows.column_names) - set(schema.names)):
        raise ValueError(f"{table.name()} has no columns {', '.join(foreign)}")
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name} of {table.name()} takes no nulls")
    return pa.Table.from_arrays(columns, schema=schema)


def _written(table: Table, rows: pa.Table) -> Iterator[DataFile]:
    unique, numbers = uuid4(), count()
    tasks = (
        WriteTask(unique, next(numbers), table.schema(), batches, partition_key=key)
        for key, part in _partitions(table, rows)
        for batches in bin_pack_arrow_table(part, _TARGET)
    )
    return write_file(io=table.io, table_metadata=table.metadata, tasks=tasks)


def _partitions(table: Table, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    spec, names = table.spec(), [f"_partition_{at}" for at in range(len(table.spec().fields))]
    keyed = rows
    for name, field in zip(names, spec.fields, strict=True):
        keyed = keyed.append_column(name, _transformed(table, field, rows))
    for combination in keyed.group_by(names).aggregate([]).to_pylist():
        pairs = zip(spec.fields, names, strict=True)
        values = [PartitionFieldValue(field, combination[name]) for field, name in pairs]
        chosen = reduce(and_, (_is(name, combination[name]) for name in names))
        part = keyed.filter(chosen).drop_columns(names).combine_chunks()
        yield PartitionKey(values, spec, table.schema()), part


def _transformed(table: Table, field: Any, rows: pa.Table) -> pa.Array:
    """Returns the partition field's value of each row; transforms each distinct value once."""
    source = table.schema().find_field(field.source_id)
    column = rows.column(str(table.schema().find_column_name(field.source_id)))
    if isinstance(source.field_type, DateType):
        column = column.cast(pa.int32())
    elif isinstance(source.field_type, TimestampType | TimestamptzType):
        column = column.cast(pa.int64())
    encoded = column.combine_chunks().dictionary_encode()
    transform = field.transform.transform(source.field_type)
    values: Sequence[Any] = [transform(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.null() if not values else None).take(encoded.indices)


def _is(name: str, value: object) -> Any:
    return pc.field(name).is_null() if value is None else pc.field(name) == value
