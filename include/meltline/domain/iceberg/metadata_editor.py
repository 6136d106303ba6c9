"""Edits a table's metadata as a JSON document, and keeps all other content unchanged.

Commands change tables without a JVM. PyIceberg's model drops fields that it does not know and
cannot read `variant`, so the document itself is edited, as Iceberg's own commits would.
"""

import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.metadata_parser import broken_spec, parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, SnapshotRef, TableMetadata
from meltline.domain.units import to_millis

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
METADATA_PATH = "write.metadata.path"
COMPRESSION = "write.metadata.compression-codec"
_DEFAULT_VERSIONS = 100
_GZIP = b"\x1f\x8b"
_LONGEST = 1 << 30  # bytes: ten times a document of 100,000 snapshots
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}


@dataclass(frozen=True)
class NextMetadata:
    """The metadata file that a commit writes.

    Attributes:
        location: Its path, named as Iceberg names it.
        content: Its content, compressed if the table requires it.
    """

    location: str
    content: bytes


class MetadataEditor:
    """One metadata file, open for editing.

    Attributes:
        state: The table in the file, before any edit.
        at: The commit's time: now, and never before the file's own.
    """

    def __init__(self, document: dict[str, Any], state: TableMetadata, now: datetime) -> None:
        """Takes a parsed document; `MetadataEditor.read` checks one."""
        self._base = document
        self._document = deepcopy(document)
        self.state = state
        self.at = max(now, state.last_updated)

    @classmethod
    def read(
        cls, name: TableName, location: str, content: bytes, now: datetime
    ) -> "MetadataEditor":
        """Opens a metadata file.

        Raises:
            MetadataUnreadable: It is no JSON document, or does not follow the spec.
            FormatUnsupported: Its format or encryption is not supported, so that it is left
                unchanged.
        """
        document = parse_json(name, location, content)
        state = parse_table(name, location, len(content), document)
        assert isinstance(document, dict)  # parse_table refuses all else
        return cls(document, state, now)

    @property
    def is_changed(self) -> bool:
        """Whether the edits made a difference."""
        return self._document != self._base

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, with the edits."""
        return {str(k): str(v) for k, v in (self._document.get("properties") or {}).items()}

    @property
    def edited(self) -> TableMetadata:
        """The table after the edits. Raises MetadataUnreadable if an edit made it invalid."""
        before = self.state
        name, location = before.name, before.metadata_location
        state = parse_table(name, location, before.metadata_bytes, self._document)
        if spoilt := sorted({*state.flaws} - {*before.flaws}):
            raise broken_spec(name, location, ", ".join(spoilt))
        return state

    def changes_only(self, *fields: str) -> bool:
        """Whether all edits are in these top-level fields."""
        keys = self._document.keys() | self._base.keys()
        return all(self._document.get(k) == self._base.get(k) for k in keys - set(fields))

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the document with the edits."""
        return deepcopy(self._document)

    def set_properties(self, updates: Mapping[str, str], removals: Sequence[str] = ()) -> None:
        """Sets some properties and removes others; removing a missing one has no effect."""
        properties = self._document.get("properties") or {}
        updated = {key: text for key, text in properties.items() if key not in removals}
        updated.update(updates)
        if updated != properties:
            self._document["properties"] = updated

    def set_ref(self, ref: SnapshotRef) -> None:
        """Creates a branch or tag, or moves it.

        Moving `main` changes the current snapshot, and adds an entry to the snapshot log.
        """
        written: dict[str, Any] = {
            "snapshot-id": ref.snapshot_id,
            "type": "branch" if ref.is_branch else "tag",
        }
        for key, limit in {
            "max-ref-age-ms": ref.max_ref_age_ms,
            "max-snapshot-age-ms": ref.max_snapshot_age_ms,
            "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        }.items():
            if limit is not None:
                written[key] = limit
        is_moved = self._document.get("current-snapshot-id") != ref.snapshot_id
        refs = self._refs()
        refs[ref.name] = {**refs.get(ref.name, {}), **written}
        if ref.name == MAIN and is_moved:
            self._document["current-snapshot-id"] = ref.snapshot_id
            log = self._document.setdefault("snapshot-log", [])
            log.append({"timestamp-ms": to_millis(self.at), "snapshot-id": ref.snapshot_id})

    def remove_ref(self, name: str) -> None:
        """Removes a branch or tag; removing a missing one has no effect."""
        if name in (self._document.get("refs") or {}):
            del self._refs()[name]

    def replace(self, content: Mapping[str, Any]) -> None:
        """Replaces the content by another document's; identity and location stay."""
        own = ("table-uuid", "location", "metadata-log", "last-updated-ms")
        own_fields = {key: self._document[key] for key in own if key in self._document}
        self._document = {**deepcopy(dict(content)), **own_fields}

    def _refs(self) -> dict[str, Any]:
        """Returns the refs as written. A file without refs has main alone."""
        refs: dict[str, Any] = self._document.get("refs") or {}
        main = self.state.refs.get(MAIN)
        if main is not None:
            refs.setdefault(MAIN, {"snapshot-id": main.snapshot_id, "type": "branch"})
        self._document["refs"] = refs
        return refs

    def successor(self, unique: str) -> NextMetadata:
        """Builds the file that replaces the one that was read.

        Args:
            unique: A new UUID for its name.

        Raises:
            MetadataUnreadable: The table requires a compression that Iceberg does not know, or an
                edit made it invalid.
        """
        base = self.edited.metadata_location
        document = self.document
        log = list(document.get("metadata-log") or [])
        log.append({"timestamp-ms": document["last-updated-ms"], "metadata-file": base})
        # An engine that deletes files removed from its log deletes this one at its next commit,
        # too.
        owned = self.state.engine_deletes_metadata
        surplus = 0 if owned else max(0, len(log) - self._versions_kept())
        document["metadata-log"] = log[surplus:]
        document["last-updated-ms"] = to_millis(self.at)
        return _file(self.state.name, document, self._folder(), next_number(base), unique)

    def _versions_kept(self) -> int:
        raw = self.properties.get(PREVIOUS_VERSIONS, "")
        return max(1, int(raw)) if raw.strip().isdecimal() else _DEFAULT_VERSIONS

    def _folder(self) -> str:
        own = self.properties.get(METADATA_PATH, "").rstrip("/")
        return own or f"{self._document['location'].rstrip('/')}/metadata"


def first_file(name: TableName, document: dict[str, Any], unique: str) -> NextMetadata:
    """Builds the first metadata file of a new table, below the document's location.

    Args:
        name: The table's name.
        document: Its content.
        unique: A new UUID for the file's name.

    Raises:
        MetadataUnreadable: It requires a compression that Iceberg does not know.
    """
    return _file(name, document, f"{document['location']}/metadata", 0, unique)


def _file(
    name: TableName, document: dict[str, Any], folder: str, number: int, unique: str
) -> NextMetadata:
    suffix = _suffix(name, document.get("properties") or {})
    content = json.dumps(document).encode()
    return NextMetadata(
        location=f"{folder}/{number:05d}-{unique}{suffix}",
        content=gzip.compress(content, mtime=0) if suffix == _SUFFIXES["gzip"] else content,
    )


def _suffix(name: TableName, properties: Mapping[str, str]) -> str:
    codec = properties.get(COMPRESSION, "none").strip().lower()
    if codec in _SUFFIXES:
        return _SUFFIXES[codec]
    raise MetadataUnreadable(
        f"{name} asks for metadata files that no Iceberg can write",
        object=str(name),
        expected=f"{COMPRESSION} = none or gzip",
        found=codec,
        next=f"set {COMPRESSION} right where you can, then run the command again",
    )


def parse_json(name: TableName, location: str, content: bytes) -> object:
    """Parses a metadata file's JSON, plain or compressed.

    Raises:
        MetadataUnreadable: It is neither, or contains text that cannot be encoded as UTF-8.
    """
    try:
        text = _unpacked(content) if content.startswith(_GZIP) else content
        document = json.loads(text)
        if _SURROGATE.search(text):  # half a surrogate pair passes here, and fails later
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, EOFError, OSError, RecursionError, zlib.error) as error:
        raise unreadable(name, location, f"{type(error).__name__}: {error}") from error
    return document


def _unpacked(content: bytes) -> bytes:
    """Decompresses a document. Raises ValueError if it is longer than any real one."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS + 16)  # with gzip's header and checksum
    text = unpacker.decompress(content, _LONGEST)
    if not unpacker.eof:
        raise ValueError(f"unpacked, it ends too early or has more than {_LONGEST} bytes")
    return text


def unreadable(
    name: TableName, location: str, reason: str, kind: type[MetadataUnreadable] = MetadataUnreadable
) -> MetadataUnreadable:
    """Builds the error for a metadata file that is missing or no JSON."""
    return kind(
        f"{name}: its metadata file cannot be read",
        object=location,
        expected="the JSON document that the catalog points to",
        found=reason,
        next="restore the file, register an older one, or drop the table",
    )


def is_first_file(location: str) -> bool:
    """Whether a metadata file's name shows that it is the first one."""
    return next_number(location) == 1


def next_number(base: str) -> int:
    """Returns the number of the file after a metadata file; 0 if its name has none."""
    version = base.rpartition("/")[2].partition("-")[0]
    return int(version) + 1 if version.isdecimal() else 0
