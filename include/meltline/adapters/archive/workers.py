"""Workers that copy data files and rewrite manifests for one archive batch.

The protocols are here, with the workers of this process; `spark_archive` has those on executors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import (
    THREADS,
    FileDone,
    ManifestDone,
    Needs,
    bring,
    files_there,
    needs_of,
    read_again,
    settled,
    with_copied,
    write_manifest,
)
from meltline.adapters.archive.rewriting.manifests import NeededFile
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.iceberg.files import ManifestFile
from meltline.ports import CopyCache

_FEW = 500  # entries that cold is asked for one by one
_PORTION = 50_000  # files, between two checks whether to continue


class Crew(Protocol):
    """Workers that rewrite manifests and copy the files in them."""

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        """Writes each manifest to cold, once cold has all of its live files.

        Args:
            manifests: Their entries in hot's lists.
            may_go_on: Asked regularly; after False no new work begins.
            replaced: Manifests of registered snapshots, by their path in cold, whose entries these
                may repeat: cold has those files, and need not be asked for each.

        Returns:
            The result of each, by its path in hot; None if it was told to stop early. The proof of
            each copy is in the cache by then.
        """
        ...

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        """Ensures that cold has the right bytes of files; reads existing copies, caches proofs.

        Does not read a copy whose proof is cached and which the store shows unchanged, if that can
        be trusted.
        """
        ...


def is_worth_reading(manifests: Sequence[ManifestFile], few: int) -> bool:
    """Returns whether reading replaced manifests is cheaper than asking for each entry."""
    return sum(manifest.existing_files or 0 for manifest in manifests) > few


class Hands(Protocol):
    """Workers that copy and read files, with a result for each, in their order."""

    def bring(self, files: Sequence[NeededFile]) -> Iterable[FileDone]:
        """Copies files to cold."""
        ...

    def read_again(self, files: Mapping[NeededFile, CopyProof | None]) -> Iterable[FileDone]:
        """Reads files that cold has, each with its recorded proof."""
        ...


@dataclass(frozen=True)
class LocalHands:
    """Workers in threads of this process."""

    stores: Stores
    threads: int = THREADS

    def bring(self, files: Sequence[NeededFile]) -> Iterable[FileDone]:
        return bring(self.stores, files, self.threads)

    def read_again(self, files: Mapping[NeededFile, CopyProof | None]) -> Iterable[FileDone]:
        return read_again(self.stores, files, self.threads)


class LocalCrew:
    """Reads and writes manifests in this process, and keeps the list of needed files here.

    Args:
        stores: The hot and the cold store.
        book: Caches the proof of each copy.
        threads: How many manifests are read and written concurrently.
        few: Up to how many files are asked for one by one.
        hands: Copies files; None copies in this process too.
    """

    def __init__(
        self,
        stores: Stores,
        book: CopyCache,
        threads: int = THREADS,
        few: int = _FEW,
        hands: Hands | None = None,
    ) -> None:
        self._stores = stores
        self._book = book
        self._threads = threads
        self._few = few
        self._hands = hands or LocalHands(stores, threads)

    def rewrite(
        self,
        manifests: Sequence[ManifestFile],
        may_go_on: Callable[[], bool],
        replaced: Sequence[str] = (),
    ) -> Mapping[str, ManifestDone] | None:
        with ThreadPoolExecutor(self._threads) as pool:
            repeated = replaced if is_worth_reading(manifests, self._few) else ()
            present = set().union(*pool.map(partial(files_there, self._stores), repeated))
            work = pool.map(lambda one: needs_of(self._stores, one, present), manifests)
            needs = dict(zip(manifests, work, strict=True))
        missing = list(dict.fromkeys(file for of in needs.values() for file in of.files))
        done: dict[NeededFile, FileDone] = {}
        for start in range(0, len(missing), _PORTION):
            if not may_go_on():
                return None
            done |= self._bring(missing[start : start + _PORTION])
        return self._finished(needs, done)

    def _finished(
        self, needs: Mapping[ManifestFile, Needs], done: Mapping[NeededFile, FileDone]
    ) -> Mapping[str, ManifestDone]:
        """Writes manifests once their files are in cold; counts each copied file once."""
        files = {manifest: [done[file] for file in of.files] for manifest, of in needs.items()}

        def finish(manifest: ManifestFile) -> ManifestDone:
            return self._finish(manifest, needs[manifest], files[manifest])

        with ThreadPoolExecutor(self._threads) as pool:
            finished = dict(zip(needs, pool.map(finish, needs), strict=True))
        self._book.save([outcome.proof for outcome in finished.values() if outcome.proof])
        credited: set[str] = set()
        return {
            manifest.path: _credit(outcome, files[manifest], credited)
            for manifest, outcome in finished.items()
        }

    def prove(self, files: Sequence[NeededFile]) -> Sequence[FileDone]:
        return list(self._bring(files).values())

    def _bring(self, files: Sequence[NeededFile]) -> dict[NeededFile, FileDone]:
        done = dict(zip(files, self._hands.bring(files), strict=True))
        doubtful = self._doubtful(done)
        done |= zip(doubtful, self._hands.read_again(doubtful), strict=True)
        self._book.save([d.proof for d in done.values() if d.proof and d.proof.sha256])
        return {file: replace(d, proof=None) for file, d in done.items()}  # the cache has it now

    def _doubtful(self, done: Mapping[NeededFile, FileDone]) -> dict[NeededFile, CopyProof | None]:
        """Returns existing copies that must be read, with their recorded proofs."""
        unread = {f: d.proof for f, d in done.items() if d.proof and not d.proof.sha256}
        prior = self._book.of([proof.path for proof in unread.values()])
        return {
            file: prior.get(proof.path)
            for file, proof in unread.items()
            if not settled(self._stores, prior, proof)
        }

    def _finish(
        self, manifest: ManifestFile, needs: Needs, files: Sequence[FileDone]
    ) -> ManifestDone:
        if wrong := needs.error or _first_error(files):
            return ManifestDone(manifest.path, error=wrong)
        amended = {file.path: file.amended for file in files if file.is_rewritten}
        return write_manifest(self._stores, manifest, amended, needs.turned)


def _credit(done: ManifestDone, files: Sequence[FileDone], credited: set[str]) -> ManifestDone:
    """Adds the files that were copied for this manifest first to its result."""
    if done.error:
        return done
    new = [file for file in files if file.is_new and file.path not in credited]
    credited.update(file.path for file in new)
    return with_copied(done, len(new), sum(file.bytes for file in new))


def _first_error(files: Sequence[FileDone]) -> str:
    return next((file.error for file in files if file.error), "")
