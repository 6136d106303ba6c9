"""The archive: copies snapshots, with everything they need, to the cold tier."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.archive import Validity
from meltline.domain.names import TableName
from meltline.domain.table import Snapshot, TableState


@dataclass(frozen=True)
class ChosenSnapshot:
    """A snapshot that is to be in cold."""

    snapshot: Snapshot
    validity: Validity


@dataclass(frozen=True)
class HandoffRequest:
    """What is to be handed over of one table.

    Attributes:
        hot: The table as its hot catalog has it; every chosen snapshot is still in it.
        cold: Its name in the cold catalog.
        snapshots: The chosen ones, in the order of their commits.
    """

    hot: TableState
    cold: TableName
    snapshots: tuple[ChosenSnapshot, ...]


@dataclass(frozen=True)
class HandedOver:
    """What came of one snapshot.

    Attributes:
        cold_location: The cold metadata file that has it; empty where it could not be handed over.
        error: Why it stays hot; empty where its copy is verified and registered.
    """

    snapshot_id: int
    files: int = 0
    bytes: int = 0
    rows: int = 0
    files_copied: int = 0
    bytes_copied: int = 0
    cold_location: str = ""
    error: str = ""


class Archive(Protocol):
    """Writes the cold tier. It only ever adds (AR-33, I-8)."""

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        """Copies what cold lacks, verifies it, and registers the snapshots; safe to repeat.

        Each data file is copied once and each manifest rewritten once, however many snapshots
        share it. A snapshot is registered, with its original id, sequence number, time, schema,
        partition spec, first row id and summary, only when everything it refers to is there and
        agrees with the original. What was done before a kill is found and not done again.

        Args:
            requests: What to hand over, of any number of tables.
            may_go_on: Asked before each batch; after a no nothing new is begun.

        Yields:
            The hot table's name and what came of one of its snapshots, as it is done. One that
            cannot be handed over does not stop the others; those not begun are not yielded.
        """
        ...
