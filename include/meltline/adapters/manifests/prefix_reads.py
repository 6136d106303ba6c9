"""How much of a manifest is read for what it changes.

Writers that merge manifests put the new entries before thousands of old ones. So the front is read
alone: where it does not hold all that the manifest list counts, whoever reads it reads the whole.
"""

from contextlib import suppress

from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import ObjectReader, Prefix

_LARGE = 256 * 1024  # bytes: of a smaller manifest the front is no cheaper than the whole
_BEFORE_ENTRIES = 128 * 1024  # bytes: the header, with the table's schema, and most of a block
_UNEVEN = 1.25  # entries differ in length


def front_length(manifest: ManifestFile) -> int | None:
    """About how many bytes hold what a manifest changes; None where it is to be read whole."""
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    if None in counts or manifest.bytes < _LARGE:
        return None
    added, existing, deleted = (count or 0 for count in counts)
    share = (added + deleted) / max(1, added + existing + deleted)
    length = _BEFORE_ENTRIES + int(manifest.bytes * share * _UNEVEN)
    return length if length < manifest.bytes else None


def read_prefix(store: ObjectReader, manifest: ManifestFile) -> Prefix:
    """As much of a manifest as is likely to hold what it changes. Raises as the store does."""
    length = front_length(manifest)
    if length is not None:
        with suppress(FileNotFoundError, StoreRefused):  # then the whole says why
            return store.read_prefix(manifest.path, length)
    return read_whole(store, manifest)


def read_whole(store: ObjectReader, manifest: ManifestFile) -> Prefix:
    """All of a manifest. Raises as the store does."""
    content = store.read(manifest.path)
    return Prefix(content, len(content))
