"""A table in memory with rollups over it, every step of which is held against a full look."""

from dataclasses import dataclass, field

from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.plan_drops import PlannedDrops, plan_drops
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.rollups.declare import RollupWish, create_rollup
from meltline.app.chunks.rollups.refresh import RefreshedRollup, refresh_rollup
from meltline.app.chunks.rounds import gate_drops
from meltline.app.chunks.tracking import tracking_of
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import ChunkTable, reading
from tests.chunks.chunked_lake import ChunkedLake
from tests.chunks.rolled_up import KINDS
from tests.doubles.chunks.rows import Row, TableRows
from tests.lake.lake import DAY, T0


@dataclass
class RolledUp:
    """A table with two rows of each of six days, which nobody has synced, and rollups over it."""

    lake: ChunkedLake = field(default_factory=ChunkedLake)

    def __post_init__(self) -> None:
        self.lake.begin(2)
        self.lake.on(6)
        self.append(*(reading(id, id // 2 + id % 2 / 4) for id in range(12)))
        wish = PolicyWish(PolicyType.RETENTION, drop_after="3d")
        add_policy(self.lake.services(), self.hot.name, wish)

    @property
    def hot(self) -> ChunkTable:
        assert self.lake.hot is not None
        return self.lake.hot

    def append(self, *rows: Row) -> None:
        self.lake.accepted.rows |= set(rows)
        self.hot.append_rows(*rows)
        self.lake.check()

    def declare(self, name: str = "daily") -> None:
        wish = RollupWish(name, KINDS[name].query)
        create_rollup(
            self.lake.services(), wish, lambda parts: TableName("lake", ("air",), parts[-1])
        )
        self.lake.check()

    def refresh(self, name: str = "daily") -> RefreshedRollup:
        done = refresh_rollup(self.lake.services(), name)
        self.lake.check()
        return done

    def known(self, name: str = "daily") -> Rollup:
        (rollup,) = (r for r in self.lake.rolled_up.rollups() if r.name == name)
        return rollup

    def own(self, name: str = "daily") -> TableRows:
        own = self.lake.rolled_up.rows_of(self.known(name).table_uuid)
        assert own is not None
        return own

    def rows(self, name: str = "daily") -> list[Row]:
        own = self.own(name)
        return sorted(own.rows_at(own.document["refs"]["main"]["snapshot-id"]))

    def files(self, name: str = "daily") -> set[str]:
        own = self.own(name)
        live = own.live(own.document["refs"]["main"]["snapshot-id"])
        return {entry.path for entry in live if entry.kind is FileKind.DATA}

    def plan(self) -> PlannedDrops:
        """What would be dropped on the fifth day: days 0 and 1."""
        return self._plan(self.lake.uuid, 5)

    def plan_own(self) -> PlannedDrops:
        """What of the rollup's own table would be dropped on the sixth day."""
        return self._plan(self.known().table_uuid, 6)

    def _plan(self, uuid: str, days: int) -> PlannedDrops:
        services = self.lake.services()
        (table,) = chunked_tables(services, only=[uuid])
        tracking = tracking_of(services, table)
        return plan_drops(services, table, tracking, run_id="r", as_of=T0 + days * DAY)

    def carry_out(self, planned: PlannedDrops) -> None:
        """Judged, and dropped."""
        assert planned.plan is not None, planned.deferred
        services, id = self.lake.services(), planned.plan.plan.id
        gate_drops(services, [planned.plan.plan])
        drop_chunks(services, [*services.control.plans.current([id]).values()])

    def drop(self) -> None:
        """Days 0 and 1 leave hot."""
        self.carry_out(self.plan())
        assert self.lake.rolled_up.drops
        self.lake.check()
