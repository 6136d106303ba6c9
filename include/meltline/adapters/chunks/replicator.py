"""Copies rows from hot to cold: written to a branch of the cold table, proved, then published.

`app/chunks` calls it. A pass that is killed at any point leaves cold's main unchanged; the next one
starts the branch again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from meltline.adapters.chunks.cold_branch import BRANCH, ColdBranch, MovedOn, RowRemoval
from meltline.adapters.chunks.predicates import (
    chunk_ordinal,
    in_chunks,
    near_chunks,
    pruning_ranges,
)
from meltline.adapters.chunks.row_hashes import row_hash, types_by_id
from meltline.adapters.chunks.rows import refusing, require_supported
from meltline.adapters.spark.pinned_tables import PinnedTables, column_of, fields_of
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.chunks.sync import SYNC_COMMIT, SYNC_DROPPED
from meltline.domain.errors import SyncRefused
from meltline.ports.chunks import CopyOutcome, CopyRequest, MixedRows, Prove


class SparkReplicator:
    """Implements `Replicator`."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and the configuration of its catalogs."""
        self._spark = spark
        self._tables = PinnedTables(spark, catalogs)

    def copy(self, request: CopyRequest, prove: Prove | None = None) -> CopyOutcome | None:
        """Writes to a branch, proves it, and publishes it by one compare-and-swap. See the port.

        Raises:
            SyncRefused: The table has content that cannot be copied, or the engine failed.
            MeltlineError: The outcome of the publication is unknown; cold's properties record it.
        """
        branch = ColdBranch(self._tables, request.cold, request.cold_base)
        try:
            with refusing(request.hot, request.upto):
                branch.open()
                rows = self._written(branch, request)
                if request.removed:
                    branch.remove(_removal(request))
                head = branch.head
            proved: Mapping[str, str] = {}
            if prove is not None and head is not None:
                proved = prove(head)
            location = branch.publish({**(request.properties or {}), **proved})
        except MovedOn:
            branch.abandon()
            return None
        except BaseException:
            branch.abandon()
            raise
        return CopyOutcome(head, location, rows)

    def _written(self, branch: ColdBranch, request: CopyRequest) -> int:
        """Writes the rows to the branch through Spark, and returns how many they are."""
        hot = _HotRows(self._tables, request, branch.table)
        if request.mixed is not None and branch.head is not None:
            only = hot.missing_in_late(request.mixed, branch.head)
            self._append(branch, request, only, {**_said(request), SYNC_DROPPED: ""})
        frame = hot.frame()
        return 0 if frame is None else self._append(branch, request, frame, _said(request))

    def _append(
        self, branch: ColdBranch, request: CopyRequest, frame: DataFrame, said: Mapping[str, str]
    ) -> int:
        options = {
            # Each partition goes to one task, sorted, so that one file is open at a time. With
            # a writer per partition the first copy of years of days would not fit in memory.
            "distribution-mode": "hash",
            "fanout-enabled": "false",
            **{f"snapshot-property.{key}": text for key, text in said.items()},
        }
        before = branch.head
        self._tables.append(request.cold, branch.table, BRANCH, frame, options)
        return branch.appended(before)


def _said(request: CopyRequest) -> dict[str, str]:
    return {SYNC_COMMIT: str(request.upto)}


def _removal(request: CopyRequest) -> RowRemoval:
    is_timed = request.replaced is not None and UNBOUNDED not in request.replaced
    ranges = pruning_ranges(request.layout, request.replaced or ()) if is_timed else ()
    return RowRemoval(request.removed, request.layout, ranges, _said(request))


