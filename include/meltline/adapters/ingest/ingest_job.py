"""The manifest index job: every manifest is read once, with an outcome per file.

Of a manifest that is read for its changes (`lines`) only what its snapshot added and removed is
kept.

The object-store port reads them, on the driver or on executors, so that no Hadoop file system is
needed for the store, and one unreadable manifest costs only its own table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.index_tables.schema import CHANGES, ENTRIES
from meltline.adapters.ingest.outcome_rows import outcome_rows
from meltline.adapters.manifests.fastavro_reader import changed_entries, checked_entries
from meltline.adapters.manifests.path_hash import key_hash, part_hash
from meltline.adapters.manifests.prefix_reads import read_prefix, read_whole
from meltline.adapters.manifests.spark_decoder import Step
from meltline.adapters.spark.distribution import spread
from meltline.concurrency import thread_map
from meltline.domain.errors import MetadataUnreadable, StoreRefused
from meltline.domain.iceberg.files import EntryStatus, ManifestEntry, ManifestFile, ManifestOutcome
from meltline.domain.iceberg.locations import OwnerIndex, Ownership
from meltline.domain.places import places_in
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
_RESULT = pa.schema(
    [
        *_ROWS,
        ("manifest", pa.string()),
        ("manifest_bytes", pa.int64()),
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
RESULT = (
    "table_uuid string, manifest_id bigint, path string, key_hash bigint, kind string, "
    "bytes bigint, status int, snapshot_id bigint, sequence_number bigint, part bigint, "
    "since bigint, until bigint, manifest string, "
    "manifest_bytes bigint, added int, existing int, deletes int, owners array<string>, "
    "error string, bytes_added bigint, bytes_removed bigint, odd string, places array<string>"
)


@dataclass(frozen=True)
class Asked:
    """A manifest to read, for the table that named it first; wholly, or for a step's changes."""

    table_uuid: str
    manifest: ManifestFile
    step: Step | None = None


@dataclass(frozen=True)
class Indexed:
    """What reading manifests gave: rows of both tables, and an outcome for each manifest."""

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
    store: ObjectReader, asked: Sequence[Asked], ownerships: Sequence[Ownership]
) -> Indexed:
    """Reads a few manifests in this process: a Spark job would take longer to start."""
    columns = _Columns(store, OwnerIndex(ownerships))
    fronts = thread_map(lambda one: _front(store, one), asked)
    outcomes = [columns.read(one, front) for one, front in zip(asked, fronts, strict=True)]
    return Indexed(columns.taken(), outcomes)


def index_spread(
    spark: SparkSession,
    store: ObjectReader,
    asked: Sequence[Asked],
    ownerships: Sequence[Ownership],
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
            "step_id": one.step and one.step.snapshot_id,
            "step_number": one.step and one.step.number,
            "step_is_first": one.step and one.step.is_first,
        }
        for one in asked
    ]
    wanted = pa.Table.from_pylist(rows, schema=_REQUEST)
    parts = spread(spark, wanted, [one.manifest.bytes for one in asked])
    return parts.mapInArrow(_reader(store, tuple(ownerships)), RESULT)


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
                    step = Step(row["step_id"], row["step_number"], row["step_is_first"])
                asked = Asked(row["table_uuid"], manifest, step)
                outcomes.append(columns.read(asked, _front(store, asked)))
                if len(columns) >= _ROWS_PER_BATCH:
                    yield from _widened(columns.taken())
        yield from _widened(columns.taken())
        yield outcome_rows(outcomes, _RESULT)  # in one batch: each costs as much as a manifest

    return read


def _widened(entries: pa.Table) -> Iterator[pa.RecordBatch]:
    for field in list(_RESULT)[len(_ROWS) :]:
        entries = entries.append_column(field, pa.nulls(entries.num_rows, field.type))
    yield from entries.to_batches(max_chunksize=_ROWS_PER_BATCH)


class _Columns:
    """Rows of `entries` and of `changes` as they are read, by column."""

    def __init__(self, store: ObjectReader, owners: OwnerIndex) -> None:
        self._store = store
        self._owners = owners
        self._lists: dict[str, list[object]] = _no_rows()

    def __len__(self) -> int:
        return len(self._lists["path"])

    def read(self, asked: Asked, front: Prefix | ManifestOutcome) -> ManifestOutcome:
        if isinstance(front, ManifestOutcome):
            return front
        if asked.step is not None:
            return self._read_changes(front, asked, asked.step)
        entries, outcome = read_checked(front.content, asked.manifest, self._owners)
        outcome = self._with_places(outcome, entries)
        if not outcome.error:
            self._add(asked, entries)
            self._add_spans([None] * len(entries), [None] * len(entries))
        return outcome

    def _read_changes(self, front: Prefix, asked: Asked, step: Step) -> ManifestOutcome:
        changed = read_changes(front, asked.manifest, self._owners, step)
        if changed.outcome.error and not front.is_whole:
            whole = _read(self._store, asked, read_whole)
            if isinstance(whole, ManifestOutcome):
                return whole
            changed = read_changes(whole, asked.manifest, self._owners, step)
        outcome = self._with_places(changed.outcome, changed.entries)
        if not outcome.error and not outcome.ambiguity:
            self._add(asked, changed.entries, step)
            self._add_spans(changed.since, changed.until)
        return outcome

    def _with_places(
        self, outcome: ManifestOutcome, entries: Sequence[ManifestEntry]
    ) -> ManifestOutcome:
        live = (entry.path for entry in entries if entry.status != EntryStatus.DELETED)
        try:
            return replace(outcome, places=tuple(sorted(places_in(live, self._store.is_link))))
        except StoreRefused as odd:
            return replace(outcome, error=f"{odd.message}: {odd.found}")

    def _add(
        self, asked: Asked, entries: Sequence[ManifestEntry], step: Step | None = None
    ) -> None:
        manifest, lists, count = asked.manifest, self._lists, len(entries)
        lists["table_uuid"] += [asked.table_uuid] * count
        lists["manifest_id"] += [key_hash(manifest.path)] * count
        lists["path"] += [entry.path for entry in entries]
        lists["key_hash"] += [key_hash(entry.path) for entry in entries]
        lists["kind"] += [str(entry.kind) for entry in entries]
        lists["bytes"] += [entry.bytes for entry in entries]
        lists["status"] += [int(entry.status) for entry in entries]
        lists["snapshot_id"] += (
            [_snapshot_of(entry, manifest) for entry in entries]
            if step is None
            else [step.snapshot_id] * count
        )
        lists["sequence_number"] += [
            manifest.sequence_number if e.sequence_number is None else e.sequence_number
            for e in entries
        ]
        lists["part"] += [part_hash(entry.path, entry.part) for entry in entries]

    def _add_spans(self, since: Sequence[int | None], until: Sequence[int | None]) -> None:
        self._lists["since"] += since
        self._lists["until"] += until

    def taken(self) -> pa.Table:
        table = pa.table(self._lists, schema=_ROWS)
        self._lists = _no_rows()
        return table


