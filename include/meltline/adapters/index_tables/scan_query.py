"""Query of a ledger table: columns, conditions, and the values to match.

Three readers answer it with the same rows: from the table's files in this process (`parquet_scan`),
with Spark (`spark_scan`), or with PyIceberg where Spark is missing. Conditions follow SQL: null is
never equal, less or more.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Op = Literal["=", "<", "<=", ">", ">=", "in", "is null", "not null"]
Condition = tuple[str, Op, Any]
"""A column, an operator, and its operand: a value, several for `in`, else None."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Bounds:
    """Bounds of a column's values in a file or a row group: no value lies outside.

    Attributes:
        low: The least possible value, as `ordered` returns it; likewise `high`. None: unknown.
        nulls: How many are null; None if unknown.
        rows: How many values there are, including nulls.
    """

    low: int | str | None
    high: int | str | None
    nulls: int | None
    rows: int

    @property
    def empty(self) -> bool:
        """Whether all values are null."""
        return self.nulls == self.rows

    def may_hold(self, op: Op, operand: Any) -> bool:
        """Whether one of the values may meet the condition."""
        if op == "is null":
            return self.nulls != 0
        if self.empty:
            return False
        if op == "not null":
            return True
        values = [scalar for scalar in (operand if op == "in" else [operand]) if scalar is not None]
        return any(self._may_be("=" if op == "in" else op, ordered(scalar)) for scalar in values)

    def _may_be(self, op: Op, bound: Any) -> bool:
        above = self.low is not None and (bound < self.low or (op == "<" and bound == self.low))
        below = self.high is not None and (bound > self.high or (op == ">" and bound == self.high))
        if op in ("<", "<="):
            return not above
        return not below and (op != "=" or not above)

    def may_hold_any(self, values: np.ndarray[Any, Any]) -> bool:
        """Whether one of many sorted numbers may be within the bounds."""
        if self.empty or not len(values):
            return False
        first = 0 if self.low is None else np.searchsorted(values, self.low, "left")
        end = len(values) if self.high is None else np.searchsorted(values, self.high, "right")
        return bool(first < end)


@dataclass(frozen=True)
class Question:
    """A query of a ledger table: rows and columns.

    Attributes:
        schema: The table's columns as this release has them.
        columns: The columns of the answer, in its order.
        where: Conditions that each row meets, all of them.
        among: A column, and the numbers that its value may have; None: any.
    """

    schema: pa.Schema
    columns: Sequence[str]
    where: Sequence[Condition] = ()
    among: tuple[str, pa.Array] | None = None

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        columns: Sequence[str],
        where: Sequence[Condition],
        among: tuple[str, pa.Array | Collection[int]] | None,
    ) -> "Question":
        """Builds it from values as callers have them."""
        if among is None:
            return cls(schema, tuple(columns), tuple(where))
        column, values = among
        hashes = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
        hashes = pc.unique(hashes.drop_null())
        return cls(schema, tuple(columns), tuple(where), (column, hashes))

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @cached_property
    def tested(self) -> tuple[str, ...]:
        """The columns that select rows."""
        names = [column for column, _, _ in self.where]
        return tuple(dict.fromkeys(names + ([self.among[0]] if self.among else [])))

    @cached_property
    def never(self) -> bool:
        """Whether no row can be in the answer."""
        return self.among is not None and not len(self.among[1])

    @cached_property
    def _sorted(self) -> np.ndarray[Any, Any]:
        return np.sort(self.among[1].to_numpy(zero_copy_only=False)) if self.among else np.array(())

    def may_be_in(self, bounds: Mapping[str, Bounds]) -> bool:
        """Whether a file or a row group may hold a row of the answer."""
        for column, op, operand in self.where:
            if column in bounds and not bounds[column].may_hold(op, operand):
                return False
        if self.among is None or self.among[0] not in bounds:
            return True
        return bounds[self.among[0]].may_hold_any(self._sorted)

    def chosen(self, rows: pa.Table) -> pa.Array:
        """Whether each row is in the answer; null means no. At least one condition is needed."""
        masks = [_holds(rows.column(column), op, operand) for column, op, operand in self.where]
        if self.among is not None:
            masks.append(pc.is_in(rows.column(self.among[0]), self.among[1]))
        mask = reduce(pc.and_kleene, masks)
        return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the same rows with these columns, in this order and type; missing ones are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def ordered(scalar: Any) -> int | str:
    """Converts a value to the form of bounds: times in microseconds, so that all compare alike."""
    if isinstance(scalar, datetime):
        return (scalar - _EPOCH) // timedelta(microseconds=1)
    return str(scalar) if isinstance(scalar, str) else int(scalar)


def _holds(column: pa.ChunkedArray, op: Op, operand: Any) -> pa.ChunkedArray:
    if op == "is null":
        return pc.is_null(column)
    if op == "not null":
        return pc.is_valid(column)
    if op == "in":
        values = [plain(scalar) for scalar in operand if scalar is not None]
        return pc.is_in(column, pa.array(values, column.type))
    return _COMPARED[op](column, pa.scalar(plain(operand), column.type))


def plain(scalar: Any) -> Any:
    """An enumeration's value without its class, which not all libraries see through."""
    if isinstance(scalar, str):
        return str(scalar)
    return int(scalar) if isinstance(scalar, int) and not isinstance(scalar, bool) else scalar
