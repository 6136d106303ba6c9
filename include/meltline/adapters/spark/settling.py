"""What is over, set aside: rows that no run needs to read any more (decision 024)."""

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.departure_book import DepartureBook
from meltline.adapters.spark.index_rows import IndexRows
from meltline.domain.files import FileKind

_VIEW = "meltline_settling"


class SettledRows(IndexRows):
    """Moves rows of deleted files from where every run reads them to tables of their own.

    A row stands in both for a moment, never in neither. Whoever reads both reads the table that
    rows leave first.

    Attributes:
        settle_from: So many deleted files are worth it; and they must be half of what departed, so
            that what is rewritten for the sake of the others is not rewritten night after night.
    """

    settle_from = 50_000

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Sets aside what was deleted before then, once it pays. See the port."""
        book = self._book()
        over = book.settled(before, unfinished)
        count, all_departed = over.rows.num_rows, book.rows.num_rows
        if not count or count < self.settle_from or 2 * count < all_departed:
            return ""
        tips = self._lists_of_tips()
        lists = _without(over.of_kinds([FileKind.MANIFEST_LIST]).hashes, tips)
        # A snapshot is known unless its list has departed: so the departures go last.
        self._move("snapshots", "list_hash", lists)
        self._move("side_files", "key_hash", _side_files(over))
        known = f"written_ns <= {pc.max(book.rows.column('written_ns')).as_py()}"
        self._move("departures", "key_hash", _without(over.hashes, tips), known)
        return f"{count} deleted files of {all_departed} that had departed set aside"

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that were deleted and set aside."""
        hashes = {key_hash(path): path for path in paths}
        rows = self._look("settled_departures", ("key_hash",), among=("key_hash", list(hashes)))
        gone = set(rows.column("key_hash").to_pylist())
        return {path for path in paths if key_hash(path) in gone}

    def _lists_of_tips(self) -> pa.Array:
        """The manifest lists of the snapshots that lines go on from, departed or not."""
        rows = self._snapshots()
        tips = {(uuid, tip.snapshot_id) for uuid, tip in self.lines().items()}
        columns = (rows.column(name).to_pylist() for name in ("table_uuid", "snapshot_id"))
        at_tip = pa.array([key in tips for key in zip(*columns, strict=True)], pa.bool_())
        found: pa.Array = rows.column("list_hash").filter(at_tip).drop_null().combine_chunks()
        return found

    def _move(self, table: str, column: str, hashes: pa.Array, only: str = "true") -> None:
        """Moves rows to the settled table of that name: copied first, then deleted."""
        if not len(hashes):
            return
        going = self._ids(column, hashes)
        rows = self._read(table).where(only).join(going, column, "leftsemi")
        self._write(f"settled_{table}", rows, "settled")
        going.createOrReplaceTempView(_VIEW)
        self._take_away(table, f"{only} AND {column} IN (SELECT {column} FROM {_VIEW})")
        self._spark.catalog.dropTempView(_VIEW)

    def _take_away(self, table: str, where: str) -> None:
        self._spark.sql(f"DELETE FROM {self._namespace}.{table} WHERE {where}")


def _side_files(over: DepartureBook) -> pa.Array:
    return over.of_kinds([FileKind.METADATA, FileKind.STATISTICS]).hashes


def _without(hashes: pa.Array, others: pa.Array) -> pa.Array:
    return hashes.filter(pc.invert(pc.is_in(hashes, value_set=others)))
