"""Rewrites manifests and manifest lists for cold: the originals with the paths of the copies.

Every field, the header and the field ids stay. Only paths change, and the lengths of files that
were rewritten themselves. An unreadable or miscounted file is refused, so that its snapshot stays
hot.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from meltline.adapters.archive.rewriting.delete_files import REWRITABLE
from meltline.adapters.manifests.avro_container import AvroFile, Record
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, ManifestFile
from meltline.domain.redaction import cause

TOTALS = "meltline.totals"
"""Header key of a manifest list in cold: live files, bytes and rows of each manifest."""

_FILE_PATH_ID = 2147483546
_POSITION_DELETES = 1
_DATA = 0
_COPIED_FORMATS = frozenset({"PARQUET", "AVRO", "ORC"})


class Need(StrEnum):
    """The work that brings a file to cold: a plain copy, or a rewrite by format."""

    COPY = "copy"
    PARQUET = "PARQUET"  # position deletes to be rewritten, by format
    AVRO = "AVRO"
    PUFFIN = "PUFFIN"


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file that a manifest needs in cold, with the length that the manifest records."""

    path: str
    bytes: int
    need: Need


@dataclass(frozen=True, slots=True)
class Amended:
    """Fields that a manifest in cold changes for a rewritten file.

    Attributes:
        bytes: Its length in cold.
        lower: Lower bound of the data files that it names, `upper` the upper one; empty if it
            has none.
    """

    bytes: int
    lower: str = ""
    upper: str = ""


@dataclass(frozen=True, slots=True)
class EntryTotals:
    """Totals of a manifest's live files: number, bytes in cold, rows of data."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, more: "EntryTotals") -> "EntryTotals":
        return EntryTotals(self.files + more.files, self.bytes + more.bytes, self.rows + more.rows)


# --- manifests ------------------------------------------------------------------------------------


def needed_files(manifest: ManifestFile, content: bytes) -> Iterator[NeededFile]:
    """Yields the live files of a manifest, each once.

    Raises:
        MetadataUnreadable: It differs from its list's entry, or has a file that cannot be copied.
    """
    needed: dict[str, NeededFile] = {}
    for record, _ in entries(manifest, content):
        note_needed(needed, manifest, record)
    yield from needed.values()


def note_needed(needed: dict[str, NeededFile], manifest: ManifestFile, record: Record) -> None:
    """Adds the file of one entry, by path. Raises MetadataUnreadable as `needed_files` does."""
    file = record["data_file"]
    if record["status"] != EntryStatus.DELETED:
        need = NeededFile(file["file_path"], file["file_size_in_bytes"], _need(manifest, file))
        if needed.setdefault(need.path, need) != need:
            raise _refused(manifest, "one length for each file", f"two for {need.path}")


def rewrite_manifest(
    manifest: ManifestFile, content: bytes, warehouse: str, amended: Mapping[str, Amended]
) -> tuple[bytes, EntryTotals]:
    """Rewrites a manifest for cold; returns its content and the totals of its live files.

    Args:
        manifest: Its entry in its list.
        content: The original.
        warehouse: The folder of the cold catalog.
        amended: Changes for rewritten files, by their path in hot: for all live ones it names.

    Raises:
        MetadataUnreadable: It differs from its list's entry, or a path cannot be mirrored.
    """
    records = [record for record, _ in entries(manifest, content)]
    live: dict[str, int] = {}
    rows = 0
    with refusing(manifest):
        for record in records:
            file = record["data_file"]
            path = file["file_path"]
            is_live = record["status"] != EntryStatus.DELETED
            _turn(file, warehouse, amended[path] if is_live and _is_rewritten(file) else None)
            if is_live:
                live[path] = file["file_size_in_bytes"]
                rows += file["record_count"] if _content(file) == _DATA else 0
        new = AvroFile.read(content).with_records(records, {})
    return new, EntryTotals(len(live), sum(live.values()), rows)


def totals_of(path: str, content: bytes) -> EntryTotals:
    """Returns the totals of a cold manifest. Raises MetadataUnreadable if it is no manifest."""
    live: dict[str, int] = {}
    rows = 0
    for record, _ in entries(ManifestFile(path, len(content)), content):
        file = record["data_file"]
        if record["status"] != EntryStatus.DELETED:
            live[file["file_path"]] = file["file_size_in_bytes"]
            rows += file["record_count"] if _content(file) == _DATA else 0
    return EntryTotals(len(live), sum(live.values()), rows)


def entries(manifest: ManifestFile, content: bytes) -> Iterator[tuple[Record, bytes]]:
    """Yields a manifest's entries with their bytes; compares length and counts with its list."""
    if manifest.bytes and len(content) != manifest.bytes:
        raise _refused(manifest, f"{manifest.bytes} bytes", f"{len(content)} bytes")
    counted: Counter[int] = Counter()
    with refusing(manifest):
        for record, encoded in AvroFile.read(content).encoded_records():
            if record["data_file"].get("key_metadata") is not None:
                raise ValueError("an entry of an encrypted file")
            counted[record["status"]] += 1
            yield record, encoded
    for status, count in {
        EntryStatus.ADDED: manifest.added_files,
        EntryStatus.EXISTING: manifest.existing_files,
        EntryStatus.DELETED: manifest.deleted_files,
    }.items():
        if count is not None and count != counted[status]:
            raise _refused(manifest, f"{count} {status.name} entries", str(counted[status]))


