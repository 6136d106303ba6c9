"""The two clocks: `as_of` decides retention, the wall clock decides failsafe, leases and grace."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from meltline.domain.errors import AsOfInFuture
from meltline.domain.units import format_instant

NOW = "MELTLINE_NOW"
"""The environment variable that simulates the wall clock, in a sandbox alone."""

CLOCK_TOLERANCE = timedelta(minutes=5)
"""By how much this machine's clock, the store's and the database's may differ."""


class Clock(Protocol):
    """A wall clock."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether the time is made up, as in a sandbox."""
        ...


@dataclass(frozen=True)
class WallClock:
    """The machine's clock."""

    simulated: bool = False

    def now(self) -> datetime:
        """The present instant, in UTC, to the millisecond as Iceberg keeps it."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@dataclass(frozen=True)
class FixedClock:
    """A clock that stands still: the simulated time of a sandbox (`MELTLINE_NOW`), and tests."""

    moment: datetime
    simulated: bool = True

    def now(self) -> datetime:
        """The instant it was set to."""
        return self.moment


def resolve_as_of(requested: datetime | None, now: datetime, *, dry_run: bool) -> datetime:
    """The one `as_of` rule, for the UI, the schedule, backfills and the command line (PX-7).

    Args:
        requested: The logical date that was asked for; None means now.
        now: The wall clock.
        dry_run: A dry run may look ahead: it is a preview of the days to come.

    Raises:
        AsOfInFuture: A real run was asked for a time that has not come.
    """
    if not dry_run:
        require_come(requested, now, "use --dry-run to preview a day to come")
    return now if requested is None else requested


def require_come(instant: datetime | None, now: datetime, next: str) -> None:
    """Refuses a time of which nobody can know anything yet; None is now.

    Args:
        instant: The time.
        now: The wall clock.
        next: What a person can do instead.

    Raises:
        AsOfInFuture: It has not come.
    """
    if instant is not None and instant > now:
        raise AsOfInFuture(
            f"as_of {format_instant(instant)} has not come yet",
            object="as_of",
            expected=f"at most {format_instant(now)}",
            found=format_instant(instant),
            next=next,
        )
