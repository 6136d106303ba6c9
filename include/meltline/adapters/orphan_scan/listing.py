"""Lists the store on executors, one folder per task; a large folder is split into its subfolders.

`scanner` calls it. The driver lists the top level alone. Executors list the rest through the
object-store port, and return each file as a row with the hash of its location's key. Beside files
they return notes: folders still to list, folders that failed, and counts.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain, islice

import pyarrow as pa
import xxhash
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from meltline.adapters.index_tables.rows import tuples
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.folder_listing import FolderLister
from meltline.domain.deletion.foreign_owners import marker_above
from meltline.domain.deletion.orphans import SweptPlaces, is_passed_over
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.locations import location_key

_ROWS = pa.schema(
    [
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("bytes", pa.int64()),
        ("modified_at", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
        ("files", pa.int64()),
    ]
)
_FOLDERS = pa.schema([("folder", pa.string()), ("whole", pa.bool_())])
_ROWS_PER_BATCH = 20_000
CUT_ABOVE = 50_000
"""Files: a larger folder that has subfolders is listed folder by folder."""

Batches = Iterable[pa.RecordBatch]


class Note(StrEnum):
    """The kind of a row that is not a file: its path has no hash, so that no join drops it."""

    TO_LIST = "to list"
    UNLISTED = "unlisted"
    MARKER = "marker"
    COUNTED = "counted"


@dataclass(frozen=True)
class Part:
    """A folder to list: completely, or only its own level."""

    folder: str
    whole: bool


def list_parts(
    spark: SparkSession,
    store: FolderLister,
    places: SweptPlaces,
    parts: Sequence[Part],
    cut_above: int = CUT_ABOVE,
) -> DataFrame:
    """Lists some folders in one job: a row per file, and notes."""
    columns = [[part.folder for part in parts], [part.whole for part in parts]]
    folders = pa.table(columns, schema=_FOLDERS)
    slices = min(len(parts), spark.sparkContext.defaultParallelism * 2)  # each starts a task
    spread = spark.createDataFrame(folders).repartition(max(1, slices))
    return spread.mapInArrow(_lister(store, places, cut_above), from_arrow_schema(_ROWS))


def sift_inventory(inventory: DataFrame, places: SweptPlaces) -> DataFrame:
    """Returns the rows of an inventory (`path`, `size`, `modified`) that a sweep checks."""
    return inventory.mapInArrow(_sifter(places), from_arrow_schema(_ROWS))


def _lister(
    store: FolderLister, places: SweptPlaces, cut_above: int
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                rows = _Rows(places)
                try:
                    if row["whole"]:
                        yield from _list_whole(store, row["folder"], rows, cut_above)
                    else:
                        yield from _list_level(store, row["folder"], rows)
                except (MeltlineError, OSError) as refused:
                    why = refused.message if isinstance(refused, MeltlineError) else str(refused)
                    rows.note(Note.UNLISTED, row["folder"], why)
                yield from rows.flush()

    return run


def _list_level(store: FolderLister, folder: str, rows: "_Rows") -> Iterator[pa.RecordBatch]:
    """Lists the files directly in a folder; its subfolders are still to be listed."""
    level = store.level(folder)
    for below in level.folders:
        rows.look_at(below)
        rows.note(Note.TO_LIST, below)
    yield from rows.add_names(folder, level.names)
    for file in level.files:
        yield from rows.add(file.path, file.bytes, file.modified_at)


def _list_whole(
    store: FolderLister, folder: str, rows: "_Rows", cut_above: int
) -> Iterator[pa.RecordBatch]:
    """Lists a folder at all depths; a large one that has subfolders is returned to be split."""
    if not store.measures(folder):
        yield from _list_names(store, folder, rows, cut_above)
        return
    listing = store.list(folder)
    first = list(islice(listing, cut_above))
    if len(first) == cut_above and any("/" in file.path[len(folder) :] for file in first):
        rows.note(Note.TO_LIST, folder, "by level")
        return
    for file in chain(first, listing):
        yield from rows.add(file.path, file.bytes, file.modified_at)


def _list_names(
    store: FolderLister, folder: str, rows: "_Rows", cut_above: int
) -> Iterator[pa.RecordBatch]:
    """Lists level by level, without measuring; the rest of a large folder becomes new parts."""
    folders, count = [folder], 0
    while folders and count < cut_above:
        at = folders.pop()
        level = store.level(at)
        count += len(level.names)
        folders += level.folders
        yield from rows.add_names(at, level.names)
    for unlisted in folders:
        rows.note(Note.TO_LIST, unlisted)


def _sifter(places: SweptPlaces) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = _Rows(places)
        for batch in batches:
            for path, size, modified in tuples(batch, "path", "size", "modified"):
                yield from rows.add(path or "", size, modified)
        yield from rows.flush()

    return run


@dataclass
class _Folder:
    """The facts that all files of a folder share."""

    looked_at: bool
    key: str


class _Rows:
    """Collects files and notes, and returns them in batches."""

    def __init__(self, places: SweptPlaces) -> None:
        self._places = places
        self._folders: dict[str, _Folder] = {}
        self._paths: list[str] = []
        self._hashes = array("Q")
        self._bytes: list[int | None] = []
        self._times: list[datetime | None] = []
        self._notes: list[dict[str, object]] = []
        self._markers: set[str] = set()
        self._files = 0

    def add(
        self, path: str, size: int | None, modified: datetime | None
    ) -> Sequence[pa.RecordBatch]:
        """Adds a file, if a sweep checks it; returns a batch once there are enough rows."""
        folder, _, name = path.rpartition("/")
        at = self._folders.get(folder) or self._look_up(folder)
        if at.looked_at and not is_passed_over(name):
            self._add(path, at.key, name)
            self._bytes.append(size)
            self._times.append(modified)
        return self._when_full()

    def add_names(self, folder: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Adds unmeasured files of one folder; yields a batch whenever there are enough rows."""
        at = self._look_up(folder.rstrip("/"))
        for name in names if at.looked_at else ():
            if not is_passed_over(name):
                self._add(folder + name, at.key, name)
                if len(self._paths) >= _ROWS_PER_BATCH:
                    yield self._batch()

    def _add(self, path: str, key: str, name: str) -> None:
        self._paths.append(path)
        # A plain name is unchanged in a key; one with an escape may change the part before it.
        plain = "%" not in name and name not in (".", "..")
        self._hashes.append(_hash(key + name) if plain else key_hash(path) % (1 << 64))
        self._files += 1

    def _when_full(self) -> Sequence[pa.RecordBatch]:
        return (self._batch(),) if len(self._paths) >= _ROWS_PER_BATCH else ()

    def _look_up(self, folder: str) -> _Folder:
        if len(self._folders) > _ROWS_PER_BATCH:
            self._folders.clear()
        looked_up = _Folder(
            self._places.looks_at(folder + "/"), location_key(folder + "/").rstrip("/") + "/"
        )
        self._folders[folder] = looked_up
        if not looked_up.looked_at:
            self.look_at(folder)
        return looked_up

    def look_at(self, folder: str) -> None:
        """Notes a log folder of another table format, or one that lies in such a folder."""
        marker = marker_above(folder)
        if marker and marker not in self._markers:
            self._markers.add(marker)
            self.note(Note.MARKER, marker)

    def note(self, note: Note, path: str, remark: str = "") -> None:
        """Adds a note about a path."""
        self._notes.append({"path": path, "note": f"{note}:{remark}"})

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yields the remaining rows, and all notes with the count."""
        if self._paths:
            yield self._batch()
        self._notes.append({"note": f"{Note.COUNTED}:", "files": self._files})
        yield pa.RecordBatch.from_pylist(self._notes, schema=_ROWS)

    def _batch(self) -> pa.RecordBatch:
        count = len(self._paths)
        columns = [
            pa.array(self._paths, pa.string()),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(self._hashes)]),
            pa.array(self._bytes or [None] * count, pa.int64()),
            pa.array(self._times or [None] * count, pa.timestamp("us", tz="UTC")),
            pa.nulls(count, pa.string()),
            pa.nulls(count, pa.int64()),
        ]
        self._paths, self._hashes, self._bytes, self._times = [], array("Q"), [], []
        return pa.RecordBatch.from_arrays(columns, schema=_ROWS)


def _hash(key: str) -> int:
    """Returns the unsigned value of `key_hash`."""
    return xxhash.xxh64_intdigest(key.encode(), 42)
