"""A synced table in memory, its policies and its runs, with a cold that can be looked into."""

import json
from dataclasses import dataclass, field

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import run_chunks
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SYNC_DROPPED, Deletes, SyncState
from tests.chunks.chunk_kills import ChunkProcess
from tests.chunks.chunk_tables import ChunkTable, day_name, reading, values_of
from tests.chunks.chunked_lake import ChunkedLake

DAYS = 6


@dataclass
class Tiers:
    """A synced table with two rows of each of six days; on day 10 those of day 0 to 2 are due."""

    lake: ChunkedLake = field(default_factory=lambda: ChunkedLake(has_cold=True, sandbox=True))

    def __post_init__(self) -> None:
        self.lake.begin(2)
        self.lake.on(DAYS)
        self.hot.append_rows(*(reading(id, id // 2) for id in range(2 * DAYS)))
        start_sync(self.lake.services(), self.hot.name)
        self.replicate()

    @property
    def hot(self) -> ChunkTable:
        assert self.lake.hot is not None
        return self.lake.hot

    def replicate(
        self, said: Deletes | None = None, services: RunContext | None = None
    ) -> Replicated:
        context = services or self.lake.services()
        (done,) = replicate(context, chunked_tables(context), said)
        return done

    def add_policy(self) -> None:
        ages = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="7d")
        add_policy(self.lake.services(), self.hot.name, ages)
        self.lake.on(10)

    def run(self, id: str, services: RunContext | None = None) -> dict[str, str]:
        """A run of the policies; each chunk's status afterwards."""
        run_chunks(services or self.lake.services(), self.lake.request(id), at_once=True)
        return self.statuses()

    def statuses(self) -> dict[str, str]:
        return {name: str(chunk.status) for name, chunk in sorted(self.lake.chunks().items())}

    def anew(self) -> Replicated:
        """A new generation: everything is copied and verified once more."""
        if self.lake.sync and self.lake.sync.state is SyncState.STREAMING:
            stop_sync(self.lake.services(), self.hot.name)
        start_sync(self.lake.services(), self.hot.name)
        return self.replicate()

    def fail_and_begin_anew(self) -> Replicated:
        """What a person does who has rolled hot back."""
        assert self.replicate().sync.reason == "DIVERGED"
        return self.anew()

    def die_at(self, call: str, number: int) -> ChunkProcess:
        return ChunkProcess(number, False, call, lake=self.lake)

    def die_after(self, call: str, number: int) -> ChunkProcess:
        """A process that dies once the call is made, and before its answer is heard."""
        return ChunkProcess(number, True, call, lake=self.lake)

    def compact_cold(self, *days: int) -> None:
        """What cold's owner does, who alone may; without days all is rewritten."""
        self.lake.compact_cold(*map(day_name, days))

    def told(self) -> dict[str, int]:
        """What cold says of itself."""
        (entry,) = self.lake.cold.listing().entries
        document = json.loads(self.lake.store.read(entry.metadata_location))
        return dict(json.loads(document["properties"].get(SYNC_DROPPED, "{}")))

    def ids(self) -> list[int]:
        """The ids of all rows in cold, in order; one that is there twice is told twice."""
        return sorted(values_of(self.lake.cold_rows()))
