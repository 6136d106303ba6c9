"""Protocols of stored retention policies and readers' leases.

`app/retention` stores policies, and gates read them; `adapters/sql_ledger` implements both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class PolicyReader(Protocol):
    """Reads the newest valid policies."""

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """Returns values per object and property.

        An object is a table's UUID, a namespace as `catalog.levels`, or `account`.
        """
        ...


class PolicyLedger(PolicyReader, Protocol):
    """Stores policies."""

    def save(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        """Stores these values, and removes a value that is None; others are unchanged."""
        ...


@dataclass(frozen=True)
class Lease:
    """A reader's claim on a snapshot, which is kept until the lease expires.

    Attributes:
        table: The table's name in the request.
        who: The reader.
        ttl_ms: The duration of the lease from each renewal, in milliseconds.
    """

    id: str
    table_uuid: str
    snapshot_id: int
    expires_at: datetime
    table: str = ""
    who: str = ""
    ttl_ms: int = 0


class LeaseReader(Protocol):
    """Reads leases."""

    def active(self, now: datetime) -> Sequence[Lease]:
        """Returns leases that have not expired; in its last millisecond a lease is still valid."""
        ...


class LeaseLedger(LeaseReader, Protocol):
    """Grants, renews and ends leases."""

    def save(self, lease: Lease) -> None: ...

    def renew(self, id: str, now: datetime) -> Lease | None:
        """Renews a lease for its full duration from now; None if it has expired or is unknown."""
        ...

    def remove(self, id: str) -> bool:
        """Ends a lease at once; False if there was none."""
        ...
