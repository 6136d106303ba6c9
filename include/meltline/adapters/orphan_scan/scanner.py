"""Finds orphan candidates with Spark: lists the store in rounds, or reads an inventory.

`app/orphans` calls it (`Sweeper`). Hashes stay on the executors, and only files that nothing keeps
reach the driver. A hash collision can only keep a file.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.folder_listing import FolderLister
from meltline.adapters.orphan_scan.listing import CUT_ABOVE, Note, Part, list_parts, sift_inventory
from meltline.adapters.spark.jvm import ENGINE_FAILURES, shown_failure
from meltline.adapters.spark.session import spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.deletion.foreign_owners import marker_above
from meltline.domain.deletion.orphans import (
    Inventory,
    OrphanCandidate,
    OrphanObservation,
    SweptPlaces,
)
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.iceberg.files import DepartureState, EntryStatus
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.ports import Level

_STRAYS = "strays"
_ROWS_PER_PARTITION = 1_000_000
_FEW = 200_000  # hashes that may be broadcast to every executor
_SIGNS = r"\.metadata\.json|/snapshot-\d+$|/schema-\d+$|\.lance$"
MOST = 500_000
"""Orphan candidates that reach the driver at once; the next sweep handles the rest."""


class SweepRows:
    """Reads what the file ledger keeps, and earlier observations of candidates."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    def kept_hashes(self, among: DataFrame | None = None) -> DataFrame:
        """Returns hashes of all kept locations, or of the given ones; with duplicates.

        Kept are live entries, manifests, manifest lists and side files of any snapshot. Kept is
        also every file that a snapshot has added, even if it was removed since, and each file in
        failsafe. Not kept are files that were deleted since, because a new object may lie there,
        and files that a purge withheld.
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
        """Returns rows that prove that some snapshot, recorded or not, has or had a file."""
        return (
            self._tables.read("entries").where(F.col("status") < int(EntryStatus.DELETED)),
            self._tables.read("changes").where(F.col("until").isNull()),
        )

    def _departed(self, among: DataFrame | None) -> DataFrame:
        """Returns the newest state of each departed location, and when it was recorded."""
        rows = self._tables.read("departures")
        if among is not None:
            rows = rows.join(F.broadcast(among), "key_hash", "leftsemi")
        return rows.groupBy("key_hash").agg(
            F.max_by("state", "written_ns").alias("state"),
            F.max_by("recorded_at", "written_ns").alias("left_at"),
            F.max_by("due_at", "written_ns").alias("due_at"),
        )

    def kept_in_parts(self) -> DataFrame:
        """Returns all kept hashes, partitioned by hash and cached for the joins with listings."""
        parts = int(self._tables.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        rows = sum(self._tables.read(table).count() for table in ("entries", "changes"))
        parts = max(parts, rows // _ROWS_PER_PARTITION)
        return self.kept_hashes().repartition(parts, "key_hash").persist()

    def strays_among(self, files: DataFrame) -> Sequence[OrphanCandidate]:
        """Returns the listed files that the current ledger does not keep, without duplicates."""
        count = files.count()
        if not count:
            return ()
        hashes = files.select("key_hash").distinct() if count <= _FEW else None
        unkept = files.join(self.kept_hashes(hashes), "key_hash", "leftanti").dropDuplicates(
            ["path"]
        )
        if count > MOST:  # always the same ones, so that the next sweep sees them again
            is_sign = F.col("path").rlike(_SIGNS)  # of foreign owners: none may be postponed
            unkept = unkept.orderBy(is_sign.desc(), "key_hash", "path").limit(MOST)
        rows = unkept.join(self._departed(hashes).drop("state", "due_at"), "key_hash", "left")
        strays = rows.select("path", "bytes", "modified_at", "left_at").toArrow().to_pylist()
        return [
            OrphanCandidate(r["path"], r["bytes"], r["modified_at"], r["left_at"]) for r in strays
        ]

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        """Returns the newest observation of each candidate, by its path."""
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
        """Appends observations in one commit."""
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
        """Returns indexed files with the same last name, by the given path."""
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


_THREADS = 16
_COLUMNS = {
    "path": ("string",),
    "size": ("bigint", "int"),
    "modified": ("timestamp", "timestamp_ntz"),
}


@dataclass(frozen=True)
class SparkListing:
    """Implements `Listing`; files that the ledger did not keep are cached on executors."""

    listed_at: datetime
    files: int
    unlisted: Mapping[str, str]
    unkept: DataFrame | None
    rows: SweepRows
    store: FolderLister | None = None
    markers: Sequence[str] = ()

    def strays(self) -> Sequence[OrphanCandidate]:
        """Returns the files that the current file ledger does not keep."""
        candidates = () if self.unkept is None else self.rows.strays_among(self.unkept)
        return candidates if self.store is None else _measured(self.store, candidates)


@dataclass(frozen=True)
class _ScanRound:
    """The result of one listing job: files that nothing kept, and notes."""

    files: DataFrame
    notes: Sequence[Mapping[str, object]]

    def remarks(self, note: Note) -> Iterator[tuple[str, str]]:
        """Yields the paths with notes of a kind, and their remarks."""
        for row in self.notes:
            kind, _, remark = str(row["note"]).partition(":")
            if kind == note:
                yield str(row["path"]), remark

    @property
    def counted(self) -> int:
        """The number of listed files."""
        return sum(int(str(row["files"])) for row in self.notes if row["files"] is not None)


class SparkSweeper:
    """Lists the store on executors and joins the rows with the ledger's in the same job.

    So only files that the ledger does not keep yet are cached until the tables were observed. The
    cache has no lineage: a lost executor fails the sweep. Listing again would happen after the
    metadata was read, which is unsafe (AR-16).

    Attributes:
        cut_above: A folder with more files is listed folder by folder.
    """

    cut_above = CUT_ABOVE

    def __init__(
        self,
        tables: LedgerTables,
        folders: FolderLister,
        catalogs: Mapping[str, CatalogConfig],
    ) -> None:
        """Takes the ledger's tables, a lister of folders, and the catalogs of inventories."""
        self._rows = SweepRows(tables)
        self._spark = tables.spark
        self._folders = folders
        self._catalogs = catalogs

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        return self._rows.sightings(strays)

    def record(self, sightings: Sequence[OrphanObservation]) -> None:
        self._rows.record(sightings)

    def namesakes(self, paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return self._rows.namesakes(paths)

    def list_files(self, places: SweptPlaces, now: datetime) -> SparkListing:
        """Lists every folder of a sweep; complete when this returns."""
        parts, unlisted, markers = self._top(places)
        hashes = self._rows.kept_in_parts()
        rounds: list[_ScanRound] = []
        try:
            while parts:
                rows = list_parts(self._spark, self._folders, places, parts, self.cut_above)
                done = self._without(rows, hashes)
                rounds.append(done)
                unlisted.update(done.remarks(Note.UNLISTED))
                parts = self._next(places, done, deep=len(rounds) > 1)
        finally:
            hashes.unpersist()
        return self._listing(now, rounds, unlisted, self._folders, markers)

    def _top(self, places: SweptPlaces) -> tuple[list[Part], dict[str, str], set[str]]:
        """Returns the first parts: the folders directly below each root, listed by this process.

        Returns also why a root cannot be listed, and log folders of other formats.
        """
        parts: list[Part] = []
        unlisted: dict[str, str] = {}
        folders: list[str] = []
        markers: set[str] = set()
        with ThreadPoolExecutor(_THREADS) as pool:
            levels = list(pool.map(self._level, places.roots))
        for root, level in zip(places.roots, levels, strict=True):
            if isinstance(level, str):
                unlisted[root] = level
            elif level.files or level.names:  # for an executor; its folders are the next round
                parts.append(Part(root, whole=False))
            else:
                folders += level.folders
                markers.update(filter(None, map(marker_above, level.folders)))
        return parts + self._parts(places, folders, deep=False), unlisted, markers

    def _level(self, root: str) -> Level | str:
        """Returns the direct children of a root, or why they cannot be listed."""
        try:
            return self._folders.level(root)
        except (MeltlineError, OSError) as refused:
            return str(refused)

    def _parts(self, places: SweptPlaces, folders: Sequence[str], *, deep: bool) -> list[Part]:
        """Returns parts: complete folders once there are enough to keep all executors busy."""
        eligible = [folder for folder in folders if places.may_lie_below(folder)]
        enough = self._spark.sparkContext.defaultParallelism * 8
        return [Part(folder, whole=deep or len(eligible) >= enough) for folder in eligible]

    def _next(self, places: SweptPlaces, done: _ScanRound, *, deep: bool) -> list[Part]:
        notes = list(done.remarks(Note.TO_LIST))
        cut = [Part(folder, whole=False) for folder, how in notes if how]
        return cut + self._parts(places, [folder for folder, how in notes if not how], deep=deep)

    @staticmethod
    def _without(rows: DataFrame, hashes: DataFrame) -> _ScanRound:
        """Runs a job that drops rows with kept hashes; notes stay, because they have no hash."""
        remaining = rows.join(hashes.hint("shuffle_hash"), "key_hash", "leftanti").localCheckpoint()
        notes = remaining.where(F.col("note").isNotNull()).toArrow().to_pylist()
        return _ScanRound(remaining.where(F.col("note").isNull()), notes)

    def _listing(
        self,
        at: datetime,
        rounds: Sequence[_ScanRound],
        unlisted: Mapping[str, str],
        store: FolderLister | None,
        markers: Collection[str] = (),
    ) -> SparkListing:
        frames = [done.files for done in rounds]
        noted = {path for done in rounds for path, _ in done.remarks(Note.MARKER)}
        return SparkListing(
            listed_at=at,
            files=sum(done.counted for done in rounds),
            unlisted=unlisted,
            unkept=reduce(DataFrame.unionByName, frames) if frames else None,
            rows=self._rows,
            store=store,
            markers=sorted(noted.union(markers)),
        )

    # --- inventories ---------------------------------------------------------------------------

    def read_inventory(self, inventory: Inventory, places: SweptPlaces) -> SparkListing:
        """Reads an inventory instead of listing; rows outside the swept paths are left out."""
        try:
            rows = self._open(inventory)
            wrong = _wrong_columns(rows)
            at = self._written_at(inventory, rows)
        except ENGINE_FAILURES as failure:
            raise _refused(inventory, shown_failure(failure)) from failure
        if wrong or at is None:
            raise _refused(inventory, wrong or "nothing in it")
        size, modified = F.col("size").cast("bigint"), F.col("modified").cast("timestamp")
        files = rows.select("path", size, modified)
        hashes = self._rows.kept_in_parts()
        try:
            done = self._without(sift_inventory(files, places), hashes)
        finally:
            hashes.unpersist()
        return self._listing(at, [done], {}, None)

    def _open(self, inventory: Inventory) -> DataFrame:
        if inventory.is_table:
            return self._spark.table(self._identifier(inventory))
        plain = self._spark.read.option("__globPaths__", "false")
        return plain.parquet(inventory.source)

    def _written_at(self, inventory: Inventory, rows: DataFrame) -> datetime | None:
        """Returns the latest time at which the store was as the inventory describes it."""
        if inventory.is_table:
            name = self._identifier(inventory)
            head = self._spark.table(f"{name}.refs").where("name = 'main'")
            snapshots = self._spark.table(f"{name}.snapshots")
            times = snapshots.join(head, "snapshot_id").select("committed_at")
        else:
            times = rows.select(F.max("_metadata.file_modification_time"))
        (at,) = times.toArrow().column(0).to_pylist() or [None]
        return at.astimezone(UTC) if isinstance(at, datetime) else None

    def _identifier(self, inventory: Inventory) -> str:
        try:
            return spark_identifier(self._catalogs, TableName.parse(inventory.source))
        except (ValueError, KeyError):
            raise _refused(inventory, "no table of a configured catalog") from None


def _measured(store: FolderLister, strays: Sequence[OrphanCandidate]) -> list[OrphanCandidate]:
    """Measures candidates that were listed by name only; leaves out those that are gone since.

    Measuring after the metadata was read is safe: a file that was written since is young.
    """
    sized = [stray for stray in strays if stray.bytes is not None]
    unknown = [stray for stray in strays if stray.bytes is None]
    with ThreadPoolExecutor(_THREADS) as pool:
        measured = pool.map(store.measure, [stray.path for stray in unknown], chunksize=100)
        return sized + [
            OrphanCandidate(stray.path, file.bytes, file.modified_at, stray.left_at)
            for stray, file in zip(unknown, measured, strict=True)
            if file is not None
        ]


def _wrong_columns(rows: DataFrame) -> str:
    """Describes the columns that are missing or of another type."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    wrong = {
        name: types.get(name, "none")
        for name, fit in _COLUMNS.items()
        if types.get(name) not in fit
    }
    return ", ".join(f"{name}: {kind}" for name, kind in wrong.items())


def _refused(inventory: Inventory, problem: str) -> UsageInvalid:
    return UsageInvalid(
        f"the inventory {inventory.source} cannot be used",
        object=inventory.source,
        expected="columns path (text), size (whole number) and modified (timestamp, UTC)",
        found=problem.splitlines()[0][:300],
        next="give another one, or list the store by leaving it out",
    )
