"""Protocol of the audit log: who decided what, when and why.

`app/safety` writes it; `adapters/sql_ledger` implements it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class AuditEntry:
    """An audited decision: who did what to which object, when and why (PX-13)."""

    at: datetime
    who: str
    action: str
    object: str
    reason: str = ""
    detail: str = ""


class AuditLog(Protocol):
    """Stores decisions in the order in which they were made."""

    def add(self, *records: AuditEntry) -> None:
        """Adds entries, all or none; entries are never changed."""
        ...

    def entries(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        """Returns entries of one object or all, oldest first, from `since` on."""
        ...
