"""Chunk layout of a table: its time column and unit, and the chunks of each file.

Everything that maps files to chunks uses it. Times and units are in `columns` and `ranges`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.ranges import UNBOUNDED, TimeRange, Unit
from meltline.domain.iceberg.files import FileKind

_Field: TypeAlias = Mapping[str, Any]
"""A column of a schema."""
_ORDER = tuple(Unit)
_UNITS = frozenset(Unit)
_NONE: frozenset[str] = frozenset()
_MOST = 10_000
"""A file that may reach into more chunks than this counts as reaching into all."""
_SHORTEST = {
    Unit.HOUR: timedelta(hours=1),
    Unit.DAY: timedelta(days=1),
    Unit.MONTH: timedelta(days=28),
    Unit.YEAR: timedelta(days=365),
}


@dataclass(frozen=True)
class ChunkLayout:
    """A table's split into chunks: the time column, and the unit.

    It is unchanged when the partition spec changes: files of older and newer specs belong to a
    chunk as far as their times are inside (LT-32).
    """

    column: TimeColumn
    unit: Unit

    def names(self, times: "Times") -> list[str] | None:
        """Returns the chunks into which some times reach; None means all."""
        if times.is_everywhere:
            return None
        if times.range is None or self.unit.is_last(times.range.start):
            return [UNBOUNDED]
        if times.range.end - times.range.start > _MOST * _SHORTEST[self.unit]:
            return None
        try:
            return list(times.range.chunks(self.unit))
        except OverflowError:
            return None

    def reached(self, times: "Times", chunks: Collection[str]) -> frozenset[str]:
        """Filters chunks into which some times reach."""
        names = self.names(times)
        return frozenset(chunks if names is None else set(names).intersection(chunks))

    def range(self, name: str) -> TimeRange | None:
        """Returns a chunk's times; None for `unbounded`. Raises ValueError for an invalid name."""
        return None if name == UNBOUNDED else self.unit.range(name)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a file's rows, or of the rows that a delete file may reach.

    Attributes:
        range: Contains all of them; None for rows without a time.
        is_everywhere: The times are unknown, or may be any.
    """

    range: TimeRange | None = None
    is_everywhere: bool = False


EVERYWHERE = Times(is_everywhere=True)


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A data or delete file, with the fields that decide its chunks.

    Attributes:
        rows: Rows; for a delete file its deletes.
        sequence_number: Its data sequence number.
        snapshot_id: The snapshot that added it; for a removed one the snapshot that removed it.
        referenced: The single data file of its deletes, if recorded.
        part: Offset of a deletion vector in the file.
    """

    path: str
    kind: FileKind
    bytes: int
    rows: int
    times: Times
    spec_id: int
    sequence_number: int = 0
    snapshot_id: int = 0
    referenced: str = ""
    part: int | None = None


@dataclass(frozen=True)
class SnapshotChange:
    """Changes of one snapshot, by the manifests that it wrote.

    Attributes:
        operation: append, replace, overwrite or delete; empty if not recorded.
        place: Offset in main's history, counted by Meltline.
    """

    snapshot_id: int
    operation: str
    place: int
    summary: Mapping[str, str]
    added: Sequence[ChunkFile] = ()
    removed: Sequence[ChunkFile] = ()

    @property
    def rewrites_only(self) -> bool:
        """Whether it is a compaction: the rows are the same before and after (LT-14)."""
        return self.operation == "replace"

    def touched(self, layout: ChunkLayout) -> frozenset[str] | None:
        """Returns the chunks whose rows it may have changed; None means all."""
        return chunks_of(layout, (*self.added, *self.removed)) if not self.rewrites_only else _NONE

    def rewritten(self, layout: ChunkLayout) -> frozenset[str] | None:
        """Returns the chunks in which it did more than add rows; None means all."""
        if self.rewrites_only:
            return _NONE
        deletes = [file for file in self.added if file.kind is not FileKind.DATA]
        return chunks_of(layout, (*deletes, *self.removed))


def chunks_of(layout: ChunkLayout, files: Iterable[ChunkFile]) -> frozenset[str] | None:
    """Returns the chunks into which some files reach; None means all."""
    names: set[str] = set()
    for times in {file.times for file in files}:
        of_file = layout.names(times)
        if of_file is None:
            return None
        names.update(of_file)
    return frozenset(names)


