"""The sweep on Spark: a listing anti-joined with the file ledger by 64-bit hashes of locations.

Hashes stay on the executors; what comes to the driver is what nothing keeps. A collision may only
keep a file.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.deletion.orphans import OrphanCandidate, OrphanObservation
from meltline.domain.iceberg.files import DepartureState, EntryStatus
from meltline.domain.iceberg.locations import location_key

_STRAYS = "strays"
_ROWS_PER_PARTITION = 1_000_000
_FEW = 200_000  # as many hashes may go to every executor
_SIGNS = r"\.metadata\.json|/snapshot-\d+$|/schema-\d+$|\.lance$"
MOST = 500_000
"""How many strays come to the driver at once; the rest is for the next sweep."""


class SweepRows:
    """What the file ledger keeps, and which candidates were seen before."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    def prepare(self) -> None:
        """Creates the tables that a sweep needs where they are missing: a ledger may be older."""
        exists = self._tables.spark.catalog.tableExists
        if not all(exists(f"{self._tables.namespace}.{table}") for table in (_STRAYS, "changes")):
            self._tables.prepare()

    def kept_hashes(self, among: DataFrame | None = None) -> DataFrame:
        """Hashes of all locations that something keeps, or of those among some; not each once.

        Live entries, manifests, manifest lists and side files of whatever snapshot, and whatever
        one has added, whoever removed it since; but not what was deleted since, and might be there
        again, nor what a purge left alone. And what waits in failsafe.
        """
        newest = self._departed(among)
        waits = F.col("state") == DepartureState.FAILSAFE
        was_left = waits & (F.col("left_at") > F.col("due_at"))  # as `Departure.was_left`
        over = was_left | (F.col("state") == DepartureState.DELETED)
        deleted = newest.where(over).select("key_hash")
        waiting = newest.where(waits & ~was_left).select("key_hash")
        sources = [
            *(files.select("key_hash") for files in self._alive_once()),
            self._tables.read("manifests").select(F.col("manifest_id").alias("key_hash")),
            self._tables.read("snapshots").select(F.col("list_hash").alias("key_hash")),
            self._tables.read("side_files").select("key_hash"),
        ]
        rows = reduce(DataFrame.unionByName, sources)
        if among is not None:
            rows = rows.join(F.broadcast(among), "key_hash", "leftsemi")
        return rows.join(deleted, "key_hash", "leftanti").unionByName(waiting)

    def _alive_once(self) -> tuple[DataFrame, DataFrame]:
        """Rows that say that some snapshot, recorded or not, has or had a file."""
        return (
            self._tables.read("entries").where(F.col("status") < int(EntryStatus.DELETED)),
            self._tables.read("changes").where(F.col("until").isNull()),
        )

    def _departed(self, among: DataFrame | None) -> DataFrame:
        """The newest state of each departed location, and when it was recorded."""
        rows = self._tables.read("departures")
        if among is not None:
            rows = rows.join(F.broadcast(among), "key_hash", "leftsemi")
        return rows.groupBy("key_hash").agg(
            F.max_by("state", "written_ns").alias("state"),
            F.max_by("recorded_at", "written_ns").alias("left_at"),
            F.max_by("due_at", "written_ns").alias("due_at"),
        )

    def kept_in_parts(self) -> DataFrame:
        """All of it, cut by hash and held ready for the listings that are to be held against it."""
        parts = int(self._tables.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        rows = sum(self._tables.read(table).count() for table in ("entries", "changes"))
        parts = max(parts, rows // _ROWS_PER_PARTITION)
        return self.kept_hashes().repartition(parts, "key_hash").persist()

    def strays_among(self, files: DataFrame) -> Sequence[OrphanCandidate]:
        """Those of some listed files that nothing keeps as the ledger is now, each once."""
        count = files.count()
        if not count:
            return ()
        hashes = files.select("key_hash").distinct() if count <= _FEW else None
        unkept = files.join(self.kept_hashes(hashes), "key_hash", "leftanti").dropDuplicates(
            ["path"]
        )
        if count > MOST:  # always the same ones, so that the next listing shows them again
            is_sign = F.col("path").rlike(_SIGNS)  # of other owners: none may be left for later
            unkept = unkept.orderBy(is_sign.desc(), "key_hash", "path").limit(MOST)
        rows = unkept.join(self._departed(hashes).drop("state", "due_at"), "key_hash", "left")
        strays = rows.select("path", "bytes", "modified_at", "left_at").toArrow().to_pylist()
        return [
            OrphanCandidate(r["path"], r["bytes"], r["modified_at"], r["left_at"]) for r in strays
        ]

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        """The newest sighting of each, by the stray's path."""
        if not strays:
            return {}
        hashes = self._tables.ids("key_hash", [key_hash(stray.path) for stray in strays])
        newest = (
            self._tables.read(_STRAYS)
            .join(hashes, "key_hash", "leftsemi")
            .groupBy("key_hash")
            .agg(F.max_by(F.struct(*TABLES[_STRAYS].names), "listed_at").alias("row"))
            .select("row.*")
        )
        rows = {row["key_hash"]: _sighting(row) for row in newest.toArrow().to_pylist()}
        by_path = {stray.path: rows.get(key_hash(stray.path)) for stray in strays}
        return {
            path: sighting
            for path, sighting in by_path.items()
            if sighting is not None and location_key(sighting.path) == location_key(path)
        }

    def record(self, sightings: Sequence[OrphanObservation]) -> None:
        """Appends sightings, in one commit."""
        rows = [
            {
                "path": sighting.path,
                "key_hash": key_hash(sighting.path),
                "bytes": sighting.bytes,
                "modified_at": sighting.modified_at,
                "owner": sighting.owner,
                "listed_at": sighting.listed_at,
            }
            for sighting in sightings
        ]
        self._tables.append(_STRAYS, rows, f"sightings-{time.time_ns()}")

    def namesakes(self, paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Files that the ledger knows under the same last name, by the path asked for."""
        if not paths:
            return {}
        names = pa.table({"name": sorted({_name(path) for path in paths})})
        sought = F.broadcast(self._tables.spark.createDataFrame(names))
        entries, changes = self._alive_once()
        paths_alive = (
            entries.select("path")
            .unionByName(changes.select("path"))
            .unionByName(self._tables.read("manifests").select("path"))
            .unionByName(
                self._tables.read("snapshots").select(F.col("manifest_list").alias("path"))
            )
            .unionByName(self._tables.read("side_files").select("path"))
            .withColumn("name", F.substring_index("path", "/", -1))
            .join(sought, "name", "leftsemi")
            .select("path")
            .distinct()
        )
        by_name: dict[str, list[str]] = {}
        for (path,) in paths_alive.collect():
            by_name.setdefault(_name(path), []).append(path)
        return {path: by_name.get(_name(path), []) for path in paths}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _sighting(row: Mapping[str, object]) -> OrphanObservation:
    path, size, owner = row["path"], row["bytes"], row["owner"]
    modified, listed = row["modified_at"], row["listed_at"]
    assert isinstance(size, int) and isinstance(modified, datetime) and isinstance(listed, datetime)
    return OrphanObservation(str(path), size, modified, str(owner), listed)
