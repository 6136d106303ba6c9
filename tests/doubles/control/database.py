"""What the parts of a ledger in memory share. One object is one database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import RLock
from typing import Any

from meltline.adapters.sql_ledger import refusals
from meltline.domain.clock import Clock


@dataclass
class MemoryDatabase:
    """The port `LedgerDatabase`, safe for this process's threads.

    Attributes:
        clock: Stamps writes.
        own_clock: Stands for the clock of the database's server.
        newest: When anything was last written.
    """

    clock: Clock
    own_clock: Clock
    newest: datetime | None = None
    number: int = 0
    ready: bool = False
    _guard: Any = field(default_factory=RLock)

    def prepare(self) -> None:
        self.ready = True

    def is_prepared(self) -> bool:
        return self.ready

    def close(self) -> None:
        """Has nothing to let go of."""

    def generation(self) -> int:
        with self.reading():
            return self.number

    def set_generation(self, number: int) -> None:
        with self.writing():
            self.number = number

    def newest_time(self) -> datetime | None:
        with self.reading():
            return self.newest

    def now(self) -> datetime:
        with self.reading():
            return self.own_clock.now()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that only reads."""
        with self._guard:
            if not self.ready:
                raise refusals.not_prepared("memory")
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that writes."""
        with self.reading():
            yield
            now = self.clock.now()
            self.newest = now if self.newest is None else max(self.newest, now)
