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


def entries_of(manifest: ManifestFile) -> int:
    """How many entries a manifest has, as far as its list counts them."""
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    return sum(count or 0 for count in counts)


def is_worth_reading(manifests: Sequence[ManifestFile], few: int) -> bool:
    """Whether manifests repeat so many entries that reading those they replaced costs less."""
    return sum(one.existing_files or 0 for one in manifests) > few


# --- one at a time --------------------------------------------------------------------------------


def needs_of(stores: Stores, manifest: ManifestFile) -> tuple[list[NeededFile], str]:
    """What a manifest needs in cold; or why it cannot be handed over."""
    try:
        found = list(needed_files(manifest, stores.read(manifest.path)))
        for file in found:
            stores.target(file.path)  # one that cannot be mirrored is refused here
        return found, ""
    except Exception as odd:  # libraries say in many ways that a file is not what it should be
        return [], said(manifest.path, odd)


def files_there(stores: Stores, manifest: str) -> list[tuple[str, int]]:
    """The files, with their lengths, that a manifest of cold keeps alive; none if it is damaged."""
    try:
        content = stores.there(manifest)
        found = needed_files(ManifestFile(manifest, 0), content) if content else ()
        return [(file.path, file.bytes) for file in found]
    except Exception:  # then cold is asked for each file
        return []


def bring(stores: Stores, file: NeededFile) -> FileDone:
    """Has cold hold one file; says so where it cannot."""
    try:
        if file.need is Need.COPY:
            brought = stores.copy(file.path, file.bytes)
            return FileDone(file.path, file.bytes, is_new=brought.is_new, proof=brought.proof)
        return _bring_rewritten(stores, file)
    except Exception as odd:
        return FileDone(file.path, error=said(file.path, odd))


def read_again(stores: Stores, file: NeededFile, known: CopyProof | None) -> FileDone:
    """Reads one file that cold has, and mends it where it is known for damaged; says what came."""
    try:
        if file.need is Need.COPY:
            brought = stores.prove(file.path, file.bytes, known)
            return FileDone(file.path, file.bytes, is_new=brought.is_new, proof=brought.proof)
        return _read_rewritten(stores, file, known)
    except Exception as odd:
        return FileDone(file.path, error=said(file.path, odd))


def _bring_rewritten(stores: Stores, file: NeededFile) -> FileDone:
    target, source = stores.target(file.path), source_digest(file.path, file.bytes)
    there = stores.there(target)
    made = _made_before(stores, file, source, there) if there is not None else None
    if made is None:
        return _rewritten_anew(stores, file, source)
    proof = replace(stores.seen(target, made.content), sha256="")
    return _rewritten(file, made, proof, is_new=False)


def _rewritten_anew(stores: Stores, file: NeededFile, source: str) -> FileDone:
    made = _rewrite(stores, file, source)
    return _rewritten(file, made, stores.write(stores.target(file.path), made.content), is_new=True)


def _rewrite(stores: Stores, file: NeededFile, source: str) -> Rewritten:
    content = stores.read(file.path)
    _require(file.path, f"{file.bytes} bytes", f"{len(content)} bytes")
    return rewrite_deletes(file.need, content, source, stores.warehouse)


def _rewritten(file: NeededFile, made: Rewritten, proof: CopyProof, *, is_new: bool) -> FileDone:
    length = len(made.content)
    return FileDone(
        file.path, length, made.lower, made.upper, is_rewritten=True, is_new=is_new, proof=proof
    )


def _read_rewritten(stores: Stores, file: NeededFile, known: CopyProof | None) -> FileDone:
    """A rewritten file is right where it is the one that was recorded, or what is made anew."""
    target, source = stores.target(file.path), source_digest(file.path, file.bytes)
    there = stores.there(target)
    if there is None:
        return _rewritten_anew(stores, file, source)
    is_known = known is not None and known.sha256 == sha256(there).hexdigest()
    if not is_known:
        if same_deletes(file.need, there, _rewrite(stores, file, source).content):
            is_known = True
        elif known is None and not stores.mends:
            _require(target, f"what is made from {file.path}", "something else")
    if not is_known:
        return _rewritten_anew(stores, file, source)
    made = rewritten_before(file.need, there)
    return _rewritten(file, made, stores.seen(target, there), is_new=False)


def _made_before(stores: Stores, file: NeededFile, source: str, there: bytes) -> Rewritten | None:
    """What lies in a rewritten file's place; None where that is to be made anew.

    Raises:
        StoreRefused: Something else lies there.
    """
    try:
        made = rewritten_before(file.need, there)
    except Exception:
        if stores.mends:
            return None
        raise
    _require(stores.target(file.path), f"made from {source}", f"made from {made.source}")
    return made


