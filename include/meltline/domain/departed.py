"""What departed, and whether an object that lies under its path now is still that."""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.quantities import format_instant


@dataclass(frozen=True, slots=True)
class DepartedObject:
    """An object that departed. It may be deleted; another one under its path may not.

    Attributes:
        path: As Iceberg wrote it.
        bytes: How large it was recorded; 0 where nobody could tell, as of a file that was not
            there. Then its time alone decides.
        departed_at: When its departure was recorded; None where that cannot be held against the
            store's times: under a simulated clock.
    """

    path: str
    bytes: int
    departed_at: datetime | None

    def unlike(self, size: int, modified_at: datetime) -> str:
        """Why an object of that size, modified then, is another one; empty where it is this one.

        The store's clock may be behind ours: what was modified shortly before the departure was
        recorded may have come after it.
        """
        if self.bytes and size != self.bytes:
            return f"it has {size} B, what departed had {self.bytes} B"
        if self.departed_at is not None:
            if modified_at <= self.departed_at - CLOCK_TOLERANCE:
                return ""
            then, left = format_instant(modified_at), format_instant(self.departed_at)
            minutes = int(CLOCK_TOLERANCE.total_seconds()) // 60
            return f"it was modified at {then}, what departed did so at {left} ({minutes} min off)"
        if size and not self.bytes:
            return f"it has {size} B, how many departed was never recorded, and time is simulated"
        return ""
