"""All rows of a table in memory, of hot and of cold together."""

import json
from collections.abc import Iterator

from meltline.domain.chunks.complete import ColdPart, CompleteRead, PinnedTable
from meltline.ports import ObjectReader
from tests.doubles.chunks.rows import Row, TableRows, chunk_of


def complete_rows_of(read: CompleteRead, store: ObjectReader) -> list[Row]:
    """The rows that a `CompleteRead` says, each as often as it is there.

    Args:
        read: What is read.
        store: Where the files of both tables lie.
    """
    snapshot_id = read.hot.snapshot_id
    rows = [] if snapshot_id is None else _table(read.hot, store).rows_at(snapshot_id)
    if (cold := read.cold) is None:
        return rows
    of_hot = [values for values in rows if chunk_of(cold.layout, values) not in cold.instead]
    return [*of_hot, *_of_cold(cold, store)]


def _of_cold(part: ColdPart, store: ObjectReader) -> Iterator[Row]:
    table, snapshot_id = _table(part.pinned, store), part.pinned.snapshot_id
    assert snapshot_id is not None
    paths = {entry.path for entry in table.live(snapshot_id)} - part.copies.whole
    for path in sorted(paths):
        left_out = {n for names, of in part.copies.parts.items() if path in of for n in names}
        for values in table.rows_at(snapshot_id, {path}):
            if chunk_of(part.layout, values) in part.chunks - left_out:
                yield values


def _table(pinned: PinnedTable, store: ObjectReader) -> TableRows:
    return TableRows(pinned.table, json.loads(store.read(pinned.location)), store)