def layout_of(
    document: Mapping[str, Any], column: str = "", unit: Unit | None = None, pattern: str = ""
) -> ChunkLayout:
    """Derives a table's chunk layout, from its default partition spec unless given.

    Args:
        document: The table's metadata.
        column: The column; empty is the partition column.
        unit: Length of a chunk; None is the length of a partition.
        pattern: Meaning of integers and strings; see `TimeColumn`.

    Raises:
        ValueError: The table is not partitioned by time, by several columns, or lacks a unit.
    """
    fields = {field["id"]: field for field in _current_schema(document)["fields"]}
    timed: list[tuple[_Field, str]] = [
        (fields[part["source-id"]], str(part["transform"]))
        for part in _default_spec(document)
        if part.get("source-id") in fields and _tells_time(fields, part, pattern)
    ]
    field = _named(fields.values(), column) if column else _only([field for field, _ in timed])
    chosen = TimeColumn.of(field, pattern)
    transforms = [transform for source, transform in timed if source["id"] == chosen.field_id]
    length = unit or _length_of(chosen, transforms)
    if _ORDER.index(length) < _ORDER.index(chosen.finest):
        raise ValueError(f"values of {chosen.name} do not tell one {length} from the next")
    return ChunkLayout(chosen, length)


def _named(fields: Iterable[_Field], name: str) -> _Field:
    by_name = {str(field["name"]): field for field in fields}
    if name not in by_name:
        raise ValueError(f"there is no column {name}; there are {', '.join(sorted(by_name))}")
    return by_name[name]


def _only(fields: Iterable[_Field]) -> _Field:
    by_id = {field["id"]: field for field in fields}
    if len(by_id) != 1:
        columns = ", ".join(sorted(str(field["name"]) for field in by_id.values())) or "none"
        raise ValueError(f"the table is not partitioned by one column of times (found: {columns})")
    return next(iter(by_id.values()))


def _length_of(column: TimeColumn, transforms: Collection[str]) -> Unit:
    """Length of a partition, by the finest transform of the column."""
    units = [Unit(transform) for transform in transforms if transform in _UNITS]
    if units:
        return min(units, key=_ORDER.index)
    if "identity" not in transforms:
        raise ValueError(f"nothing says how long a chunk of {column.name} is: say a unit")
    return column.finest


def _current_schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "schemas" not in document:
        schema: Mapping[str, Any] = document["schema"]
        return schema
    return next(s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"])


def _default_spec(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Partition fields by which new rows are written."""
    if "partition-specs" not in document:  # the oldest form of format 1
        fields: Sequence[Mapping[str, Any]] = document["partition-spec"]
        return fields
    return next(
        spec["fields"]
        for spec in document["partition-specs"]
        if spec["spec-id"] == document["default-spec-id"]
    )


def _tells_time(
    fields: Mapping[int, Mapping[str, Any]], part: Mapping[str, Any], pattern: str
) -> bool:
    kind = str(fields[part["source-id"]]["type"])
    if part["transform"] in _UNITS:
        return True
    return part["transform"] == "identity" and (
        kind in ("date", "timestamp", "timestamptz") or bool(pattern)
    )


def separating_spec(document: Mapping[str, Any], layout: ChunkLayout) -> int:
    """Chooses the partition spec for new rows such that no file has rows of several chunks.

    It is the default one, unless its partitions are longer than chunks and an earlier spec's are
    not. Raises KeyError for a document in the oldest form of format 1.
    """
    default: int = document["default-spec-id"]
    columns = {field["id"] for field in _current_schema(document)["fields"]}
    specs = sorted(
        document["partition-specs"], key=lambda spec: (spec["spec-id"] == default, spec["spec-id"])
    )
    separating = [spec["spec-id"] for spec in specs if _separates(spec["fields"], columns, layout)]
    return separating[-1] if separating else default


def _separates(fields: Sequence[_Field], columns: Collection[int], layout: ChunkLayout) -> bool:
    """Whether rows can be written by a spec now, and partitions are no longer than chunks."""
    transforms = [f["transform"] for f in fields if f["source-id"] == layout.column.field_id]
    fine = _ORDER[: _ORDER.index(layout.unit) + 1]
    is_fine = any(transform in ("identity", *fine) for transform in transforms)
    return is_fine and all(field["source-id"] in columns for field in fields)


def inside(layout: ChunkLayout, file: ChunkFile, names: Collection[str]) -> bool:
    """Whether all of a file's rows are in some chunks."""
    of_file = layout.names(file.times)
    return of_file is not None and set(of_file) <= set(names)
