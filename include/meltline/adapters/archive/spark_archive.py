"""The archive with Spark: executors read manifests, copy files and rewrite manifests.

What one batch names stays on the executors and their disks; the driver gets a row for each
manifest. Within a batch a file that many manifests name is copied once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.batches import BatchLimits
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import (
    FileDone,
    LocalCrew,
    ManifestDone,
    entries_of,
    is_worth_reading,
    settled,
    with_copied,
)
from meltline.adapters.archive.manifests import NeededFile
from meltline.adapters.archive.spark_tasks import (
    ASKED,
    BROUGHT,
    DOUBTFUL,
    NEEDS,
    PROOF,
    THERE,
    WRITTEN,
    Batches,
    Row,
    bring_files,
    file_done,
    in_words,
    manifest_done,
    proof_of,
    proof_row,
    read_files,
    read_named,
    read_needs,
    write_manifests,
)
from meltline.domain.clock import Clock
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import Catalog, CopyCache

_FEW = 500  # manifests, and new files, that are done in this process
_REPEATED = 40  # entries of files that cold has already, for one new file
_PORTION = 50_000  # entries of a batch, between two questions whether to go on

_FILES = pa.schema(
    [("place", pa.int64()), ("path", pa.string()), ("bytes", pa.int64()), ("need", pa.string())]
)
_FOUND = ("place", "path", "hot_bytes", "need", *PROOF)
_AMENDED = "collect_list(struct(path, bytes, lower, upper)) FILTER (WHERE is_rewritten) AS amended"


class SparkArchive(ColdArchive):
    """The port `Archive` on Spark's executors.

    Args:
        spark: The session.
        stores: Hot's and cold's; they are sent to executors.
        catalog: The cold catalog.
        book: Remembers each copy.
        clock: Dates the verification.
        limits: Of a batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        stores: Stores,
        catalog: Catalog,
        book: CopyCache,
        clock: Clock,
        limits: BatchLimits | None = None,
    ) -> None:
        super().__init__(stores, catalog, partial(SparkCrew, spark), book, clock, limits)


