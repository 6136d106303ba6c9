"""The two clocks: `as_of` decides retention, the wall clock decides failsafe, leases and grace."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from meltline.domain.errors import AsOfInFuture
from meltline.domain.units import format_instant

NOW = "MELTLINE_NOW"
"""The environment variable that simulates the wall clock; only allowed in a sandbox."""

CLOCK_TOLERANCE = timedelta(minutes=5)
"""The maximum difference between the clocks of this machine, the store and the database."""


class Clock(Protocol):
    """A wall clock."""

    def now(self) -> datetime:
        """Returns the current time, in UTC."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether the time is simulated, as in a sandbox."""
        ...


@dataclass(frozen=True)
class WallClock:
    """The machine's clock."""

    simulated: bool = False

    def now(self) -> datetime:
        """Returns the current time, in UTC, truncated to the millisecond as in Iceberg."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@dataclass(frozen=True)
class FixedClock:
    """A clock with a fixed time: for the sandbox (`MELTLINE_NOW`), and for tests."""

    moment: datetime
    simulated: bool = True

    def now(self) -> datetime:
        """Returns the fixed time."""
        return self.moment


def resolve_as_of(requested: datetime | None, now: datetime, *, dry_run: bool) -> datetime:
    """Validates the logical date: the one rule for UI, schedule, backfill and command line (PX-7).

    Args:
        requested: The requested logical date; None means now.
        now: The wall clock.
        dry_run: A dry run may use a future date, as a preview.

    Raises:
        AsOfInFuture: A real run has a logical date in the future.
    """
    if not dry_run:
        require_come(requested, now, "use --dry-run to preview a day to come")
    return now if requested is None else requested


def require_come(instant: datetime | None, now: datetime, next: str) -> None:
    """Fails if a time is in the future, where nothing can be known yet; None means now.

    Args:
        instant: The time.
        now: The wall clock.
        next: The next step that the error suggests to the user.

    Raises:
        AsOfInFuture: The time is in the future.
    """
    if instant is not None and instant > now:
        raise AsOfInFuture(
            f"as_of {format_instant(instant)} has not come yet",
            object="as_of",
            expected=f"at most {format_instant(now)}",
            found=format_instant(instant),
            next=next,
        )
