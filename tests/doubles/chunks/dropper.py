"""Drops of chunks in memory, validated as Iceberg's `OverwriteFiles` does it."""

from collections.abc import Iterable

from meltline.domain.chunks.columns import partition_range
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.ports.chunks import DropOutcome, DropRequest
from tests.doubles.chunks.commits import TableCommit, TableWriter
from tests.doubles.chunks.rows import FileEntry, TableRows

_ALL = frozenset({"*"})


class MemoryChunkDropper:
    """The port `ChunkDropper` over catalogs in memory.

    Args:
        writer: Commits to the tables' catalogs.
    """

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer

    def drop(self, request: DropRequest) -> DropOutcome:
        while True:
            base, rows = self._writer.load(request.table)
            if conflict := _conflict(rows, request):
                return DropOutcome(None, conflict)
            head = rows.document["refs"][MAIN]["snapshot-id"]
            commit = TableCommit(
                rows,
                self._writer.store,
                self._writer.clock,
                self._writer.new_id(),
                "delete",
                summary=request.summary,
                removed=request.files | _with_them(rows, head, request),
            )
            catalog = self._writer.catalogs[request.table.catalog]
            if catalog.commit(request.table, base, commit.document()) is not None:
                return DropOutcome(commit.snapshot_id)


def _conflict(rows: TableRows, request: DropRequest) -> str:
    """Why the drop may not be; empty where nothing stands against it."""
    head = (rows.document.get("refs") or {}).get(MAIN, {}).get("snapshot-id")
    line = _since(rows, head, request.base_snapshot)
    if line is None:
        return f"snapshot {request.base_snapshot} is not in main's history"
    if not request.chunks or UNBOUNDED in request.chunks:
        return "no chunk is to be dropped, or one without times"
    if (base := _files_at(rows, request)) != request.files:
        return f"the chunks have other files: {sorted(base ^ request.files)}"
    for snapshot_id in line:
        for file in rows.changed(snapshot_id):
            names = _reach(rows, request.layout, file)
            if names is _ALL or names & set(request.chunks):
                what = "added" if file.status is EntryStatus.ADDED else "removed"
                return f"snapshot {snapshot_id} {what} {file.path}"
    live = {e.path for e in rows.live(head) if e.kind is FileKind.DATA} if head else set()
    missing = sorted(request.files - live)
    return f"missing files: {missing}" if missing else ""


def _files_at(rows: TableRows, request: DropRequest) -> set[str]:
    """The data files that have rows of the chunks at the snapshot on which the gate judged."""
    return {
        file.path
        for file in rows.live(request.base_snapshot)
        if file.kind is FileKind.DATA
        and rows.chunks(request.layout, file.path).keys() & set(request.chunks)
    }


def _since(rows: TableRows, head: int | None, base: int) -> list[int] | None:
    """Main's snapshots after the base; None where it is none of main's."""
    known = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in rows.document["snapshots"]}
    passed: list[int] = []
    while head is not None and head != base:
        if head not in known:
            return None
        passed.append(head)
        head = known[head]
    return None if head is None else passed


def _reach(rows: TableRows, layout: ChunkLayout, file: FileEntry) -> frozenset[str]:
    """The chunks that a file reaches."""
    if file.kind is FileKind.DATA:
        return frozenset(rows.chunks(layout, file.path))
    if file.kind is FileKind.EQUALITY_DELETE:
        return _of_partition(rows, layout, file)
    return frozenset(
        name for path in _referenced(rows, [file]) for name in rows.chunks(layout, path)
    )


def _of_partition(rows: TableRows, layout: ChunkLayout, file: FileEntry) -> frozenset[str]:
    """The chunks into which a file's partition reaches."""
    spec = rows.spec(file.spec_id)
    for (_, _, transform, source), value in zip(spec.fields, file.partition, strict=True):
        if source != layout.column.field_id:
            continue
        times = partition_range(layout.column, transform, value)
        return frozenset({UNBOUNDED} if times is None else times.chunks(layout.unit))
    return _ALL


def _referenced(rows: TableRows, deletes: Iterable[FileEntry]) -> set[str]:
    return {path for delete in deletes for path, _ in rows.positions(delete)}


def _with_them(rows: TableRows, head: int, request: DropRequest) -> frozenset[str]:
    """Delete files that are about the dropped data files alone."""
    gone = set()
    for file in rows.live(head):
        if file.kind is FileKind.DATA:
            continue
        if file.kind is FileKind.EQUALITY_DELETE:
            names = _of_partition(rows, request.layout, file)
            is_about_them = names is not _ALL and names <= set(request.chunks)
        else:
            is_about_them = _referenced(rows, [file]) <= request.files
        if is_about_them:
            gone.add(file.path)
    return frozenset(gone)
