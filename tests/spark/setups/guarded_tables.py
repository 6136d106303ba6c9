"""A table with dropped chunks, for tests of what may be written to it."""

from dataclasses import dataclass, replace
from typing import Any

from meltline.adapters.chunks.dropper import JvmChunkDropper
from meltline.adapters.chunks.guarded_writer import ArrowGuardedWriter, SparkGuardedWriter
from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.late_data import guarded_append
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import ChunkStatus, new_chunk
from meltline.domain.chunks.layout import layout_of
from meltline.domain.chunks.sync import Position, TrackedTable
from meltline.ports import GuardedWriter
from tests.spark.setups import late_writes as lw
from tests.spark.setups.late_writes import DAY_1, DAY_2, DAY_3
from tests.spark.setups.warehouse import TODAY, Warehouse


@dataclass
class Guarded:
    """A table of three days, the first of which was dropped, and who may write to it."""

    lake: Warehouse
    services: RunContext
    table: str

    @classmethod
    def of(cls, lake: Warehouse, table: str, *dropped: str, version: int = 2) -> "Guarded":
        lake.sql(f"DROP TABLE IF EXISTS {{{table}}} PURGE")
        lw.create(lake, table, version, "merge-on-read")
        for day, first in ((DAY_1, 0), (DAY_2, 100), (DAY_3, 200)):
            lw.insert(lake, table, day, *range(first, first + 3))
        guarded = cls(lake, lake.services(TODAY), table)
        guarded.track()
        guarded.drop(*dropped)
        return guarded

    def track(self) -> None:
        """Has the ledger know its chunks."""
        state = load_table(self.services, lw.name(self.lake, self.table))
        assert state.current_snapshot_id is not None
        walked = Position(0, 1, state.current_snapshot_id)
        layout = layout_of(self.lake.document(self.table))
        tracked = TrackedTable(state.uuid, state.name, layout, walked)
        self.services.control.chunks.advance(None, tracked, [])

    def drop(self, *days: str) -> None:
        """Drops some days, and has the ledger know."""
        if not days:
            return
        outcome = JvmChunkDropper(self.lake.spark, self.services.config.catalogs).drop(
            lw.request(self.lake, self.table, *days)
        )
        assert outcome.snapshot_id
        state = load_table(self.services, lw.name(self.lake, self.table))
        (before,) = self.services.control.chunks.tracked([state.uuid])
        after = replace(before, walked=Position(0, 2, outcome.snapshot_id))
        gone = [
            replace(new_chunk(before.layout, state.uuid, day), status=ChunkStatus.DROPPED)
            for day in days
        ]
        self.services.control.chunks.advance(before, after, gone)

    def spark(self) -> SparkGuardedWriter:
        return SparkGuardedWriter(self.lake.spark, self.services.config.catalogs)

    def arrow(self) -> ArrowGuardedWriter:
        return ArrowGuardedWriter(self.services.config.catalogs)

    def append(self, writer: GuardedWriter, rows: Any) -> None:
        guarded_append(self.services, writer, lw.name(self.lake, self.table), rows)

    def ids(self) -> list[int]:
        return lw.rows(self.lake, self.table)

    def refs(self) -> set[str]:
        return set(self.lake.document(self.table)["refs"])
