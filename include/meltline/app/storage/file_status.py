"""Status of single files: their stages, and the snapshots that reference them.

`storage/explain.py` and `tag_bytes.py` call it. It builds an object per file; totals of a lake are
in `storage/report.py`, which works on columns.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from meltline.app.services import ReadContext
from meltline.app.storage.references import (
    METADATA_KINDS,
    Lookup,
    References,
    left_by,
)
from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.ports import IndexedFile, IndexedSnapshot, IndexedSpan, SnapshotKey


@dataclass
class FileStanding:
    """One file at one moment."""

    path: str
    kind: str
    bytes: int
    owner: str
    stage: Stage
    tables: set[str] = field(default_factory=set)
    snapshots: set[SnapshotKey] = field(default_factory=set)


@dataclass(frozen=True)
class FileStatus:
    """Known files with their stages, by location key, and table names by UUID.

    Attributes:
        departures: The latest recorded departure of each departed file.
    """

    files: Mapping[str, FileStanding]
    foreign: Mapping[str, FileStanding]
    departures: Mapping[str, Departure]
    names: Mapping[str, TableName]


def standing_now(context: ReadContext, path: str | None = None) -> FileStatus:
    """Reads the status of one file, or of every known file, by the tables' current metadata.

    It builds an object for every file: for totals of a lake use `report`.

    Raises:
        CatalogUnlistable: A catalog cannot be listed, so the heads are unknown.
    """
    reader = context.reader
    paths = () if path is None else (path,)
    departures = reader.departures(METADATA_KINDS, *paths) if paths else reader.departures()
    look = Lookup.with_departures(context, departures)
    references = References(context, look, None)
    book = _Book(references, departures)
    lines = book.take_snapshots(reader.files(*paths))
    book.take_lines(lines, reader.spans(*paths) if lines else ())
    for side_file, use in references.of_side_files():
        book.refer(side_file.path, side_file.kind, side_file.bytes, use, None)
    for departure in departures:
        book.depart(departure)
    newest = {location_key(departure.path): departure for departure in departures}
    return FileStatus(book.files, book.foreign, newest, look.names)


_Lines = dict[str, list[tuple[IndexedSnapshot, FileReference]]]
"""Snapshots with an incremental read, by table."""


class _Book:
    """Derives stages. A reference can only lower the rank of a file's stage, so the lowest wins."""

    def __init__(self, references: References, departures: Iterable[Departure]) -> None:
        self._references = references
        self._left = left_by(references.at, departures)
        self.files: dict[str, FileStanding] = {}
        self.foreign: dict[str, FileStanding] = {}

    def take_snapshots(self, files: Iterable[IndexedFile]) -> _Lines:
        """Adds the files of full reads; returns the snapshots that were read incrementally."""
        by_manifest: dict[int, list[IndexedFile]] = {}
        for file in files:
            by_manifest.setdefault(file.manifest_id, []).append(file)
        lines: _Lines = {}
        for snapshot, use in self._references.of_snapshots():
            held = list(chain.from_iterable(by_manifest.get(m, ()) for m in snapshot.manifests))
            if snapshot.by_changes:
                lines.setdefault(snapshot.key.table_uuid, []).append((snapshot, use))
                held = [file for file in held if file.kind == FileKind.MANIFEST]
            rows = [(file.path, file.kind, file.bytes) for file in held]
            if snapshot.manifest_list:
                kind = str(FileKind.MANIFEST_LIST)
                rows.append((snapshot.manifest_list, kind, snapshot.manifest_list_bytes))
            for path, kind, size in rows:
                self._refer_unless_left(path, kind, size, use, snapshot.key)
        return lines

    def take_lines(self, lines: _Lines, spans: Iterable[IndexedSpan]) -> None:
        """Adds the files of snapshots that were read incrementally."""
        for line in lines.values():
            line.sort(key=_number)
        for span in spans:
            line = lines.get(span.table_uuid, [])
            first = bisect_left(line, span.since, key=_number)
            end = len(line) if span.until is None else bisect_left(line, span.until, key=_number)
            for snapshot, use in line[first:end]:
                self._refer_unless_left(span.path, span.kind, span.bytes, use, snapshot.key)

    def _refer_unless_left(
        self, path: str, kind: str, size: int, use: FileReference, key: SnapshotKey
    ) -> None:
        """Adds a reference, unless the file departed after the table had expired the snapshot."""
        departure = self._left.get(location_key(path))
        if use.keeps(departure.departed_at if departure else None):
            self.refer(path, kind, size, use, key)

    def refer(
        self, path: str, kind: str, size: int, use: FileReference, key: SnapshotKey | None
    ) -> None:
        owners = self._references.owners.owners(path)
        book = self.files if owners else self.foreign
        stage, owner = use.stage_of(owners)
        at = location_key(path)
        file = book.setdefault(at, FileStanding(path, str(kind), size, owner, stage))
        file.bytes = max(file.bytes, size)  # a path may have two sizes: totals take the larger, too
        if (stage.rank, owner) < (file.stage.rank, file.owner):
            file.stage, file.owner = stage, owner
        file.tables.add(use.table_uuid)
        if key is not None:
            file.snapshots.add(key)

    def depart(self, departure: Departure) -> None:
        at = location_key(departure.path)
        if departure.state is DepartureState.CANCELLED or at in self.files:
            return  # it is referenced again, which is newer than the record
        deleted = departure.state is DepartureState.DELETED
        stage = Stage.DELETED if deleted else Stage.FAILSAFE
        kind, size = str(departure.kind), departure.bytes
        self.files[at] = FileStanding(departure.path, kind, size, departure.owner, stage)


def _number(pair: tuple[IndexedSnapshot, FileReference]) -> int:
    return pair[0].sequence_number
