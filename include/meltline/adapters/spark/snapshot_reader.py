"""Reads the rows of one snapshot with Spark, as JSON values, for queries and commands."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.spark.jvm import ENGINE_FAILURES, shown_failure
from meltline.adapters.spark.past import past_frame
from meltline.config.load import CatalogConfig
from meltline.domain.errors import StatementRefused
from meltline.ports import PastView, ReadColumn, ReadRows

AS_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
"""Options of Spark's JSON; by default it would cut fractions of a millisecond."""


class SparkSnapshotReader:
    """Implements `SnapshotReader`. See the port."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        self._spark = spark
        self._catalogs = catalogs

    def read(self, view: PastView, limit: int | None) -> ReadRows:
        with refusing(str(view.table)):
            return collected(past_frame(self._spark, self._catalogs, view), limit)


def collected(frame: DataFrame, limit: int | None = None) -> ReadRows:
    """Returns all rows of a frame as JSON values; columns of the same name are kept apart."""
    columns = tuple(ReadColumn(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
    if not columns:
        return ReadRows((), tuple(() for _ in range(frame.count())))
    numbered = frame.toDF(*(str(n) for n in range(len(columns))))
    if limit is not None:
        numbered = numbered.limit(limit)
    packed = numbered.select(F.to_json(F.struct("*"), AS_JSON))
    return ReadRows(columns, tuple(_values(row[0], len(columns)) for row in packed.collect()))


def _values(packed: str, count: int) -> tuple[Any, ...]:
    row = json.loads(packed, parse_float=_number)
    return tuple(row.get(str(n)) for n in range(count))


def _number(text: str) -> float | str:
    """Returns a number that JSON can represent; one that would be rounded stays text."""
    number = float(text)
    return number if Decimal(repr(number)) == Decimal(text) else text


@contextmanager
def refusing(object: str) -> Iterator[None]:
    """Converts Spark's errors to a refusal, without plans and stack traces.

    Raises:
        StatementRefused: The object's statement cannot be run.
    """
    try:
        yield
    except ENGINE_FAILURES as failure:
        raise StatementRefused(
            "Spark cannot carry it out",
            object=object,
            expected="a statement that Spark can carry out",
            found=shown_failure(failure),
            next="change the statement; what was done so far is in the tables' histories",
        ) from failure
