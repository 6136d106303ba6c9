"""What cold alone has stays in cold, whatever dies, comes back or is lost in between (LT-26)."""

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import run_chunks
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SYNC_DROPPED, Deletes, SyncState
from meltline.ports.chunks import DropOutcome, DropRequest
from tests.lake.chunk_tables import ChunkTable, day_name, reading, values_of
from tests.lives.chunk_kills import ChunkProcess
from tests.lives.chunked_lake import ChunkedLake
from tests.lives.kills import Killed

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

    def told(self) -> dict[str, int]:
        """What cold says of itself."""
        (entry,) = self.lake.cold.listing().entries
        document = json.loads(self.lake.store.read(entry.metadata_location))
        return dict(json.loads(document["properties"].get(SYNC_DROPPED, "{}")))

    def ids(self) -> list[int]:
        """The ids of all rows in cold, in order; one that is there twice is told twice."""
        return sorted(values_of(self.lake.cold_rows()))


@dataclass(frozen=True)
class RefusingDropper:
    """A table that has always moved on."""

    def drop(self, request: DropRequest) -> DropOutcome:
        return DropOutcome(None, "others committed first each time")


def test_what_a_person_has_cold_keep_it_keeps_though_the_pass_died_before_its_end() -> None:
    tiers = Tiers()
    tiers.hot.delete_chunks(*map(day_name, range(3)))
    assert tiers.replicate().sync.reason == "LARGE_DELETES"
    dying = tiers.die_at("control.chunks.move", 1)
    with suppress(Killed):
        tiers.replicate(Deletes.KEEP, dying.of(tiers.lake.services()))
    assert dying.dead
    tiers.lake.let_leases_end()
    tiers.hot.append_rows(reading(50, 5))
    tiers.replicate(Deletes.KEEP)
    assert tiers.anew().error is None
    assert tiers.ids() == [*range(2 * DAYS), 50]


@pytest.mark.parametrize("number", [1, 2])
def test_a_drop_that_died_while_it_was_prepared_leaves_a_table_that_goes_on(number: int) -> None:
    tiers = Tiers()
    tiers.add_policy()
    dying = tiers.die_at("control.chunks.move", number)
    with suppress(Killed):
        tiers.run("dies", dying.of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    tiers.hot.put([0], [reading(99, 0)])
    assert tiers.replicate().error is None
    assert tiers.ids() == [*range(1, 2 * DAYS), 99]
    assert tiers.run("next")[day_name(0)] == "dropped"


def test_a_ledger_that_was_lost_learns_from_cold_what_cold_alone_has() -> None:
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.lake.control.chunks.forget(tiers.lake.uuid)
    assert tiers.anew().error is None
    assert tiers.statuses()[day_name(0)] == "dropped"
    assert tiers.ids() == list(range(2 * DAYS))
    assert tiers.told().keys() == set(map(day_name, range(3)))
    assert tiers.anew().error is None
    assert tiers.ids() == list(range(2 * DAYS))


def test_a_rollback_over_two_drops_of_a_chunk_leaves_no_row_twice() -> None:
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    tiers.run("second")
    assert tiers.statuses()[day_name(0)] == "dropped"
    tiers.hot.point("main", before)
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.statuses()[day_name(0)] == "active"
    assert tiers.ids() == list(range(2 * DAYS))


def test_a_rollback_to_between_two_drops_leaves_late_rows_late() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0))
    tiers.replicate()
    between = tiers.hot.head
    tiers.hot.append_rows(reading(71, 0))
    tiers.run("second")
    tiers.hot.point("main", between)
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert tiers.ids() == [*range(2 * DAYS), 70]
    assert tiers.run("third")[day_name(0)] == "dropped"
    assert tiers.ids() == [*range(2 * DAYS), 70]


def test_late_rows_of_a_drop_that_was_not_made_are_still_late() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0))
    tiers.run("refused", replace(tiers.lake.services(), dropper=RefusingDropper()))
    assert tiers.statuses()[day_name(0)] == "reopened"
    tiers.hot.put([70], [reading(72, 0)])
    tiers.replicate()
    assert tiers.ids() == [*range(2 * DAYS), 72]
    assert tiers.run("again")[day_name(0)] == "dropped"
    assert tiers.ids() == [*range(2 * DAYS), 72]
