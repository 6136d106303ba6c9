"""A period of time, such as a day, to filter runs and plans by.

`meltline runs`, `meltline plans` and the pages parse it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Period:
    """A half-open interval of instants; None is unbounded."""

    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def day(cls, text: str) -> "Period":
        """Parses a day in UTC, written `2026-11-21`; empty is all time.

        Raises:
            ValueError: It is not a day.
        """
        if not text:
            return cls()
        try:
            since = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a day: write one such as 2026-11-21") from error
        return cls(since, since + timedelta(days=1))

    def holds(self, instant: datetime) -> bool:
        """Whether it contains an instant."""
        after = self.since is None or instant >= self.since
        return after and (self.until is None or instant < self.until)
