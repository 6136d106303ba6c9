"""Replication in memory: what it copies is staged, proved, and then published at once."""

import json
from collections.abc import Callable, Iterable

from meltline.domain.chunks.sync import SYNC_COMMIT
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.ports.chunks import CopyOutcome, CopyRequest
from meltline.testing.chunks.commits import TableCommit, TableWriter, published
from meltline.testing.chunks.rows import Row, TableRows, chunk_of, refused


class MemoryReplicator:
    """The port `Replicator` over catalogs in memory.

    Args:
        writer: Writes to both tables' catalogs; the cold one is among them.
    """

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer

    def copy(
        self, request: CopyRequest, prove: Callable[[int], None] | None = None
    ) -> CopyOutcome | None:
        try:
            return self._copy(request, prove)
        except (OSError, ValueError) as error:
            raise refused(request.hot, f"{type(error).__name__}: {error}") from error

    def _copy(
        self, request: CopyRequest, prove: Callable[[int], None] | None
    ) -> CopyOutcome | None:
        base, cold = self._writer.load(request.cold)
        if base != request.cold_base:
            return None
        rows = self._rows(request)
        if not rows and not request.removed:
            head = _head(cold)
            if prove is not None and head is not None:
                prove(head)
            return self._published(request, base, head, 0)
        commit = self._commit(cold, request, rows)
        catalog = self._writer.catalogs[request.cold.catalog]
        staged = catalog.commit(request.cold, base, commit.document(is_staged=True))
        if staged is None:
            return None
        try:
            if prove is not None:
                prove(commit.snapshot_id)
        except Exception:
            self._take_back(request, staged, commit.snapshot_id)
            raise
        return self._published(request, staged, commit.snapshot_id, len(rows))

    def _published(
        self, request: CopyRequest, base: str, head: int | None, rows: int
    ) -> CopyOutcome | None:
        """Everybody sees the rows from then on, and up to where they go."""
        _, standing = self._writer.load(request.cold)
        document = json.loads(json.dumps(standing.document))
        if head is not None and head != _head(standing):
            published(document, head, self._writer.clock.now())
        document["properties"] |= dict(request.properties or {})
        at = self._writer.catalogs[request.cold.catalog].commit(request.cold, base, document)
        return None if at is None else CopyOutcome(head, at, rows)

    def _take_back(self, request: CopyRequest, staged: str, snapshot_id: int) -> None:
        """A snapshot that was not proved goes again."""
        _, standing = self._writer.load(request.cold)
        document = json.loads(json.dumps(standing.document))
        kept = [s for s in document["snapshots"] if s["snapshot-id"] != snapshot_id]
        document["snapshots"] = kept
        self._writer.catalogs[request.cold.catalog].commit(request.cold, staged, document)

    def _rows(self, request: CopyRequest) -> list[Row]:
        """What is to be written: chunks as they are, and what was appended to others."""
        _, hot = self._writer.load(request.hot)
        layout, replaced = request.layout, request.replaced
        if replaced is None:
            return hot.rows_at(request.upto)
        rows = [r for r in hot.rows_at(request.upto) if chunk_of(layout, r) in replaced]
        if request.after is not None:
            appended = _appended(hot, request.upto, request.after)
            rows += [r for r in appended if chunk_of(layout, r) not in replaced]
        return rows

    def _commit(self, cold: TableRows, request: CopyRequest, rows: list[Row]) -> TableCommit:
        head = _head(cold)
        live = {e.path for e in cold.live(head)} if head is not None else set()
        if missing := sorted(set(request.removed) - live):
            raise refused(request.cold, f"it does not have {missing[0]}")
        return TableCommit(
            cold,
            self._writer.store,
            self._writer.clock,
            self._writer.new_id(),
            "overwrite" if request.removed else "append",
            summary={SYNC_COMMIT: str(request.upto)},
            added=self._writer.files(cold, request.layout.column, rows),
            removed=frozenset(request.removed),
        )


def _head(table: TableRows) -> int | None:
    main = (table.document.get("refs") or {}).get(MAIN)
    return None if main is None else int(main["snapshot-id"])


def _appended(hot: TableRows, upto: int, after: int) -> Iterable[Row]:
    """The rows of all files that appends have added; whatever else happened is not read."""
    for snapshot_id in hot.line(upto, after):
        if hot.snapshot(snapshot_id)["summary"].get("operation") != "append":
            continue
        for entry in hot.changed(snapshot_id):
            if entry.kind is FileKind.DATA and entry.status is EntryStatus.ADDED:
                yield from hot.written(entry.path)
