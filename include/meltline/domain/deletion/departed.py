"""What departed, and whether an object that lies under its path now is still that."""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant


@dataclass(frozen=True, slots=True)
class DepartedObject:
    """An object that departed. It may be deleted; another one under its path may not.

    Attributes:
        path: As Iceberg wrote it.
        bytes: How large it was recorded; 0 where nobody could tell, as of a file that was not
            there. Then its time alone decides.
        unmodified_since: When its departure was recorded, less what the store's clock may be
            behind ours.
        known_times: Until when a time of the store's can be held against ours: under a simulated
            clock, until its present, and never where the store keeps another time. None is for
            ever.
    """

    path: str
    bytes: int
    unmodified_since: datetime
    known_times: datetime | None = None

    def unlike(self, size: int, modified_at: datetime) -> str:
        """Why an object of that size, modified then, is another one; empty where it is this one."""
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
