"""Refreshes rollups through Spark: aggregates stale buckets, and publishes them in one commit.

`app/chunks` calls it. Stale buckets are aggregated again and compared with the table; only buckets
that differ are written: a commit that changed one row of a day rewrites that row's hour. A refresh
that is killed at any point leaves the table unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.chunks.cold_branch import BRANCH, ColdBranch, MovedOn, RowRemoval
from meltline.adapters.chunks.predicates import few_ranges, within
from meltline.adapters.spark.jvm import ENGINE_FAILURES, shown_failure
from meltline.adapters.spark.pinned_tables import PinnedTables
from meltline.adapters.spark.session import spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.buckets import BucketWidth
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import TimeRange, Unit
from meltline.domain.chunks.rollup import NO_SNAPSHOT, ROLLUP_COMMIT, ROLLUP_HEAD, RollupQuery
from meltline.domain.errors import NameConflict, RollupInvalid, RollupRefused
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.grammar.rollups import SOURCE_VIEW
from meltline.ports.rollups import RefreshOutcome, RollupRefresh

_FILE, _SIDE = "_meltline_file", "_meltline_side"
_ZONE = "spark.sql.session.timeZone"
_TRANSFORMS = {unit: f"{unit}s" for unit in Unit}
_ONE_FILE_AT_A_TIME = {"distribution-mode": "hash", "fanout-enabled": "false"}


class SparkRollups:
    """Implements `RollupEngine`."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and the configuration of its catalogs."""
        self._spark = spark
        self._catalogs = catalogs
        self._tables = PinnedTables(spark, catalogs)

    def create(
        self,
        table: TableName,
        query: RollupQuery,
        source: TableName,
        partition: Unit,
        properties: Mapping[str, str],
    ) -> None:
        """Creates the table with the schema of the aggregation's result. See the port.

        Raises:
            RollupInvalid: Spark cannot run the aggregation over that source.
            NameConflict: Another table has the name.
        """
        try:
            rows = self._tables.frame(self._tables.load(source))
            with _in_utc(self._spark), _view(rows) as name:
                schema: Any = self._spark.sql(query.sql.replace(SOURCE_VIEW, name))._jdf.schema()
            words = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
            cut = f"{_TRANSFORMS[partition]}({quote_part(query.bucket_column)})"
            self._spark.sql(
                f"CREATE TABLE {spark_identifier(self._catalogs, table)} ({schema.toDDL()}) "
                f"USING iceberg PARTITIONED BY ({cut}) TBLPROPERTIES ({words})"
            )
        except ENGINE_FAILURES as error:
            raise _undeclared(table, source, error) from error

    def refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        """Writes to a branch, and publishes it by one compare-and-swap. See the port.

        Raises:
            RollupRefused: The engine cannot read or write one of the tables.
            MeltlineError: The outcome of the publication is unknown.
        """
        branch = ColdBranch(self._tables, refresh.table, refresh.base)
        try:
            with _refusing(refresh), _in_utc(self._spark):
                branch.open()
                outcome = self._carried_out(refresh, branch)
                head = str(NO_SNAPSHOT if branch.head is None else branch.head)
            branch.publish({**refresh.properties, ROLLUP_HEAD: head})
        except MovedOn:
            branch.abandon()
            return None
        except BaseException:
            branch.abandon()
            raise
        return outcome

    def _carried_out(self, refresh: RollupRefresh, branch: ColdBranch) -> RefreshOutcome:
        if refresh.stale.ranges == ():
            return RefreshOutcome((), 0, 0)
        with _Aggregation(self._tables, refresh, branch).rows() as change:
            return self._written(refresh, branch, change)

    def _written(
        self, refresh: RollupRefresh, branch: ColdBranch, change: "_Change"
    ) -> RefreshOutcome:
        """Appends first, then removes: a commit on the branch without rows is reverted."""
        summary = {ROLLUP_COMMIT: str(refresh.snapshot_id)}
        written = 0
        if change.rows is not None:
            options = {f"snapshot-property.{key}": text for key, text in summary.items()}
            options |= _ONE_FILE_AT_A_TIME
            before = branch.head
            self._tables.append(refresh.table, branch.table, BRANCH, change.rows, options)
            written = branch.appended(before)
        if change.files:
            layout = _bucket_layout(branch, refresh.query)
            branch.remove(RowRemoval(change.files, layout, few_ranges(change.ranges), summary))
        return RefreshOutcome(change.buckets, written, len(change.files))


