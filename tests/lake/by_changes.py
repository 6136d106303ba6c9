"""A ledger in memory read as one whose snapshots are known by what they changed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa

from meltline.adapters.file_index.storage_usage import (
    CHANGE_COLUMNS,
    DEPARTURES,
    ENTRY_COLUMNS,
    MANIFEST_COLUMNS,
    RECORDED_COLUMNS,
    weigh,
)
from meltline.adapters.index_tables.lifetimes import CHANGES, spans_of
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.locations import location_key
from meltline.ports import IndexedFile, IndexedSnapshot, IndexedSpan, UsageQuery, UsageTotals
from tests.doubles.file_tables import MemoryTables
from tests.doubles.files import (
    MemoryLedgerReader,
    _departed,
    _entries,
)

Change = tuple[str, int, str, int | None, int, int | None]  # table, snapshot, path, part, span
_TEXT = ("table_uuid", "path", "kind")


def columns(rows: Sequence[tuple[object, ...]], names: Sequence[str]) -> pa.Table:
    """Rows as a table of numbers and text."""
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [pa.string() if name in _TEXT else pa.int64() for name in names]
    arrays = [pa.array(c, kind) for c, kind in zip(cells, types, strict=True)]
    return pa.table(arrays, list(names))


def told(uuid: str, files: Mapping[int, Set[str]]) -> list[Change]:
    """A row for each file that came with a snapshot, and for each that went."""
    rows: list[Change] = []
    since: dict[str, int] = {}
    for number, paths in files.items():
        for path in paths - since.keys():
            since[path] = number
            rows.append((uuid, number, path, None, number, None))
        for path in since.keys() - paths:
            rows.append((uuid, number, path, None, since.pop(path), number))
    return rows


class ByChanges(MemoryLedgerReader):
    """Some tables are told of by changes; what the others' manifests hold is there, and no more."""

    def __init__(self, ledger: MemoryTables, tables: Collection[str]) -> None:
        super().__init__(ledger)
        self.ledger = ledger
        self.tables = tables

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        numbers = Counter[str]()
        found = []
        for snapshot in self.ledger.contents().snapshots:
            uuid = snapshot.key.table_uuid
            numbers[uuid] += 1
            known = uuid in self.tables
            found.append(replace(snapshot, by_changes=known, sequence_number=numbers[uuid] * 3))
        return found

    def files(self, *paths: str) -> Iterator[IndexedFile]:
        read = {m for one in self.snapshots() if not one.by_changes for m in one.manifests}
        for file in super().files(*paths):
            if file.kind == FileKind.MANIFEST or file.manifest_id in read:
                yield file

    def spans(self, *paths: str) -> Iterator[IndexedSpan]:
        keys = set(map(location_key, paths))
        names = ("table_uuid", "path", "kind", "bytes", "since", "until")
        for row in spans_of(self._changes(CHANGES), self._recorded()).select(names).to_pylist():
            if not keys or location_key(row["path"]) in keys:
                yield IndexedSpan(**row)

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        files = list(self.files())
        entries = [file for file in files if file.kind != FileKind.MANIFEST]
        manifests = [file for file in files if file.kind == FileKind.MANIFEST]
        departures = self.ledger.contents().departures
        return weigh(
            weighing,
            pa.table(_entries(entries), list(ENTRY_COLUMNS)).to_batches(),
            pa.table(_entries(manifests)[:3], list(MANIFEST_COLUMNS)),
            pa.table(_departed(departures), schema=DEPARTURES),
            changes=self._changes(CHANGE_COLUMNS).to_batches(max_chunksize=7),
            recorded=self._recorded(),
        )

    def _told(self) -> list[IndexedSnapshot]:
        return [snapshot for snapshot in self.snapshots() if snapshot.by_changes]

    def _recorded(self) -> pa.Table:
        rows = [(one.key.table_uuid, one.sequence_number) for one in self._told()]
        return columns(rows, RECORDED_COLUMNS)

    def _changes(self, names: Sequence[str]) -> pa.Table:
        live: dict[int, list[IndexedFile]] = {}
        by_key: dict[str, IndexedFile] = {}
        for file in self.ledger.contents().entries:
            live.setdefault(file.manifest_id, []).append(file)
            by_key.setdefault(location_key(file.path), file)
        lines: dict[str, dict[int, set[str]]] = {}
        for one in self._told():
            paths = {location_key(f.path) for m in one.manifests for f in live.get(m, ())}
            lines.setdefault(one.key.table_uuid, {})[one.sequence_number] = paths
        rows = [row for uuid, line in lines.items() for row in told(uuid, line)]
        changes = [
            (uuid, number, by_key[at].path, key_hash(at), part, str(by_key[at].kind),
             by_key[at].bytes, since, until)
            for uuid, number, at, part, since, until in rows
        ]  # fmt: skip
        return columns(changes, CHANGES).select(list(names))
