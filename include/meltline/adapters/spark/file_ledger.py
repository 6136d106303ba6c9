"""The file ledger on Spark: Iceberg tables in the namespace `ledger-namespace` of the hot catalog.

It answers the one question the plans ask: which files do only these snapshots refer to?
Manifests anti-join first, then hashes of locations; a collision can only keep a file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.index_rows import IndexRows
from meltline.adapters.spark.known_snapshots import Split
from meltline.domain.files import EntryStatus, FileKind
from meltline.ports import DepartingFile, Neighbourhood, SnapshotKey

_PUSHED = 200  # ids a filter may name: row groups without them are passed over; above, a join
_PUSHED_TABLES = 100

Row = Mapping[str, Any]


class SparkFileLedger(IndexRows):
    """The port `FileLedger`, on Spark and Iceberg."""

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to."""
        if not candidates:
            return ()
        known = self._known() if within is None else self._known().of_tables(within.tables)
        split = known.split(set(candidates))
        manifests = self._manifests(split.gone)
        few = sum(row["files"] for row in manifests) <= self.limits.driver_rows
        files = (self._few_files if few else self._many_files)(split, within)
        rows = [*_rows(split.lists), *manifests, *files]
        waiting = set(self._waiting_among([row["key_hash"] for row in rows]))
        return _gathered((row for row in rows if row["key_hash"] not in waiting), split.gone)

    def _waiting_among(self, hashes: Sequence[int]) -> Sequence[int]:
        found: list[int] = self._waiting().among(hashes).hashes.to_pylist()
        return found

    def _live(self) -> DataFrame:
        return self._read("entries").where(F.col("status") < int(EntryStatus.DELETED))

    def _live_in(self, manifests: Sequence[int]) -> DataFrame:
        if len(manifests) <= _PUSHED:
            return self._live().where(F.col("manifest_id").isin(list(manifests)))
        return self._live().join(self._ids("manifest_id", manifests), "manifest_id", "leftsemi")

    def _manifests(self, gone: Mapping[int, set[str]]) -> list[Row]:
        """The manifests that only leaving snapshots refer to."""
        if not gone:
            return []
        rows = self._read("manifests").join(
            self._ids("manifest_id", list(gone)), "manifest_id", "leftsemi"
        )
        found = rows.select(
            "manifest_id",
            "path",
            F.col("manifest_id").alias("key_hash"),
            F.lit(str(FileKind.MANIFEST)).alias("kind"),
            "bytes",
            F.expr("added + existing").alias("files"),
        ).toArrow()
        return _rows(found)

    def _few_files(self, split: Split, within: Neighbourhood | None) -> list[Row]:
        """Files that only leaving manifests name: their rows come here, the others' hits follow."""
        columns = ("table_uuid", "manifest_id", "path", "key_hash", "kind", "bytes",
                   "sequence_number")  # fmt: skip
        leaving = self._live_in(list(split.gone)).select(*columns).toArrow()
        if not leaving.num_rows:
            return []
        hashes = self._ids("key_hash", pc.unique(leaving.column("key_hash")))
        near = self._near(_floors(leaving), within).select("manifest_id", "key_hash")
        kept = near.join(hashes, "key_hash", "leftsemi").join(
            self._ids("manifest_id", split.kept), "manifest_id", "leftsemi"
        )
        hits = kept.select("key_hash").toArrow().column(0)
        own = pc.invert(pc.is_in(leaving.column("key_hash"), pc.unique(hits)))
        return _rows(leaving.filter(own))

    def _many_files(self, split: Split, within: Neighbourhood | None) -> list[Row]:
        """The same for many: hashes alone are compared, on executors; then their rows come here."""
        gone = self._ids("manifest_id", list(split.gone)).withColumn("kept", F.lit(0))
        sides = F.broadcast(
            gone.unionByName(self._ids("manifest_id", split.kept).withColumn("kept", F.lit(1)))
        )
        floors = self._live_in(list(split.gone)).groupBy("table_uuid").agg(F.min("sequence_number"))
        near = self._near({row[0]: row[1] for row in floors.collect()}, within)
        alone = (
            near.join(sides, "manifest_id")
            .groupBy("key_hash")
            .agg(F.max("kept").alias("kept"))
            .where("kept = 0")
            .select("key_hash")
        )
        hashes = self._ids("key_hash", alone.toArrow().column(0).combine_chunks())
        rows = self._live_in(list(split.gone)).join(hashes, "key_hash", "leftsemi")
        columns = ("manifest_id", "path", "key_hash", "kind", "bytes")
        return _rows(rows.select(*columns).toArrow())

    def _near(self, floors: Mapping[str, int], within: Neighbourhood | None) -> DataFrame:
        """The rows that may name a leaving file (see `Neighbourhood`).

        `floors` has the first sequence number of leaving files, by the table that named them.
        """
        if within is None or len(floors) > _PUSHED_TABLES or not within.linear.issuperset(floors):
            return self._live()
        may_be = F.lit(False)
        for uuid, floor in floors.items():
            may_be = may_be | ((F.col("table_uuid") == uuid) & (F.col("sequence_number") >= floor))
        return self._live().where(may_be)

    def referenced_now(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        if not paths:
            return set()
        known = self._known().without(set(dead))
        by_hash = {key_hash(path): path for path in paths}
        named = self._live().join(self._hashes("key_hash", paths), "key_hash", "leftsemi")
        kept = named.join(self._ids("manifest_id", known.manifests), "manifest_id", "leftsemi")
        found = {row[0] for row in kept.select("key_hash").distinct().collect()}
        found |= known.naming(by_hash) | known.lists_among(by_hash)
        return {path for path in paths if key_hash(path) in found}

    def waiting_for(self, snapshots: Sequence[SnapshotKey]) -> set[str]:
        """Files in failsafe that these known snapshots refer to."""
        if not snapshots or not self._waiting().rows.num_rows:
            return set()
        return self._waiting_named_by(self._known().only(snapshots).manifests.to_pylist())


def _rows(found: pa.Table) -> list[Row]:
    rows: list[Row] = found.to_pylist()
    return rows


def _floors(leaving: pa.Table) -> dict[str, int]:
    first = leaving.group_by("table_uuid").aggregate([("sequence_number", "min")])
    columns = (first.column(name).to_pylist() for name in ("table_uuid", "sequence_number_min"))
    return dict(zip(*columns, strict=True))


def _gathered(rows: Iterable[Row], gone: Mapping[int, set[str]]) -> list[DepartingFile]:
    """Each file once, with all tables whose leaving snapshots named it."""
    found: dict[int, tuple[str, str, int]] = {}
    tables: dict[int, set[str]] = {}
    for row in rows:
        key, path, kind, size = row["key_hash"], row["path"], row["kind"], row["bytes"]
        manifest = row.get("manifest_id")
        uuids = {row["table_uuid"]} if manifest is None else gone[manifest]
        if key in found:  # one answer whatever the order of the rows: a plan's digest is of it
            other, _, largest = found[key]
            path, size = min(path, other), max(size, largest)
            uuids = tables[key] | uuids
        found[key], tables[key] = (path, kind, size), uuids
    return [
        DepartingFile(path, kind, size, tuple(sorted(tables[key])))
        for key, (path, kind, size) in found.items()
    ]