def write_manifest(
    stores: Stores, manifest: ManifestFile, amended: Mapping[str, Amended]
) -> ManifestDone:
    """Has cold hold one manifest, of which it has all files; says so where it cannot."""
    try:
        content = stores.read(manifest.path)
        made, totals = rewrite_manifest(manifest, content, stores.warehouse, amended)
        brought = settle(stores, manifest.path, made)
        length = brought.proof.bytes
        copied = (1, length) if brought.is_new else (0, 0)
        return ManifestDone(manifest.path, length, totals, *copied, proof=brought.proof)
    except Exception as odd:
        return ManifestDone(manifest.path, error=said(manifest.path, odd))


def settle(stores: Stores, path: str, made: bytes) -> Brought:
    """Writes a manifest or list of cold, or finds that it is there, and right.

    Raises:
        StoreRefused: Something else lies in its place; only a damaged copy of what was registered
            once is replaced.
    """
    target = stores.target(path)
    there = stores.there(target)
    if there is None or (stores.mends and not _is_copy(there, made)):
        return Brought(True, stores.write(target, made))
    if there != made and not same_records(there, made):
        _require(target, f"the copy of {path}", "something else")
    return Brought(False, stores.seen(target, there))


def _is_copy(there: bytes, made: bytes) -> bool:
    return there == made or (is_readable(there) and same_records(there, made))


def _require(path: str, expected: str, found: str) -> None:
    if expected != found:
        raise StoreRefused(
            f"{path} is not what it should be: {found}, not {expected}",
            object=path,
            expected=expected,
            found=found,
            next="its snapshots stay hot; nothing in cold is ever replaced",
        )


def said(path: str, odd: Exception) -> str:
    """Why a file could not be handed over, for a person."""
    if isinstance(odd, FileNotFoundError):
        return f"{path} is not there"
    return f"{path}: {cause(odd)}"


def settled(stores: Stores, known: Mapping[str, CopyProof], found: CopyProof) -> bool:
    """Whether a copy need not be read again: it is known, and its store shows it unchanged.

    For a snapshot that is new to cold that says nothing of what hot has under that path now.
    """
    return stores.mends and found.path in known and known[found.path].like(found)


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
        """Has cold hold each manifest. See the port."""
        read = {one.path: needs_of(self._stores, one) for one in manifests}
        needed = dict.fromkeys(file for found, _ in read.values() for file in found)
        done = self._there(needed, replaced if is_worth_reading(manifests, self._few) else ())
        files = [file for file in needed if file not in done]
        for start in range(0, len(files), _PORTION):
            if not may_go_on():
                return None
            done |= self._bring(files[start : start + _PORTION])
        credited: set[str] = set()
        outcomes = {}
        for one in manifests:
            needs, error = read[one.path]
            wrong = error or next((done[file].error for file in needs if done[file].error), "")
            brought = [done[file] for file in needs]
            outcomes[one.path] = (
                ManifestDone(one.path, error=wrong)
                if wrong
                else self._finish(one, brought, credited)
            )
        self._book.save([one.proof for one in outcomes.values() if one.proof])
        return outcomes

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        """Has cold hold the right bytes of files. See the port."""
        return list(self._bring(files).values())

    def _there(
        self, needed: Iterable[NeededFile], replaced: Sequence[str]
    ) -> dict[NeededFile, FileDone]:
        """What cold has by the word of its own manifests."""
        there = {found for path in replaced for found in files_there(self._stores, path)}
        return {
            file: FileDone(file.path, file.bytes)
            for file in (needed if there else ())
            if file.need is Need.COPY and (self._stores.target(file.path), file.bytes) in there
        }

    def _bring(self, files: Sequence[NeededFile]) -> dict[NeededFile, FileDone]:
        with ThreadPoolExecutor(self._threads) as pool:
            done = dict(zip(files, pool.map(partial(bring, self._stores), files), strict=True))
            unread = {f: d.proof for f, d in done.items() if d.proof and not d.proof.sha256}
            known = self._book.of([found.path for found in unread.values()])
            doubtful = [f for f, d in unread.items() if not settled(self._stores, known, d)]
            proofs = [known.get(unread[file].path) for file in doubtful]
            again = pool.map(partial(read_again, self._stores), doubtful, proofs)
            done |= zip(doubtful, again, strict=True)
        self._book.save([d.proof for d in done.values() if d.proof and d.proof.sha256])
        return done

    def _finish(
        self, manifest: ManifestFile, files: Sequence[FileDone], credited: set[str]
    ) -> ManifestDone:
        amended = {file.path: file.amended for file in files if file.is_rewritten}
        done = write_manifest(self._stores, manifest, amended)
        new = [file for file in files if file.is_new and file.path not in credited]
        credited.update(file.path for file in new)
        return with_copied(done, len(new), sum(file.bytes for file in new))


def with_copied(done: ManifestDone, files: int, bytes: int) -> ManifestDone:
    """A manifest's outcome with the files that were copied for it."""
    return replace(
        done, files_copied=done.files_copied + files, bytes_copied=done.bytes_copied + bytes
    )
