"""Replication in memory: what it copies is staged, proved, and then published at once."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.sync import SYNC_COMMIT, SYNC_DROPPED
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.ports.chunks import CopyOutcome, CopyRequest, MixedRows, Prove
from tests.doubles.chunks.commits import TableCommit, TableWriter, published
from tests.doubles.chunks.rows import Row, TableRows, chunk_of, refused


class MemoryReplicator:
    """The port `Replicator` over catalogs in memory.

    Args:
        writer: Writes to both tables' catalogs; the cold one is among them.
    """

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer

    def copy(self, request: CopyRequest, prove: Prove | None = None) -> CopyOutcome | None:
        try:
            return self._copy(request, prove)
        except (OSError, ValueError) as error:
            raise refused(request.hot, f"{type(error).__name__}: {error}") from error

    def _copy(self, request: CopyRequest, prove: Prove | None) -> CopyOutcome | None:
        base, cold = self._writer.load(request.cold)
        if base != request.cold_base:
            return None
        rows = self._rows(request)
        if not rows and not request.removed:
            head = _head(cold)
            proved = prove(head) if prove is not None and head is not None else {}
            return self._published(request, base, head, 0, proved)
        commit = self._commit(cold, request, rows)
        catalog = self._writer.catalogs[request.cold.catalog]
        document = commit.document(is_staged=True)
        document |= {key: cold.document[key] for key in _MAIN if key in cold.document}
        staged = catalog.commit(request.cold, base, document)
        if staged is None:
            return None
        try:
            proved = prove(commit.snapshot_id) if prove is not None else {}
        except Exception:
            self._take_back(request, staged, cold)
            raise
        return self._published(request, staged, commit.snapshot_id, len(rows), proved)

    def _published(
        self,
        request: CopyRequest,
        base: str,
        head: int | None,
        rows: int,
        proved: Mapping[str, str],
    ) -> CopyOutcome | None:
        """Everybody sees the rows from then on, and up to where they go."""
        _, standing = self._writer.load(request.cold)
        document = json.loads(json.dumps(standing.document))
        if head is not None and head != _head(standing):
            published(document, head, self._writer.clock.now())
        document["properties"] |= {**(request.properties or {}), **proved}
        at = self._writer.catalogs[request.cold.catalog].commit(request.cold, base, document)
        return None if at is None else CopyOutcome(head, at, rows)

    def _take_back(self, request: CopyRequest, staged: str, before: TableRows) -> None:
        """Snapshots that were not proved go again."""
        _, standing = self._writer.load(request.cold)
        document = json.loads(json.dumps(standing.document))
        document["snapshots"] = before.document["snapshots"]
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
        head, said = _head(cold), {SYNC_COMMIT: str(request.upto)}
        live = {e.path for e in cold.live(head)} if head is not None else set()
        if missing := sorted(set(request.removed) - live):
            raise refused(request.cold, f"it does not have {missing[0]}")
        if request.mixed is not None and (only := self._only(cold, request, request.mixed)):
            kept = self._made(cold, request.layout, "append", {**said, SYNC_DROPPED: ""}, only)
            document = published(kept.document(), kept.snapshot_id, self._writer.clock.now())
            cold = TableRows(cold.table, document, cold.store)
        operation = "overwrite" if request.removed else "append"
        made = self._made(cold, request.layout, operation, said, rows)
        return replace(made, removed=frozenset(request.removed))

    def _made(
        self,
        cold: TableRows,
        layout: ChunkLayout,
        operation: str,
        said: Mapping[str, str],
        rows: Iterable[Row],
    ) -> TableCommit:
        writer = self._writer
        files = writer.files(cold, layout.column, rows)
        id = writer.new_id()
        return TableCommit(cold, writer.store, writer.clock, id, operation, said, files)

    def _only(self, cold: TableRows, request: CopyRequest, mixed: MixedRows) -> list[Row]:
        """What cold alone has in mixed files: each late row takes off one that is equal."""
        _, hot = self._writer.load(request.hot)
        late, layout = Counter[Row](), request.layout
        for snapshot_id, chunks in mixed.late.items():
            late.update(r for r in hot.rows_at(snapshot_id) if chunk_of(layout, r) in chunks)
        head = _head(cold)
        assert head is not None  # it has files
        in_files = cold.rows_at(head, mixed.files)
        rows = Counter(r for r in in_files if chunk_of(layout, r) in mixed.chunks)
        return list((rows - late).elements())


_MAIN = ("refs", "current-snapshot-id", "snapshot-log")


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
