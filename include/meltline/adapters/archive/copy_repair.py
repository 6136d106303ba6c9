"""Repairs copies of files that hot's metadata no longer lists, while the originals still exist.

`ColdArchive.mend` calls it; a handoff repairs only what a requested snapshot references.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from meltline.adapters.archive.copies import Brought, Stores
from meltline.adapters.archive.copy_tasks import THREADS, failure_text, settle
from meltline.adapters.archive.rewriting.delete_files import rewritten_before
from meltline.adapters.archive.rewriting.manifests import (
    Amended,
    ColdManifest,
    Need,
    NeededFile,
    listed_manifests,
    needed_files,
    rewrite_list,
    rewrite_manifest,
    totals_of,
)
from meltline.adapters.archive.workers import Crew
from meltline.adapters.manifests.fastavro_reader import read_manifest_list
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind, ManifestFile
from meltline.ports import CopyCache, Mended, Original

_AS_THEY_ARE = (FileKind.DATA, FileKind.EQUALITY_DELETE, FileKind.STATISTICS)
_REWRITTEN = (FileKind.POSITION_DELETE, FileKind.DELETION_VECTOR)


@dataclass(frozen=True)
class ColdMender:
    """Ensures that cold has copies completely and that the copy cache knows them.

    Attributes:
        stores: The hot and the cold store.
        crew: Reads and copies files.
        book: The cache of copy proofs.
    """

    stores: Stores
    crew: Crew
    book: CopyCache

    def mend(self, originals: Sequence[Original]) -> Iterator[Mended]:
        """Repairs files first, then manifests, then lists: each references those before it."""
        yield from self._files([f for f in originals if f.kind in _AS_THEY_ARE + _REWRITTEN])
        for kind, make in (
            (FileKind.MANIFEST, self._manifest),
            (FileKind.MANIFEST_LIST, self._list),
        ):
            yield from self._metadata([f for f in originals if f.kind is kind], make)

    def _files(self, originals: Sequence[Original]) -> Iterator[Mended]:
        needed: dict[str, NeededFile] = {}
        for file in originals:
            try:
                needed[file.path] = _needed(file)
            except ValueError as fault:
                yield Mended(file.path, error=failure_text(file.path, fault))
        for done in self.crew.prove(list(needed.values())):
            yield Mended(done.path, done.is_new and not done.error, done.error)

    def _metadata(
        self, originals: Sequence[Original], make: Callable[[Original], bytes]
    ) -> Iterator[Mended]:
        targets = [self.stores.target(file.path) for file in originals]
        prior = self.book.of(targets)

        def mend_one(file: Original) -> tuple[Mended, CopyProof | None]:
            try:
                brought = self._as_known(file, prior) or settle(self.stores, file.path, make(file))
            except Exception as error:  # libraries report damage in many ways
                return Mended(file.path, error=failure_text(file.path, error)), None
            return Mended(file.path, brought.is_new), brought.proof

        with ThreadPoolExecutor(THREADS) as pool:
            done = list(pool.map(mend_one, originals))
        self.book.save([proof for _, proof in done if proof])
        yield from (mended for mended, _ in done)

    def _as_known(self, file: Original, prior: Mapping[str, CopyProof]) -> Brought | None:
        """Returns the copy if it is the recorded one; None if it must be written again."""
        target = self.stores.target(file.path)
        copy = self.stores.copy_at(target) if target in prior else None
        if copy is None or sha256(copy).hexdigest() != prior[target].sha256:
            return None
        return Brought(False, self.stores.seen(target, copy))

    def _manifest(self, file: Original) -> bytes:
        """Returns a manifest as cold has it, with the lengths and bounds of rewritten deletes."""
        ref, content = ManifestFile(file.path, file.bytes), self.stores.read(file.path)
        amended = {
            needed.path: self._amended(needed)
            for needed in needed_files(ref, content)
            if needed.need is not Need.COPY
        }
        return rewrite_manifest(ref, content, self.stores.warehouse, amended)[0]

    def _amended(self, file: NeededFile) -> Amended:
        content = self.stores.cold.read(self.stores.target(file.path))
        new = rewritten_before(file.need, content)
        return Amended(len(content), new.lower, new.upper)

    def _list(self, file: Original) -> bytes:
        """Returns a list as cold has it, from cold's own list, else from its manifests."""
        content, target = self.stores.read(file.path), self.stores.target(file.path)
        refs = read_manifest_list(file.path, content)
        listed = self._by_own_list(target)
        for ref in refs:
            place = self.stores.target(ref.path)
            if place not in listed:
                copy = self.stores.cold.read(place)
                listed[place] = ColdManifest(len(copy), totals_of(place, copy))
        return rewrite_list(file.path, content, self.stores.warehouse, listed)

    def _by_own_list(self, target: str) -> dict[str, ColdManifest]:
        try:
            return listed_manifests(target, self.stores.copy_at(target) or b"")
        except MeltlineError:
            return {}


def _needed(file: Original) -> NeededFile:
    """Returns the work for a file; a delete file's suffix is its format, as engines write it."""
    if file.kind in _AS_THEY_ARE:
        return NeededFile(file.path, file.bytes, Need.COPY)
    ending = PurePosixPath(file.path).suffix.removeprefix(".").upper()
    return NeededFile(file.path, file.bytes, Need(ending))
