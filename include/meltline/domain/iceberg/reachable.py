"""What identifies a reachable set: where it is written down, how long that is, and what it says.

A snapshot id does not: copies and moves share it and refer to other files. Nor does the location
alone: a copy that is made anew writes other bytes under the same paths.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from meltline.domain.iceberg.locations import location_key


@dataclass(frozen=True, slots=True)
class ReachableSet:
    """A snapshot's manifest list as it was read, or its inline manifests (format 1).

    Attributes:
        length: The list's length; of inline manifests the sum of theirs.
        sha256: Of the list's content, in hex; of inline manifests of their paths, in order, and
            contents.
    """

    length: int
    sha256: str

    @classmethod
    def of_list(cls, content: bytes) -> "ReachableSet":
        """From a manifest list."""
        return cls(len(content), sha256(content).hexdigest())

    @classmethod
    def of_manifests(cls, manifests: Iterable[tuple[str, bytes]]) -> "ReachableSet":
        """From the manifests that a snapshot of format 1 names itself, in their order."""
        length, digest = 0, sha256()
        for path, content in manifests:
            length += len(content)
            # Each part ends where its digest ends: no two sequences of parts read alike.
            digest.update(sha256(location_key(path).encode()).digest())
            digest.update(sha256(content).digest())
        return cls(length, digest.hexdigest())

    def differs_from(self, recorded: "ReachableSet") -> bool:
        """Whether what was read now is not what was recorded."""
        return self.sha256 != recorded.sha256
