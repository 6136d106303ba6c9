"""The database under the control ledger."""

from datetime import datetime
from typing import Protocol


class LedgerDatabase(Protocol):
    """Whether the ledger is there, which one it is, and what it knows of time."""

    def prepare(self) -> None:
        """Creates or migrates the schema."""
        ...

    def is_prepared(self) -> bool: ...

    def close(self) -> None:
        """Lets go of connections; the next call opens them anew."""
        ...

    def generation(self) -> int: ...

    def set_generation(self, number: int) -> None: ...

    def newest_time(self) -> datetime | None:
        """The newest wall-clock time that any row records."""
        ...

    def now(self) -> datetime:
        """The database's own clock."""
        ...
