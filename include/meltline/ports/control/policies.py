"""What is to be kept for whom: policies that were read, and readers' leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class PolicyReader(Protocol):
    """The newest policies that were in order."""

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """Per object and property.

        An object is a table's UUID, a namespace as `catalog.levels`, or `account`.
        """
        ...


class PolicyLedger(PolicyReader, Protocol):
    """Remembers policies."""

    def save(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        """Stores these values, and forgets where one is None; others stay as they are."""
        ...


@dataclass(frozen=True)
class Lease:
    """A reader's claim on a snapshot: it is kept until the lease ends.

    Attributes:
        table: By which name it was asked for.
        who: Who reads.
        ttl_ms: How long each renewal makes it last, in milliseconds.
    """

    id: str
    table_uuid: str
    snapshot_id: int
    expires_at: datetime
    table: str = ""
    who: str = ""
    ttl_ms: int = 0


class LeaseReader(Protocol):
    """Readers' leases."""

    def active(self, now: datetime) -> Sequence[Lease]:
        """Leases that have not ended; in its last millisecond a lease still holds."""
        ...


class LeaseLedger(LeaseReader, Protocol):
    """Gives leases, and ends them."""

    def save(self, lease: Lease) -> None: ...

    def renew(self, id: str, now: datetime) -> Lease | None:
        """Makes a lease last its time anew from now on; None where it has ended or is not there."""
        ...

    def remove(self, id: str) -> bool:
        """Ends a lease at once; False where there was none."""
        ...
