"""Whether copies are, byte for byte, what was read from their originals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from meltline.app.archive.cold_facts import Side
from meltline.app.catalog.metadata import load_concurrently
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.ports import ControlLedger, ObjectReader, StoredObject

_NOT_IN_COLD = (FileKind.METADATA,)  # an archived table has metadata of its own


def unproved_copies(
    control: ControlLedger,
    side: Side,
    files: Iterable[PlannedFile],
    *,
    recorded_alone: bool = False,
    read: bool = True,
) -> dict[str, str]:
    """Those of some files of hot whose copy nobody can vouch for, and why, by path.

    Every copy must have a digest that was taken from its original, and its store must show it as
    it was recorded. Where the store has no name for the version that it holds, the copy is read.

    Args:
        control: Has what was recorded.
        side: The cold tier.
        files: Of hot.
        recorded_alone: Look for copies of which something is recorded, and for no others.
        read: Read copies where nothing else tells; else these pass.
    """
    places = side.places(file for file in files if file.kind not in _NOT_IN_COLD)
    known = control.copies.of(list(places))
    shown = side.shown(list(known if recorded_alone else places))
    why = {copy: f"{copy} has been lost" for copy in known if copy not in shown}
    unread = list[CopyProof]()
    for copy, found in shown.items():
        proof = known.get(copy)
        if proof is None or not proof.from_source:
            why[copy] = f"{copy} was never held against {places[copy].path}"
        elif not proof.shows(found.bytes, found.modified_at, found.etag):
            why[copy] = f"{copy} has been changed since it was verified"
        elif not proof.etag and read:
            unread.append(proof)
    digests = load_concurrently(lambda proof: digest_or_why(side.tier.store, proof.path), unread)
    for proof, digest in zip(unread, digests, strict=True):
        if digest != proof.sha256:
            why[proof.path] = f"{proof.path} does not have the bytes of {places[proof.path].path}"
    return {places[copy].path: reason for copy, reason in why.items()}


def digest_or_why(store: ObjectReader, path: str) -> str:
    """The SHA-256 of an object, in hexadecimal; or why it cannot be read."""
    digest = sha256()
    try:
        for part in store.stream(path):
            digest.update(part)
    except FileNotFoundError:
        return f"{path} is missing"
    except (MeltlineError, OSError) as odd:
        return odd.message if isinstance(odd, MeltlineError) else repr(odd)
    return digest.hexdigest()


@dataclass
class ContentCheck:
    """Holds files of cold against what is known of them, each once.

    Attributes:
        content: Whether all are read; else those alone whose store cannot vouch for them.
        odd: Why a file is not what it was, by path.
        unread: Files of which no digest is known, and that were not read.
        alone: Those whose digest was taken now from the copy alone, without its original.
    """

    control: ControlLedger
    store: ObjectReader
    content: bool
    odd: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def look(self, files: Sequence[StoredObject]) -> None:
        """Looks at some more."""
        new = {one.path: one for one in files if one.path not in self._seen}
        self._seen |= new.keys()
        known = self.control.copies.of(list(new))
        doubtful = [one for one in new.values() if self._is_doubtful(one, known.get(one.path))]
        digests = load_concurrently(lambda one: digest_or_why(self.store, one.path), doubtful)
        proofs = [
            proof
            for one, digest in zip(doubtful, digests, strict=True)
            if (proof := self._judged(one, digest, known.get(one.path))) is not None
        ]
        self.control.copies.save(proofs)

    def _is_doubtful(self, found: StoredObject, known: CopyProof | None) -> bool:
        if known is None:
            if not self.content:
                self.unread.add(found.path)
            return self.content
        is_shown = known.shows(found.bytes, found.modified_at, found.etag)
        return self.content or not known.etag or not is_shown

    def _judged(
        self, found: StoredObject, digest: str, known: CopyProof | None
    ) -> CopyProof | None:
        """What is to be recorded of a copy that was read; None where it is damaged."""
        if len(digest) != _HEX:
            self.odd[found.path] = digest
        elif known is None:
            self.alone.add(found.path)
        elif digest != known.sha256:
            self.odd[found.path] = f"{found.path} does not have the bytes that were verified"
        if found.path in self.odd:
            return None
        from_source = known is not None and known.from_source
        return CopyProof(
            found.path, found.bytes, digest, found.modified_at, found.etag, from_source
        )


_HEX = 2 * sha256().digest_size
