"""The manifest index job: every manifest is read once, with an outcome per file.

The object-store port reads them, on the driver or on executors, so that no Hadoop file system is
needed for the store, and one unreadable manifest costs only its own table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.manifests import checked_entries
from meltline.adapters.spark.tables import ENTRIES
from meltline.domain.errors import MetadataUnreadable, StoreRefused
from meltline.domain.files import EntryStatus, ManifestEntry, ManifestOutcome, ManifestRef
from meltline.domain.locations import OwnerIndex, Ownership
from meltline.ports import ObjectStore

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
_RESULT = pa.schema(
    [
        *ENTRIES,
        ("manifest", pa.string()),
        ("manifest_bytes", pa.int64()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deletes", pa.int32()),
        ("owners", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)
_ROWS_PER_BATCH = 20_000
_THREADS = 16
OUTCOME = "manifest IS NOT NULL"  # marks a manifest's outcome row among entries
RESULT = (
    "table_uuid string, manifest_id bigint, path string, key_hash bigint, kind string, "
    "bytes bigint, status int, snapshot_id bigint, sequence_number bigint, manifest string, "
    "manifest_bytes bigint, added int, existing int, deletes int, owners array<string>, "
    "error string"
)


@dataclass(frozen=True)
class Asked:
    """A manifest to read, for the table that named it first."""

    table_uuid: str
    manifest: ManifestRef


@dataclass(frozen=True)
class Indexed:
    """What reading manifests gave: rows of `entries`, and an outcome for each manifest."""

    entries: pa.Table
    outcomes: Sequence[ManifestOutcome]


def index_here(
    store: ObjectStore, asked: Sequence[Asked], ownerships: Sequence[Ownership]
) -> Indexed:
    """Reads a few manifests in this process: a Spark job would take longer to start."""
    owners = OwnerIndex(ownerships)
    columns = _Columns()
    with ThreadPoolExecutor(_THREADS) as pool:  # stores answer late, and many at a time
        contents = pool.map(lambda one: _content(store, one.manifest.path), asked)
        outcomes = [
            columns.read(content, owners, one) for content, one in zip(contents, asked, strict=True)
        ]
    return Indexed(columns.taken(), outcomes)


def index_spread(
    spark: SparkSession,
    store: ObjectStore,
    asked: Sequence[Asked],
    ownerships: Sequence[Ownership],
    slices: int,
) -> DataFrame:
    """One job over manifests of all tables: rows of entries, and one outcome row per manifest."""
    rows = [
        {
            "table_uuid": one.table_uuid,
            "path": one.manifest.path,
            "bytes": one.manifest.bytes,
            "added": one.manifest.added_files,
            "existing": one.manifest.existing_files,
            "deleted": one.manifest.deleted_files,
            "snapshot_id": one.manifest.added_snapshot_id,
            "sequence_number": one.manifest.sequence_number,
        }
        for one in asked
    ]
    wanted = pa.Table.from_pylist(rows, schema=_REQUEST)
    spread = spark.createDataFrame(wanted).repartition(min(slices, wanted.num_rows))
    return spread.mapInArrow(_reader(store, tuple(ownerships)), RESULT)


def outcome_of(row: dict[str, object]) -> ManifestOutcome:
    """A manifest's outcome from its row in the job's result."""
    return ManifestOutcome(
        path=str(row["manifest"]),
        added=int(row["added"]),  # type: ignore[call-overload]
        existing=int(row["existing"]),  # type: ignore[call-overload]
        deleted=int(row["deletes"]),  # type: ignore[call-overload]
        owners=tuple(row["owners"]),  # type: ignore[arg-type]
        error=str(row["error"]),
    )


def _reader(
    store: ObjectStore, ownerships: tuple[Ownership, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        owners = OwnerIndex(ownerships)
        columns = _Columns()
        outcomes: list[ManifestOutcome] = []
        for batch in batches:
            for row in batch.to_pylist():
                manifest = ManifestRef(
                    row["path"], row["bytes"], row["added"], row["existing"], row["deleted"],
                    row["snapshot_id"], row["sequence_number"],
                )  # fmt: skip
                content = _content(store, manifest.path)
                asked = Asked(row["table_uuid"], manifest)
                outcomes.append(columns.read(content, owners, asked))
                if len(columns) >= _ROWS_PER_BATCH:
                    yield from _widened(columns.taken())
        yield from _widened(columns.taken())
        yield _outcome_rows(outcomes)  # in one batch: each costs as much as a manifest

    return read


def _outcome_rows(outcomes: Sequence[ManifestOutcome]) -> pa.RecordBatch:
    rows = [
        {
            "manifest": outcome.path,
            "added": outcome.added,
            "existing": outcome.existing,
            "deletes": outcome.deleted,
            "owners": list(outcome.owners),
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_RESULT)


def _widened(entries: pa.Table) -> Iterator[pa.RecordBatch]:
    for field in list(_RESULT)[len(ENTRIES) :]:
        entries = entries.append_column(field, pa.nulls(entries.num_rows, field.type))
    yield from entries.to_batches(max_chunksize=_ROWS_PER_BATCH)


class _Columns:
    """Rows of `entries` as they are read, by column."""

    def __init__(self) -> None:
        self._lists: dict[str, list[object]] = {name: [] for name in ENTRIES.names}

    def __len__(self) -> int:
        return len(self._lists["path"])

    def read(
        self, content: bytes | ManifestOutcome, owners: OwnerIndex, asked: Asked
    ) -> ManifestOutcome:
        manifest = asked.manifest
        if isinstance(content, ManifestOutcome):
            return content
        entries, outcome = read_checked(content, manifest, owners)
        lists, count = self._lists, len(entries)
        lists["table_uuid"] += [asked.table_uuid] * count
        lists["manifest_id"] += [key_hash(manifest.path)] * count
        lists["path"] += [entry.path for entry in entries]
        lists["key_hash"] += [key_hash(entry.path) for entry in entries]
        lists["kind"] += [str(entry.kind) for entry in entries]
        lists["bytes"] += [entry.bytes for entry in entries]
        lists["status"] += [int(entry.status) for entry in entries]
        lists["snapshot_id"] += [
            manifest.added_snapshot_id if e.snapshot_id is None else e.snapshot_id for e in entries
        ]
        lists["sequence_number"] += [
            manifest.sequence_number if e.sequence_number is None else e.sequence_number
            for e in entries
        ]
        return outcome

    def taken(self) -> pa.Table:
        table = pa.table(self._lists, schema=ENTRIES)
        self.__init__()  # type: ignore[misc]
        return table


def _content(store: ObjectStore, path: str) -> bytes | ManifestOutcome:
    """A manifest's bytes, or why they cannot be had."""
    try:
        return store.read(path)
    except FileNotFoundError:
        return ManifestOutcome(path, error=f"{path} is missing")
    except StoreRefused as odd:
        return ManifestOutcome(path, error=f"{odd.message}: {odd.found}")


def read_checked(
    content: bytes, manifest: ManifestRef, owners: OwnerIndex
) -> tuple[Sequence[ManifestEntry], ManifestOutcome]:
    """Decodes one manifest and holds it against its list entry: all of its entries, or none."""
    try:
        entries = checked_entries(manifest, content)
    except MetadataUnreadable as odd:
        return (), ManifestOutcome(manifest.path, error=f"{odd.message}: {odd.found}")
    counts = Counter(entry.status for entry in entries)
    return entries, ManifestOutcome(
        path=manifest.path,
        added=counts[EntryStatus.ADDED],
        existing=counts[EntryStatus.EXISTING],
        deleted=counts[EntryStatus.DELETED],
        owners=tuple(sorted(_owners(manifest, entries, owners))),
    )


def _owners(
    manifest: ManifestRef, entries: Sequence[ManifestEntry], owners: OwnerIndex
) -> set[str]:
    """Owners of the manifest and its files; a folder's files have one owner, so each once."""
    folders = {entry.path.rpartition("/")[0] for entry in entries}
    found = {owner for folder in folders for owner in owners.owners(f"{folder}/-")}
    return found.union(owners.owners(manifest.path))
