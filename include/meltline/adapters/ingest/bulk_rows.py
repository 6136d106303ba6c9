"""Builds ledger rows from manifests with Spark's own decoder, and checks their counts.

`ingest.py` calls it for large manifests. Small ones, and those whose counts differ from their
manifest list, are read by `ingest_job.py`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.index_tables.schema import CHANGES, ENTRIES
from meltline.adapters.ingest.ingest_job import ReadRequest
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.spark_decoder import BulkManifest, bulk_entries
from meltline.domain.iceberg.files import EntryStatus, ManifestOutcome
from meltline.domain.path_aliases import places_in
from meltline.ports import ObjectReader

Homes = Mapping[str, Sequence[str]]
"""Folders, by the table's UUID, in which no other table owns anything; at most two."""
Outcomes = dict[str, ManifestOutcome]

_EXISTING, _ADDED, _DELETED = map(int, EntryStatus)
_STATUS = {"entries": "status", "changes": f"if(until IS NULL, {_ADDED}, {_DELETED})"}
Counted = dict[int, dict[int, tuple[int, int]]]
"""Rows of each manifest by status, and their bytes; ambiguous rows are not counted."""


@dataclass(frozen=True)
class Decoded:
    """Counts of the rows for a ledger table, independent of the process that writes them.

    Attributes:
        counted: By manifest, without ambiguous rows.
        places: Locations of the files that the rows keep (`places_in`).
    """

    counted: Counted = field(default_factory=dict)
    places: Collection[str] = ()

    def outcomes(self, requests: Iterable[ReadRequest]) -> Outcomes:
        """Returns outcomes of manifests whose counts match; the first has the locations of all."""
        outcomes = {
            r.manifest.path: outcome
            for r in requests
            if (outcome := _agreed(r, self.counted.get(key_hash(r.manifest.path), {})))
        }
        for first in list(outcomes)[:1]:
            outcomes[first] = replace(outcomes[first], places=tuple(sorted(self.places)))
        return outcomes


def decoded_there(store: ObjectReader, table: str, rows: DataFrame) -> Decoded:
    """Counts rows that are in Spark."""
    grouped = rows.groupBy("manifest_id", F.expr(_STATUS[table]).alias("status"))
    counted = _counted(grouped.agg(F.count("bytes"), F.sum("bytes")).collect())
    kept = rows.where(f"{_STATUS[table]} != {_DELETED}")
    return Decoded(counted, places_there(store, kept.select("path")))


def places_there(store: ObjectReader, paths: DataFrame) -> set[str]:
    """Returns locations of files, by a column of their paths, with those that are links."""
    places = paths.mapInArrow(_places(store), "place string").distinct()
    return {row["place"] for row in places.collect()}


