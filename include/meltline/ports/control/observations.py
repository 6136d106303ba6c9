"""What earlier observations remember, so that the next one reads less and forgets nothing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.retention.retained_snapshots import SnapshotObservation


@dataclass(frozen=True)
class RememberedMetadata:
    """What one metadata file says, as far as Meltline needs it.

    Attributes:
        location: The file; `size` is its length in bytes.
        content: The JSON document, compressed, without what lifecycles do not depend on.
        version: Which object it was (`StoredObject.version`).
    """

    location: str
    size: int
    content: bytes
    version: str


class ObservationLedger(Protocol):
    """Sightings of snapshots, and metadata files that need not be read twice."""

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        """Per table UUID and snapshot id.

        Args:
            uuids: Of these tables at least; None is all.
        """
        ...

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
        """Stores these; others stay as they are."""
        ...

    def documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        """Those of the metadata files that are remembered, by location."""
        ...

    def save_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        """Remembers documents, and forgets those of files that are no longer current."""
        ...
