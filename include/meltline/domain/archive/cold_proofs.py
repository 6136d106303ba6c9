"""What is known of a single copy in cold: which bytes it had, and how its store showed it then."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.units import from_millis, to_millis

_SAME_TIME = timedelta(seconds=1)  # some answers of a store have milliseconds, others have not


@dataclass(frozen=True, slots=True)
class CopyProof:
    """A copy that was held against its original, and how its store showed it right afterwards.

    Attributes:
        path: Of the copy.
        bytes: Its length.
        sha256: Of its bytes, in hexadecimal; empty where nobody has read them yet. Of a file that
            is copied as it is these are the bytes that were read from the original.
        modified_at: When its store says that it was written.
        etag: What its store calls this version of it, whatever that is made from; empty where the
            store has no such thing, and then a copy's bytes alone tell that it is unchanged.
        from_source: Whether the original was there to be read; else the copy alone was read.
    """

    path: str
    bytes: int
    sha256: str
    modified_at: datetime
    etag: str = ""
    from_source: bool = True

    def shows(self, bytes: int, modified_at: datetime, etag: str) -> bool:
        """Whether its store still shows the copy as it did."""
        same_time = abs(self.modified_at - modified_at) < _SAME_TIME
        return (self.bytes, self.etag) == (bytes, etag) and same_time

    def like(self, later: "CopyProof") -> bool:
        """Whether another look at the copy shows it as it was, so that it need not be read."""
        return bool(self.etag) and self.shows(later.bytes, later.modified_at, later.etag)


def proofs_folder(warehouse: str) -> str:
    """Where in the archive it is recorded what is known of its files."""
    return f"{warehouse.rstrip('/')}/meltline-copies"


def proofs_as_text(proofs: Iterable[CopyProof]) -> str:
    """A document of proofs, one line each, as it lies in the archive."""
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
    """What such a document says; a line that is none is passed over: its copy is read again."""
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
