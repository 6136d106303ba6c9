"""Rows of the ledger made from what Spark's own decoder gives, and whether they add up."""

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
"""Folders, by the table's UUID, in which nobody else owns anything; at most two."""
Outcomes = dict[str, ManifestOutcome]

_EXISTING, _ADDED, _DELETED = map(int, EntryStatus)
_STATUS = {"entries": "status", "changes": f"if(until IS NULL, {_ADDED}, {_DELETED})"}
Counted = dict[int, dict[int, tuple[int, int]]]
"""Rows of each manifest by status, and their bytes; a row that is odd is none."""


@dataclass(frozen=True)
class Decoded:
    """What is to be known of rows for a table of the ledger, whoever writes them.

    Attributes:
        counted: By manifest; a row that is odd is not among them.
        places: Where the files lie that they keep (`places_in`).
    """

    counted: Counted = field(default_factory=dict)
    places: Collection[str] = ()

    def outcomes(self, requests: Iterable[ReadRequest]) -> Outcomes:
        """Of the manifests whose rows add up. The places are told with one for all of them."""
        outcomes = {
            r.manifest.path: outcome
            for r in requests
            if (outcome := _agreed(r, self.counted.get(key_hash(r.manifest.path), {})))
        }
        for first in list(outcomes)[:1]:
            outcomes[first] = replace(outcomes[first], places=tuple(sorted(self.places)))
        return outcomes


def decoded_there(store: ObjectReader, table: str, rows: DataFrame) -> Decoded:
    """The same of rows that Spark holds."""
    grouped = rows.groupBy("manifest_id", F.expr(_STATUS[table]).alias("status"))
    counted = _counted(grouped.agg(F.count("bytes"), F.sum("bytes")).collect())
    kept = rows.where(f"{_STATUS[table]} != {_DELETED}")
    return Decoded(counted, places_there(store, kept.select("path")))


def places_there(store: ObjectReader, paths: DataFrame) -> set[str]:
    """Where files lie, by a column of their paths, and those of them that are links."""
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
    """Rows of `changes` in the order of their times: a look passes over what is older."""
    if table != "changes":
        return rows
    times = pa.table([pc.fill_null(rows["until"], 0), rows["since"]], ["until", "since"])
    order = [("until", "ascending"), ("since", "ascending")]
    return rows.take(pc.sort_indices(times, sort_keys=order))


def decoded_here(store: ObjectReader, table: str, rows: pa.Table) -> Decoded:
    """The same of rows that this process holds. Raises StoreRefused."""
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
    """About how many entries reading a manifest decodes; of changes those at its beginning."""
    if request.step is None or request.step.is_first:
        return request.manifest.entries
    added, _, deleted = request.manifest.counts
    return min(2 * (added + deleted), request.manifest.entries)


def spellings(homes: Sequence[str]) -> Sequence[str]:
    """A table's folders as its files' paths may begin; at most two.

    Hadoop writes a local folder with one slash where the catalog has three.
    """
    local = [f"file:/{home.removeprefix('file:///')}" for home in homes if home[:8] == "file:///"]
    return [*homes[:1], *local[:1], *homes[1:]][:2]


def is_large(request: ReadRequest, homes: Homes, entries: int) -> bool:
    """Whether Spark's own decoder is worth its start: counted, and of so many entries at least.

    A manifest of delete files is read for its changes by the other way, which knows where in a file
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
    """Rows of `entries`, or of `changes` where the manifests are read for steps.

    Args:
        spark: The session.
        store: Where the manifests lie.
        reads: Manifests that are all read wholly, or all for their steps.
        homes: Where their tables' files are expected.
        fronts: Decodes only the beginning of what is read for changes; a line's first step whole.
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
        # As `part_hash` has it: these are no deletion vectors.
        "part": "if(xxhash64(path) != key_hash, xxhash64(path), NULL)",
        # What `index` would call an odd change has none: its manifest does not add up then.
        "since": f"CASE WHEN step_is_first THEN if(status = {_DELETED}, NULL, {_SINCE})"
        f" WHEN {_OWN} AND status = {_ADDED} AND {_SINCE} = step_number THEN step_number"
        f" WHEN {_OWN} AND status = {_DELETED} THEN file_sequence_number END",
        "until": f"if(NOT step_is_first AND status = {_DELETED}, step_number, NULL)",
    },
)


def _expected(request: ReadRequest) -> dict[int, int]:
    """Rows that reading a manifest gives, by status; the first step adds all that is alive."""
    added, existing, deleted = request.manifest.counts
    if request.step is None:
        return {_ADDED: added, _EXISTING: existing, _DELETED: deleted}
    return (
        {_ADDED: added + existing} if request.step.is_first else {_ADDED: added, _DELETED: deleted}
    )


def _agreed(request: ReadRequest, rows: Mapping[int, tuple[int, int]]) -> ManifestOutcome | None:
    """A manifest's outcome from its counted rows; None where they are not what its list says."""
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
