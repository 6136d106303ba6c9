"""Copies one file, or rewrites one manifest, so that cold has it.

Called by the workers of this process and by Spark executors, so it depends on neither.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

from meltline.adapters.archive.copies import Brought, Sent, Stores
from meltline.adapters.archive.rewriting.delete_files import (
    Rewritten,
    rewrite_deletes,
    rewritten_before,
    same_deletes,
    source_digest,
)
from meltline.adapters.archive.rewriting.manifests import (
    Amended,
    EntryTotals,
    Need,
    NeededFile,
    is_readable,
    rewrite_manifest,
    same_records,
)
from meltline.adapters.archive.rewriting.turned_manifests import Turned, examined
from meltline.adapters.manifests.fastavro_reader import read_manifest
from meltline.adapters.object_store.local_writes import Together
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import EntryStatus, ManifestFile
from meltline.domain.redaction import cause

THREADS = 8  # files that one process copies concurrently
_GROUP = 500  # files that are renamed to their final names together
_SMALL = 128 * 1024  # bytes; for larger files a sync costs little, and a kill would leave much


@dataclass(frozen=True, slots=True)
class FileDone:
    """Result of copying one file.

    Attributes:
        path: In hot.
        bytes: Its length in cold.
        lower: The least data file that position deletes name; likewise `upper`.
        is_rewritten: Whether its length or bounds may differ from those in hot.
        is_new: Whether cold lacked it before.
        proof: The copy's proof; None if cold's own manifests vouch for it. Without a digest, the
            copy existed already and must still be read.
        error: Why cold does not have it; empty if it does.
    """

    path: str
    bytes: int = 0
    lower: str = ""
    upper: str = ""
    is_rewritten: bool = False
    is_new: bool = False
    proof: CopyProof | None = None
    error: str = ""

    @property
    def amended(self) -> Amended:
        """Returns the fields that its manifest in cold changes."""
        return Amended(self.bytes, self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class ManifestDone:
    """Result of rewriting one manifest.

    Attributes:
        path: In hot.
        bytes: Its length in cold.
        totals: Totals of its live files.
        files_copied: New files in cold, itself included, that no manifest before it named;
            likewise `bytes_copied`.
        proof: The copy's proof.
        error: Why cold does not have it; empty if cold has it and all of its live files.
    """

    path: str
    bytes: int = 0
    totals: EntryTotals = field(default_factory=EntryTotals)
    files_copied: int = 0
    bytes_copied: int = 0
    proof: CopyProof | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """Files that cold needs before it can have a manifest.

    Attributes:
        files: Files that cold is not known to have, each once.
        turned: The manifest's copy, if it can be written once cold has these files.
        error: Why it cannot be archived; empty if it can.
    """

    files: Sequence[NeededFile] = ()
    turned: Turned | None = None
    error: str = ""


def needs_of(
    stores: Stores, manifest: ManifestFile, present: Collection[tuple[str, int]] = frozenset()
) -> Needs:
    """Returns a manifest's needs, except files that cold has, by path and length there."""
    try:
        read = examined(manifest, stores.read(manifest.path), stores.warehouse, present)
        return Needs(read.missing, read.turned)
    except Exception as error:  # libraries report damage in many ways
        return Needs(error=failure_text(manifest.path, error))


def files_there(stores: Stores, manifest: str) -> list[tuple[str, int]]:
    """Returns paths and lengths of a cold manifest's live files; empty if it is damaged."""
    try:
        entries = read_manifest(manifest, stores.copy_at(manifest) or b"")
        return [(file.path, file.bytes) for file in entries if file.status != EntryStatus.DELETED]
    except Exception:  # then cold is asked for each file
        return []


def bring(
    stores: Stores,
    files: Iterable[NeededFile],
    threads: int = THREADS,
    joined: Callable[[], Together] = Together,
) -> Iterator[FileDone]:
    """Copies files to cold, and yields a result or an error for each, in their order.

    Args:
        stores: The hot and the cold store.
        files: Each once.
        threads: How many are copied concurrently.
        joined: Creates a group of files that are synced together.
    """
    waiting = list(files)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(waiting), _GROUP):
            group = waiting[start : start + _GROUP]
            with joined() as together:
                begun = list(pool.map(partial(_begin, stores, together), group))
                failures = together.settle()
                yield from pool.map(partial(_finish, stores, failures), group, begun)


def _begin(stores: Stores, together: Together, file: NeededFile) -> FileDone | Sent:
    try:
        if file.need is not Need.COPY:
            return _bring_rewritten(stores, file)
        begun = stores.begin(file.path, file.bytes, together if file.bytes <= _SMALL else None)
        return begun if isinstance(begun, Sent) else _copied(file, begun)
    except Exception as error:
        return _failed(file, error)


def _finish(
    stores: Stores, failures: Mapping[str, str], file: NeededFile, begun: FileDone | Sent
) -> FileDone:
    if isinstance(begun, FileDone):
        return begun
    try:
        _require(begun.target, "on disk", failures.get(begun.target, "on disk"))
        return _copied(file, stores.finish(begun))
    except Exception as error:
        return _failed(file, error)


def _copied(file: NeededFile, brought: Brought) -> FileDone:
    return FileDone(file.path, file.bytes, is_new=brought.is_new, proof=brought.proof)


def _failed(file: NeededFile, error: Exception) -> FileDone:
    return FileDone(file.path, error=failure_text(file.path, error))


def read_again(
    stores: Stores, files: Mapping[NeededFile, CopyProof | None], threads: int = THREADS
) -> Iterator[FileDone]:
    """Reads files that cold has, compares them with their proofs, and repairs damaged ones.

    Yields a result for each, in their order.
    """
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(partial(_read_again, stores), files, files.values())


