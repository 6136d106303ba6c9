"""The manifest index job: every manifest is read once, on executors, with an outcome per file.

Executors read through the object-store port, so that they need no Hadoop file system for the
store, and one unreadable manifest costs only its own table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.manifests import checked_entries
from meltline.domain.errors import MetadataUnreadable, StoreRefused
from meltline.domain.files import EntryStatus, ManifestEntry, ManifestOutcome, ManifestRef
from meltline.domain.locations import OwnerIndex, Ownership
from meltline.ports import IngestRequest, ObjectStore

_REQUEST = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deleted", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
    ]
)
_ROWS_PER_BATCH = 20_000

RESULT = (
    "table_uuid string, manifest string, manifest_id bigint, path string, key_hash bigint, "
    "kind string, bytes bigint, status int, snapshot_id bigint, sequence_number bigint, "
    "added int, existing int, deleted int, owners array<string>, error string"
)
_OUTCOME = ""  # an empty path marks a manifest's outcome row among its entries
_RESULT_ARROW = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("manifest", pa.string()),
        ("manifest_id", pa.int64()),
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("status", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deleted", pa.int32()),
        ("owners", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)


def index_manifests(
    spark: SparkSession,
    store: ObjectStore,
    requests: Sequence[IngestRequest],
    ownerships: Sequence[Ownership],
    slices: int,
) -> DataFrame:
    """One job over the manifests of all tables: entry rows, and one outcome row per manifest."""
    wanted = pa.Table.from_pylist(
        [
            {
                "table_uuid": request.table_uuid,
                "path": manifest.path,
                "bytes": manifest.bytes,
                "added": manifest.added_files,
                "existing": manifest.existing_files,
                "deleted": manifest.deleted_files,
                "snapshot_id": manifest.added_snapshot_id,
                "sequence_number": manifest.sequence_number,
            }
            for request in requests
            for manifest in request.manifests
        ],
        schema=_REQUEST,
    )
    spread = spark.createDataFrame(wanted).repartition(min(slices, wanted.num_rows))
    return spread.mapInArrow(_reader(store, tuple(ownerships)), RESULT)


def _reader(
    store: ObjectStore, ownerships: tuple[Ownership, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        owners = OwnerIndex(ownerships)
        for batch in batches:
            for row in batch.to_pylist():
                rows = list(_index_one(store, owners, row))
                for start in range(0, len(rows), _ROWS_PER_BATCH):
                    yield pa.RecordBatch.from_pylist(
                        rows[start : start + _ROWS_PER_BATCH], schema=_RESULT_ARROW
                    )

    return read


def _index_one(
    store: ObjectStore, owners: OwnerIndex, row: dict[str, object]
) -> Iterator[dict[str, object]]:
    manifest = ManifestRef(
        path=str(row["path"]),
        bytes=int(row["bytes"] or 0),  # type: ignore[call-overload]
        added_files=row["added"],  # type: ignore[arg-type]
        existing_files=row["existing"],  # type: ignore[arg-type]
        deleted_files=row["deleted"],  # type: ignore[arg-type]
        added_snapshot_id=row["snapshot_id"],  # type: ignore[arg-type]
    )
    common = {
        "table_uuid": row["table_uuid"],
        "manifest": manifest.path,
        "manifest_id": key_hash(manifest.path),
        "bytes": manifest.bytes,
    }
    entries, outcome = read_checked(store, manifest, owners)
    for entry in entries:
        sequence = entry.sequence_number
        yield {
            **common,
            "path": entry.path,
            "key_hash": key_hash(entry.path),
            "kind": str(entry.kind),
            "bytes": entry.bytes,
            "status": int(entry.status),
            "snapshot_id": entry.snapshot_id or manifest.added_snapshot_id,
            "sequence_number": row["sequence_number"] if sequence is None else sequence,
        }
    yield {
        **common,
        "path": _OUTCOME,
        "added": outcome.added,
        "existing": outcome.existing,
        "deleted": outcome.deleted,
        "owners": list(outcome.owners),
        "error": outcome.error,
    }


def read_checked(
    store: ObjectStore, manifest: ManifestRef, owners: OwnerIndex
) -> tuple[Sequence[ManifestEntry], ManifestOutcome]:
    """Reads one manifest and holds it against its list entry: all of its entries, or none."""
    try:
        entries = checked_entries(manifest, store.read(manifest.path))
    except FileNotFoundError:
        return (), ManifestOutcome(manifest.path, error=f"{manifest.path} is missing")
    except (MetadataUnreadable, StoreRefused) as odd:
        return (), ManifestOutcome(manifest.path, error=f"{odd.message}: {odd.found}")
    counts = Counter(entry.status for entry in entries)
    found = {owner for entry in entries for owner in owners.owners(entry.path)}
    found.update(owners.owners(manifest.path))
    return entries, ManifestOutcome(
        path=manifest.path,
        added=counts[EntryStatus.ADDED],
        existing=counts[EntryStatus.EXISTING],
        deleted=counts[EntryStatus.DELETED],
        owners=tuple(sorted(found)),
    )
