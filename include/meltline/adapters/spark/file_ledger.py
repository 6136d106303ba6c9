"""The file ledger on Spark: Iceberg tables in the namespace `ledger-namespace` of the hot catalog.

It answers the one question the plans ask: which files do only these snapshots refer to?
Manifests anti-join first, then hashes of locations; a collision can only keep a file.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.index_rows import IndexRows, manifests_of
from meltline.domain.files import EntryStatus, FileKind
from meltline.ports import DepartingFile, Neighbourhood, SnapshotKey

_PUSHED = 5_000  # ids a filter may name; above, a join
_PUSHED_TABLES = 100


class SparkFileLedger(IndexRows):
    """The port `FileLedger`, on Spark and Iceberg."""

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to."""
        if not candidates:
            return ()
        split = self._split(candidates, within)
        leaving = self._leaving(split.gone).persist()
        try:
            near = self._live() if within is None else self._near(leaving, within)
            kept = near.join(self._ids(split.kept), "manifest_id", "leftsemi").select("key_hash")
            files = leaving.drop("sequence_number").join(kept, "key_hash", "leftanti")
            manifests = self._manifests(split.gone)
            lists = self._spark.createDataFrame(split.lists)
            return self._grouped(lists.unionByName(manifests).unionByName(files))
        finally:
            leaving.unpersist()

    def _split(self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None) -> "_Split":
        """What only the candidates name, and the manifests that others name, by their ids."""
        known = self._known()
        if within is not None and len(within.tables) <= _PUSHED_TABLES:
            known = known.where(F.col("table_uuid").isin(list(within.tables)))
        columns = ("table_uuid", "snapshot_id", "manifest_list", "list_hash",
                   "manifest_list_bytes", "manifests")  # fmt: skip
        rows = known.select(*columns).toArrow()
        return _split(rows, {(key.table_uuid, key.snapshot_id) for key in candidates})

    def _live(self) -> DataFrame:
        return self._read("entries").where(F.col("status") < int(EntryStatus.DELETED))

    def _ids(self, manifests: Iterable[int]) -> DataFrame:
        ids = pa.table({"manifest_id": pa.array(manifests, pa.int64())})
        return F.broadcast(self._spark.createDataFrame(ids))

    def _manifests(self, gone: pa.Table) -> DataFrame:
        """The manifests that only leaving snapshots refer to."""
        of_tables = F.broadcast(self._spark.createDataFrame(gone))
        manifests = self._read("manifests").drop("table_uuid")
        return manifests.join(of_tables, "manifest_id").select(
            "table_uuid",
            "path",
            F.col("manifest_id").alias("key_hash"),
            F.lit(str(FileKind.MANIFEST)).alias("kind"),
            "bytes",
        )

    def _leaving(self, gone: pa.Table) -> DataFrame:
        """The files alive in those manifests; a filter by id skips row groups without them."""
        live = self._live().drop("table_uuid")
        if gone.num_rows <= _PUSHED:
            live = live.where(F.col("manifest_id").isin(gone.column("manifest_id").to_pylist()))
        return live.join(F.broadcast(self._spark.createDataFrame(gone)), "manifest_id").select(
            "table_uuid", "path", "key_hash", "kind", "bytes", "sequence_number"
        )

    def _near(self, leaving: DataFrame, within: Neighbourhood) -> DataFrame:
        """The rows that may name one of the leaving files (see `Neighbourhood`)."""
        first = leaving.groupBy("table_uuid").agg(F.min("sequence_number").alias("first"))
        floors = {row["table_uuid"]: row["first"] for row in first.collect()}
        if len(floors) > _PUSHED_TABLES or not within.linear.issuperset(floors):
            return self._live()
        may_be = F.lit(False)
        for uuid, floor in floors.items():
            may_be = may_be | ((F.col("table_uuid") == uuid) & (F.col("sequence_number") >= floor))
        return self._live().where(may_be)

    def _grouped(self, rows: DataFrame) -> Sequence[DepartingFile]:
        waiting = self._waiting()
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
        found = grouped.toArrow()
        columns = ("path", "kind", "bytes", "table_uuids")
        return [
            DepartingFile(path, kind, size, tuple(uuids))
            for path, kind, size, uuids in zip(
                *(found.column(name).to_pylist() for name in columns), strict=True
            )
        ]

    def referenced_now(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        if not paths:
            return set()
        known = self._known()
        if dead:
            known = known.join(self._keys(dead), ["table_uuid", "snapshot_id"], "leftanti")
        asked = self._hashes("key_hash", paths)
        kept = manifests_of(known)
        named = self._live().join(asked, "key_hash", "leftsemi")
        hits = (
            named.join(kept, "manifest_id", "leftsemi")
            .select("key_hash")
            .unionByName(kept.select(F.col("manifest_id").alias("key_hash")))
            .unionByName(known.select(F.col("list_hash").alias("key_hash")))
            .join(asked, "key_hash", "leftsemi")
            .distinct()
            .collect()
        )
        found = {row[0] for row in hits}
        return {path for path in paths if key_hash(path) in found}

    def waiting_for(self, snapshots: Sequence[SnapshotKey]) -> set[str]:
        """Files in failsafe that these known snapshots refer to."""
        if not snapshots or self._current("departures") is None:
            return set()
        on = ["table_uuid", "snapshot_id"]
        known = self._known().join(self._keys(snapshots), on, "leftsemi")
        ids = manifests_of(known)
        named = self._live().join(ids, "manifest_id", "leftsemi").select("key_hash")
        own = ids.withColumnRenamed("manifest_id", "key_hash")
        hits = self._waiting().join(named.unionByName(own).distinct(), "key_hash", "leftsemi")
        return {row[0] for row in hits.select("path").collect()}


@dataclass(frozen=True)
class _Split:
    """What leaves with some snapshots, and what stays.

    Attributes:
        lists: Rows of manifest lists that only leaving snapshots have.
        gone: Manifests that only leaving snapshots name, with the tables of those.
        kept: Ids of the manifests that the others name.
    """

    lists: pa.Table
    gone: pa.Table
    kept: Collection[int]


def _split(known: pa.Table, candidates: Collection[tuple[str, int]]) -> _Split:
    columns = [known.column(name).to_pylist() for name in ("table_uuid", "snapshot_id")]
    leaves = pa.array([key in candidates for key in zip(*columns, strict=True)], pa.bool_())
    leaving, staying = known.filter(leaves), known.filter(pc.invert(leaves))
    kept = set(pc.unique(pc.list_flatten(staying.column("manifests"))).to_pylist())
    gone: set[tuple[str, int]] = set()
    for uuid, manifests in zip(
        leaving.column("table_uuid").to_pylist(), leaving.column("manifests").to_pylist(),
        strict=True,
    ):  # fmt: skip
        gone.update((uuid, manifest) for manifest in manifests if manifest not in kept)
    hashes = leaving.column("list_hash")
    own = pc.and_(
        hashes.is_valid(), pc.invert(pc.is_in(hashes, staying.column("list_hash").drop_null()))
    )
    lists = leaving.filter(own)
    return _Split(
        pa.table(
            {
                "table_uuid": lists.column("table_uuid"),
                "path": lists.column("manifest_list"),
                "key_hash": lists.column("list_hash"),
                "kind": pa.array([str(FileKind.MANIFEST_LIST)] * lists.num_rows, pa.string()),
                "bytes": lists.column("manifest_list_bytes"),
            }
        ),
        pa.table(
            {
                "table_uuid": pa.array([uuid for uuid, _ in gone], pa.string()),
                "manifest_id": pa.array([manifest for _, manifest in gone], pa.int64()),
            }
        ),
        kept,
    )
