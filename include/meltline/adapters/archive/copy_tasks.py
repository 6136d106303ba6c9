"""What is done for one manifest, and for one file, so that cold has them. Executors do it too."""

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

THREADS = 8  # files that one process copies at a time
_GROUP = 500  # files that get their names together
_SMALL = 128 * 1024  # bytes: of larger ones a sync costs little, and a kill would leave much


@dataclass(frozen=True, slots=True)
class FileDone:
    """What came of one file.

    Attributes:
        path: In hot.
        bytes: Its length in cold.
        lower: Of position deletes, the least data file they name; likewise `upper`.
        is_rewritten: Whether its length, or its bounds, may be others than in hot.
        is_new: Whether cold did not have it before.
        proof: What is known of the copy; None where cold's own manifests vouch for it. Without a
            digest it was found there, and is still to be read.
        error: Why cold does not have it; empty where it does.
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
        """What a manifest in cold says of it."""
        return Amended(self.bytes, self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class ManifestDone:
    """What came of one manifest.

    Attributes:
        path: In hot.
        bytes: Its length in cold.
        totals: What it keeps alive.
        files_copied: Files it names, and itself, that cold did not have before and no manifest
            before it named; likewise `bytes_copied`.
        proof: What is known of its copy.
        error: Why cold does not have it; empty where it does, with everything it keeps alive.
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
    """What a manifest needs in cold.

    Attributes:
        files: What cold is not known to have, each once.
        turned: Its copy, where that can be written once cold has these.
        error: Why it cannot be handed over; empty where it can.
    """

    files: Sequence[NeededFile] = ()
    turned: Turned | None = None
    error: str = ""


def needs_of(
    stores: Stores, manifest: ManifestFile, present: Collection[tuple[str, int]] = frozenset()
) -> Needs:
    """What a manifest needs, but for what cold surely has: by path there, with its length."""
    try:
        read = examined(manifest, stores.read(manifest.path), stores.warehouse, present)
        return Needs(read.missing, read.turned)
    except Exception as error:  # libraries say in many ways that a file is not what it should be
        return Needs(error=failure_text(manifest.path, error))


def files_there(stores: Stores, manifest: str) -> list[tuple[str, int]]:
    """The files, with their lengths, that a manifest of cold keeps alive; none if it is damaged."""
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
    """Has cold hold files; says so where it cannot. An answer for each, in their order.

    Args:
        stores: Hot's and cold's.
        files: Each once.
        threads: How many are copied at a time.
        joined: Makes those that are synced together.
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
    """Reads files that cold has, each with what is known of it; mends those known for damaged.

    Says what came of each, in their order.
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
    """A rewritten file is right where it is the one that was recorded, or what is made anew."""
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
    """What lies in a rewritten file's place; None where that is to be made anew.

    Raises:
        StoreRefused: Something else lies there.
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
    """Has cold hold one manifest, of which it has all files; says so where it cannot."""
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
    """Writes a manifest or list of cold, or finds that it is there, and right.

    Raises:
        StoreRefused: Something else lies in its place; only a damaged copy of what was registered
            once is replaced.
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
    """Why a file could not be handed over, for a person."""
    if isinstance(error, FileNotFoundError):
        return f"{path} is not there"
    return f"{path}: {cause(error)}"


def settled(stores: Stores, prior: Mapping[str, CopyProof], proof: CopyProof) -> bool:
    """Whether a copy need not be read again: it is known, and its store shows it unchanged.

    For a snapshot that is new to cold that says nothing of what hot has under that path now.
    """
    return stores.mends and proof.path in prior and prior[proof.path].like(proof)


def with_copied(done: ManifestDone, files: int, bytes: int) -> ManifestDone:
    """A manifest's outcome with the files that were copied for it."""
    return replace(
        done, files_copied=done.files_copied + files, bytes_copied=done.bytes_copied + bytes
    )
