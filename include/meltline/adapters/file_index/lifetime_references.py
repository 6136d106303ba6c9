"""References from linear histories to files, computed from the files' lifetimes.

A file's lifetime covers a run of its table's snapshots. There may be thousands of snapshots and
millions of lifetimes, so the uses of a run are never collected one by one. `storage_usage.py` calls
it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.index_tables.lifetimes import Points
from meltline.domain.deletion.storage import FileReference

_NEVER = datetime.max.replace(tzinfo=UTC)


class LineUses:
    """The snapshots of linear histories, with the use that each makes of its files.

    Among uses of one table that differ only in their end, the one that ends last keeps all that the
    others keep. So a run has a handful of uses, however long it is.
    """

    def __init__(self, lines: Mapping[str, Sequence[tuple[int, FileReference]]]) -> None:
        """Takes each table's snapshots: their sequence numbers, and their uses of the table."""
        self._tables = pa.array(lines.keys(), pa.string())
        flat = [(at, *pair) for at, line in enumerate(lines.values()) for pair in line]
        self._points = Points(
            pa.array((at for at, _, _ in flat), pa.int64()),
            pa.array((number for _, number, _ in flat), pa.int64()),
        )
        uses = [flat[place][2] for place in self._points.order.to_pylist()]
        self._ranked = sorted(set(uses), key=lambda use: use.until or _NEVER)
        by_kind: dict[tuple[str, bool], dict[FileReference, int]] = {}
        for rank, use in enumerate(self._ranked):
            by_kind.setdefault((use.stage, use.is_now), {})[use] = rank
        self._kinds = [
            pa.array((ranks.get(use, -1) for use in uses), pa.int64())
            for _, ranks in sorted(by_kind.items())
        ]

    def numbered(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        """Replaces `table_uuid` by the table's number, and drops rows of other tables."""
        place = rows.schema.get_field_index("table_uuid")
        numbers = pc.index_in(rows["table_uuid"].cast(pa.string()), value_set=self._tables)
        rows = rows.set_column(place, "table_uuid", numbers.cast(pa.int64()))
        return rows.filter(pc.is_valid(rows["table_uuid"]))

    def of(self, spans: pa.Table) -> tuple[pa.Array, list[frozenset[FileReference]]]:
        """Returns for each lifetime the index of its set of uses; and those sets.

        The set of a file without references is empty. The lifetimes' tables are numbered.
        """
        count = len(self._points.order) + 1
        first, end = self._points.places(spans)
        pairs = pc.if_else(pc.less(first, end), pc.add(pc.multiply(first, count), end), 0)
        runs = pairs.dictionary_encode()
        first = pc.divide(runs.dictionary, count)
        end = pc.subtract(runs.dictionary, pc.multiply(first, count))
        highest = [_highest(ranks, first, end).to_pylist() for ranks in self._kinds]
        sets: dict[tuple[int, ...], int] = {}
        numbers = [sets.setdefault(ranks, len(sets)) for ranks in zip(*highest, strict=True)]
        return pa.array(numbers, pa.int64()).take(runs.indices), [self._uses(key) for key in sets]

    def _uses(self, ranks: Iterable[int]) -> frozenset[FileReference]:
        return frozenset(self._ranked[rank] for rank in ranks if rank >= 0)


def _highest(values: pa.Array, first: pa.Array, end: pa.Array) -> pa.Array:
    """Returns the highest value from each first position to before its end; -1 for an empty run.

    Two stretches of one length that is a power of two cover any run: doubling computes their
    values.
    """
    length = pc.subtract(end, first)
    highest = pa.repeat(pa.scalar(-1, pa.int64()), len(first))
    stretch = 1
    while pc.any(pc.less_equal(stretch, length)).as_py():
        fits = pc.less_equal(stretch, length)
        for start in (first, pc.subtract(end, stretch)):
            reached = values.take(pc.if_else(fits, start, None))
            highest = pc.max_element_wise(highest, reached)
        values = pc.max_element_wise(values[:-stretch], values[stretch:])
        stretch *= 2
    return highest
