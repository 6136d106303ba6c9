"""Distributes archive work over Spark executors: file copies, and all steps of large batches.

The data of a large batch stays on the executors and their disks; the driver receives one row for
each manifest. Within a batch a file that many manifests name is copied once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import (
    FileDone,
    ManifestDone,
    settled,
    with_copied,
)
from meltline.adapters.archive.rewriting.manifests import NeededFile
from meltline.adapters.archive.spark_tasks import (
    BROUGHT,
    COPIES,
    DOUBTFUL,
    NEEDS,
    PROOF,
    REQUESTS,
    WRITTEN,
    Batches,
    Files,
    Row,
    bring_files,
    file_done,
    manifest_done,
    proof_of,
    proof_row,
    read_files,
    read_named,
    read_needs,
    write_manifests,
)
from meltline.adapters.archive.workers import LocalCrew, LocalHands, is_worth_reading
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import CopyCache

_FEW = 500  # manifests, and files to copy, that this process handles alone
_LISTED = 400_000  # entries of a batch whose files this process lists, in some 500 bytes each
_PORTION = 50_000  # entries of a batch, between two checks whether to continue

_BROUGHT = ("place", "path", "hot_bytes", "need", *PROOF)
_AMENDED = "collect_list(struct(path, bytes, lower, upper)) FILTER (WHERE is_rewritten) AS amended"


class SparkHands:
    """The port `Hands` on Spark's executors; this process handles small numbers of files.

    Args:
        spark: The session.
        stores: The hot and the cold store, each with the pace of one task.
        here: Copies small numbers of files.
        few: The largest such number.
    """

    def __init__(self, spark: SparkSession, stores: Stores, here: LocalHands, few: int) -> None:
        self._spark = spark
        self._stores = stores
        self._here = here
        self._few = few

    def bring(self, files: Sequence[NeededFile]) -> Iterable[FileDone]:
        if len(files) <= self._few:
            return self._here.bring(files)
        return self._done(bring_files(self._stores), dict.fromkeys(files))

    def read_again(self, files: Files) -> Iterable[FileDone]:
        if len(files) <= self._few:
            return self._here.read_again(files)
        return self._done(read_files(self._stores), files)

    def _done(self, work: Batches, files: Files) -> list[FileDone]:
        rows = [
            {"place": place, "path": f.path, "bytes": f.bytes, "need": f.need, **proof_row(proof)}
            for place, (f, proof) in enumerate(files.items())
        ]
        table = pa.Table.from_pylist(rows, schema=DOUBTFUL)
        done = spread(self._spark, self._spark.createDataFrame(table), work, BROUGHT).toArrow()
        by_place = {row["place"]: file_done(row) for row in done.to_pylist()}
        return [by_place[place] for place in range(len(rows))]


def spread(spark: SparkSession, frame: DataFrame, work: Batches, schema: pa.Schema) -> DataFrame:
    """Distributes rows over all executors, and runs the work on each part."""
    parts = 2 * spark.sparkContext.defaultParallelism
    return frame.repartition(parts).mapInArrow(work, from_arrow_schema(schema))


class SparkCrew:
    """The port `Crew` on Spark's executors; this process handles small batches."""

    def __init__(
        self, spark: SparkSession, stores: Stores, book: CopyCache, few: int = _FEW
    ) -> None:
        self._spark = spark
        tasks = spark.sparkContext.defaultParallelism
        self._stores = replace(stores, pace=stores.pace.shared(tasks))
        self._book = book
        hands = SparkHands(spark, self._stores, LocalHands(stores), few)
        self._here = LocalCrew(stores, book, hands=hands)
        self._few = few
        self._kept: list[DataFrame] = []

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        if self._is_little(manifests):
            return self._here.rewrite(manifests, may_go_on, replaced)
        entries = sum(manifest.entries for manifest in manifests)
        work = self._work_of(manifests)
        spread_needs = self._spread(work, read_needs(self._stores), NEEDS)
        # Checkpointed without lineage: if a lost executor's part were read again, a manifest that
        # was unreadable at first would count as done although its files were never copied.
        needs = spread_needs.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
        present = self._cold_files(replaced if is_worth_reading(manifests, self._few) else ())
        brought: list[DataFrame] = []
        try:
            portions = 1 + max(entries, needs.count()) // _PORTION
            for portion in range(portions):
                if not may_go_on():
                    return None
                brought.append(self._brought(needs, present, portion, portions))
            return self._finished(manifests, work, needs, brought)
        finally:
            self._release(present)

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        return self._here.prove(files)

    def _release(self, *frames: DataFrame) -> None:
        for frame in (*frames, *self._kept):
            frame.unpersist()
        self._kept.clear()

    def _is_little(self, manifests: Sequence[ManifestFile]) -> bool:
        """Returns whether starting jobs and passing rows would take longer than the work itself."""
        entries = sum(manifest.entries for manifest in manifests)
        return len(manifests) <= self._few and entries <= _LISTED

    def _cold_files(self, replaced: Sequence[str]) -> DataFrame:
        """Returns the files that cold has according to its own manifests."""
        paths = pa.table({"manifest": pa.array(replaced, pa.string())})
        files = self._spread(self._spark.createDataFrame(paths), read_named(self._stores), COPIES)
        return files.persist(StorageLevel.DISK_ONLY)

    def _work_of(self, manifests: Sequence[ManifestFile]) -> DataFrame:
        rows = [
            {
                "place": place,
                "path": manifest.path,
                "bytes": manifest.bytes,
                "added": manifest.added_files,
                "existing": manifest.existing_files,
                "deleted": manifest.deleted_files,
            }
            for place, manifest in enumerate(manifests)
        ]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=REQUESTS))

    def _spread(self, frame: DataFrame, work: Batches, schema: pa.Schema) -> DataFrame:
        return spread(self._spark, frame, work, schema)

    def _brought(
        self, needs: DataFrame, present: DataFrame, portion: int, portions: int
    ) -> DataFrame:
        """Copies the files of one portion, each once, for the first manifest that names it."""
        files = (
            needs.where("error IS NULL")
            .where(F.pmod(F.xxhash64("path"), F.lit(portions)) == portion)
            .join(present, ["target", "bytes"], "leftanti")
            .groupBy("path", "bytes", "need")
            .agg(F.min("place").alias("place"))
        )
        return self._settled(self._spread(files, bring_files(self._stores), BROUGHT))

    def _settled(self, brought: DataFrame) -> DataFrame:
        """Adds a digest to each copy: reads copies that cold already had, and updates the cache."""
        self._kept.append(brought.persist(StorageLevel.DISK_ONLY))
        unread = brought.where("sha256 = ''").select(*_BROUGHT).collect()
        self._remember(brought)
        doubtful = self._doubtful([row.asDict() for row in unread])
        if not doubtful:
            return brought
        work = self._spark.createDataFrame(pa.Table.from_pylist(doubtful, schema=DOUBTFUL))
        again = self._spread(work, read_files(self._stores), BROUGHT)
        self._kept.append(again.persist(StorageLevel.DISK_ONLY))
        self._remember(again)
        return brought.join(again, ["path", "hot_bytes"], "leftanti").unionByName(again)

    def _remember(self, brought: DataFrame) -> None:
        digested = brought.where("sha256 <> ''").select(*PROOF).collect()
        self._book.save([proof for row in digested if (proof := proof_of(row.asDict()))])

    def _doubtful(self, rows: Sequence[Row]) -> list[Row]:
        """Returns existing copies that must be read, with their recorded proofs."""
        prior = self._book.of([row["target"] for row in rows])
        doubtful = []
        for row in rows:
            proof = proof_of(row)
            if proof and not settled(self._stores, prior, proof):
                request = {key: row[key] for key in ("place", "path", "need")}
                proved = proof_row(prior.get(proof.path))
                doubtful.append({**request, "bytes": row["hot_bytes"], **proved})
        return doubtful

    def _finished(
        self,
        manifests: Sequence[ManifestFile],
        requests: DataFrame,
        needs: DataFrame,
        brought: Sequence[DataFrame],
    ) -> dict[str, ManifestDone]:
        files = reduce(DataFrame.unionByName, brought)
        special = files.where("is_rewritten OR error IS NOT NULL").drop("place", "need", *PROOF)
        amended = (
            needs.withColumnRenamed("bytes", "hot_bytes")
            .withColumnRenamed("error", "unread")
            .join(special, ["path", "hot_bytes"], "left")
            .groupBy("place")
            .agg(F.max(F.coalesce("unread", "error")).alias("error"), F.expr(_AMENDED))
        )
        work = requests.join(amended, "place", "left")
        done = self._spread(work, write_manifests(self._stores), WRITTEN).collect()
        copied = files.where("is_new").groupBy("place").agg(F.count("*"), F.sum("bytes")).collect()
        outcomes = {row["path"]: manifest_done(row.asDict()) for row in done}
        for place, count, size in copied:
            path = manifests[place].path
            outcomes[path] = with_copied(outcomes[path], count, size)
        self._book.save([outcome.proof for outcome in outcomes.values() if outcome.proof])
        return outcomes
