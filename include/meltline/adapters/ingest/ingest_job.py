"""Manifest index job: reads each manifest once, on the driver or on executors.

`ingest.py` calls it for manifests that `bulk_rows.py` does not take. It reads through the
object-store port, so that the store needs no Hadoop file system, and one unreadable manifest
affects only its own table. From a manifest that is read for its changes, it keeps only what its
snapshot added and removed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from meltline.adapters.index_tables.schema import CHANGES, ENTRIES
from meltline.adapters.ingest.outcome_rows import outcome_rows
from meltline.adapters.manifests.fastavro_reader import (
    changed_entries,
    checked_entries,
    counts_of,
)
from meltline.adapters.manifests.path_hash import key_hash, part_hash
from meltline.adapters.manifests.prefix_reads import read_prefix, read_whole
from meltline.adapters.manifests.spark_decoder import DecodeStep
from meltline.adapters.spark.distribution import spread
from meltline.concurrency import thread_map
from meltline.domain.errors import MeltlineError, MetadataUnreadable, StoreRefused
from meltline.domain.iceberg.files import EntryStatus, ManifestEntry, ManifestFile, ManifestOutcome
from meltline.domain.iceberg.locations import OwnerIndex, Ownership
from meltline.domain.path_aliases import places_in
from meltline.ports import ObjectReader, Prefix

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
        ("step_id", pa.int64()),
        ("step_number", pa.int64()),
        ("step_is_first", pa.bool_()),
    ]
)
_ROWS = pa.schema(
    [
        *ENTRIES,
        ("part", pa.int64()),
        ("since", pa.int64()),
        ("until", pa.int64()),
    ]
)
_OUTCOMES = pa.schema(
    [
        *_ROWS,
        ("manifest", pa.string()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deletes", pa.int32()),
        ("owners", pa.list_(pa.string())),
        ("error", pa.string()),
        ("bytes_added", pa.int64()),
        ("bytes_removed", pa.int64()),
        ("odd", pa.string()),
        ("places", pa.list_(pa.string())),
    ]
)
_ROWS_PER_BATCH = 20_000
OUTCOME = "manifest IS NOT NULL"  # marks a manifest's outcome row among entries
CHANGE = "since IS NOT NULL"  # marks a row of `changes` among those of `entries`


@dataclass(frozen=True)
class ReadRequest:
    """A manifest to read for the table that named it first: completely, or for a step's changes."""

    table_uuid: str
    manifest: ManifestFile
    step: DecodeStep | None = None

    def snapshot_of(self, file: ManifestEntry) -> int | None:
        """Returns the snapshot of the file's row in the ledger: the step's, else the file's own."""
        return self.step.snapshot_id if self.step else _snapshot_of(file, self.manifest)


@dataclass(frozen=True)
class Indexed:
    """Result of reading manifests: rows of both tables, and an outcome for each manifest."""

    rows: pa.Table
    outcomes: Sequence[ManifestOutcome]

    @property
    def entries(self) -> pa.Table:
        """Rows of `entries`."""
        wholly = self.rows.filter(pc.is_null(self.rows.column("since")))
        return wholly.select(ENTRIES.names)

    @property
    def changes(self) -> pa.Table:
        """Rows of `changes`."""
        changed = self.rows.filter(pc.is_valid(self.rows.column("since")))
        return changed.select(CHANGES.names)


def index_here(
    store: ObjectReader, requests: Sequence[ReadRequest], ownerships: Sequence[Ownership]
) -> Indexed:
    """Reads a few manifests in this process: a Spark job would take longer to start."""
    columns = _Columns(store, OwnerIndex(ownerships))
    fronts = thread_map(lambda r: _front(store, r), requests)
    outcomes = [columns.read(r, front) for r, front in zip(requests, fronts, strict=True)]
    return Indexed(columns.flush(), outcomes)


def index_spread(
    spark: SparkSession,
    store: ObjectReader,
    requests: Sequence[ReadRequest],
    ownerships: Sequence[Ownership],
) -> DataFrame:
    """Reads manifests of all tables in one job: rows of entries, one outcome row per manifest."""
    rows = [
        {
            "table_uuid": r.table_uuid,
            "path": r.manifest.path,
            "bytes": r.manifest.bytes,
            "added": r.manifest.added_files,
            "existing": r.manifest.existing_files,
            "deleted": r.manifest.deleted_files,
            "snapshot_id": r.manifest.added_snapshot_id,
            "sequence_number": r.manifest.sequence_number,
            "step_id": r.step and r.step.snapshot_id,
            "step_number": r.step and r.step.number,
            "step_is_first": r.step and r.step.is_first,
        }
        for r in requests
    ]
    frame = pa.Table.from_pylist(rows, schema=_REQUEST)
    parts = spread(spark, frame, [r.manifest.bytes for r in requests])
    return parts.mapInArrow(_reader(store, tuple(ownerships)), from_arrow_schema(_OUTCOMES))


