"""Protocol of the ledger's memory of earlier observations, which makes the next one cheaper.

`app/catalog` and `app/observe` use it; `adapters/sql_ledger` implements it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.retention.retained_snapshots import SnapshotObservation


@dataclass(frozen=True)
class RememberedMetadata:
    """The parts of one metadata file that Meltline needs.

    Attributes:
        location: The file; `size` is its length in bytes.
        content: The JSON document, compressed, without fields that no lifecycle depends on.
        version: The version of the object that was read (`StoredObject.version`).
    """

    location: str
    size: int
    content: bytes
    version: str


class ObservationLedger(Protocol):
    """Stores observations of snapshots, and the content of metadata files already read."""

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        """Returns observations per table UUID and snapshot id.

        Args:
            uuids: Tables to include at least; None is all.
        """
        ...

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
        """Stores these observations; others are unchanged."""
        ...

    def documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        """Returns the stored documents of some metadata files, by location."""
        ...

    def save_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        """Stores documents, and removes those of files that are no longer current."""
        ...
