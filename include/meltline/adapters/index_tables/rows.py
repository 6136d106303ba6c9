"""Converts rows of the file ledger to domain objects, for every way of reading them.

The file index uses it, and `tombstone_rows.py`. It imports neither Spark nor, at start, Arrow.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, PlannedFile

if TYPE_CHECKING:  # slow to import, and commands that only edit a table do without it
    import pyarrow as pa


PLANNED_FILE = ("path", "kind", "bytes", "owner", "due_at")
"""The columns of a plan's item."""
DEPARTURE = (
    "path",
    "kind",
    "bytes",
    "owner",
    "plan_id",
    "departed_at",
    "due_at",
    "state",
    "recorded_at",
)
"""The columns of a departure."""


def planned_files(rows: "pa.Table") -> list[PlannedFile]:
    """Returns plan items from ledger rows, in their order."""
    kinds = {str(kind): kind for kind in FileKind}
    columns = _columns(rows, *PLANNED_FILE)
    return [
        PlannedFile(path, kinds[kind], size, owner, due_at)
        for path, kind, size, owner, due_at in zip(*columns, strict=True)
    ]


def departures(rows: "pa.Table") -> list[Departure]:
    """Returns departures from ledger rows, in their order."""
    kinds = {str(kind): kind for kind in FileKind}
    states = {str(state): state for state in DepartureState}
    columns = _columns(rows, *DEPARTURE)
    return [
        Departure(path, kinds[kind], size, owner, plan, departed, due, states[state], recorded)
        for path, kind, size, owner, plan, departed, due, state, recorded in zip(
            *columns, strict=True
        )
    ]


def newest_rows(rows: "pa.Table") -> "pa.Table":
    """Keeps the newest row of each file in `departures`: it has the file's current state.

    Tens of millions of them take a few dozen bytes of memory each besides their own.
    """
    import numpy as np  # noqa: PLC0415 - starts slowly

    keys, written = (
        rows.column(name).fill_null(0).to_numpy() for name in ("key_hash", "written_ns")
    )
    order = np.lexsort((written, keys))
    sorted_keys = keys[order]
    is_newest = np.ones(len(order), bool)
    is_newest[:-1] = sorted_keys[1:] != sorted_keys[:-1]
    if is_newest.all():
        return rows
    return rows.take(np.sort(order[is_newest]))


def tuples(rows: "pa.Table | pa.RecordBatch", *names: str) -> Iterator[tuple[Any, ...]]:
    """Returns the values of some columns, row by row."""
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _columns(rows: "pa.Table", *names: str) -> list[list[Any]]:
    return [_values(rows.column(name)) for name in names]


def _values(column: "pa.ChunkedArray") -> list[Any]:
    """Returns a column's values. A time costs much to make and repeats: each is made once."""
    if not str(column.type).startswith("timestamp"):
        values: list[Any] = column.to_pylist()
        return values
    times_of: list[Any] = []
    for chunk in column.chunks:
        coded = chunk.dictionary_encode()
        times = coded.dictionary.to_pylist()
        times_of += [None if at is None else times[at] for at in coded.indices.to_pylist()]
    return times_of
