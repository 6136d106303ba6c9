"""Tables of days in a real warehouse, with rollups over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meltline.app.chunks.rollups.declare import CreatedRollup, RollupWish, create_rollup
from meltline.app.chunks.rollups.refresh import RefreshedRollup, refresh_rollup, refresh_rollups
from meltline.app.services import RunContext
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.iceberg.names import TableName
from tests.spark.chunks.lake_of_chunks import ChunkLake
from tests.spark.setups.warehouse import SPACE

HOURLY = (
    "SELECT lakets.time_bucket('1 hour', ts) AS bucket, v, count(*) AS samples, avg(id) AS mean,"
    " min(id) AS least, max(id) AS most, sum(id) AS total FROM {table} GROUP BY 1, 2"
)
DAILY = (
    "SELECT lakets.time_bucket('1 day', bucket) AS bucket, sum(samples) AS samples,"
    " avg(mean) AS mean, min(least) AS least, max(most) AS most, sum(total) AS total"
    " FROM {table} GROUP BY 1"
)


@dataclass
class RollupLake:
    """Tables and rollups; `lake` writes the tables as stock Spark does."""

    lake: ChunkLake

    @classmethod
    def empty(cls, root: Path) -> "RollupLake":
        return cls(ChunkLake.empty(root))

    def services(self, **instead: Any) -> RunContext:
        return self.lake.services(**instead)

    def declare(
        self,
        name: str,
        query: str,
        depends_on: Sequence[str] = (),
        services: RunContext | None = None,
    ) -> CreatedRollup:
        """`lakets.create_rollup`."""
        wish = RollupWish(name, query, depends_on=tuple(depends_on))
        return create_rollup(services or self.services(), wish, self.resolve)

    def resolve(self, parts: tuple[str, ...]) -> TableName:
        return TableName(self.lake.w.catalog, (SPACE,), parts[-1])

    def refresh(self, name: str) -> RefreshedRollup:
        return refresh_rollup(self.services(), name)

    def refresh_all(self) -> list[RefreshedRollup]:
        services = self.services()
        return refresh_rollups(services, services.control.rollups.all())

    def known(self, name: str) -> Rollup:
        (rollup,) = (r for r in self.services().control.rollups.all() if r.name == name)
        return rollup

    def call(self, procedure: str, table: str, more: str) -> None:
        """A procedure of Iceberg's."""
        self.lake.w.sql(f"CALL {procedure}(table => '{SPACE}.{table}', {more})")

    def rows(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """A rollup's rows."""
        return _sorted(self.lake.w.sql(f"SELECT {columns} FROM {{_rollup_{name}}}"))

    def computed(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query of stock Spark says."""
        return _sorted(self.lake.w.sql(sql))

    def files(self, name: str) -> set[str]:
        """The data files of a rollup."""
        found = self.lake.w.sql(f"SELECT file_path FROM {{_rollup_{name}}}.files")
        return {row[0] for row in found}


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)
