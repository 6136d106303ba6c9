"""Decides whether the object at a tombstoned path is still the one that was tombstoned.

The deleter calls it right before each delete.
"""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant


@dataclass(frozen=True, slots=True)
class DepartedObject:
    """A tombstoned object. It may be deleted; a new object at its path may not.

    Attributes:
        path: As Iceberg wrote it.
        bytes: The recorded size; 0 if unknown, as for a missing file. Then its time alone decides.
        unmodified_since: When its departure was recorded, less the tolerance for a store clock that
            is behind ours.
        known_times: The latest time of the store that can be compared with ours: under a simulated
            clock its present, and no time if the store has another clock. None is no limit.
    """

    path: str
    bytes: int
    unmodified_since: datetime
    known_times: datetime | None = None

    def unlike(self, size: int, modified_at: datetime) -> str:
        """Returns why an object with that size and time is another one; empty if it is this one."""
        if self.bytes and size != self.bytes:
            return f"it has {size} B, what departed had {self.bytes} B"
        if self.known_times is not None and modified_at > self.known_times:
            return (
                "" if self.bytes else "neither its size nor its time can be held against anything"
            )
        if modified_at > self.unmodified_since:
            then, since = format_instant(modified_at), format_instant(self.unmodified_since)
            return f"it was modified at {then}, what departed was not since {since}"
        return ""
