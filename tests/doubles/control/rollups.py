"""Rollups, in memory."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from meltline.domain.chunks.rollup import Rollup, rollup_exists
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryRollups:
    """The port `RollupLedger`."""

    database: MemoryDatabase
    rows: dict[str, Rollup] = field(default_factory=dict)
    given: int = 0

    def all(self, sources: Collection[str] | None = None) -> Sequence[Rollup]:
        with self.database.reading():
            every = sorted(self.rows.values(), key=lambda rollup: rollup.name)
        return [r for r in every if sources is None or r.source_uuid in sources]

    def add(self, rollup: Rollup) -> Rollup:
        with self.database.writing():
            if rollup.name in self.rows:
                raise rollup_exists(rollup.name)
            self.given += 1
            self.rows[rollup.name] = replace(rollup, id=self.given)
            return self.rows[rollup.name]

    def save(self, before: Rollup, after: Rollup) -> bool:
        with self.database.writing():
            if self.rows.get(before.name) != before:
                return False
            self.rows[after.name] = after
            return True

    def remove(self, name: str) -> bool:
        with self.database.writing():
            return self.rows.pop(name, None) is not None
