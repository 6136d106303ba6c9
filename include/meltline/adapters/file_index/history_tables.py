"""What is over, set aside: rows that no run needs to read any more (decision 024)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.file_index.entries import IndexRows
from meltline.adapters.index_tables.lifetimes import REACH
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.snapshot_cache import KnownSnapshots
from meltline.adapters.index_tables.tombstone_cache import TombstoneCache
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import FileKind

_SPAN = ("table_uuid", "key_hash", "part", "since")  # whose rows of `changes` go together


class SettledRows(IndexRows):
    """Moves rows of what is over from where every run reads them to tables of their own.

    A row stands in both for a moment, never in neither. Whoever reads both reads the table that
    rows leave first.

    Attributes:
        settle_from: So many files are worth it; and they must be half of what is there, so that
            what is rewritten for the sake of the others is not rewritten night after night.
    """

    settle_from = 50_000

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Sets aside what was deleted before then, once it pays. See the port."""
        done = (self._settle_deleted(before, unfinished), self._settle_ended())
        return "; ".join(filter(None, done))

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that were deleted and set aside."""
        hashes = {key_hash(path): path for path in paths}
        rows = self._look("settled_departures", ("key_hash",), among=("key_hash", list(hashes)))
        gone = set(rows.column("key_hash").to_pylist())
        return {path for path in paths if key_hash(path) in gone}

    # --- files that were deleted ---------------------------------------------------------------

    def _settle_deleted(self, before: datetime, unfinished: Collection[str]) -> str:
        book = self._book()
        over = book.over(before, unfinished)
        count, departed = over.rows.num_rows, book.rows.num_rows
        if not self._pays(count, departed):
            return ""
        tips = self._lists_of_tips()
        lists = _without(over.of_kinds([FileKind.MANIFEST_LIST]).hashes, tips)
        # A snapshot is known unless its list has departed: so the departures go last.
        self._move("snapshots", _keys(lists), named="list_hash")
        self._move("side_files", _keys(_side_files(over)))
        newest = pc.max(book.rows.column("written_ns")).as_py()
        self._move("departures", _keys(_without(over.hashes, tips)), until=newest)
        return f"{count} deleted files, of {departed} that had departed, set aside"

    def _lists_of_tips(self) -> pa.Array:
        """The manifest lists of the snapshots that lines go on from, departed or not."""
        rows = self._snapshots()
        tips = {(uuid, tip.snapshot_id) for uuid, tip in self.lines().items()}
        columns = (rows.column(name).to_pylist() for name in ("table_uuid", "snapshot_id"))
        at_tip = pa.array([key in tips for key in zip(*columns, strict=True)], pa.bool_())
        found: pa.Array = rows.column("list_hash").filter(at_tip).drop_null().combine_chunks()
        return found

    # --- spans that have ended -----------------------------------------------------------------

    def _settle_ended(self) -> str:
        """Spans that ended before the oldest snapshot of their line that is not set aside.

        No snapshot can come to refer to them: lines grow at their tips.
        """
        oldest = KnownSnapshots(self._snapshots()).on_lines.numbers("min")
        removed: Sequence[Condition] = [("until", "not null", None)]
        ends = self._look("changes", ("table_uuid", "until"), removed)
        # A span has two rows: that the file was added, and that it was removed.
        if not self._pays(_ended_before(ends, oldest).num_rows, self._spans_there()):
            return ""
        over = _ended_before(self._spans(self._look("changes", REACH, removed)), oldest)
        self._move("changes", over.select(_SPAN))
        return f"{over.num_rows} files that no snapshot of a line can refer to again set aside"

    def _spans_there(self) -> int:
        """How many spans `changes` would tell of if all had ended, rounded up."""
        current = self._loaded("changes").currentSnapshot()
        rows = 0 if current is None else int(current.summary().get("total-records") or 0)
        return (rows + 1) // 2

    # --- moving --------------------------------------------------------------------------------

    def _pays(self, over: int, there: int) -> bool:
        return over > 0 and over >= self.settle_from and 2 * over >= there

    def _move(
        self, table: str, going: pa.Table, named: str = "key_hash", until: int | None = None
    ) -> None:
        """Moves rows to the settled table of that name: copied first, then deleted.

        Args:
            table: Where they are.
            going: What such rows hold in some columns; null is equal to null.
            named: What the table calls the column `key_hash`.
            until: The newest `written_ns` of the rows that were looked at; None is all rows.
        """
        if not going.num_rows:
            return
        # Millions of keys reach executors as a table; in a plan they would be in each task of it.
        # They say whose they are: nobody may rest on being alone here, whatever lock is held.
        move = uuid4().hex
        self._spark.sql(f"DELETE FROM {self._namespace}.settling")
        told = going.append_column("move", pa.array([move] * going.num_rows))
        self._append_arrow("settling", told, move)
        columns = {name: named if name == "key_hash" else name for name in going.column_names}
        same = " AND ".join(f"going.{one} <=> some.{other}" for one, other in columns.items())
        some = f"{self._namespace}.{table} AS some"
        of_move = f"{self._namespace}.settling AS going WHERE going.move = :move"
        seen = "true" if until is None else "some.written_ns <= :until"
        where = f"{seen} AND EXISTS (SELECT 1 FROM {of_move} AND {same})"
        values = {"move": move} if until is None else {"move": move, "until": until}
        rows = self._spark.sql(f"SELECT * FROM {some} WHERE {where}", args=values)
        self._write(f"settled_{table}", rows, "settled")
        self._take_away(some, where, values)

    def _take_away(self, some: str, where: str, values: Mapping[str, object]) -> None:
        self._spark.sql(f"DELETE FROM {some} WHERE {where}", args=dict(values))


def _ended_before(spans: pa.Table, oldest: dict[str, int]) -> pa.Table:
    tables = pa.array(oldest.keys(), pa.string())
    at = pc.index_in(spans.column("table_uuid"), value_set=tables)
    first = pa.array(oldest.values(), pa.int64()).take(at.combine_chunks())
    return spans.filter(pc.less_equal(spans.column("until"), first))


def _side_files(over: TombstoneCache) -> pa.Array:
    return over.of_kinds([FileKind.METADATA, FileKind.STATISTICS]).hashes


def _keys(hashes: pa.Array) -> pa.Table:
    return pa.table({"key_hash": hashes})


def _without(hashes: pa.Array, others: pa.Array) -> pa.Array:
    return hashes.filter(pc.invert(pc.is_in(hashes, value_set=others)))