def _no_rows() -> dict[str, list[object]]:
    return {name: [] for name in _ROWS.names}


def _front(store: ObjectReader, asked: Asked) -> Prefix | ManifestOutcome:
    """As much of a manifest as has to be read, or why it cannot be had."""
    whole = asked.step is None or asked.step.is_first
    return _read(store, asked, read_whole if whole else read_prefix)


def _read(
    store: ObjectReader, asked: Asked, read: Callable[[ObjectReader, ManifestFile], Prefix]
) -> Prefix | ManifestOutcome:
    path = asked.manifest.path
    try:
        return read(store, asked.manifest)
    except FileNotFoundError:
        return ManifestOutcome(path, error=f"{path} is missing")
    except StoreRefused as odd:
        return ManifestOutcome(path, error=f"{odd.message}: {odd.found}")


def read_checked(
    content: bytes, manifest: ManifestFile, owners: OwnerIndex
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


@dataclass(frozen=True)
class Changed:
    """What a manifest tells of its step: files with the spans that they begin or end."""

    outcome: ManifestOutcome
    entries: Sequence[ManifestEntry] = ()
    since: Sequence[int] = ()
    until: Sequence[int | None] = ()


def read_changes(front: Prefix, manifest: ManifestFile, owners: OwnerIndex, step: Step) -> Changed:
    """Decodes what a step's snapshot changed: all of a manifest, or nothing.

    Of the first step all that is alive counts as added, each file since it really was.
    """
    try:
        if step.is_first:
            entries = checked_entries(manifest, front.content)
        else:
            entries = changed_entries(manifest, front)
    except MetadataUnreadable as odd:
        return Changed(ManifestOutcome(manifest.path, error=f"{odd.message}: {odd.found}"))
    counts = Counter(entry.status for entry in entries)
    live = [entry for entry in entries if entry.status != EntryStatus.DELETED]
    gone = [] if step.is_first else [e for e in entries if e.status == EntryStatus.DELETED]
    outcome = ManifestOutcome(
        path=manifest.path,
        added=counts[EntryStatus.ADDED],
        existing=manifest.existing_files or 0,
        deleted=counts[EntryStatus.DELETED],
        owners=tuple(sorted(_owners(manifest, entries, owners))),
        bytes_added=sum(entry.bytes for entry in live),
        bytes_removed=sum(entry.bytes for entry in gone),
        ambiguity="" if step.is_first else _oddity(manifest, entries, step),
    )
    if outcome.ambiguity:
        return Changed(outcome)
    since = [_numbered(entry, manifest) for entry in live]
    since += [entry.file_sequence_number or 0 for entry in gone]
    until: list[int | None] = [None] * len(live)
    return Changed(outcome, [*live, *gone], since, until + [step.number] * len(gone))


def _numbered(entry: ManifestEntry, manifest: ManifestFile) -> int:
    """The sequence number at which a file was added; 0 where an old writer did not say."""
    if entry.file_sequence_number is not None:
        return entry.file_sequence_number
    return manifest.sequence_number if entry.status == EntryStatus.ADDED else 0


def _oddity(manifest: ManifestFile, entries: Sequence[ManifestEntry], step: Step) -> str:
    """Why changes do not belong to their step, or do not say since when a file was there."""
    for entry in entries:
        if _snapshot_of(entry, manifest) != step.snapshot_id:
            return f"{entry.path} was changed by another snapshot"
        if entry.status == EntryStatus.ADDED and _numbered(entry, manifest) != step.number:
            return f"{entry.path} was added under another sequence number"
        if entry.status == EntryStatus.DELETED and entry.file_sequence_number is None:
            return f"{entry.path} does not say when it was added"
    return ""


def _snapshot_of(entry: ManifestEntry, manifest: ManifestFile) -> int | None:
    return manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id


def _owners(
    manifest: ManifestFile, entries: Sequence[ManifestEntry], owners: OwnerIndex
) -> set[str]:
    """Owners of the manifest and its files; a folder's files have one owner, so each once."""
    folders = {entry.path.rpartition("/")[0] for entry in entries}
    found = {owner for folder in folders for owner in owners.owners(f"{folder}/-")}
    return found.union(owners.owners(manifest.path))
