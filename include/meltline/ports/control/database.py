"""Protocol of the control ledger's database: schema, generation and clock.

`meltline init` and the safety checks use it; `adapters/sql_ledger` implements it.
"""

from datetime import datetime
from typing import Protocol


class LedgerDatabase(Protocol):
    """Manages the ledger's schema, its generation and its times."""

    def prepare(self) -> None:
        """Creates or migrates the schema."""
        ...

    def is_prepared(self) -> bool: ...

    def close(self) -> None:
        """Closes the connections; the next call reconnects."""
        ...

    def generation(self) -> int: ...

    def set_generation(self, number: int) -> None: ...

    def newest_time(self) -> datetime | None:
        """Returns the newest wall-clock time that any row records."""
        ...

    def now(self) -> datetime:
        """Returns the time of the database's own clock."""
        ...
