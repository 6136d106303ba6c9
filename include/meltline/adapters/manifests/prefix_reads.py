"""Prefix reads: only the first part of a manifest is read for the changes of a snapshot.

Ingest uses it. Writers that merge manifests put new entries before thousands of old ones. If the
prefix does not have all entries that the manifest list counts, the caller reads the whole file.
"""

from contextlib import suppress

from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import ObjectReader, Prefix

_LARGE = 256 * 1024  # bytes: a prefix of a smaller manifest is no cheaper than the whole
_BEFORE_ENTRIES = 128 * 1024  # bytes: the header, with the table's schema, and most of a block
_UNEVEN = 1.25  # entries differ in length


def front_length(manifest: ManifestFile) -> int | None:
    """Returns about how many bytes have a manifest's changes; None if it must be read whole."""
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    if None in counts or manifest.bytes < _LARGE:
        return None
    added, existing, deleted = (count or 0 for count in counts)
    share = (added + deleted) / max(1, added + existing + deleted)
    length = _BEFORE_ENTRIES + int(manifest.bytes * share * _UNEVEN)
    return length if length < manifest.bytes else None


def read_prefix(store: ObjectReader, manifest: ManifestFile) -> Prefix:
    """Reads as much of a manifest as is likely to have its changes. Raises as the store does."""
    length = front_length(manifest)
    if length is not None:
        with suppress(FileNotFoundError, StoreRefused):  # then the full read reports why
            return store.read_prefix(manifest.path, length)
    return read_whole(store, manifest)


def read_whole(store: ObjectReader, manifest: ManifestFile) -> Prefix:
    """Reads the whole manifest. Raises as the store does."""
    content = store.read(manifest.path)
    return Prefix(content, len(content))
