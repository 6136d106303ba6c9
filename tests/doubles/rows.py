"""Rows on both sides, in memory: a file's bytes stand for its rows."""

from collections.abc import Mapping, Sequence

from meltline.adapters.manifests.pyiceberg_reader import listed_manifests, live_files
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.ports import ObjectReader, RowSample
from tests.doubles.catalog import MemoryCatalog


class MemoryRowComparer:
    """The port `RowComparer` over catalogs in memory."""

    def __init__(self, catalogs: Mapping[str, MemoryCatalog], store: ObjectReader) -> None:
        self._catalogs = catalogs
        self._store = store

    def differing(self, samples: Sequence[RowSample]) -> Sequence[str]:
        """Compares the bytes of all live files of both sides, one after another."""
        problems = []
        for sample in samples:
            try:
                hot, cold = (
                    self._rows(table, sample.snapshot_id) for table in (sample.hot, sample.cold)
                )
            except (MeltlineError, OSError) as error:
                problems.append(f"{sample.cold}@{sample.snapshot_id}: {error}")
                continue
            if hot != cold:
                problems.append(f"{sample.cold}@{sample.snapshot_id}: other rows than in hot")
        return problems

    def count(self, table: TableName, snapshot_id: int) -> int | str:
        """Takes each live file for one row."""
        try:
            return len(self._rows(table, snapshot_id))
        except (MeltlineError, OSError) as error:
            return f"{table}@{snapshot_id}: {error}"

    def _rows(self, table: TableName, snapshot_id: int) -> list[bytes]:
        location = self._catalogs[table.catalog].location(table)
        content = self._store.read(location)
        state = parse_table(table, location, len(content), parse_json(table, location, content))
        snapshot = state.snapshots[snapshot_id]
        listed = listed_manifests(snapshot.manifest_list, self._store.read(snapshot.manifest_list))
        return [
            self._store.read(file.path)
            for manifest in listed
            for file in live_files(manifest, self._store.read(manifest.path))
        ]
