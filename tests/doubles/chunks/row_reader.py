"""Rows and files of chunks in memory, read out of the files themselves."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.ports import SPANNING, ObjectReader
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.chunks.commits import load_rows
from tests.doubles.chunks.rows import Row, TableRows, chunk_of, refused


class MemoryChunkRows:
    """The port `ChunkRows` over catalogs in memory.

    Args:
        catalogs: By name, the cold one too.
        store: Where their files lie.
    """

    def __init__(self, catalogs: Mapping[str, MemoryCatalog], store: ObjectReader) -> None:
        self._catalogs = catalogs
        self._store = store

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
    ) -> Mapping[str, RowDigest]:
        rows = self._load(table)
        try:
            by_chunk: dict[str, list[Row]] = {}
            for values in rows.rows_at(snapshot_id, only_files):
                by_chunk.setdefault(chunk_of(layout, values), []).append(values)
        except (OSError, ValueError) as error:
            raise refused(table, f"{type(error).__name__}: {error}") from error
        return {
            name: digest(of_chunk, rows.columns())
            for name, of_chunk in by_chunk.items()
            if chunks is None or name in chunks
        }

    def files(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str],
    ) -> Mapping[str, Collection[str]]:
        rows = self._load(table)
        by_chunk: dict[str, set[str]] = {}
        try:
            for entry in rows.live(snapshot_id):
                if entry.kind is not FileKind.DATA:
                    continue
                names = set(rows.chunks(layout, entry.path))
                if names & set(chunks):
                    key = next(iter(names)) if len(names) == 1 else SPANNING
                    by_chunk.setdefault(key, set()).add(entry.path)
        except (OSError, ValueError) as error:
            raise refused(table, f"{type(error).__name__}: {error}") from error
        return by_chunk

    def _load(self, table: TableName) -> TableRows:
        try:
            return load_rows(self._catalogs, self._store, table)[1]
        except (MeltlineError, OSError, ValueError, KeyError) as error:
            raise refused(table, f"{type(error).__name__}: {error}") from error


def digest(rows: Collection[Row], columns: Collection[int]) -> RowDigest:
    """What some rows come to, in whatever order they stand."""
    hashes = (hashlib.sha256(json.dumps(values).encode()).digest()[:8] for values in rows)
    filled = Counter(column for values in rows for column, _ in values)
    return RowDigest(
        rows=len(rows),
        checksum=sum(int.from_bytes(one, "big") for one in hashes),
        nulls=tuple((column, len(rows) - filled[column]) for column in sorted(columns)),
    )
