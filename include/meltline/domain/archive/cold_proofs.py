"""Copy proofs: the bytes of a copy in cold, and how its store listed it when they were verified.

The archive records them in cold, so that an unchanged copy is not read again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.units import from_millis, to_millis

_SAME_TIME = timedelta(seconds=1)  # some responses of a store have milliseconds, others do not


@dataclass(frozen=True, slots=True)
class CopyProof:
    """A copy that was compared with its original, and how its store listed it right afterwards.

    Attributes:
        path: The copy's path.
        bytes: Its length.
        sha256: The digest of its bytes, in hexadecimal; empty if they were not read yet. For a file
            that is copied unchanged, these are the bytes read from the original.
        modified_at: Its modification time in the store.
        etag: The store's identifier of this version, however it is computed; empty if the store has
            none. Then only a copy's bytes show that it is unchanged.
        from_source: Whether the original was readable; else the copy alone was read.
    """

    path: str
    bytes: int
    sha256: str
    modified_at: datetime
    etag: str = ""
    from_source: bool = True

    def shows(self, bytes: int, modified_at: datetime, etag: str) -> bool:
        """Whether its store still lists the copy unchanged."""
        same_time = abs(self.modified_at - modified_at) < _SAME_TIME
        return (self.bytes, self.etag) == (bytes, etag) and same_time

    def like(self, later: "CopyProof") -> bool:
        """Whether a later proof shows the copy unchanged, so that it need not be read."""
        return bool(self.etag) and self.shows(later.bytes, later.modified_at, later.etag)


def proofs_folder(warehouse: str) -> str:
    """Returns the folder of the archive that records its copy proofs."""
    return f"{warehouse.rstrip('/')}/meltline-copies"


def proofs_as_text(proofs: Iterable[CopyProof]) -> str:
    """Serializes proofs, one line each, as the archive stores them."""
    rows = (
        {
            "path": proof.path,
            "bytes": proof.bytes,
            "sha256": proof.sha256,
            "modified": to_millis(proof.modified_at),
            "etag": proof.etag,
            "from-source": proof.from_source,
        }
        for proof in proofs
    )
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def read_proofs(document: str) -> Iterator[CopyProof]:
    """Parses such a document; an invalid line is skipped: its copy is read again."""
    for line in document.splitlines():
        try:
            row = json.loads(line)
            yield CopyProof(
                path=str(row["path"]),
                bytes=int(row["bytes"]),
                sha256=str(row["sha256"]),
                modified_at=from_millis(row["modified"]),
                etag=str(row["etag"]),
                from_source=row["from-source"] is True,
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