def _reader(
    store: ObjectReader, ownerships: tuple[Ownership, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = _Columns(store, OwnerIndex(ownerships))
        outcomes: list[ManifestOutcome] = []
        for batch in batches:
            for row in batch.to_pylist():
                manifest = ManifestFile(
                    row["path"],
                    row["bytes"],
                    row["added"],
                    row["existing"],
                    row["deleted"],
                    row["snapshot_id"],
                    row["sequence_number"],
                )
                step = None
                if row["step_id"] is not None:
                    step = DecodeStep(row["step_id"], row["step_number"], row["step_is_first"])
                request = ReadRequest(row["table_uuid"], manifest, step)
                outcomes.append(columns.read(request, _front(store, request)))
                if len(columns) >= _ROWS_PER_BATCH:
                    yield from _widened(columns.flush())
        yield from _widened(columns.flush())
        yield outcome_rows(outcomes, _OUTCOMES)  # in one batch: each costs as much as a manifest

    return read


def _widened(entries: pa.Table) -> Iterator[pa.RecordBatch]:
    for field in list(_OUTCOMES)[len(_ROWS) :]:
        entries = entries.append_column(field, pa.nulls(entries.num_rows, field.type))
    yield from entries.to_batches(max_chunksize=_ROWS_PER_BATCH)


class _Columns:
    """Rows of `entries` and of `changes`, collected by column."""

    def __init__(self, store: ObjectReader, owners: OwnerIndex) -> None:
        self._store = store
        self._owners = owners
        self._lists: dict[str, list[object]] = _no_rows()

    def __len__(self) -> int:
        return len(self._lists["path"])

    def read(self, request: ReadRequest, front: Prefix | ManifestOutcome) -> ManifestOutcome:
        if isinstance(front, ManifestOutcome):
            return front
        if request.step is not None:
            return self._read_changes(front, request, request.step)
        entries, outcome = read_checked(front.content, request.manifest, self._owners)
        outcome = self._with_places(outcome, entries)
        if not outcome.error:
            none = [None] * len(entries)
            self._add(request, entries, none, none)
        return outcome

    def _read_changes(
        self, front: Prefix, request: ReadRequest, step: DecodeStep
    ) -> ManifestOutcome:
        changed = read_changes(front, request.manifest, self._owners, step)
        if changed.outcome.error and not front.is_whole:
            whole = _read(self._store, request, read_whole)
            if isinstance(whole, ManifestOutcome):
                return whole
            changed = read_changes(whole, request.manifest, self._owners, step)
        outcome = self._with_places(changed.outcome, changed.entries)
        if not outcome.error and not outcome.ambiguity:
            self._add(request, changed.entries, changed.since, changed.until)
        return outcome

    def _with_places(
        self, outcome: ManifestOutcome, entries: Sequence[ManifestEntry]
    ) -> ManifestOutcome:
        live = (file.path for file in entries if file.status != EntryStatus.DELETED)
        try:
            return replace(outcome, places=tuple(sorted(places_in(live, self._store.links_among))))
        except StoreRefused as error:
            return replace(outcome, error=f"{error.message}: {error.found}")

    def _add(
        self,
        request: ReadRequest,
        entries: Sequence[ManifestEntry],
        since: Sequence[int | None],
        until: Sequence[int | None],
    ) -> None:
        manifest, paths = request.manifest, [file.path for file in entries]
        columns: dict[str, Sequence[object]] = {
            "table_uuid": [request.table_uuid] * len(paths),
            "manifest_id": [key_hash(manifest.path)] * len(paths),
            "path": paths,
            "key_hash": list(map(key_hash, paths)),
            "kind": [str(file.kind) for file in entries],
            "bytes": [file.bytes for file in entries],
            "status": [int(file.status) for file in entries],
            "snapshot_id": [request.snapshot_of(file) for file in entries],
            "sequence_number": [_sequence_number_of(file, manifest) for file in entries],
            "part": [part_hash(file.path, file.part) for file in entries],
            "since": since,
            "until": until,
        }
        for name, column in columns.items():
            self._lists[name] += column

    def flush(self) -> pa.Table:
        table = pa.table(self._lists, schema=_ROWS)
        self._lists = _no_rows()
        return table


def _no_rows() -> dict[str, list[object]]:
    return {name: [] for name in _ROWS.names}


def _front(store: ObjectReader, request: ReadRequest) -> Prefix | ManifestOutcome:
    """Reads as much of a manifest as is needed; returns its outcome if that fails."""
    whole = request.step is None or request.step.is_first
    return _read(store, request, read_whole if whole else read_prefix)


def _read(
    store: ObjectReader, request: ReadRequest, read: Callable[[ObjectReader, ManifestFile], Prefix]
) -> Prefix | ManifestOutcome:
    path = request.manifest.path
    try:
        return read(store, request.manifest)
    except FileNotFoundError:
        return ManifestOutcome(path, error=f"{path} is missing")
    except StoreRefused as error:
        return _failed(request.manifest, error)


def _failed(manifest: ManifestFile, error: MeltlineError) -> ManifestOutcome:
    return ManifestOutcome(manifest.path, error=f"{error.message}: {error.found}")


def read_checked(
    content: bytes, manifest: ManifestFile, owners: OwnerIndex
) -> tuple[Sequence[ManifestEntry], ManifestOutcome]:
    """Decodes one manifest of the length in its list: all of its entries, or none."""
    try:
        entries = checked_entries(manifest, content)
    except MetadataUnreadable as error:
        return (), _failed(manifest, error)
    return entries, _counted(manifest, entries, owners)


def _counted(
    manifest: ManifestFile, entries: Sequence[ManifestEntry], owners: OwnerIndex
) -> ManifestOutcome:
    return ManifestOutcome(
        manifest.path,
        *counts_of(file.status for file in entries),
        owners=tuple(sorted(_owners(manifest, entries, owners))),
    )


@dataclass(frozen=True)
class Changed:
    """Changes of a manifest's step: files with the lifetimes that they begin or end."""

    outcome: ManifestOutcome
    entries: Sequence[ManifestEntry] = ()
    since: Sequence[int] = ()
    until: Sequence[int | None] = ()


def read_changes(
    front: Prefix, manifest: ManifestFile, owners: OwnerIndex, step: DecodeStep
) -> Changed:
    """Decodes the changes of a step's snapshot: all of a manifest, or nothing.

    In the first step all live files count as added, each since its real addition.
    """
    try:
        entries = _entries_of_step(front, manifest, step)
    except MetadataUnreadable as error:
        # If it can be read nevertheless, only its counts are wrong.
        _, outcome = read_checked(front.content, manifest, owners)
        return Changed(replace(outcome, ambiguity="" if outcome.error else error.found))
    live = [file for file in entries if file.status != EntryStatus.DELETED]
    removed = [file for file in entries if file.status == EntryStatus.DELETED]
    if step.is_first:
        removed = []
    outcome = replace(
        _counted(manifest, entries, owners),
        existing=manifest.existing_files or 0,
        bytes_added=_size(live),
        bytes_removed=_size(removed),
        ambiguity=_ambiguity(manifest, entries, step),
    )
    if outcome.ambiguity:
        return Changed(outcome)
    changed = [*live, *removed]
    since = [_numbered(file, manifest) for file in changed]
    return Changed(outcome, changed, since, [None] * len(live) + [step.number] * len(removed))


def _entries_of_step(
    front: Prefix, manifest: ManifestFile, step: DecodeStep
) -> Sequence[ManifestEntry]:
    if step.is_first:
        return checked_entries(manifest, front.content)
    return changed_entries(manifest, front)


def _size(files: Iterable[ManifestEntry]) -> int:
    return sum(file.bytes for file in files)


def _numbered(file: ManifestEntry, manifest: ManifestFile) -> int:
    """The sequence number at which a file was added; 0 if an old writer did not record it."""
    if file.file_sequence_number is not None:
        return file.file_sequence_number
    return manifest.sequence_number if file.status == EntryStatus.ADDED else 0


def _ambiguity(manifest: ManifestFile, entries: Sequence[ManifestEntry], step: DecodeStep) -> str:
    """Why changes belong to another step, or lack the time since when a file exists."""
    if step.is_first:
        return manifest.contradiction(counts_of(file.status for file in entries))
    for file in entries:
        if _snapshot_of(file, manifest) != step.snapshot_id:
            return f"{file.path} was changed by another snapshot"
        if file.status == EntryStatus.ADDED and _numbered(file, manifest) != step.number:
            return f"{file.path} was added under another sequence number"
        if file.status == EntryStatus.DELETED and file.file_sequence_number is None:
            return f"{file.path} does not say when it was added"
    return ""


def _snapshot_of(file: ManifestEntry, manifest: ManifestFile) -> int | None:
    return manifest.added_snapshot_id if file.snapshot_id is None else file.snapshot_id


def _sequence_number_of(file: ManifestEntry, manifest: ManifestFile) -> int:
    return manifest.sequence_number if file.sequence_number is None else file.sequence_number


def _owners(
    manifest: ManifestFile, entries: Sequence[ManifestEntry], owners: OwnerIndex
) -> set[str]:
    """Owners of the manifest and its files; a folder's files have one owner, so each once."""
    folders = {file.path.rpartition("/")[0] for file in entries}
    uuids = {owner for folder in folders for owner in owners.owners(f"{folder}/-")}
    return uuids.union(owners.owners(manifest.path))
