"""Checks copy proofs: whether copies are byte for byte equal to their originals.

Gates, purge planning and `cold verify` call it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from meltline.app.archive.cold_facts import Side
from meltline.app.catalog.metadata import load_concurrently
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import ControlLedger, CopyProofReader, ObjectReader, StoredObject


def unproved_copies(
    recorded: CopyProofReader,
    side: Side,
    files: Iterable[PlannedFile],
    *,
    recorded_alone: bool = False,
    read: bool = True,
) -> dict[str, str]:
    """Returns files of hot whose copy is unproved, and why, by path.

    Every copy must have a digest that was taken from its original, and its store must show it as
    recorded. If the store has no version for it, the copy is read.

    Args:
        recorded: The recorded copy proofs.
        side: The cold tier.
        files: Files of hot.
        recorded_alone: Check only copies with a record.
        read: Read copies if nothing else decides; otherwise these pass.
    """
    places = side.places(files)
    proofs = recorded.of(list(places))
    shown = side.shown(list(proofs if recorded_alone else places))
    why = _doubts(places, proofs, shown)
    if read:
        for copy in _damaged(side.tier.store, [proofs[c] for c in shown if c not in why]):
            why[copy] = f"{copy} does not have the bytes of {places[copy].path}"
    return {places[copy].path: reason for copy, reason in why.items()}


def _doubts(
    places: Mapping[str, PlannedFile],
    proofs: Mapping[str, CopyProof],
    shown: Mapping[str, StoredObject],
) -> dict[str, str]:
    """Returns copies that differ from their record, by what their store shows, and why."""
    why = {copy: f"{copy} has been lost" for copy in proofs if copy not in shown}
    for copy, stored in shown.items():
        proof = proofs.get(copy)
        if proof is None or not proof.from_source:
            why[copy] = f"{copy} was never held against {places[copy].path}"
        elif not proof.shows(stored.bytes, stored.modified_at, stored.etag):
            why[copy] = f"{copy} has been changed since it was verified"
    return why


def _damaged(store: ObjectReader, proofs: Iterable[CopyProof]) -> list[str]:
    """Reads copies whose store has no version; returns those with other bytes."""
    unread = [proof for proof in proofs if not proof.etag]
    digests = load_concurrently(lambda proof: digest_or_why(store, proof.path), unread)
    pairs = zip(unread, digests, strict=True)
    return [proof.path for proof, digest in pairs if digest != proof.sha256]


def digest_or_why(store: ObjectReader, path: str) -> str:
    """Returns the SHA-256 of an object, in hexadecimal; or why it cannot be read."""
    digest = sha256()
    try:
        for part in store.stream(path):
            digest.update(part)
    except FileNotFoundError:
        return f"{path} is missing"
    except (MeltlineError, OSError) as error:
        return error.message if isinstance(error, MeltlineError) else repr(error)
    return digest.hexdigest()


@dataclass
class ContentCheck:
    """Compares files of cold with their recorded digests, each once.

    Attributes:
        content: Whether all files are read, or only those whose store shows no version.
        problems: The defects, by path.
        unread: Files that have no digest and were not read.
        alone: Files whose first digest was taken now from the copy, without its original.
    """

    control: ControlLedger
    store: ObjectReader
    content: bool
    problems: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def look(self, files: Sequence[StoredObject]) -> None:
        """Checks more files."""
        new = {file.path: file for file in files if file.path not in self._seen}
        self._seen |= new.keys()
        recorded = self.control.copies.of(list(new))
        doubtful = [
            file for file in new.values() if self._is_doubtful(file, recorded.get(file.path))
        ]
        digests = load_concurrently(lambda file: digest_or_why(self.store, file.path), doubtful)
        proofs = [
            proof
            for file, digest in zip(doubtful, digests, strict=True)
            if (proof := self._judged(file, digest, recorded.get(file.path))) is not None
        ]
        self.control.copies.save(proofs)

    def _is_doubtful(self, file: StoredObject, proof: CopyProof | None) -> bool:
        if proof is None:
            if not self.content:
                self.unread.add(file.path)
            return self.content
        is_shown = proof.shows(file.bytes, file.modified_at, file.etag)
        return self.content or not proof.etag or not is_shown

    def _judged(self, file: StoredObject, digest: str, proof: CopyProof | None) -> CopyProof | None:
        """Returns the proof of a copy that was read; None if it is damaged."""
        if len(digest) != _HEX:
            self.problems[file.path] = digest
        elif proof is None:
            self.alone.add(file.path)
        elif digest != proof.sha256:
            self.problems[file.path] = f"{file.path} does not have the bytes that were verified"
        if file.path in self.problems:
            return None
        from_source = proof is not None and proof.from_source
        return CopyProof(file.path, file.bytes, digest, file.modified_at, file.etag, from_source)


_HEX = 2 * sha256().digest_size