@dataclass(frozen=True)
class _Change:
    """The changes of one refresh.

    Attributes:
        buckets: The buckets whose rows differ, in order; `ranges` are their times.
        files: The rollup's data files with rows of the buckets.
        rows: The rows that replace the files'; None if no bucket differs.
    """

    buckets: Sequence[datetime]
    ranges: Sequence[TimeRange]
    files: Sequence[str]
    rows: DataFrame | None


@dataclass(frozen=True)
class _Aggregation:
    """The buckets of one refresh: newly aggregated, and as the table has them."""

    tables: PinnedTables
    refresh: RollupRefresh
    branch: ColdBranch

    @contextmanager
    def rows(self) -> Iterator[_Change]:
        """Yields what differs; the aggregation stays cached while it is written."""
        with self._aggregated() as new:
            kept = new.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                yield self._change(kept)
            finally:
                kept.unpersist()

    @contextmanager
    def _aggregated(self) -> Iterator[DataFrame]:
        refresh, tables = self.refresh, self.tables
        source = tables.load(refresh.source)
        if refresh.snapshot_id is None:
            rows = tables.frame(source).limit(0)
        else:
            rows = tables.frame(tables.pinned(source, refresh.snapshot_id))
        time = quote_part(str(source.schema().findColumnName(refresh.layout.column.field_id)))
        rows = rows.where(self._within(refresh.layout, time))
        with _view(rows) as name:
            yield tables.spark.sql(refresh.query.sql.replace(SOURCE_VIEW, name))

    def _within(self, layout: ChunkLayout, column: str) -> str:
        """Returns SQL for the stale times: a few more, but no frozen bucket, no null time."""
        stale = self.refresh.stale
        frozen = [within(layout, column, times) for times in stale.frozen]
        parts = [f"{column} IS NOT NULL"]
        if stale.ranges is not None:
            parts.append(_any(within(layout, column, r) for r in few_ranges(stale.ranges)))
        if frozen:
            parts.append(f"NOT {_any(frozen)}")
        return " AND ".join(parts)

    def _change(self, new: DataFrame) -> _Change:
        columns, bucket = new.columns, self.refresh.query.bucket_column
        differing = _differing(new, self._standing(), bucket).collect()
        if not differing:
            return _Change((), (), (), None)
        buckets = sorted(start.astimezone(UTC) for start, _ in differing)
        files = sorted({path for _, paths in differing for path in paths})
        chosen = F.col(bucket).isin(buckets)
        width = self.refresh.query.width
        ranges = width.whole(TimeRange(start, width.after(start)) for start in buckets)
        rows = new.where(chosen)
        if files:
            # A file may have other buckets too: some shorter than an hour, or joined by the
            # owner's compaction. Their rows are copied unchanged.
            beside = self._near(ranges).where(F.col(_FILE).isin(files)).where(~chosen)
            rows = rows.unionAll(beside.select(*columns))
        return _Change(buckets, ranges, files, rows)

    def _standing(self) -> DataFrame:
        """Returns the rollup's current rows in the stale times."""
        return self._all().where(self._within(self._layout, self._column))

    def _near(self, ranges: Sequence[TimeRange]) -> DataFrame:
        """Returns all rows of the files with rows of some buckets, and few more.

        While the table is partitioned as declared, no file reaches beyond its partition, so the
        other partitions need not be searched.
        """
        layout = self._layout
        if not _is_cut_by(self.branch.table, layout):
            return self._all()
        spans = few_ranges(BucketWidth.parse(layout.unit).whole(ranges))
        return self._all().where(_any(within(layout, self._column, span) for span in spans))

    def _all(self) -> DataFrame:
        table, head = self.branch.table, self.branch.head
        if head is None:
            rows = self.tables.frame(table).limit(0)
        else:
            rows = self.tables.frame(self.tables.pinned(table, head))
        return rows.select("*", F.col("_file").alias(_FILE))

    @property
    def _layout(self) -> ChunkLayout:
        return _bucket_layout(self.branch, self.refresh.query)

    @property
    def _column(self) -> str:
        return quote_part(self.refresh.query.bucket_column)