class SparkCrew:
    """The port `Crew` on Spark's executors; a few files are done here."""

    def __init__(
        self, spark: SparkSession, stores: Stores, book: CopyCache, few: int = _FEW
    ) -> None:
        self._spark = spark
        self._tasks = spark.sparkContext.defaultParallelism
        self._stores = replace(stores, pace=stores.pace.shared(self._tasks))
        self._book = book
        self._here = LocalCrew(stores, book)
        self._few = few
        self._kept: list[DataFrame] = []

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        """Has cold hold each manifest, and the files it names. See the port."""
        if self._is_little(manifests):
            return self._here.rewrite(manifests, may_go_on, replaced)
        entries = sum(map(entries_of, manifests))
        asked = self._asked(manifests)
        needs = self._spread(asked, read_needs(self._stores), NEEDS).persist(StorageLevel.DISK_ONLY)
        there = self._there(replaced if is_worth_reading(manifests, self._few) else ())
        brought: list[DataFrame] = []
        try:
            portions = 1 + max(entries, needs.count()) // _PORTION
            for portion in range(portions):
                if not may_go_on():
                    return None
                brought.append(self._brought(needs, there, portion, portions))
            return self._finished(manifests, asked, needs, brought)
        finally:
            self._release(needs, there)

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        """Has cold hold the right bytes of files. See the port."""
        if len(files) <= self._few:
            return self._here.prove(files)
        rows = [{"place": 0, **asdict(file)} for file in files]
        asked = self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=_FILES))
        try:
            brought = self._settled(self._spread(asked, bring_files(self._stores), BROUGHT))
            return [file_done(row.asDict()) for row in brought.collect()]
        finally:
            self._release()

    def _release(self, *frames: DataFrame) -> None:
        for frame in (*frames, *self._kept):
            frame.unpersist()
        self._kept.clear()

    def _is_little(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether jobs would take longer to start than the work takes here."""
        new = sum(one.added_files or 0 for one in manifests)
        entries = sum(map(entries_of, manifests))
        return max(len(manifests), new, entries // _REPEATED) <= self._few

    def _there(self, replaced: Sequence[str]) -> DataFrame:
        """What cold has by the word of its own manifests."""
        paths = pa.table({"manifest": pa.array(replaced, pa.string())})
        found = self._spread(self._spark.createDataFrame(paths), read_named(self._stores), THERE)
        return found.persist(StorageLevel.DISK_ONLY)

    def _asked(self, manifests: Sequence[ManifestFile]) -> DataFrame:
        rows = [
            {
                "place": place,
                "path": one.path,
                "bytes": one.bytes,
                "added": one.added_files,
                "existing": one.existing_files,
                "deleted": one.deleted_files,
            }
            for place, one in enumerate(manifests)
        ]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=ASKED))

    def _spread(self, frame: DataFrame, work: Batches, schema: pa.Schema) -> DataFrame:
        """Work done by all executors, a part each of the rows."""
        return frame.repartition(2 * self._tasks).mapInArrow(work, in_words(schema))

    def _brought(
        self, needs: DataFrame, there: DataFrame, portion: int, portions: int
    ) -> DataFrame:
        """The files of one portion, each brought once, for the first manifest that names it."""
        files = (
            needs.where("error IS NULL")
            .where(F.pmod(F.xxhash64("path"), F.lit(portions)) == portion)
            .join(there, ["target", "bytes"], "leftanti")
            .groupBy("path", "bytes", "need")
            .agg(F.min("place").alias("place"))
        )
        return self._settled(self._spread(files, bring_files(self._stores), BROUGHT))

    def _settled(self, brought: DataFrame) -> DataFrame:
        """What was brought, with a digest of each: what cold had is read, and the book told."""
        self._kept.append(brought.persist(StorageLevel.DISK_ONLY))
        found = brought.where("sha256 = ''").select(*_FOUND).collect()
        self._remember(brought)
        doubtful = self._doubtful([row.asDict() for row in found])
        if not doubtful:
            return brought
        asked = self._spark.createDataFrame(pa.Table.from_pylist(doubtful, schema=DOUBTFUL))
        again = self._spread(asked, read_files(self._stores), BROUGHT)
        self._kept.append(again.persist(StorageLevel.DISK_ONLY))
        self._remember(again)
        return brought.join(again, ["path", "hot_bytes"], "leftanti").unionByName(again)

    def _remember(self, brought: DataFrame) -> None:
        known = brought.where("sha256 <> ''").select(*PROOF).collect()
        self._book.save([proof for row in known if (proof := proof_of(row.asDict()))])

    def _doubtful(self, found: Sequence[Row]) -> list[Row]:
        """What was found in cold and has to be read, with what the book knows of it."""
        known = self._book.of([row["target"] for row in found])
        doubtful = []
        for row in found:
            proof = proof_of(row)
            if proof and not settled(self._stores, known, proof):
                asked = {key: row[key] for key in ("place", "path", "need")}
                told = proof_row(known.get(proof.path))
                doubtful.append({**asked, "bytes": row["hot_bytes"], **told})
        return doubtful

    def _finished(
        self,
        manifests: Sequence[ManifestFile],
        asked: DataFrame,
        needs: DataFrame,
        brought: Sequence[DataFrame],
    ) -> dict[str, ManifestDone]:
        files = brought[0]
        for more in brought[1:]:
            files = files.unionByName(more)
        special = files.where("is_rewritten OR error IS NOT NULL").drop("place", "need", *PROOF)
        amended = (
            needs.withColumnRenamed("bytes", "hot_bytes")
            .withColumnRenamed("error", "unread")
            .join(special, ["path", "hot_bytes"], "left")
            .groupBy("place")
            .agg(F.max(F.coalesce("unread", "error")).alias("error"), F.expr(_AMENDED))
        )
        work = asked.join(amended, "place", "left")
        done = self._spread(work, write_manifests(self._stores), WRITTEN).collect()
        copied = files.where("is_new").groupBy("place").agg(F.count("*"), F.sum("bytes")).collect()
        found = {row["path"]: manifest_done(row.asDict()) for row in done}
        for place, count, size in copied:
            path = manifests[place].path
            found[path] = with_copied(found[path], count, size)
        self._book.save([one.proof for one in found.values() if one.proof])
        return found
