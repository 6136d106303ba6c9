"""Reads copies and their originals for the gate, with a reader that the archive does not use.

The gate calls it. It reads through PyIceberg, for a fault of the archive's own reader must not
hide a fault of its copies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest

from meltline.adapters.manifests.pyiceberg_reader import (
    ListedManifest,
    LiveFile,
    listed_manifests,
    live_files,
)
from meltline.concurrency import thread_map
from meltline.domain.archive.cold_paths import lies_under, mirrored
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.locations import location_key
from meltline.ports import (
    CopiedManifest,
    ListedCopy,
    ManifestPair,
    ObjectReader,
    StoredObject,
)

_SHOWN = 5
_KINDS = (FileKind.DATA, FileKind.POSITION_DELETE, FileKind.EQUALITY_DELETE)
_REWRITTEN = 1
"""Content type of delete files that name data files: their copies have other paths and bytes."""


class StoreCopyReader:
    """The port `CopyReader` over the object stores.

    Args:
        hot: The store of the originals.
        cold: The store of the copies.
    """

    def __init__(self, hot: ObjectReader, cold: ObjectReader) -> None:
        self._hot = hot
        self._cold = cold

    def lists(
        self, manifest_lists: Sequence[str], *, of_copies: bool
    ) -> Mapping[str, tuple[ListedCopy, ...] | str]:
        """Returns the manifests of each list, or why it cannot be read."""
        store = self._cold if of_copies else self._hot
        answers = thread_map(lambda path: _listed(store, path), manifest_lists)
        return dict(zip(manifest_lists, answers, strict=True))

    def differences(self, pairs: Sequence[ManifestPair], warehouse: str) -> Sequence[str]:
        """Returns the differences between copies and originals."""

        def compare(pair: ManifestPair) -> list[str]:
            try:
                entries = zip_longest(_live(self._hot, pair.hot), _live(self._cold, pair.cold))
                lines = islice(_differing(entries, warehouse), _SHOWN)
                return [f"{pair.cold.path}: {difference}" for difference in lines]
            except (MeltlineError, OSError, ValueError) as error:
                return [_why(pair.cold.path, error)]

        return [line for lines in thread_map(compare, pairs) for line in lines]

    def alive(
        self, manifests: Sequence[ListedCopy], paths: Sequence[str], *, of_copies: bool
    ) -> set[str]:
        """Returns the paths that the manifests keep alive; all if a manifest is unreadable."""
        keys = {location_key(path): path for path in paths}
        store = self._cold if of_copies else self._hot

        def look(manifest: ListedCopy) -> set[str]:
            try:
                return {location_key(file.path) for file in _live(store, manifest)} & keys.keys()
            except (MeltlineError, OSError):
                return set(keys)

        return {keys[key] for keys_alive in thread_map(look, manifests) for key in keys_alive}

    def unequal(self, paths: Sequence[str], warehouse: str) -> Sequence[str]:
        """Returns which files of hot have a copy that differs or cannot be read."""

        def compare(path: str) -> str:
            copy = mirrored(path, warehouse)
            try:
                original = self._hot.read(path)
            except FileNotFoundError:
                return ""  # a killed purge had deleted it: nothing is at stake
            except (MeltlineError, OSError) as error:
                return _why(path, error)
            try:
                return "" if original == self._cold.read(copy) else f"{copy} differs"
            except (MeltlineError, OSError) as error:
                return _why(copy, error)

        return [problem for problem in thread_map(compare, paths) if problem]

    def audit(self, manifests: Sequence[ListedCopy], warehouse: str) -> Sequence[CopiedManifest]:
        """Reads manifests of cold, and checks in the store each file that they keep alive."""
        return list(thread_map(lambda manifest: self._audit(manifest, warehouse), manifests))

    def _audit(self, manifest: ListedCopy, warehouse: str) -> CopiedManifest:
        try:
            live = _live(self._cold, manifest)
        except (MeltlineError, OSError) as error:
            return CopiedManifest(manifest.path, problems=(_why(manifest.path, error),))
        shown, misplaced = list[StoredObject](), list[str]()
        absent = list[tuple[str, FileKind]]()
        for file in live:
            shown_file = self._looked_for(file, warehouse)
            if isinstance(shown_file, str):
                misplaced.append(shown_file)
                absent.append((file.path, _KINDS[file.content]))
            else:
                shown.append(shown_file)
        return CopiedManifest(
            manifest.path,
            files=len(live),
            bytes=sum(file.bytes for file in live),
            rows=sum(file.rows for file in live if not file.is_delete),
            shown=tuple(shown),
            absent=tuple(absent),
            problems=tuple(misplaced[:_SHOWN]),
        )

    def _looked_for(self, file: LiveFile, warehouse: str) -> StoredObject | str:
        """Returns a file as the store shows it, or why it is not as expected."""
        if outside := _outside(file, warehouse):
            return f"{outside} is not below {warehouse}"
        try:
            copy = self._cold.measure(file.path)
        except (MeltlineError, OSError) as error:
            return _why(file.path, error)
        if copy is None or copy.bytes != file.bytes:
            size = "no" if copy is None else copy.bytes
            return f"{file.path} has {size} bytes, not {file.bytes}"
        return copy


def _listed(store: ObjectReader, path: str) -> tuple[ListedCopy, ...] | str:
    try:
        listed = listed_manifests(path, store.read(path))
    except (MeltlineError, OSError) as error:
        return _why(path, error)
    return tuple(ListedCopy(m.path, m.bytes, m.added_by) for m in listed)


def _live(store: ObjectReader, manifest: ListedCopy) -> tuple[LiveFile, ...]:
    listed = ListedManifest(manifest.path, manifest.bytes, None)
    return live_files(listed, store.read(manifest.path))


def _differing(
    entries: Iterable[tuple[LiveFile | None, LiveFile | None]], warehouse: str
) -> Iterator[str]:
    for hot, cold in entries:
        if hot is None or cold is None:
            yield f"one side has more files than the other: {(hot or cold)!r}"
            return
        if cold.path != mirrored(hot.path, warehouse):
            yield f"{cold.path} is not where the copy of {hot.path} belongs"
        elif (hot.content, hot.rows) != (cold.content, cold.rows):
            yield f"{hot.path} has {hot.rows} rows, its copy {cold.rows}"
        elif hot.content != _REWRITTEN and hot.bytes != cold.bytes:
            yield f"{hot.path} has {hot.bytes} bytes, its copy {cold.bytes}"
        elif outside := _outside(cold, warehouse):
            yield f"{outside} is not below {warehouse}"


def _outside(file: LiveFile, warehouse: str) -> str:
    """Returns a path of an entry that is outside cold."""
    paths = [path for path in (file.path, file.refers_to) if path]
    return next((path for path in paths if not lies_under(path, warehouse)), "")


def _why(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path} is missing"
    reason = f"{error.message}: {error.found}" if isinstance(error, MeltlineError) else repr(error)
    return f"{path}: {reason}"
