"""The archive in memory: really copies and rewrites, one file after another, for tests."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

import fastavro

from meltline.domain.archive.archive import COLD_OF, Validity, archived_property
from meltline.domain.archive.cold_owner import require_same_installation
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.archive.pruning import without
from meltline.domain.archive.seals import foreign_to, with_seal
from meltline.domain.clock import Clock
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import to_millis
from meltline.ports import (
    ChosenSnapshot,
    CopyCache,
    HandedOver,
    HandoffRequest,
    Mended,
    Original,
)
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.store import MemoryStore

_DELETED = 2
_INHERITED = ("avro.schema", "avro.codec")


class MemoryArchive:
    """The port `Archive` over an object store and a catalog in memory."""

    def __init__(
        self,
        catalog: MemoryCatalog,
        store: MemoryStore,
        warehouse: str,
        clock: Clock,
        book: CopyCache,
    ) -> None:
        self._book = book
        self._catalog = catalog
        self._store = store
        self._warehouse = warehouse
        self._clock = clock

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        """Copies, rewrites and registers snapshot by snapshot. See the port."""
        for request in requests:
            for chosen in request.snapshots:
                if not may_go_on():
                    return
                yield request.hot.name, self._archive(request, chosen)

    def mend(
        self, originals: Sequence[Original], may_go_on: Callable[[], bool]
    ) -> Iterator[Mended]:
        """Copies anew what is not as it was recorded, or as its original is. See the port."""
        for file in originals if may_go_on() else ():
            copy = _Copy(self._store, self._warehouse, self._book, mends=True, is_alone=True)
            if copy.is_known(mirrored(file.path, self._warehouse)):
                yield Mended(file.path)
                continue
            make = {
                FileKind.MANIFEST: copy.manifest,
                FileKind.MANIFEST_LIST: copy.manifest_list,
            }.get(file.kind, copy.file)
            try:
                place = make(file.path)
            except (MeltlineError, OSError, ValueError) as error:
                yield Mended(file.path, error=f"{type(error).__name__}: {error}")
            else:
                yield Mended(file.path, place in copy.copied)

    def _archive(self, request: HandoffRequest, chosen: ChosenSnapshot) -> HandedOver:
        snapshot_id = chosen.snapshot.snapshot_id
        copy = _Copy(
            self._store, self._warehouse, self._book, mends=self._has(request, snapshot_id)
        )
        try:
            hot = json.loads(self._store.read(request.hot.metadata_location))
            (raw,) = (s for s in hot["snapshots"] if s["snapshot-id"] == snapshot_id)
            raw = {**raw, "manifest-list": copy.manifest_list(raw["manifest-list"])}
            statistics = [
                {**file, "statistics-path": copy.file(file["statistics-path"])}
                for file in hot.get("statistics") or ()
                if file["snapshot-id"] == snapshot_id
            ]
            location = self._register(request, hot, raw, statistics, copy, chosen.validity)
        except (MeltlineError, OSError, ValueError, KeyError) as error:
            return HandedOver(snapshot_id, error=f"{type(error).__name__}: {error}")
        return HandedOver(
            snapshot_id,
            files=len(copy.sizes),
            bytes=sum(copy.sizes.values()),
            rows=copy.rows,
            files_copied=len(copy.copied),
            bytes_copied=sum(copy.sizes[path] for path in copy.copied),
            cold_location=location,
        )

    def _has(self, request: HandoffRequest, snapshot_id: int) -> bool:
        base = self._catalog.find(request.cold)
        snapshots = self._document(base)["snapshots"] if base else []
        return any(snapshot["snapshot-id"] == snapshot_id for snapshot in snapshots)

    def _register(
        self,
        request: HandoffRequest,
        hot: Mapping[str, Any],
        raw: dict[str, Any],
        statistics: list[dict[str, Any]],
        copy: "_Copy",
        validity: Validity,
    ) -> str:
        base = self._catalog.find(request.cold)
        document = self._first(request, hot) if base is None else self._document(base)
        if document["properties"].get(COLD_OF) != request.hot.uuid:
            raise ValueError(f"{request.cold} holds the history of another table")
        require_same_installation(str(request.cold), document["properties"], request.marks)
        sid = raw["snapshot-id"]
        old = [file for file in document["statistics"] if file["snapshot-id"] == sid]
        if any(s["snapshot-id"] == sid for s in document["snapshots"]) and old == statistics:
            return str(base)
        is_ours = not foreign_to(document)
        _put_snapshot(document, raw, statistics)
        key, text = archived_property(
            raw["snapshot-id"],
            validity,
            files=len(copy.sizes),
            bytes=sum(copy.sizes.values()),
            rows=copy.rows,
            at=self._clock.now(),
            files_copied=len(copy.copied),
            bytes_copied=sum(copy.sizes[path] for path in copy.copied),
        )
        document["properties"] |= {key: text, **request.marks}
        if is_ours:
            document = with_seal(document)
        return self._commit(request.cold, base, document)

    def _first(self, request: HandoffRequest, hot: Mapping[str, Any]) -> dict[str, Any]:
        name = request.cold
        return {
            **hot,
            "table-uuid": str(UUID(int=int(request.hot.uuid.replace("-", ""), 16) ^ 1)),
            "location": "/".join([self._warehouse, *name.namespace, name.name]),
            "last-updated-ms": to_millis(self._clock.now()),
            "properties": {COLD_OF: request.hot.uuid},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
            "refs": {},
            "statistics": [],
            "partition-statistics": [],
            "current-snapshot-id": -1,
        }

    def _commit(self, name: TableName, base: str | None, document: dict[str, Any]) -> str:
        if base is None:
            location = f"{document['location']}/metadata/00000-cold.metadata.json"
            self._store.write(location, json.dumps(document).encode())
            self._catalog.register(name, location)
            return location
        location = self._catalog.commit(name, base, document) or ""
        if not location:
            raise ValueError(f"{name} has moved on")
        return location

    def _document(self, location: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._store.read(location))
        return document


def _put_snapshot(
    document: dict[str, Any], raw: Mapping[str, Any], statistics: list[dict[str, Any]]
) -> None:
    """Adds a snapshot, or replaces it; main is the newest one from then on."""
    for key, new in (("snapshots", [raw]), ("statistics", statistics)):
        document[key] = [*without(document[key], [raw["snapshot-id"]]), *new]
    document["last-sequence-number"] = max(
        document.get("last-sequence-number", 0), raw.get("sequence-number", 0)
    )
    newest = max(document["snapshots"], key=lambda s: (s["timestamp-ms"], s["snapshot-id"]))
    document["current-snapshot-id"] = newest["snapshot-id"]
    document["refs"] = {"main": {"type": "branch", "snapshot-id": newest["snapshot-id"]}}
    logged = {"timestamp-ms": newest["timestamp-ms"], "snapshot-id": newest["snapshot-id"]}
    document["snapshot-log"] = [logged]


@dataclass
class _Copy:
    """The files of one snapshot, copied.

    Attributes:
        is_alone: Whether one file is copied, and what it names is taken as cold has it: the
            originals may have been purged.
    """

    store: MemoryStore
    warehouse: str
    book: CopyCache
    mends: bool
    is_alone: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    rows: int = 0

    def manifest_list(self, path: str) -> str:
        """Copies a manifest list and all that it refers to; returns where the copy lies."""
        schema, metadata, rows = _read(self.store.read(path))
        for row in rows:
            path_in_hot = row["manifest_path"]
            row["manifest_path"] = self._in_cold(path_in_hot) or self.manifest(path_in_hot)
            row["manifest_length"] = self.sizes[row["manifest_path"]]
        return self._put(path, _avro(schema, metadata, rows))

    def manifest(self, path: str) -> str:
        """Copies a manifest and all that it keeps alive."""
        schema, metadata, rows = _read(self.store.read(path))
        for row in rows:
            file = row["data_file"]
            live = row["status"] != _DELETED
            if live and not file.get("content"):
                self.rows += file["record_count"]
            old = file["file_path"]
            size = file["file_size_in_bytes"]
            copy = self._in_cold(old) or self.file(old, size) if live else ""
            file["file_path"] = copy or mirrored(old, self.warehouse)
            if file.get("referenced_data_file"):
                file["referenced_data_file"] = mirrored(
                    file["referenced_data_file"], self.warehouse
                )
        return self._put(path, _avro(schema, metadata, rows))

    def file(self, path: str, size: int | None = None) -> str:
        """Copies a file as it is, where it is not there yet; never another one than once before.

        Nor one that is not as long as its manifest says, where that is known.
        """
        place, content = mirrored(path, self.warehouse), self.store.read(path)
        if size not in (None, len(content)):
            raise ValueError(f"{path} has {len(content)} bytes, not {size}, as its manifest says")
        prior = self.book.of([place]).get(place)
        if prior and prior.from_source and prior.sha256 != sha256(content).hexdigest():
            raise ValueError(f"{path} does not have the bytes that were copied once")
        return self._put(path, content)

    def _in_cold(self, path: str) -> str:
        """Where cold has the copy of a file that the one names that is copied alone."""
        place = mirrored(path, self.warehouse)
        present = self._present(place) if self.is_alone else None
        if present is None:
            return ""
        self.sizes[place] = len(present)
        return place

    def _put(self, path: str, content: bytes) -> str:
        place = mirrored(path, self.warehouse)
        if place not in self.sizes:
            if (present := self._present(place)) is None or (self.mends and present != content):
                self.store.write(place, content)
                self.copied.append(place)
            elif present != content:
                raise ValueError(f"{place} is not the copy of {path}")
            self._record(place, content)
        self.sizes[place] = len(content)
        return place

    def is_known(self, place: str) -> bool:
        """Whether a copy has the bytes that were recorded; then it is recorded as it is shown."""
        prior, present = self.book.of([place]).get(place), self._present(place)
        if prior is None or present is None or sha256(present).hexdigest() != prior.sha256:
            return False
        if prior.from_source:
            self._record(place, present)
        return prior.from_source

    def _record(self, place: str, content: bytes) -> None:
        file, digest = self.store.measure(place), sha256(content).hexdigest()
        assert file is not None
        self.book.save([CopyProof(place, len(content), digest, file.modified_at, file.etag)])

    def _present(self, place: str) -> bytes | None:
        return None if self.store.size(place) is None else self.store.read(place)


def _read(content: bytes) -> tuple[Any, dict[str, str], list[dict[str, Any]]]:
    reader = fastavro.reader(io.BytesIO(content))
    rows: list[dict[str, Any]] = [row for row in reader if isinstance(row, dict)]
    metadata = {key: text for key, text in reader.metadata.items() if key not in _INHERITED}
    return reader.writer_schema, metadata, rows


def _avro(schema: Any, metadata: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    body = io.BytesIO()
    fastavro.writer(body, schema, rows, metadata=dict(metadata), sync_marker=b"0123456789abcdef")
    return body.getvalue()
