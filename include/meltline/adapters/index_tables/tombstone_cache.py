"""The newest state of every departed file, held in the driver: some fifty bytes for each file.

Most questions about departures concern no file, or few: this book tells, and then Spark is asked
for those rows alone.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.index_tables.rows import newest_rows, tuples
from meltline.domain.iceberg.files import DepartureState, FileKind

COLUMNS = ("key_hash", "written_ns", "due_at", "state", "kind", "plan_id", "recorded_at")
"""What the book takes from a row of `departures`."""
_CODED = ("state", "kind", "plan_id")
_WRITTEN = ("key_hash", "written_ns")


@dataclass(frozen=True)
class TombstoneCache:
    """One row for each departed file: when it was written last, and what it said."""

    rows: pa.Table

    @classmethod
    def of(cls, rows: pa.Table) -> "TombstoneCache":
        """From all rows of the table, of which the newest of each file wins."""
        for name in _CODED:
            coded = rows.column(name).dictionary_encode()  # all parts by one dictionary
            rows = rows.set_column(rows.schema.get_field_index(name), name, coded)
        return cls(newest_rows(rows))

    def of_states(
        self, states: Collection[DepartureState], due_by: datetime | None = None
    ) -> "TombstoneCache":
        """Those in one of the states, and due by an instant where one is given."""
        mask = self._is_among("state", states)
        if due_by is not None:
            due = pc.less_equal(self.rows.column("due_at"), pa.scalar(due_by))
            mask = pc.and_(mask, due)
        return TombstoneCache(self.rows.filter(mask))

    @property
    def on_their_way(self) -> "TombstoneCache":
        """Those of waiting files that no purge has left alone (`Departure.was_left`)."""
        rows = self.rows
        return TombstoneCache(rows.filter(pc.less_equal(rows["recorded_at"], rows["due_at"])))

    def of_kinds(self, kinds: Collection[FileKind]) -> "TombstoneCache":
        """Those of some kinds."""
        return TombstoneCache(self.rows.filter(self._is_among("kind", kinds)))

    def over(self, before: datetime, unfinished: Collection[str]) -> "TombstoneCache":
        """Those that were deleted before an instant, but for files of some plans."""
        early = pc.less(self.rows.column("recorded_at"), pa.scalar(before))
        deleted = self._is_among("state", [DepartureState.DELETED])
        finished = pc.invert(self._is_among("plan_id", unfinished))
        return TombstoneCache(self.rows.filter(pc.and_(pc.and_(early, deleted), finished)))

    def among(self, hashes: Iterable[int]) -> "TombstoneCache":
        """Those whose key hash is among these."""
        chosen = pa.array(hashes, pa.int64())
        return TombstoneCache(self.rows.filter(pc.is_in(self.rows.column("key_hash"), chosen)))

    def _is_among(self, column: str, values: Collection[str]) -> pa.ChunkedArray:
        """By the few texts that there are: as many as rows would take most of the memory."""
        wanted = pa.array([str(text) for text in values], pa.string())
        chunks = [
            pc.is_in(chunk.dictionary, value_set=wanted).take(chunk.indices)
            for chunk in self.rows.column(column).chunks
        ]
        return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)

    @property
    def hashes(self) -> pa.Array:
        """Their key hashes."""
        return self.rows.column("key_hash").combine_chunks()

    @property
    def plans(self) -> set[str]:
        """The plans they departed by."""
        return set(pc.unique(self.rows.column("plan_id")).to_pylist())

    def newest_of(self, rows: pa.Table) -> pa.Table:
        """Of full rows of the table those that this book is made of, each once."""
        newest = set(tuples(self.rows, *_WRITTEN))
        first: dict[tuple[int, int], int] = {}
        for number, key in enumerate(tuples(rows, *_WRITTEN)):
            if key in newest:
                first.setdefault(key, number)
        return rows.take(pa.array(first.values(), pa.int64()))
