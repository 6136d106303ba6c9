"""Who decided what."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class AuditEntry:
    """Who did what to which object, when and why (PX-13)."""

    at: datetime
    who: str
    action: str
    object: str
    reason: str = ""
    detail: str = ""


class AuditLog(Protocol):
    """Decisions, in the order in which they were made."""

    def add(self, *records: AuditEntry) -> None:
        """Adds entries, all or none; none is ever changed."""
        ...

    def entries(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        """Entries, oldest first, of one object or all, from `since` on."""
        ...
