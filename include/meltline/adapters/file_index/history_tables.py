"""Upkeep of the ledger's tables: compacts them, and moves old rows to history tables.

It implements the port `LedgerUpkeep`, so that no run reads rows that it does not need (decision
024).
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.file_index.entries import SnapshotRows
from meltline.adapters.index_tables.lifetimes import REACH
from meltline.adapters.index_tables.rows import tuples
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.snapshot_cache import KnownSnapshots
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.index_tables.tombstone_rows import DepartureRows
from meltline.domain.clock import WallClock
from meltline.domain.iceberg.files import FileKind

SETTLE_FROM = 50_000
_MANY_FILES = 60
_MANY_SNAPSHOTS = 60
_SPAN = ("table_uuid", "key_hash", "part", "since")  # equal rows of `changes` move together


class TableUpkeep:
    """Implements the port `LedgerUpkeep`. Rows that are over move to tables of their own.

    A row is in both tables for a moment, never in neither. A reader of both reads first the table
    that rows leave.

    Attributes:
        settle_from: The least number of files to move. They must also be half of all in the table,
            so that the rest is not rewritten every night.
        compact_below: Bytes below which compaction merges a data file with others. Larger ones stay
            as they are: else each compaction would rewrite the complete index.
    """

    compact_below = 8 * 1024 * 1024

    def __init__(
        self,
        tables: LedgerTables,
        snapshots: SnapshotRows,
        departures: DepartureRows,
        settle_from: int,
    ) -> None:
        self._tables = tables
        self._snapshots = snapshots
        self._departures = departures
        self.settle_from = settle_from

    def prepare(self) -> Sequence[str]:
        """Creates the namespace, the tables and columns if they are missing. See the port."""
        return self._tables.prepare()

    def maintain(self) -> Sequence[str]:
        """Compacts and expires the ledger's own tables with Iceberg's procedures, where it pays.

        Snapshots of the last day stay: a run that reads them may be in progress.
        """
        done = []
        catalog, namespace = self._tables.place
        for name in TABLES:
            current = self._tables.loaded(name).currentSnapshot()
            if current is None:
                continue
            table = f"{namespace}.{name}"
            files = int(current.summary().get("total-data-files") or 0)
            if files >= _MANY_FILES:
                self._tables.spark.sql(
                    f"CALL {catalog}.system.rewrite_data_files(table => :table, "
                    "options => map('min-input-files', '10', "
                    f"'min-file-size-bytes', '{self.compact_below}'))",
                    args={"table": table},
                )
                done.append(f"{name}: {files} files compacted")
            snapshots = self._tables.loaded(name).snapshots()
            if sum(1 for _ in snapshots) >= _MANY_SNAPSHOTS:
                self._tables.spark.sql(
                    f"CALL {catalog}.system.expire_snapshots(table => :table, "
                    "older_than => :before, retain_last => 5)",
                    args={"table": table, "before": WallClock().now() - timedelta(days=1)},
                )
                done.append(f"{name}: snapshots expired")
        return done

    def rebuild(self, readable: Collection[str]) -> None:
        """Deletes rows that these tables' metadata can restore; rows that others need stay."""
        readable = list(readable)
        unaffected = self._tables.read("snapshots").where(~F.col("table_uuid").isin(readable))
        ids = unaffected.select(F.explode("manifests").alias("manifest_id"))
        for table in ("entries", "manifests"):
            self._forget_unnamed(table, ids)
        for table in ("snapshots", "side_files", "changes") if readable else ():
            where = "WHERE array_contains(:uuids, table_uuid)"
            self._tables.spark.sql(
                f"DELETE FROM {self._tables.namespace}.{table} {where}", args={"uuids": readable}
            )

    def _forget_unnamed(self, table: str, ids: DataFrame) -> None:
        """Deletes the rows of all manifests that are not among these."""
        view = f"named_{uuid4().hex}"
        target = f"{self._tables.namespace}.{table} AS some"
        match = f"SELECT 1 FROM {view} AS named WHERE named.manifest_id = some.manifest_id"
        where = "" if ids.isEmpty() else f" WHERE NOT EXISTS ({match})"
        ids.createTempView(view)
        try:
            self._tables.spark.sql(f"DELETE FROM {target}{where}")
        finally:
            self._tables.spark.catalog.dropTempView(view)

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Moves files deleted before then to the history tables, once it pays. See the port."""
        done = (self._settle_deleted(before, unfinished), self._settle_ended())
        return "; ".join(filter(None, done))

    # --- files that were deleted ---------------------------------------------------------------

    def _settle_deleted(self, before: datetime, unfinished: Collection[str]) -> str:
        book = self._departures.book()
        over = book.over(before, unfinished)
        count, departed = over.rows.num_rows, book.rows.num_rows
        if not self._pays(count, departed):
            return ""
        tips = self._lists_of_tips()
        lists = _without(over.of_kinds([FileKind.MANIFEST_LIST]).hashes, tips)
        # A snapshot is known unless its list has departed: so the departures move last.
        self._move("snapshots", _keys(lists), hash_column="list_hash")
        side_files = over.of_kinds([FileKind.METADATA, FileKind.STATISTICS])
        self._move("side_files", _keys(side_files.hashes))
        newest = pc.max(book.rows.column("written_ns")).as_py()
        self._move("departures", _keys(_without(over.hashes, tips)), until=newest)
        return f"{count} deleted files, of {departed} that had departed, set aside"

    def _lists_of_tips(self) -> pa.Array:
        """Returns the manifest lists of linear histories' newest snapshots, departed or not."""
        rows = self._snapshots.rows()
        tips = {(uuid, tip.snapshot_id) for uuid, tip in self._snapshots.tips().items()}
        keys = tuples(rows, "table_uuid", "snapshot_id")
        at_tip = pa.array([key in tips for key in keys], pa.bool_())
        hashes: pa.Array = rows.column("list_hash").filter(at_tip).drop_null().combine_chunks()
        return hashes

    # --- spans that have ended -----------------------------------------------------------------

    def _settle_ended(self) -> str:
        """Moves lifetimes that ended before the oldest snapshot of their history in the index.

        No later snapshot can reference them: a linear history grows only at its head.
        """
        oldest = KnownSnapshots(self._snapshots.rows()).on_lines.numbers("min")
        removed: Sequence[Condition] = [("until", "not null", None)]
        of_removed = partial(self._tables.look, "changes", where=removed, of_any_size=True)
        ends = of_removed(("table_uuid", "until"))
        # A lifetime has two rows: one for the file's addition, one for its removal.
        if not self._pays(_ended_before(ends, oldest).num_rows, self._spans_there()):
            return ""
        over = _ended_before(self._snapshots.spans(of_removed(REACH)), oldest)
        self._move("changes", over.select(_SPAN))
        return f"{over.num_rows} files that no snapshot of a line can refer to again set aside"

    def _spans_there(self) -> int:
        """Estimates the lifetimes in `changes` as if all had ended, rounded up."""
        current = self._tables.loaded("changes").currentSnapshot()
        rows = 0 if current is None else int(current.summary().get("total-records") or 0)
        return (rows + 1) // 2

    # --- moving --------------------------------------------------------------------------------

    def _pays(self, over: int, total: int) -> bool:
        return over > 0 and over >= self.settle_from and 2 * over >= total

    def _move(
        self, table: str, going: pa.Table, hash_column: str = "key_hash", until: int | None = None
    ) -> None:
        """Moves rows to the history table: copied first, then deleted.

        Args:
            table: The table that has them.
            going: The values of such rows in some columns; null is equal to null.
            hash_column: The table's name for the column `key_hash`.
            until: The newest `written_ns` of the rows that were read; None is all rows.
        """
        if not going.num_rows:
            return
        # Millions of keys reach executors as a table; in a plan they would be in each task of it.
        # Each has the id of its move: even under a lock, another process may move rows as well.
        move = uuid4().hex
        self._tables.spark.sql(f"DELETE FROM {self._tables.namespace}.settling")
        marked = going.append_column("move", pa.array([move] * going.num_rows))
        self._tables.append_arrow("settling", marked, move)
        columns = {name: hash_column if name == "key_hash" else name for name in going.column_names}
        same = " AND ".join(f"going.{key} <=> some.{column}" for key, column in columns.items())
        target = f"{self._tables.namespace}.{table} AS some"
        of_move = f"{self._tables.namespace}.settling AS going WHERE going.move = :move"
        seen = "true" if until is None else "some.written_ns <= :until"
        where = f"{seen} AND EXISTS (SELECT 1 FROM {of_move} AND {same})"
        values = {"move": move} if until is None else {"move": move, "until": until}
        rows = self._tables.spark.sql(f"SELECT * FROM {target} WHERE {where}", args=values)
        self._tables.write(f"settled_{table}", rows, "settled")
        self._tables.delete(target, where, values)


def _ended_before(spans: pa.Table, oldest: dict[str, int]) -> pa.Table:
    tables = pa.array(oldest.keys(), pa.string())
    at = pc.index_in(spans.column("table_uuid"), value_set=tables)
    first = pa.array(oldest.values(), pa.int64()).take(at.combine_chunks())
    return spans.filter(pc.less_equal(spans.column("until"), first))


def _keys(hashes: pa.Array) -> pa.Table:
    return pa.table({"key_hash": hashes})


def _without(hashes: pa.Array, excluded: pa.Array) -> pa.Array:
    return hashes.filter(pc.invert(pc.is_in(hashes, value_set=excluded)))