def _places(
    store: ObjectReader,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = places_in(batch.column("path").to_pylist(), store.links_among)
            yield pa.RecordBatch.from_pydict({"place": pa.array(sorted(places), pa.string())})

    return read


def in_time(table: str, rows: pa.Table) -> pa.Table:
    """Sorts rows of `changes` by their times, so that a scan can skip older ones."""
    if table != "changes":
        return rows
    times = pa.table([pc.fill_null(rows["until"], 0), rows["since"]], ["until", "since"])
    order = [("until", "ascending"), ("since", "ascending")]
    return rows.take(pc.sort_indices(times, sort_keys=order))


def decoded_here(store: ObjectReader, table: str, rows: pa.Table) -> Decoded:
    """Counts rows that are in this process. Raises StoreRefused."""
    if table == "changes":
        status = pc.if_else(pc.is_null(rows.column("until")), _ADDED, _DELETED)
        rows = rows.append_column("status", status)
    grouped = rows.select(["manifest_id", "status", "bytes"]).group_by(["manifest_id", "status"])
    sums = grouped.aggregate([("bytes", "count"), ("bytes", "sum")])
    counted = _counted(zip(*(column.to_pylist() for column in sums.columns), strict=True))
    kept = rows.filter(pc.field("status") != _DELETED).column("path")
    return Decoded(counted, places_in(kept.to_pylist(), store.links_among))


def _counted(rows: Iterable[Sequence[int]]) -> Counted:
    counted: Counted = {}
    for manifest, status, files, size in rows:
        counted.setdefault(manifest, {})[status] = (files, size or 0)
    return counted


def decoded(request: ReadRequest) -> int:
    """Estimates how many entries are decoded for a manifest: for changes, those in its prefix."""
    if request.step is None or request.step.is_first:
        return request.manifest.entries
    added, _, deleted = request.manifest.counts
    return min(2 * (added + deleted), request.manifest.entries)


def spellings(homes: Sequence[str]) -> Sequence[str]:
    """Returns a table's folders as the paths of its files may begin; at most two.

    Hadoop writes a local folder with one slash where the catalog has three.
    """
    local = [f"file:/{home.removeprefix('file:///')}" for home in homes if home[:8] == "file:///"]
    return [*homes[:1], *local[:1], *homes[1:]][:2]


def is_large(request: ReadRequest, homes: Homes, entries: int) -> bool:
    """Whether Spark's own decoder is worth its start: with counts, and that many entries.

    For changes, a manifest of delete files is read by the other reader, which knows where in a file
    each deletion vector lies.
    """
    folders, manifest = homes.get(request.table_uuid, ()), request.manifest
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    if None in counts or not folders or not all(folder.endswith("/") for folder in folders):
        return False
    return decoded(request) >= entries and not (request.step is not None and manifest.is_deletes)


def bulk_rows(
    spark: SparkSession,
    store: ObjectReader,
    reads: Sequence[ReadRequest],
    homes: Homes,
    *,
    fronts: bool,
) -> DataFrame:
    """Builds rows of `entries`, or of `changes` if the manifests are read for steps.

    Args:
        spark: The session.
        store: The store of the manifests.
        reads: Manifests that are all read completely, or all for their steps.
        homes: The folders in which their tables' files are expected.
        fronts: Decodes only the prefix of a manifest that is read for changes; the first step of a
            linear history is decoded completely.
    """
    bulk = [
        BulkManifest(a.table_uuid, a.manifest, tuple(homes[a.table_uuid]), a.step) for a in reads
    ]
    if reads[0].step is None:
        return bulk_entries(spark, store, bulk).selectExpr(*_ENTRY_ROWS)
    rows = bulk_entries(spark, store, bulk, changes_only=True, fronts=fronts)
    return rows.selectExpr(*_CHANGE_ROWS).where("since IS NOT NULL")


def _columns(schema: pa.Schema, made_by: Mapping[str, str]) -> list[str]:
    return [f"{made_by[name]} AS {name}" if name in made_by else name for name in schema.names]


_ENTRY_ROWS = _columns(
    ENTRIES,
    {
        "snapshot_id": "coalesce(snapshot_id, added_snapshot_id)",
        "sequence_number": "coalesce(sequence_number, list_sequence_number)",
    },
)
_OWN = "coalesce(snapshot_id, added_snapshot_id) = step_id"
_SINCE = (
    f"coalesce(file_sequence_number, if(status = {_ADDED}, list_sequence_number, 0))"  # inherited
)
_CHANGE_ROWS = _columns(
    CHANGES,
    {
        "snapshot_id": "step_id",
        # The same as `part_hash`: these are no deletion vectors.
        "part": "if(xxhash64(path) != key_hash, xxhash64(path), NULL)",
        # Null for a change that `index` calls ambiguous: the manifest's counts do not match then.
        "since": f"CASE WHEN step_is_first THEN if(status = {_DELETED}, NULL, {_SINCE})"
        f" WHEN {_OWN} AND status = {_ADDED} AND {_SINCE} = step_number THEN step_number"
        f" WHEN {_OWN} AND status = {_DELETED} THEN file_sequence_number END",
        "until": f"if(NOT step_is_first AND status = {_DELETED}, step_number, NULL)",
    },
)


def _expected(request: ReadRequest) -> dict[int, int]:
    """Rows that a manifest must yield, by status; the first step adds all live files."""
    added, existing, deleted = request.manifest.counts
    if request.step is None:
        return {_ADDED: added, _EXISTING: existing, _DELETED: deleted}
    return (
        {_ADDED: added + existing} if request.step.is_first else {_ADDED: added, _DELETED: deleted}
    )


def _agreed(request: ReadRequest, rows: Mapping[int, tuple[int, int]]) -> ManifestOutcome | None:
    """Returns a manifest's outcome from its row counts; None if they contradict its list."""
    manifest, step = request.manifest, request.step
    counts = {status: files for status, (files, _) in rows.items()}
    if counts != {status: files for status, files in _expected(request).items() if files}:
        return None
    return ManifestOutcome(
        manifest.path,
        *manifest.counts,
        owners=(request.table_uuid,),
        bytes_added=rows.get(_ADDED, (0, 0))[1] if step else 0,
        bytes_removed=rows.get(_DELETED, (0, 0))[1] if step else 0,
    )
