"""Copies single files from hot to cold and verifies them, in memory independent of their length.

Every worker of the archive uses it, on the driver and on executors; so does the permanent store.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

from meltline.adapters.object_store.local_writes import Together
from meltline.adapters.object_store.pace import Pace
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import StoreRefused
from meltline.ports import DeleteOutcome, StoredObject


@dataclass(frozen=True, slots=True)
class Brought:
    """A copy that cold has.

    Attributes:
        is_new: Whether cold lacked it before.
        proof: Its proof; without a digest if it existed already and has not been read.
    """

    is_new: bool
    proof: CopyProof


@dataclass(frozen=True, slots=True)
class Sent:
    """A copy that was sent to cold, and is not verified there yet.

    Attributes:
        target: Its path, once the files that are synced together with it are on disk.
        sha256: Digest of the bytes that were sent.
    """

    target: str
    bytes: int
    sha256: str


class CopySource(Protocol):
    """Source of copies: see `ObjectReader`."""

    def read(self, path: str) -> bytes: ...

    def stream(self, path: str) -> Iterator[bytes]: ...


class CopyTarget(Protocol):
    """Target of copies, written and read: see `ObjectReader` and `ObjectWriter`."""

    def read(self, path: str) -> bytes: ...

    def stream(self, path: str) -> Iterator[bytes]: ...

    def size(self, path: str) -> int | None: ...

    def measure(self, path: str) -> StoredObject | None: ...

    def write_stream(
        self, path: str, parts: Iterable[bytes], together: Together | None = None
    ) -> None: ...

    def proves_writes(self, path: str) -> bool: ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]: ...


@dataclass(frozen=True)
class Stores:
    """Source and target stores of copies.

    Attributes:
        hot: The store of the hot catalog; `cold` likewise.
        warehouse: The folder of the cold catalog.
        pace: Rate limit of each operation.
        mends: Whether to replace a copy that differs from its original or is unreadable. Only for
            copies that cold has registered: they were complete then, and hot still has the same.
    """

    hot: CopySource
    cold: CopyTarget
    warehouse: str
    pace: Pace = field(default_factory=Pace)
    mends: bool = False

    def target(self, path: str) -> str:
        """Returns the path of a hot file's copy.

        Raises:
            StoreRefused: The path cannot be mirrored.
        """
        try:
            return mirrored(path, self.warehouse)
        except ValueError as error:
            raise _refused(
                path, "a path that names one place to every reader", str(error)
            ) from error

    def read(self, path: str) -> bytes:
        """Reads a file of hot completely. Raises FileNotFoundError and StoreRefused."""
        self.pace.wait()
        return self.hot.read(path)

    def copy_at(self, target: str) -> bytes | None:
        """Reads a file of cold completely; None if it does not exist. Raises StoreRefused."""
        self.pace.wait()
        try:
            return self.cold.read(target)
        except FileNotFoundError:
            return None

    def write(self, target: str, content: bytes) -> CopyProof:
        """Writes a file of cold. Raises StoreRefused, also if cold does not have it afterwards."""
        return self._put(target, [content], len(content))

    def seen(self, target: str, content: bytes) -> CopyProof:
        """Returns the proof of a cold file whose bytes were just read and verified.

        Raises:
            StoreRefused: It has changed since.
        """
        return self._measured(target, len(content), sha256(content).hexdigest())

    def copy(self, path: str, size: int) -> Brought:
        """Ensures that cold has a file of the length that its manifest records.

        Does not read an existing copy: `prove` does that.

        Raises:
            FileNotFoundError: Hot does not have it; or StoreRefused.
            StoreRefused: Either of the two has another length, or a store refuses.
        """
        begun = self.begin(path, size)
        return self.finish(begun) if isinstance(begun, Sent) else begun

    def begin(self, path: str, size: int, together: Together | None = None) -> Brought | Sent:
        """Starts a copy, the first half of `copy`, which may be synced together with others.

        Settle `together` before the second half. Raises as `copy` does.
        """
        target = self.target(path)
        self.pace.wait()
        present = self.cold.measure(target)
        if present is not None and present.bytes == size:
            return Brought(False, _unread(present, target))
        if present is not None and not self.mends:
            raise _refused(target, f"{size} bytes, as the manifest says", f"{present.bytes} bytes")
        return self._sent(target, self._counted(path, size), size, together)

    def finish(self, sent: Sent) -> Brought:
        """Finishes a copy, the second half: verifies that cold has what was sent."""
        return Brought(True, self._held(sent))

    def prove(self, path: str, size: int, prior: CopyProof | None) -> Brought:
        """Reads an existing copy and its original, and ensures that cold has the right bytes.

        Args:
            path: The original. It may be gone if the copy is known and complete, in repair mode
                (`mends`).
            size: Its length according to its manifest.
            prior: The recorded proof of the copy.

        Raises:
            FileNotFoundError: Hot does not have it and it is needed; or StoreRefused.
            StoreRefused: They differ and the copy is not known to be damaged, or a store refuses.
        """
        copy = self._copied(self.target(path))
        if self.mends and copy and prior and copy.sha256 == prior.sha256:
            return Brought(False, copy)
        source = _digest(self._counted(path, size))
        if copy and copy.sha256 == source:
            return Brought(False, copy)
        if prior:
            if prior.sha256 != source:
                raise _refused(path, "the bytes that were copied once", "others")
        elif copy:
            self._make_room(path, size, copy)
        return Brought(True, self._copied_anew(path, size, source))

    def _make_room(self, path: str, size: int, copy: CopyProof) -> None:
        """Frees the copy's path from a file with other bytes and no recorded proof.

        Copies it to a side path first if it may be intact: perhaps hot wrote its path twice.
        """
        target = copy.path
        if not self.mends:
            raise _refused(target, f"the bytes of {path}", "others")
        if copy.bytes == size:
            self.pace.wait()
            aside = f"{target}.before-{copy.sha256[:16]}"
            self.cold.write_stream(aside, self._parts(self.cold, target))

    def _copied_anew(self, path: str, size: int, source: str) -> CopyProof:
        """Copies an original again; refuses if its bytes do not have the given digest."""
        written = self._put(self.target(path), self._counted(path, size), size)
        if written.sha256 != source:
            raise _refused(path, "the same bytes twice", "others the second time")
        return written

    def _copied(self, target: str) -> CopyProof | None:
        """Reads a file of cold and returns its proof; None if it does not exist."""
        self.pace.wait()
        copy = self.cold.measure(target)
        if copy is None:
            return None
        return replace(_unread(copy, target), sha256=_digest(self._parts(self.cold, target)))

    def _parts(self, store: CopySource, path: str) -> Iterator[bytes]:
        """Yields a file in parts, each at the configured pace."""
        for part in store.stream(path):
            yield part
            self.pace.wait()

    def _put(self, target: str, parts: Iterable[bytes], size: int) -> CopyProof:
        """Writes a file of cold, and verifies that it has the bytes that were sent."""
        return self._held(self._sent(target, parts, size))

    def _sent(
        self, target: str, parts: Iterable[bytes], size: int, together: Together | None = None
    ) -> Sent:
        digest = sha256()

        def hashed() -> Iterator[bytes]:
            for part in parts:
                digest.update(part)
                yield part

        self.pace.wait()
        self.cold.write_stream(target, hashed(), together)
        return Sent(target, size, digest.hexdigest())

    def _held(self, sent: Sent) -> CopyProof:
        target = sent.target
        if (
            not self.cold.proves_writes(target)
            and _digest(self._parts(self.cold, target)) != sent.sha256
        ):
            self.cold.delete([target])  # these bytes were just written, so nothing references them
            raise _refused(target, "the bytes that were sent", "others when it was read again")
        return self._measured(target, sent.bytes, sent.sha256)

    def _measured(self, target: str, size: int, digest: str) -> CopyProof:
        self.pace.wait()
        copy = self.cold.measure(target)
        if copy is None or copy.bytes != size:
            shown = "none" if copy is None else f"{copy.bytes} bytes"
            raise _refused(target, f"{size} bytes", shown)
        return replace(_unread(copy, target), sha256=digest)

    def _counted(self, path: str, size: int) -> Iterator[bytes]:
        """Yields the parts of a hot file; a file of another length never becomes a copy."""
        sent = 0
        try:
            for part in self._parts(self.hot, path):
                sent += len(part)
                yield part
        except FileNotFoundError:
            raise _refused(path, f"{size} bytes, as the manifest says", "no such file") from None
        if sent != size:
            raise _refused(path, f"{size} bytes, as the manifest says", f"{sent} bytes")


def _digest(parts: Iterable[bytes]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _unread(file: StoredObject, target: str) -> CopyProof:
    return CopyProof(target, file.bytes, "", file.modified_at, file.etag)


def _refused(path: str, expected: str, actual: str) -> StoreRefused:
    return StoreRefused(
        f"{path} cannot be handed over to cold: {actual}, not {expected}",
        object=path,
        expected=expected,
        found=actual,
        next="its snapshots stay hot; look at the file, and at its namesake in the other tier",
    )
