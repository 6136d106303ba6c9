"""The file ledger on Spark: Iceberg tables in the namespace `ledger-namespace` of the hot catalog.

It answers the one question the plans ask: which files do only these snapshots refer to?
Manifests anti-join first, then hashes of locations; a collision can only keep a file.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.index import index_manifests
from meltline.adapters.spark.tables import TABLES
from meltline.domain.errors import SetupMissing
from meltline.domain.files import (
    Departure,
    DepartureState,
    FileKind,
    ManifestOutcome,
    PlannedFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.locations import Ownership
from meltline.domain.names import quote_part
from meltline.ports import DepartingFile, IngestRequest, ObjectStore, SnapshotKey


class SparkFileLedger:
    """The port `FileLedger`, on Spark and Iceberg."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, catalog: str, namespace: str
    ) -> None:
        self._spark = spark
        self._store = store
        self._namespace = f"{quote_part(catalog)}.{quote_part(namespace)}"

    # --- tables ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Creates the namespace and the tables where they are missing."""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        for name, schema in TABLES.items():
            empty = self._spark.createDataFrame(schema.empty_table())
            columns = ", ".join(
                f"{field.name} {field.dataType.simpleString()}" for field in empty.schema.fields
            )
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._namespace}.{name} ({columns}) USING iceberg "
                "TBLPROPERTIES ('format-version'='2', 'gc.enabled'='true', "
                "'write.parquet.compression-codec'='zstd')"
            )

    def _read(self, table: str) -> DataFrame:
        try:
            return self._spark.table(f"{self._namespace}.{table}")
        except AnalysisException as missing:
            raise SetupMissing(
                f"the file ledger's table {self._namespace}.{table} cannot be opened",
                object=f"{self._namespace}.{table}",
                expected="the tables that `meltline init` creates",
                found=missing.getCondition() or "an error of Spark's",
                next="restore the table; or `meltline init --adopt`, which starts without its past",
            ) from missing

    def _append(self, table: str, rows: Sequence[Mapping[str, Any]], marker: str) -> None:
        if not rows:
            return
        arrow = pa.Table.from_pylist(list(rows), schema=TABLES[table])
        frame = self._spark.createDataFrame(arrow).coalesce(1)
        self._write(table, frame, marker)

    def _write(self, table: str, frame: DataFrame, marker: str) -> None:
        writer = frame.writeTo(f"{self._namespace}.{table}")
        writer.option("snapshot-property.meltline.marker", marker).append()

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        snapshots = self._read("snapshots")
        others = snapshots.where(~F.col("table_uuid").isin(list(readable)))
        kept = [row[0] for row in _manifests_of(others).collect()]
        wanted = "" if not kept else f" WHERE manifest_id NOT IN ({', '.join(map(str, kept))})"
        for table in ("entries", "manifests"):
            self._spark.sql(f"DELETE FROM {self._namespace}.{table}{wanted}")
        names = ", ".join(f"'{uuid}'" for uuid in readable)
        for table in ("snapshots", "side_files") if readable else ():
            self._spark.sql(f"DELETE FROM {self._namespace}.{table} WHERE table_uuid IN ({names})")

    # --- the manifest index --------------------------------------------------------------------

    def unknown_manifests(self, paths: Sequence[str]) -> set[str]:
        """Those of the manifests that have never been read."""
        if not paths:
            return set()
        known = {
            row[0]
            for row in self._read("manifests")
            .join(self._hashes("manifest_id", paths), "manifest_id", "leftsemi")
            .select("manifest_id")
            .distinct()
            .collect()
        }
        return {path for path in paths if key_hash(path) not in known}

    def _hashes(self, column: str, paths: Iterable[str]) -> DataFrame:
        hashes = pa.table({column: pa.array([key_hash(path) for path in paths], pa.int64())})
        return F.broadcast(self._spark.createDataFrame(hashes))

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once and appends the entries of those that agree with their list."""
        if not any(request.manifests for request in requests):
            return ()
        slices = self._spark.sparkContext.defaultParallelism * 2
        rows = index_manifests(self._spark, self._store, requests, ownerships, slices).persist()
        try:
            outcomes = rows.where(F.col("path") == "").collect()
            good = rows.where((F.col("path") != "") & F.col("manifest_id").isNotNull())
            marker = f"ingest-{time.time_ns()}"
            if any(row["added"] or row["existing"] or row["deleted"] for row in outcomes):
                self._write("entries", good.select(*TABLES["entries"].names).coalesce(2), marker)
            # The row in `manifests` says "read": it comes after the entries, so that a crash in
            # between costs a second reading and never an entry.
            self._append(
                "manifests", [_manifest_row(r) for r in outcomes if not r["error"]], marker
            )
        finally:
            rows.unpersist()
        return [
            ManifestOutcome(
                path=row["manifest"],
                added=row["added"],
                existing=row["existing"],
                deleted=row["deleted"],
                owners=tuple(row["owners"]),
                error=row["error"],
            )
            for row in outcomes
        ]

    # --- snapshots and side files --------------------------------------------------------------

    def known_snapshots(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded whose manifest list has not departed."""
        rows = self._known().select("table_uuid", "snapshot_id").collect()
        return {SnapshotKey(row[0], row[1]) for row in rows}

    def _known(self) -> DataFrame:
        gone = self._newest_departures().where(
            (F.col("kind") == FileKind.MANIFEST_LIST) & (F.col("state") != DepartureState.CANCELLED)
        )
        return (
            self._read("snapshots")
            .dropDuplicates(["table_uuid", "snapshot_id"])
            .join(gone.select(F.col("key_hash").alias("list_hash")), "list_hash", "leftanti")
        )

    def record_snapshots(self, records: Sequence[SnapshotRecord]) -> None:
        """Appends snapshots with the manifests that each refers to."""
        rows = [
            {
                "table_uuid": record.table_uuid,
                "snapshot_id": record.snapshot_id,
                "committed_at": record.committed_at,
                "parent_id": record.parent_id,
                "manifest_list": record.manifest_list or None,
                "list_hash": key_hash(record.manifest_list) if record.manifest_list else None,
                "manifest_list_bytes": record.manifest_list_bytes,
                "manifests": [key_hash(manifest.path) for manifest in record.manifests],
            }
            for record in records
        ]
        self._append("snapshots", rows, f"snapshots-{time.time_ns()}")

    def side_files(self) -> Sequence[SideFile]:
        """Statistics and metadata files ever seen, that have not departed."""
        gone = self._newest_departures().where(F.col("state") != DepartureState.CANCELLED)
        rows = (
            self._read("side_files")
            .dropDuplicates(["table_uuid", "key_hash"])
            .join(gone.select("key_hash"), "key_hash", "leftanti")
            .collect()
        )
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for r in rows
        ]

    def record_side_files(self, files: Sequence[SideFile], seen_at: datetime) -> None:
        """Appends statistics and metadata files seen for the first time."""
        rows = [
            {
                "table_uuid": file.table_uuid,
                "path": file.path,
                "key_hash": key_hash(file.path),
                "kind": str(file.kind),
                "bytes": file.bytes,
                "snapshot_id": file.snapshot_id,
                "first_seen": seen_at,
            }
            for file in files
        ]
        self._append("side_files", rows, f"side-files-{time.time_ns()}")

    # --- reachability --------------------------------------------------------------------------

    def departing(self, candidates: Sequence[SnapshotKey]) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to."""
        if not candidates:
            return ()
        leaving, staying = self._split(candidates)
        kept = _manifests_of(staying).distinct().persist()
        leaving_manifests = _manifests_of(leaving, "table_uuid").join(
            kept, "manifest_id", "leftanti"
        )
        leaving_manifests = leaving_manifests.persist()
        try:
            lists = (
                leaving.where(F.col("list_hash").isNotNull())
                .join(staying.select("list_hash"), "list_hash", "leftanti")
                .select(
                    "table_uuid",
                    F.col("manifest_list").alias("path"),
                    F.col("list_hash").alias("key_hash"),
                    F.lit(str(FileKind.MANIFEST_LIST)).alias("kind"),
                    F.col("manifest_list_bytes").alias("bytes"),
                )
            )
            manifests = (
                self._read("manifests")
                .drop("table_uuid")
                .join(leaving_manifests, "manifest_id")
                .select(
                    "table_uuid",
                    "path",
                    F.col("manifest_id").alias("key_hash"),
                    F.lit(str(FileKind.MANIFEST)).alias("kind"),
                    "bytes",
                )
            )
            live = self._read("entries").where(F.col("status") < 2)
            files = (
                live.drop("table_uuid")
                .join(leaving_manifests, "manifest_id")
                .select("table_uuid", "path", "key_hash", "kind", "bytes")
                .join(self._kept_hashes(live, kept), "key_hash", "leftanti")
            )
            return self._grouped(lists.unionByName(manifests).unionByName(files))
        finally:
            kept.unpersist()
            leaving_manifests.unpersist()

    def _split(self, candidates: Sequence[SnapshotKey]) -> tuple[DataFrame, DataFrame]:
        keys = self._keys(candidates)
        known = self._known()
        on = ["table_uuid", "snapshot_id"]
        return known.join(keys, on, "leftsemi"), known.join(keys, on, "leftanti")

    def _keys(self, keys: Sequence[SnapshotKey]) -> DataFrame:
        return self._spark.createDataFrame(
            pa.table(
                {
                    "table_uuid": [key.table_uuid for key in keys],
                    "snapshot_id": pa.array([key.snapshot_id for key in keys], pa.int64()),
                }
            )
        )

    @staticmethod
    def _kept_hashes(live: DataFrame, kept: DataFrame) -> DataFrame:
        return live.join(kept, "manifest_id", "leftsemi").select("key_hash")

    def _grouped(self, rows: DataFrame) -> Sequence[DepartingFile]:
        waiting = self._newest_departures().where(F.col("state") == DepartureState.FAILSAFE)
        grouped = (
            rows.join(waiting.select("key_hash"), "key_hash", "leftanti")
            .groupBy("key_hash")
            .agg(
                F.min("path").alias("path"),
                F.first("kind").alias("kind"),
                F.max("bytes").alias("bytes"),
                F.sort_array(F.collect_set("table_uuid")).alias("table_uuids"),
            )
        )
        return [
            DepartingFile(row["path"], row["kind"], row["bytes"], tuple(row["table_uuids"]))
            for row in grouped.collect()
        ]

    def referenced_now(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        if not paths:
            return set()
        _, staying = self._split(dead) if dead else (None, self._known())
        kept = _manifests_of(staying).distinct()
        asked = self._hashes("key_hash", paths)
        live = self._read("entries").where(F.col("status") < 2)
        hits = (
            live.join(kept, "manifest_id", "leftsemi")
            .select("key_hash")
            .unionByName(kept.select(F.col("manifest_id").alias("key_hash")))
            .unionByName(staying.select(F.col("list_hash").alias("key_hash")))
            .join(asked, "key_hash", "leftsemi")
            .distinct()
            .collect()
        )
        found = {row[0] for row in hits}
        return {path for path in paths if key_hash(path) in found}

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Live files and their bytes of each snapshot, by the index; unknown ones are absent.

        Absent are also those with a manifest of which entries are missing. Two runs at once, or a
        kill between two appends, may have stored a manifest's entries twice; they count once.
        """
        if not heads:
            return {}
        on = ["table_uuid", "snapshot_id"]
        manifests = (
            self._read("snapshots")
            .dropDuplicates(on)
            .join(self._keys(heads), on, "leftsemi")
            .select(*on, F.explode_outer("manifests").alias("manifest_id"))
        )
        stored = (
            self._read("entries")
            .where(F.col("status") < 2)
            .groupBy("manifest_id")
            .agg(F.count("bytes").alias("rows"), F.sum("bytes").alias("size"))
        )
        counted = (
            self._read("manifests")
            .dropDuplicates(["manifest_id"])
            .selectExpr("manifest_id", "added + existing AS files")
        )
        rows = (
            manifests.join(counted, "manifest_id", "left")
            .join(stored, "manifest_id", "left")
            .withColumn("copies", F.expr("greatest(rows div nullif(files, 0), 1)"))
            .groupBy(*on)
            .agg(
                F.expr("coalesce(sum(files), 0) AS files"),
                F.expr("coalesce(sum(size div copies), 0) AS size"),
                F.expr(
                    "bool_and(manifest_id IS NULL"
                    " OR coalesce(coalesce(rows, 0) = copies * files, false)) AS complete"
                ),
            )
            .collect()
        )
        return {
            SnapshotKey(r["table_uuid"], r["snapshot_id"]): (r["files"], r["size"])
            for r in rows
            if r["complete"]
        }

    def unknown_paths(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        if not paths:
            return set()
        asked = self._hashes("key_hash", paths)
        named = (
            self._read("entries")
            .select("key_hash")
            .unionByName(self._read("manifests").select(F.col("manifest_id").alias("key_hash")))
            .unionByName(self._read("snapshots").select(F.col("list_hash").alias("key_hash")))
            .unionByName(self._read("side_files").select("key_hash"))
        )
        found = {row[0] for row in named.join(asked, "key_hash", "leftsemi").distinct().collect()}
        return {path for path in paths if key_hash(path) not in found}

    # --- plan items ----------------------------------------------------------------------------

    def store_items(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a retry finds them and stores nothing."""
        there = self._values("plan_items", "plan_id", list(plans))
        rows = [
            {
                "plan_id": plan_id,
                "path": file.path,
                "kind": str(file.kind),
                "bytes": file.bytes,
                "owner": file.owner,
                "due_at": file.due_at,
            }
            for plan_id, files in plans.items()
            if plan_id not in there
            for file in files
        ]
        self._append("plan_items", rows, ",".join(sorted(plans)[:20]))

    def _values(self, table: str, column: str, wanted: Sequence[str]) -> set[str]:
        if not wanted:
            return set()
        found = self._read(table).where(F.col(column).isin(list(wanted))).select(column).distinct()
        return {row[0] for row in found.collect()}

    def items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path."""
        found: dict[str, list[PlannedFile]] = {plan_id: [] for plan_id in plan_ids}
        if plan_ids:
            rows = self._read("plan_items").where(F.col("plan_id").isin(list(plan_ids)))
            for row in rows.toArrow().to_pylist():
                found[row["plan_id"]].append(planned_file(row))
        return {plan_id: sorted(files, key=_by_path) for plan_id, files in found.items()}

    # --- departures ----------------------------------------------------------------------------

    def record_departures(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit; a known marker adds nothing."""
        there = self._values("departures", "marker", list(departures))
        now_ns = time.time_ns()
        rows = [
            {
                "path": departure.path,
                "key_hash": key_hash(departure.path),
                "kind": str(departure.kind),
                "bytes": departure.bytes,
                "owner": departure.owner,
                "plan_id": departure.plan_id,
                "departed_at": departure.departed_at,
                "due_at": departure.due_at,
                "state": str(departure.state),
                "recorded_at": departure.recorded_at,
                "written_ns": now_ns,
                "marker": marker,
            }
            for marker, found in departures.items()
            if marker not in there
            for departure in found
        ]
        self._append("departures", rows, ",".join(sorted(departures)[:20]))

    def _newest_departures(self, paths: Sequence[str] | None = None) -> DataFrame:
        newest = Window.partitionBy("key_hash").orderBy(F.col("written_ns").desc())
        rows = self._read("departures")
        if paths is not None:
            rows = rows.join(self._hashes("key_hash", paths), "key_hash", "leftsemi")
        return (
            rows.withColumn("age", F.row_number().over(newest)).where(F.col("age") == 1).drop("age")
        )

    def departures(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path, where it is in one of the states."""
        if paths is not None and not paths:
            return ()
        wanted: Column = F.col("state").isin([str(state) for state in states])
        if due_by is not None:
            wanted = wanted & (F.col("due_at") <= F.lit(due_by))
        newest = self._newest_departures(paths).where(wanted)
        return sorted((departure(row) for row in newest.toArrow().to_pylist()), key=_by_path)


def _by_path(found: Departure | PlannedFile) -> str:
    return found.path


def _manifest_row(row: Any) -> dict[str, Any]:
    return {
        "table_uuid": row["table_uuid"],
        "manifest_id": row["manifest_id"],
        "path": row["manifest"],
        "bytes": row["bytes"],
        "added": row["added"],
        "existing": row["existing"],
        "deleted": row["deleted"],
    }


def _manifests_of(snapshots: DataFrame, *columns: str) -> DataFrame:
    return snapshots.select(*columns, F.explode("manifests").alias("manifest_id")).distinct()


def planned_file(row: Mapping[str, Any]) -> PlannedFile:
    """A plan item from a ledger row."""
    return PlannedFile(
        row["path"], FileKind(row["kind"]), row["bytes"], row["owner"], row["due_at"]
    )


def departure(row: Mapping[str, Any]) -> Departure:
    """A departure from a ledger row."""
    return Departure(
        path=row["path"],
        kind=FileKind(row["kind"]),
        bytes=row["bytes"],
        owner=row["owner"],
        plan_id=row["plan_id"],
        departed_at=row["departed_at"],
        due_at=row["due_at"],
        state=DepartureState(row["state"]),
        recorded_at=row["recorded_at"],
    )