@dataclass(frozen=True)
class _HotRows:
    """The rows of a pass, with cold's columns in cold's order, matched by field id."""

    tables: PinnedTables
    request: CopyRequest
    cold: Any

    def frame(self) -> DataFrame | None:
        """Returns the rows; None if none are requested."""
        request = self.request
        has_appends = request.after is not None and request.after != request.upto
        if not has_appends and request.replaced == frozenset():
            return None
        hot = self._hot()
        if request.replaced is None:
            return self.tables.rows(hot)
        parts = []
        if has_appends:
            parts.append(self._appended(hot, request.replaced))
        if request.replaced:
            parts.append(self._of(hot, request.replaced))
        return reduce(DataFrame.unionAll, parts)

    def _appended(self, hot: Any, replaced: frozenset[str]) -> DataFrame:
        """Returns rows of appended files, without those of replaced chunks.

        Iceberg skips every other commit. Their rows belong to replaced chunks.
        """
        options = {
            "start-snapshot-id": str(self.request.after),
            "end-snapshot-id": str(self.request.upto),
        }
        rows = self.tables.rows(hot, options)
        if not replaced:
            return rows
        return rows.where(f"NOT {in_chunks(self.request.layout, self._time, replaced)}")

    def _of(self, hot: Any, replaced: frozenset[str]) -> DataFrame:
        layout = self.request.layout
        rows = self.tables.rows(hot).where(near_chunks(layout, self._time, replaced))
        return rows.where(in_chunks(layout, self._time, replaced))

    def missing_in_late(self, mixed: MixedRows, cold_snapshot: int) -> DataFrame:
        """Returns rows of mixed files of cold, less late ones: each late row cancels one equal row.

        Equal rows have the same hash, whatever their types; `EXCEPT ALL` does not support maps.
        """
        names = [column_of(field) for field in fields_of(self.tables.schema(self.cold))]
        pinned = self.tables.pinned(self.cold, cold_snapshot)
        in_files = self.tables.frame(pinned).select("*", F.col("_file")).toDF(*names, "file")
        rows = self._hashed(in_files.where(F.col("file").isin(list(mixed.files))), mixed.chunks)
        number = F.row_number().over(Window.partitionBy("chunk", "hash").orderBy("hash"))
        hot, late = self._hot_table(), []
        for at, chunks in mixed.late.items():
            of_snapshot = self.tables.rows(self.tables.pinned(hot, at, self.cold.schema()))
            late.append(self._hashed(of_snapshot, chunks).select("chunk", "hash"))
        numbered = rows.withColumn("number", number)
        if not late:
            return numbered.select(*names)
        counts = (
            reduce(DataFrame.unionAll, late)
            .groupBy("chunk", "hash")
            .agg(F.count("*").alias("late"))
        )
        same = numbered["chunk"].eqNullSafe(counts["chunk"]) & (numbered["hash"] == counts["hash"])
        joined = numbered.join(counts, same, "left")
        return joined.where(F.col("number") > F.coalesce("late", F.lit(0))).select(*names)

    def _hashed(self, rows: DataFrame, chunks: frozenset[str]) -> DataFrame:
        """Returns rows of some chunks, each with its chunk's number and its hash."""
        layout = self.request.layout
        fields = fields_of(self.tables.schema(self.cold))
        near = rows.where(near_chunks(layout, self._time, chunks))
        return near.where(in_chunks(layout, self._time, chunks)).select(
            "*",
            F.expr(chunk_ordinal(layout, self._time)).alias("chunk"),
            F.expr(row_hash(fields)).alias("hash"),
        )

    @property
    def _time(self) -> str:
        return column_of({"id": self.request.layout.column.field_id})

    def _hot(self) -> Any:
        """Returns the hot table at `upto`, read with cold's columns."""
        return self.tables.pinned(self._hot_table(), self.request.upto, self.cold.schema())

    def _hot_table(self) -> Any:
        hot = self.tables.load(self.request.hot)
        self._require_same_columns(hot)
        return hot

    def _require_same_columns(self, hot: Any) -> None:
        fields = fields_of(self.tables.schema(hot))
        require_supported(self.request.hot, fields)
        ours = types_by_id(fields)
        theirs = types_by_id(fields_of(self.tables.schema(self.cold)))
        if ours != theirs:
            differ = sorted(dict(ours.items() ^ theirs.items()))
            raise SyncRefused(
                f"{self.request.cold} has other columns than {self.request.hot}",
                object=str(self.request.hot),
                expected="the same columns under the same field ids, with the same types",
                found=f"fields {', '.join(map(str, differ))} differ",
                next="run again: cold is given the columns of hot before each pass",
            )
