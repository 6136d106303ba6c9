"""A snapshot of a partitioned table as the bytes of its manifests, for the reader of chunks."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from meltline.adapters.chunks.file_reader import AvroChunkFiles
from meltline.domain.chunks.layout import ChunkFile
from meltline.domain.chunks.ranges import EPOCH
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.table_metadata import Snapshot
from tests.doubles.manifest_files import PartitionSpec, read_avro, written_avro
from tests.doubles.store import MemoryStore
from tests.lake.avro_files import Entry, FileFacts, Manifest, list_bytes, manifest_bytes
from tests.lake.counting import CountingStore
from tests.unit.chunks.chunks import COLUMN, DAYS

SNAPSHOT, EARLIER = 7, 3
SEQUENCE = 9
LIST = "file:///t/list.avro"
TS = COLUMN.field_id
BY_DAY = PartitionSpec(1, ((1000, "ts_day", "day", TS),), ("date",))
BY_NOTHING = PartitionSpec()
FIRST_DAY = 20458  # 2026-01-05


def micros(text: str) -> bytes:
    """A bound of a timestamp, as manifests pack it."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return struct.pack("<q", int((moment - EPOCH).total_seconds()) * 1_000_000)


def facts(spec: PartitionSpec = BY_DAY, *values: Any, **more: Any) -> FileFacts:
    """What a manifest says of a file: its partition by the values of the spec's fields."""
    names = [name for _, name, _, _ in spec.fields]
    return FileFacts(spec, tuple(zip(names, values, strict=True)), **more)


def bounded(lower: str, upper: str, nulls: int | None = 0, **more: Any) -> FileFacts:
    """The same of a file without partition, by the bounds of its times."""
    counted = () if nulls is None else ((TS, nulls),)
    bounds = {"lower": ((TS, micros(lower)),), "upper": ((TS, micros(upper)),)}
    return facts(more.pop("spec", BY_NOTHING), **{"nulls": counted, **bounds, **more})


def an_entry(
    of: FileFacts | None = None,
    status: EntryStatus = EntryStatus.ADDED,
    path: str = "a.parquet",
    kind: FileKind = FileKind.DATA,
    snapshot: int = SNAPSHOT,
    sequence: int = SEQUENCE,
) -> Entry:
    """A row of a manifest; of a file of the first day where nothing is said."""
    return Entry(path, 100, kind, status, snapshot, sequence, of or facts(BY_DAY, FIRST_DAY))


class AvroTable:
    """A table's one snapshot, whose manifests can be spoilt."""

    def __init__(self, version: int = 2, summary: Mapping[str, str] | None = None) -> None:
        self.version = version
        self.summary = {"operation": "append"} if summary is None else summary
        self.manifests: list[Manifest] = []
        self.store = CountingStore(MemoryStore())

    def manifest(
        self, *entries: Entry, snapshot: int = SNAPSHOT, sequence: int = SEQUENCE
    ) -> Manifest:
        """Writes a manifest and lists it."""
        path = f"file:///t/m{len(self.manifests)}.avro"
        content = manifest_bytes(self.version, entries)
        self.store.store.write(path, content)
        self.manifests.append(Manifest(path, len(content), snapshot, sequence, entries))
        return self.manifests[-1]

    def rewrite(
        self,
        manifest: Manifest,
        rows: Sequence[Mapping[str, Any]] | None = None,
        header: Mapping[str, str] | None = None,
        without: str = "",
    ) -> None:
        """Writes it with other rows or another header; the list follows its length."""
        content = read_avro(self.store.store.read(manifest.path))
        metadata = {k: v for k, v in {**content.metadata, **(header or {})}.items() if k != without}
        made = written_avro(content.schema, content.rows if rows is None else rows, metadata)
        self.store.store.write(manifest.path, made)
        place = self.manifests.index(manifest)
        self.manifests[place] = replace(manifest, length=len(made))

    def rows(self, manifest: Manifest) -> list[dict[str, Any]]:
        """What it holds, to be changed."""
        return [dict(row) for row in read_avro(self.store.store.read(manifest.path)).rows]

    def snapshot(self, *, is_inline: bool = False) -> Snapshot:
        """The snapshot, its list written by now."""
        moment = datetime(2026, 4, 1, tzinfo=UTC)
        if is_inline:
            paths = tuple(manifest.path for manifest in self.manifests)
            return Snapshot(SNAPSHOT, moment, inline_manifests=paths, summary=self.summary)
        self.store.store.write(LIST, list_bytes(self.version, self.manifests))
        return Snapshot(SNAPSHOT, moment, manifest_list=LIST, summary=self.summary)

    @property
    def reader(self) -> AvroChunkFiles:
        """What is tested."""
        return AvroChunkFiles(self.store)

    def live(self) -> Sequence[ChunkFile]:
        """Its files."""
        return self.reader.live(self.snapshot(), DAYS)


def a_schema(type: str) -> str:
    """A manifest's header entry for a table whose column of times is of a type."""
    return json.dumps({"type": "struct", "fields": [{"id": TS, "name": "ts", "type": type}]})