def _read_again(stores: Stores, file: NeededFile, prior: CopyProof | None) -> FileDone:
    try:
        if file.need is Need.COPY:
            return _copied(file, stores.prove(file.path, file.bytes, prior))
        return _read_rewritten(stores, file, prior)
    except Exception as error:
        return _failed(file, error)


def _bring_rewritten(stores: Stores, file: NeededFile) -> FileDone:
    target, source = stores.target(file.path), source_digest(file.path, file.bytes)
    copy = stores.copy_at(target)
    new = _made_before(stores, file, source, copy) if copy is not None else None
    if new is None:
        return _rewritten_anew(stores, file, source)
    proof = replace(stores.seen(target, new.content), sha256="")
    return _rewritten(file, new, proof, is_new=False)


def _rewritten_anew(stores: Stores, file: NeededFile, source: str) -> FileDone:
    new = _rewrite(stores, file, source)
    return _rewritten(file, new, stores.write(stores.target(file.path), new.content), is_new=True)


def _rewrite(stores: Stores, file: NeededFile, source: str) -> Rewritten:
    content = stores.read(file.path)
    _require(file.path, f"{file.bytes} bytes", f"{len(content)} bytes")
    return rewrite_deletes(file.need, content, source, stores.warehouse)


def _rewritten(file: NeededFile, new: Rewritten, proof: CopyProof, *, is_new: bool) -> FileDone:
    length = len(new.content)
    return FileDone(
        file.path, length, new.lower, new.upper, is_rewritten=True, is_new=is_new, proof=proof
    )


def _read_rewritten(stores: Stores, file: NeededFile, prior: CopyProof | None) -> FileDone:
    """Accepts a rewritten file that has the recorded digest, or equals a new rewrite."""
    target, source = stores.target(file.path), source_digest(file.path, file.bytes)
    copy = stores.copy_at(target)
    if copy is None:
        return _rewritten_anew(stores, file, source)
    is_known = prior is not None and prior.sha256 == sha256(copy).hexdigest()
    if not is_known:
        if same_deletes(file.need, copy, _rewrite(stores, file, source).content):
            is_known = True
        elif prior is None and not stores.mends:
            _require(target, f"what is made from {file.path}", "something else")
    if not is_known:
        return _rewritten_anew(stores, file, source)
    new = rewritten_before(file.need, copy)
    return _rewritten(file, new, stores.seen(target, copy), is_new=False)


def _made_before(stores: Stores, file: NeededFile, source: str, copy: bytes) -> Rewritten | None:
    """Returns the existing copy of a rewritten file; None if it must be written again.

    Raises:
        StoreRefused: The path has other content.
    """
    try:
        new = rewritten_before(file.need, copy)
    except Exception:
        if stores.mends:
            return None
        raise
    _require(stores.target(file.path), f"made from {source}", f"made from {new.source}")
    return new


def write_manifest(
    stores: Stores,
    manifest: ManifestFile,
    amended: Mapping[str, Amended],
    turned: Turned | None = None,
) -> ManifestDone:
    """Writes one manifest to cold, once cold has all of its files; reports any error."""
    try:
        new = turned or _turned(stores, manifest, amended)
        brought = settle(stores, manifest.path, new.content)
        length = brought.proof.bytes
        copied = (1, length) if brought.is_new else (0, 0)
        return ManifestDone(manifest.path, length, new.totals, *copied, proof=brought.proof)
    except Exception as error:
        return ManifestDone(manifest.path, error=failure_text(manifest.path, error))


def _turned(stores: Stores, manifest: ManifestFile, amended: Mapping[str, Amended]) -> Turned:
    content = stores.read(manifest.path)
    if not amended and (turned := examined(manifest, content, stores.warehouse).turned):
        return turned
    return Turned(*rewrite_manifest(manifest, content, stores.warehouse, amended))


def settle(stores: Stores, path: str, content: bytes) -> Brought:
    """Writes a manifest or list to cold, or verifies the existing one.

    Raises:
        StoreRefused: The path has other content; only a damaged copy of a registered file is
            replaced.
    """
    target = stores.target(path)
    copy = stores.copy_at(target)
    if copy is None or (stores.mends and not _is_copy(copy, content)):
        return Brought(True, stores.write(target, content))
    if copy != content and not same_records(copy, content):
        _require(target, f"the copy of {path}", "something else")
    return Brought(False, stores.seen(target, copy))


def _is_copy(copy: bytes, content: bytes) -> bool:
    return copy == content or (is_readable(copy) and same_records(copy, content))


def _require(path: str, expected: str, actual: str) -> None:
    if expected != actual:
        raise StoreRefused(
            f"{path} is not what it should be: {actual}, not {expected}",
            object=path,
            expected=expected,
            found=actual,
            next="its snapshots stay hot; nothing in cold is ever replaced",
        )


def failure_text(path: str, error: Exception) -> str:
    """Returns why a file could not be archived, for the operator."""
    if isinstance(error, FileNotFoundError):
        return f"{path} is not there"
    return f"{path}: {cause(error)}"


def settled(stores: Stores, prior: Mapping[str, CopyProof], proof: CopyProof) -> bool:
    """Returns whether a copy need not be read again: its proof is known, and the store agrees.

    Never so for a snapshot that is new to cold: hot may have another file under that path now.
    """
    return stores.mends and proof.path in prior and prior[proof.path].like(proof)


def with_copied(done: ManifestDone, files: int, bytes: int) -> ManifestDone:
    """Adds the files that were copied for a manifest to its result."""
    return replace(
        done, files_copied=done.files_copied + files, bytes_copied=done.bytes_copied + bytes
    )
