"""Between which chunks the rows of each data file lie, worked out by Spark from Iceberg's tables.

It is the gate's second way to the same answer: it shares no code with the reader of manifests.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from meltline.adapters.chunks.predicates import Moment, chunk_ordinal, floored, moment_ordinal
from meltline.adapters.spark.pinned_tables import PinnedTables
from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.layout import ChunkLayout

_TIMES = frozenset(("hour", "day", "month", "year", "identity"))


def file_places(tables: PinnedTables, pinned: Any, layout: ChunkLayout) -> DataFrame:
    """Path, whether all its rows are without a time, and its first and last chunk's number.

    The numbers are null where nobody knows. The partition tells, where it is of time; where that
    is longer than a chunk, or there is none, the bounds of the column tell.
    """
    java = tables.java
    kind = java("org.apache.iceberg.MetadataTableType").DATA_FILES
    files = tables.frame(
        java("org.apache.iceberg.MetadataTableUtils").createMetadataTableInstance(pinned, kind)
    )
    renamed = ["f.file_path AS path", "f.spec_id AS spec", f"{_metrics(pinned, layout)} AS bounds"]
    is_partitioned = "partition" in files.columns
    if is_partitioned:
        renamed.append(f"{_partition_by_id(tables, pinned, files)} AS part")
    places = _Places(layout, dict(_timed_parts(tables, pinned, layout)) if is_partitioned else {})
    return (
        files.alias("f")
        .selectExpr(*renamed)
        .selectExpr("path", *places.partition(), *places.bounds())
        .selectExpr(
            "path",
            "coalesce(part_null, all_null) AS timeless",
            # These two pass over nulls: what one of both does not know the other one may.
            "greatest(part_first, bound_first) AS first",
            "least(part_last, bound_last) AS last",
        )
    )


def _metrics(pinned: Any, layout: ChunkLayout) -> str:
    name = str(pinned.schema().findColumnName(layout.column.field_id))
    return f"f.readable_metrics.{_quoted(name)}"


def _partition_by_id(tables: PinnedTables, pinned: Any, files: DataFrame) -> str:
    """The partition with its fields called by their ids: a name may be taken by two specs."""
    struct: Any = files.schema["partition"].dataType
    fields = tables.java("org.apache.iceberg.Partitioning").partitionType(pinned).fields()
    types = (
        f"p{field.fieldId()}: {part.dataType.simpleString()}"
        for field, part in zip(fields, struct.fields, strict=True)
    )
    return f"CAST(f.partition AS STRUCT<{', '.join(types)}>)"


def _timed_parts(
    tables: PinnedTables, pinned: Any, layout: ChunkLayout
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """For each partition spec its fields that tell a row's time, with their transforms."""
    to_json = tables.java("org.apache.iceberg.PartitionSpecParser").toJson
    for spec in pinned.specs().values():
        fields = [
            (f"part.p{field['field-id']}", str(field["transform"]))
            for field in json.loads(to_json(spec))["fields"]
            if field["source-id"] == layout.column.field_id and field["transform"] in _TIMES
        ]
        if fields:
            yield int(spec.specId()), fields


class _Places:
    """Spark SQL of the first and last chunk of a file."""

    def __init__(self, layout: ChunkLayout, parts: dict[int, list[tuple[str, str]]]) -> None:
        self._layout = layout
        self._parts = parts

    def partition(self) -> list[str]:
        """By its partition: null where that is not of time."""
        ends = {
            spec: [self._ends(value, transform) for value, transform in fields]
            for spec, fields in self._parts.items()
        }
        first = {spec: _most("greatest", [one for one, _ in e]) for spec, e in ends.items()}
        last = {spec: _most("least", [other for _, other in e]) for spec, e in ends.items()}
        null = {
            spec: " OR ".join(f"({end}) IS NULL" for pair in e for end in pair)
            for spec, e in ends.items()
        }
        return [
            f"{_by_spec(first, 'BIGINT')} AS part_first",
            f"{_by_spec(last, 'BIGINT')} AS part_last",
            f"{_by_spec(null, 'BOOLEAN')} AS part_null",
        ]

    def bounds(self) -> list[str]:
        """By the column's bounds: null where rows without a time are among others."""
        full = "bounds.null_value_count = 0"
        if self._layout.column.kind is ColumnKind.TEXT:
            full = "FALSE"  # bounds of texts are cut off
        ends = [chunk_ordinal(self._layout, f"bounds.{end}_bound") for end in ("lower", "upper")]
        both = " AND ".join(f"({end}) IS NOT NULL" for end in ends)
        return [
            f"CASE WHEN {full} AND {both} THEN {ends[0]} END AS bound_first",
            f"CASE WHEN {full} AND {both} THEN {ends[1]} END AS bound_last",
            "coalesce(bounds.value_count > 0"
            " AND bounds.null_value_count = bounds.value_count, FALSE) AS all_null",
        ]

    def _ends(self, value: str, transform: str) -> tuple[str, str]:
        if transform == "identity":
            number = chunk_ordinal(self._layout, value)
            return number, number
        first, last = _moments(value, transform)
        unit = self._layout.unit
        return moment_ordinal(unit, first), moment_ordinal(unit, last)


def _moments(value: str, transform: str) -> tuple[Moment, Moment]:
    """The first and the last hour of a partition, of which Iceberg keeps the number since 1970."""
    if transform == "hour":
        day = f"date_from_unix_date(CAST({floored(value, 24)} AS INT))"
        hour = Moment(day, f"pmod({value}, 24)")
        return hour, hour
    if transform == "day":
        return Moment(value), Moment(value, "23")
    months = value if transform == "month" else f"{value} * 12"
    start = f"add_months(DATE '1970-01-01', {months})"
    end = f"date_sub(add_months({start}, {1 if transform == 'month' else 12}), 1)"
    return Moment(start), Moment(end, "23")


def _most(function: str, values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"{function}({', '.join(values)})"


def _by_spec(by_spec: dict[int, str], type: str) -> str:
    if not by_spec:
        return f"CAST(NULL AS {type})"
    cases = " ".join(f"WHEN {spec} THEN {value}" for spec, value in by_spec.items())
    return f"CASE spec {cases} END"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