def _differing(new: DataFrame, old: DataFrame, bucket: str) -> DataFrame:
    """Returns buckets in which a row's count differs between both sides, with their old files."""
    sides = (
        new.select("*", F.lit(None).cast("string").alias(_FILE), F.lit(1).alias(_SIDE)),
        old.select(*new.columns, _FILE, F.lit(-1).alias(_SIDE)),
    )
    rows = sides[0].unionAll(sides[1]).groupBy(*new.columns)
    counted = rows.agg(F.sum(_SIDE).alias(_SIDE), F.collect_set(_FILE).alias(_FILE))
    buckets = counted.groupBy(bucket).agg(
        F.max(F.col(_SIDE) != 0).alias(_SIDE), F.flatten(F.collect_set(_FILE)).alias(_FILE)
    )
    return buckets.where(_SIDE).select(bucket, _FILE)


def _is_cut_by(table: Any, layout: ChunkLayout) -> bool:
    """Returns whether every file lies within one partition of the layout's unit."""
    cut = (layout.column.field_id, layout.unit.value)
    specs = (spec.fields() for spec in table.specs().values())
    return all(any((f.sourceId(), str(f.transform())) == cut for f in spec) for spec in specs)


def _bucket_layout(branch: ColdBranch, query: RollupQuery) -> ChunkLayout:
    """Returns the layout of the rollup's own table, which is partitioned by its buckets."""
    field = branch.table.schema().findField(query.bucket_column)
    column = TimeColumn(query.bucket_column, int(field.fieldId()), ColumnKind.TIMESTAMPTZ)
    return ChunkLayout(column, query.width.partition)


def _any(parts: Iterator[str] | Sequence[str]) -> str:
    """Joins predicates by OR, halved recursively: Spark cannot parse a chain of thousands."""
    texts = list(parts)
    if not texts:
        return "FALSE"
    if len(texts) == 1:
        return texts[0]
    half = len(texts) // 2
    return f"({_any(texts[:half])} OR {_any(texts[half:])})"


@contextmanager
def _view(rows: DataFrame) -> Iterator[str]:
    """Yields the unique name of a temporary view of some rows."""
    name = f"{SOURCE_VIEW}_{uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:  # a plan built on it does not need it any more
        rows.sparkSession.catalog.dropTempView(name)


@contextmanager
def _in_utc(spark: SparkSession) -> Iterator[None]:
    """Sets the session to UTC, in which times without a zone are read; the user's may differ."""
    before = spark.conf.get(_ZONE)
    spark.conf.set(_ZONE, "UTC")
    try:
        yield
    finally:
        spark.conf.set(_ZONE, str(before))


@contextmanager
def _refusing(refresh: RollupRefresh) -> Iterator[None]:
    """Converts errors of Spark and Iceberg to a readable refusal."""
    try:
        yield
    except ENGINE_FAILURES as error:
        raise RollupRefused(
            f"{refresh.table} cannot be refreshed from {refresh.source}",
            object=str(refresh.table),
            expected=f"its query can be carried out at snapshot {refresh.snapshot_id}",
            found=shown_failure(error),
            next="nothing was changed; where a column of the source is gone or called otherwise, "
            "drop the rollup and declare it anew",
        ) from error


def _undeclared(table: TableName, source: TableName, error: Exception) -> Exception:
    if isinstance(error, AnalysisException) and error.getCondition() == (
        "TABLE_OR_VIEW_ALREADY_EXISTS"
    ):
        return NameConflict(
            f"{table} is there already",
            object=str(table),
            expected="a free name",
            found="a table or a view",
            next="choose another name for the rollup, or drop what has it",
        )
    return RollupInvalid(
        f"the rollup's query cannot be carried out over {source}",
        object=str(table),
        expected="a query that Spark can read over the source's columns",
        found=shown_failure(error),
        next="mend the query; docs/rollups.md says what it may be",
    )
