"""Identifies a reachable set by the content of its manifest list: its length and digest.

A snapshot id does not identify it: copies and moves share the id and reference other files. Nor
does the location alone: a repeated copy writes other bytes at the same paths.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from meltline.domain.iceberg.locations import location_key


@dataclass(frozen=True, slots=True)
class ReachableSet:
    """A snapshot's manifest list as read, or its inline manifests (format 1).

    Attributes:
        length: The list's length; for inline manifests the sum of theirs.
        sha256: The digest of the list's content, in hex; for inline manifests of their paths, in
            order, and contents.
    """

    length: int
    sha256: str

    @classmethod
    def of_list(cls, content: bytes) -> "ReachableSet":
        """Computes it from a manifest list."""
        return cls(len(content), sha256(content).hexdigest())

    @classmethod
    def of_manifests(cls, manifests: Iterable[tuple[str, bytes]]) -> "ReachableSet":
        """Computes it from the inline manifests of a snapshot of format 1, in their order."""
        length, digest = 0, sha256()
        for path, content in manifests:
            length += len(content)
            # Each part is hashed separately: no two sequences of parts have the same input.
            digest.update(sha256(location_key(path).encode()).digest())
            digest.update(sha256(content).digest())
        return cls(length, digest.hexdigest())

    def differs_from(self, recorded: "ReachableSet") -> bool:
        """Whether it is not the recorded one."""
        return self.sha256 != recorded.sha256
