"""What is done for one manifest, and for one file, so that cold has them. Executors do it too."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Protocol

from meltline.adapters.archive.copies import Brought, Stores
from meltline.adapters.archive.delete_files import (
    Rewritten,
    rewrite_deletes,
    rewritten_before,
    same_deletes,
    source_digest,
)
from meltline.adapters.archive.manifests import (
    Amended,
    Need,
    NeededFile,
    Totals,
    is_readable,
    needed_files,
    rewrite_manifest,
    same_records,
)
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.discretion import cause
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import CopyCache

THREADS = 8  # files that one process copies at a time
_FEW = 500  # entries that cold is asked for one by one
_PORTION = 10_000  # files, between two questions whether to go on


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
    totals: Totals = field(default_factory=Totals)
    files_copied: int = 0
    bytes_copied: int = 0
    proof: CopyProof | None = None
    error: str = ""


class Crew(Protocol):
    """Those who rewrite manifests, and copy what they name."""

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        """Has cold hold each manifest, once it has all files that the manifest keeps alive.

        Args:
            manifests: As hot's lists name them.
            may_go_on: Asked now and then; after a no nothing new is begun.
            replaced: Manifests of registered snapshots, by their path in cold, that these may
                repeat: cold has what they name, and need not be asked for each of those files.

        Returns:
            What came of each, by its path in hot; None where a no ended it before its time. What
            is known of each copy is in the book by then.
        """
        ...

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        """Has cold hold the right bytes of files, and the book know them; what is there is read.

        What the book knows and the store shows unchanged is not read, where that can be trusted.
        """
        ...


def is_worth_reading(manifests: Sequence[ManifestFile], few: int) -> bool:
    """Whether manifests repeat so many entries that reading those they replaced costs less."""
    return sum(manifest.existing_files or 0 for manifest in manifests) > few


# --- one at a time --------------------------------------------------------------------------------


def needs_of(stores: Stores, manifest: ManifestFile) -> tuple[list[NeededFile], str]:
    """What a manifest needs in cold; or why it cannot be handed over."""
    try:
        files = list(needed_files(manifest, stores.read(manifest.path)))
        for file in files:
            stores.target(file.path)  # one that cannot be mirrored is refused here
        return files, ""
    except Exception as error:  # libraries say in many ways that a file is not what it should be
        return [], failure_text(manifest.path, error)


def files_there(stores: Stores, manifest: str) -> list[tuple[str, int]]:
    """The files, with their lengths, that a manifest of cold keeps alive; none if it is damaged."""
    try:
        content = stores.copy_at(manifest)
        files = needed_files(ManifestFile(manifest, 0), content) if content else ()
        return [(file.path, file.bytes) for file in files]
    except Exception:  # then cold is asked for each file
        return []


def bring(stores: Stores, file: NeededFile) -> FileDone:
    """Has cold hold one file; says so where it cannot."""
    try:
        if file.need is Need.COPY:
            brought = stores.copy(file.path, file.bytes)
            return FileDone(file.path, file.bytes, is_new=brought.is_new, proof=brought.proof)
        return _bring_rewritten(stores, file)
    except Exception as error:
        return FileDone(file.path, error=failure_text(file.path, error))


def read_again(stores: Stores, file: NeededFile, prior: CopyProof | None) -> FileDone:
    """Reads one file that cold has, and mends it where it is known for damaged; says what came."""
    try:
        if file.need is Need.COPY:
            brought = stores.prove(file.path, file.bytes, prior)
            return FileDone(file.path, file.bytes, is_new=brought.is_new, proof=brought.proof)
        return _read_rewritten(stores, file, prior)
    except Exception as error:
        return FileDone(file.path, error=failure_text(file.path, error))


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
    stores: Stores, manifest: ManifestFile, amended: Mapping[str, Amended]
) -> ManifestDone:
    """Has cold hold one manifest, of which it has all files; says so where it cannot."""
    try:
        content = stores.read(manifest.path)
        rewritten, totals = rewrite_manifest(manifest, content, stores.warehouse, amended)
        brought = settle(stores, manifest.path, rewritten)
        length = brought.proof.bytes
        copied = (1, length) if brought.is_new else (0, 0)
        return ManifestDone(manifest.path, length, totals, *copied, proof=brought.proof)
    except Exception as error:
        return ManifestDone(manifest.path, error=failure_text(manifest.path, error))


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


# --- in this process ------------------------------------------------------------------------------


class LocalCrew:
    """Works in this process: for few files, and for tests."""

    def __init__(
        self, stores: Stores, book: CopyCache, threads: int = THREADS, few: int = _FEW
    ) -> None:
        self._stores = stores
        self._book = book
        self._threads = threads
        self._few = few

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        needs = {manifest: needs_of(self._stores, manifest) for manifest in manifests}
        files = dict.fromkeys(file for of, _ in needs.values() for file in of)
        done = self._cold_files(files, replaced if is_worth_reading(manifests, self._few) else ())
        missing = [file for file in files if file not in done]
        for start in range(0, len(missing), _PORTION):
            if not may_go_on():
                return None
            done |= self._bring(missing[start : start + _PORTION])
        return self._finished(needs, done)

    def _finished(
        self,
        needs: Mapping[ManifestFile, tuple[Sequence[NeededFile], str]],
        done: Mapping[NeededFile, FileDone],
    ) -> Mapping[str, ManifestDone]:
        """What came of manifests, written once their files are there; each file counts once."""
        credited: set[str] = set()
        outcomes = {
            manifest.path: self._finish(manifest, error, [done[file] for file in files], credited)
            for manifest, (files, error) in needs.items()
        }
        self._book.save([outcome.proof for outcome in outcomes.values() if outcome.proof])
        return outcomes

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        return list(self._bring(files).values())

    def _cold_files(
        self, needed: Iterable[NeededFile], replaced: Sequence[str]
    ) -> dict[NeededFile, FileDone]:
        """What cold has by the word of its own manifests."""
        present = {copy for path in replaced for copy in files_there(self._stores, path)}
        return {
            file: FileDone(file.path, file.bytes)
            for file in (needed if present else ())
            if file.need is Need.COPY and (self._stores.target(file.path), file.bytes) in present
        }

    def _bring(self, files: Sequence[NeededFile]) -> dict[NeededFile, FileDone]:
        with ThreadPoolExecutor(self._threads) as pool:
            done = dict(zip(files, pool.map(partial(bring, self._stores), files), strict=True))
            doubtful = self._doubtful(done)
            again = pool.map(partial(read_again, self._stores), doubtful, doubtful.values())
            done |= zip(doubtful, again, strict=True)
        self._book.save([d.proof for d in done.values() if d.proof and d.proof.sha256])
        return done

    def _doubtful(self, done: Mapping[NeededFile, FileDone]) -> dict[NeededFile, CopyProof | None]:
        """What was found in cold and has to be read, with what the book knows of it."""
        unread = {f: d.proof for f, d in done.items() if d.proof and not d.proof.sha256}
        prior = self._book.of([proof.path for proof in unread.values()])
        return {
            file: prior.get(proof.path)
            for file, proof in unread.items()
            if not settled(self._stores, prior, proof)
        }

    def _finish(
        self, manifest: ManifestFile, error: str, files: Sequence[FileDone], credited: set[str]
    ) -> ManifestDone:
        if wrong := error or _first_error(files):
            return ManifestDone(manifest.path, error=wrong)
        amended = {file.path: file.amended for file in files if file.is_rewritten}
        done = write_manifest(self._stores, manifest, amended)
        new = [file for file in files if file.is_new and file.path not in credited]
        credited.update(file.path for file in new)
        return with_copied(done, len(new), sum(file.bytes for file in new))


def _first_error(files: Sequence[FileDone]) -> str:
    return next((file.error for file in files if file.error), "")


def with_copied(done: ManifestDone, files: int, bytes: int) -> ManifestDone:
    """A manifest's outcome with the files that were copied for it."""
    return replace(
        done, files_copied=done.files_copied + files, bytes_copied=done.bytes_copied + bytes
    )
