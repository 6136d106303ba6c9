"""A synced table of days in memory, with its nights: chunks by age, and the daily chain."""

from dataclasses import dataclass, field

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.reading.status import TieringStatus, tiering_status
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import ChunkRun, run_chunks
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from tests.chunks.chunk_tables import ChunkTable, chunk_table, reading
from tests.lake.lake import Lake

DROPS = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="7d")


@dataclass
class LakeOfDays:
    """One row a day of the first days; the policy has been there for longer than a day."""

    days: int = 6
    wish: PolicyWish = DROPS
    lake: Lake = field(default_factory=lambda: Lake(has_cold=True).on(0))
    table: ChunkTable = field(init=False)

    def __post_init__(self) -> None:
        self.lake.on(self.days)
        self.table = chunk_table(self.lake, "lake.air.days")
        self.table.append_rows(*(reading(day, day) for day in range(self.days)))
        start_sync(self.lake.services(), self.table.name)
        add_policy(self.lake.services(), self.table.name, self.wish)

    def followed(self) -> "LakeOfDays":
        """The lake after its first copy to cold, on the day of the policy."""
        self.chunks(self.days + 0.5)
        return self

    def replicate(self, day: float) -> None:
        """One pass, as the DAG has it every quarter of an hour."""
        context = self.lake.on(day).services()
        replicate(context, chunked_tables(context))

    def chunks(self, day: float, services: RunContext | None = None) -> ChunkRun:
        """A night of chunks."""
        self.lake.on(day)
        return run_chunks(services or self.lake.services(), self.lake.request(f"night-{day}"))

    def night(self, day: float) -> TieringStatus:
        """A night of chunks, then the daily chain; what is said of the table afterwards."""
        self.chunks(day)
        assert self.lake.run().exit_code == 0
        return self.status()

    def status(self) -> TieringStatus:
        (line,) = tiering_status(self.lake.services())
        return line

    def dropped(self) -> list[str]:
        chunks = self.lake.control.chunks.of(self.table.uuid)
        return [name for name, chunk in chunks.items() if not chunk.is_resident]
