"""Policies and leases, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from meltline.ports import Lease
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryPolicies:
    """The port `PolicyLedger`."""

    database: MemoryDatabase
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def all(self) -> Mapping[str, Mapping[str, str]]:
        with self.database.reading():
            return {name: dict(settings) for name, settings in self.rows.items() if settings}

    def save(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        with self.database.writing():
            for name, changes in policies.items():
                settings = {**self.rows.get(name, {}), **changes}
                self.rows[name] = {k: v for k, v in settings.items() if v is not None}


@dataclass
class MemoryLeases:
    """The port `LeaseLedger`."""

    database: MemoryDatabase
    rows: dict[str, Lease] = field(default_factory=dict)

    def active(self, now: datetime) -> Sequence[Lease]:
        with self.database.reading():
            lasting = (lease for lease in self.rows.values() if lease.expires_at >= now)
            return sorted(lasting, key=lambda lease: lease.id)

    def save(self, lease: Lease) -> None:
        with self.database.writing():
            self.rows[lease.id] = lease

    def renew(self, id: str, now: datetime) -> Lease | None:
        with self.database.writing():
            lease = self.rows.get(id)
            if lease is None or lease.expires_at < now:
                return None
            renewed = replace(lease, expires_at=now + timedelta(milliseconds=lease.ttl_ms))
            self.rows[id] = renewed
            return renewed

    def remove(self, id: str) -> bool:
        with self.database.writing():
            return self.rows.pop(id, None) is not None
