"""A stretch of time that somebody asks about: a day, most often."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Period:
    """From an instant on, and until before another; None is open."""

    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def day(cls, text: str) -> "Period":
        """A day in UTC, written `2026-11-21`; empty is all time.

        Raises:
            ValueError: It is no day.
        """
        if not text:
            return cls()
        try:
            since = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a day: write one such as 2026-11-21") from error
        return cls(since, since + timedelta(days=1))

    def holds(self, instant: datetime) -> bool:
        """Whether an instant lies in it."""
        after = self.since is None or instant >= self.since
        return after and (self.until is None or instant < self.until)