def _content(file: Record) -> int:
    return file.get("content") or _DATA


def _format(file: Record) -> str:
    return str(file["file_format"]).upper()


def _is_rewritten(file: Record) -> bool:
    return _content(file) == _POSITION_DELETES


def _need(manifest: ManifestFile, file: Record) -> Need:
    file_format = _format(file)
    if _is_rewritten(file):
        if file_format not in REWRITABLE:
            shape = f"position deletes in {file_format}: {file['file_path']}"
            raise _refused(manifest, f"position deletes in {', '.join(sorted(REWRITABLE))}", shape)
        return Need(file_format)
    if file_format not in _COPIED_FORMATS or _content(file) not in (0, 2):
        shape = f"content {_content(file)} in {file_format}: {file['file_path']}"
        raise _refused(manifest, "data and delete files of formats 1 to 3", shape)
    return Need.COPY


def _turn(file: Record, warehouse: str, amended: Amended | None) -> None:
    """Replaces an entry's paths with those of the copy; a deleted entry keeps its length."""
    file["file_path"] = mirrored(file["file_path"], warehouse)
    if referenced := file.get("referenced_data_file"):
        file["referenced_data_file"] = mirrored(referenced, warehouse)
    if amended is not None:
        file["file_size_in_bytes"] = amended.bytes
        if file.get("split_offsets") is not None and _format(file) != Need.PUFFIN:
            file["split_offsets"] = None  # the row groups begin elsewhere
    if _is_rewritten(file):
        _turn_bounds(file.get("lower_bounds"), amended.lower if amended else "", warehouse)
        _turn_bounds(file.get("upper_bounds"), amended.upper if amended else "", warehouse)


def _turn_bounds(bounds: Sequence[Record] | None, exact: str, warehouse: str) -> None:
    """Replaces the bounds of referenced data files with the paths of their copies."""
    for bound in bounds or ():
        if bound["key"] == _FILE_PATH_ID:
            bound["value"] = (exact or mirrored(bound["value"].decode(), warehouse)).encode()


# --- manifest lists -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColdManifest:
    """A manifest in cold, as manifest lists there describe it."""

    bytes: int
    totals: EntryTotals


def rewrite_list(
    path: str, content: bytes, warehouse: str, manifests: Mapping[str, ColdManifest]
) -> bytes:
    """Rewrites a manifest list for cold.

    Args:
        path: The original's path.
        content: The original.
        warehouse: The folder of the cold catalog.
        manifests: Every manifest it names, by its path in cold.

    Raises:
        MetadataUnreadable: It is not an Avro file that follows the spec.
    """
    with refusing(ManifestFile(path, len(content))):
        file = AvroFile.read(content)
        rows = list(file.records())
        totals = []
        for row in rows:
            if row.get("key_metadata") is not None:
                raise ValueError("an entry of an encrypted manifest")
            row["manifest_path"] = mirrored(row["manifest_path"], warehouse)
            cold = manifests[row["manifest_path"]]
            row["manifest_length"] = cold.bytes
            totals.append([cold.totals.files, cold.totals.bytes, cold.totals.rows])
        return file.with_records(rows, {TOTALS: json.dumps(totals).encode()})


def listed_manifests(path: str, content: bytes) -> dict[str, ColdManifest]:
    """Returns the manifests of a list in cold, by their path.

    Raises:
        MetadataUnreadable: Meltline did not write the list.
    """
    with refusing(ManifestFile(path, len(content))):
        file = AvroFile.read(content)
        totals: Sequence[Sequence[int]] = json.loads(file.header[TOTALS])
        return {
            row["manifest_path"]: ColdManifest(row["manifest_length"], EntryTotals(*total))
            for row, total in zip(file.records(), totals, strict=True)
        }


def is_readable(content: bytes) -> bool:
    """Returns whether the bytes are a complete Avro file."""
    try:
        for _ in AvroFile.read(content).records():
            pass
    except ValueError:
        return False
    return True


def same_records(content: bytes, peer: bytes) -> bool:
    """Returns whether two Avro files have equal records, whatever their blocks and compression.

    Raises:
        ValueError: One is no Avro file; fastavro may raise others.
    """
    file, peer_file = AvroFile.read(content), AvroFile.read(peer)
    same_header = {**file.header, "avro.codec": b""} == {**peer_file.header, "avro.codec": b""}
    return same_header and list(file.records()) == list(peer_file.records())


# --- errors ---------------------------------------------------------------------------------------


@contextmanager
def refusing(manifest: ManifestFile) -> Iterator[None]:
    """Converts library errors about damaged bytes to MetadataUnreadable."""
    try:
        yield
    except MetadataUnreadable:
        raise
    except Exception as error:  # libraries report damage in many ways
        raise _refused(manifest, "an Avro file as the spec has it", cause(error)) from error


def _refused(manifest: ManifestFile, expected: str, problem: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"{manifest.path} cannot be handed over to cold: {problem}",
        object=manifest.path,
        expected=expected,
        found=problem,
        next="its snapshots stay hot; restore the file from a copy, or end the table's cold policy",
    )
