"""The gate before a drop: each of its facts forbids alone; force passes over the proof alone."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.gate import DropLook
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.plan_drops import Force, plan_drops
from meltline.app.chunks.policies import PolicyWish, add_policy, forget_policy
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.rounds import gate_drops, judge_drops
from meltline.app.chunks.tracking import tracking_of
from meltline.app.services import ColdReader, ReadSources, RunContext
from meltline.domain.chunks.chunk import UNKNOWN_DROP, ChunkDrop, Deferral, DropStatus
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.chunks.sync import SYNC_DROPPED, RowDigest
from meltline.domain.deletion.gate import GateFacts
from meltline.domain.deletion.limits import ChunkSettings
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import PlanStale, SyncRefused
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.names import TableName
from meltline.ports import ChunkRows, ControlSources
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    EQUALITY,
    MERGE_ON_READ,
    ChunkTable,
    chunk_table,
    day_name,
    reading,
)
from tests.doubles.chunks.rows import data_bytes
from tests.lake.lake import Lake

NAME = "lake.air.t"
HOLD = "meltline.hold"
TIERED = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="7d")


@dataclass
class Planned:
    """A synced table with rows of days 0 to 5, two each; on day 10 days 0 to 2 are planned."""

    lake: Lake = field(default_factory=lambda: Lake(has_cold=True))
    wish: PolicyWish = TIERED
    synced: bool = True
    table: ChunkTable = field(init=False)
    plan: Plan = field(init=False)
    items: Sequence[PlannedFile] = ()

    def __post_init__(self) -> None:
        self.table = chunk_table(self.lake.on(6), NAME)
        self.table.append_rows(*(reading(id, id // 2) for id in range(12)))
        if self.synced:
            start_sync(self.lake.services(), self.table.name)
        add_policy(self.lake.services(), self.table.name, self.wish)
        self.lake.on(10)
        self.copy()
        self.make_plan()

    def copy(self) -> None:
        services = self.lake.services()
        replicate(services, chunked_tables(services))

    def make_plan(self, force: Force | None = None) -> None:
        services = self.lake.services()
        (table,) = chunked_tables(services)
        tracking = tracking_of(services, table)
        now = self.lake.clock.now()
        drops = plan_drops(services, table, tracking, run_id="r", as_of=now, force=force)
        assert drops.plan is not None, drops.deferred
        self.plan, self.items = drops.plan.plan, drops.plan.files

    def failing(
        self, services: RunContext | None = None, force: Force | None = None, **plan: Any
    ) -> set[str]:
        """The facts that forbid the drop."""
        services = services or self.lake.services()
        evidence = self.evidence(services, replace(self.plan, **plan), force)
        (verdict,) = services.gate.judge([evidence], self.lake.clock.now())
        return {failed.fact for failed in verdict.failed}

    def evidence(self, services: RunContext, plan: Plan, force: Force | None = None) -> GateFacts:
        assert services.chunk_rows is not None
        return DropLook(services.read_only(), services.chunk_rows, plan, self.items, force).facts()

    def drop_before(self, standing: DropStatus) -> None:
        """The ledger has a drop of day 0 from before the plan, and how it stands."""
        chunks = self.lake.control.chunks
        chunk = chunks.of(self.plan.table_uuid)[day_name(0)]
        drop = ChunkDrop(UNKNOWN_DROP, 0, None, standing)
        assert chunks.move([(chunk, replace(chunk, drops=(drop,)))]) == [True]

    def keep_latest(self, count: int) -> None:
        """The same policy, which keeps so many of the latest chunks."""
        forget_policy(self.lake.services(), self.table.name, PolicyType.TIERED_RETENTION)
        add_policy(self.lake.services(), self.table.name, replace(TIERED, keep_latest=count))

    def of_cold(self) -> ChunkTable:
        (entry,) = self.lake.cold.listing().entries
        self.lake.catalogs["ice"] = self.lake.cold
        return ChunkTable(self.lake, entry.name)


@dataclass
class Engine:
    """An engine that tells something else of files than there is."""

    inner: ChunkRows
    tell: Callable[[dict[str, set[str]]], None]

    def digests(self, *about: Any, **more: Any) -> Mapping[str, RowDigest]:
        return self.inner.digests(*about, **more)

    def files(
        self, table: TableName, snapshot_id: int, layout: ChunkLayout, chunks: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        listed = self.inner.files(table, snapshot_id, layout, chunks)
        told = {name: set(paths) for name, paths in listed.items()}
        self.tell(told)
        return told


def told(planned: Planned, tell: Callable[[dict[str, set[str]]], None]) -> RunContext:
    services = planned.lake.services()
    assert services.chunk_rows is not None
    return replace(services, chunk_rows=Engine(services.chunk_rows, tell))


# --- what the gate passes -------------------------------------------------------------------------


def test_chunks_that_are_proved_pass_and_the_verdict_is_stored() -> None:
    planned = Planned()
    assert planned.plan.chunks == (day_name(0), day_name(1), day_name(2))
    ((plan, verdict),) = gate_drops(planned.lake.services(), [planned.plan])
    assert verdict.passed and plan.state is PlanState.PASSED
    stored = planned.lake.control.verdicts.newest([plan.id])
    assert stored[plan.id].digest == planned.plan.digest


def test_lt_25_the_age_of_tiering_drops_nothing() -> None:
    assert day_name(3) not in Planned().plan.chunks


def test_what_is_written_to_other_chunks_forbids_nothing() -> None:
    planned = Planned()
    planned.table.append_rows(reading(20, 5.5))
    planned.table.put([8], mode=MERGE_ON_READ)
    planned.table.compact_chunks(day_name(5))
    assert planned.failing() == set()


def test_rows_that_somebody_deleted_before_are_none_that_cold_lacks() -> None:
    planned = Planned()
    planned.table.put([0], mode=EQUALITY)
    planned.copy()
    planned.make_plan()
    assert planned.failing() == set()


def test_the_look_is_given_no_port_that_writes() -> None:
    sources = Planned().lake.services().read_only()
    assert type(sources) is ReadSources
    assert type(sources.control) is ControlSources
    assert type(sources.cold) is ColdReader


# --- what forbids, alone --------------------------------------------------------------------------


def test_items_that_do_not_give_the_digest_forbid() -> None:
    planned = Planned()
    planned.items = planned.items[1:]
    assert "digest_matches" in planned.failing()


def test_another_digest_forbids() -> None:
    assert Planned().failing(digest="sha256:0") == {"digest_matches"}


def test_a_count_that_is_another_forbids() -> None:
    assert Planned().failing(files=7) == {"digest_matches"}


WRITES: Mapping[str, Callable[[ChunkTable], object]] = {
    "a late row": lambda table: table.append_rows(reading(20, 0.5)),
    "a row deleted by copy-on-write": lambda table: table.put([0], mode=COPY_ON_WRITE),
    "a row deleted by position": lambda table: table.put([0], mode=MERGE_ON_READ),
    "a row deleted by its key": lambda table: table.put([0], mode=EQUALITY),
    "a row that moves in": lambda table: table.put([9], [reading(9, 1.5)], COPY_ON_WRITE),
    "a row that moves out": lambda table: table.put([0], [reading(0, 5.5)], MERGE_ON_READ),
    "another tool's expiry": lambda table: table.delete_chunks(day_name(0)),
    "a compaction": lambda table: table.compact_chunks(day_name(0)),
}


@pytest.mark.parametrize("write", WRITES)
def test_lt_36_whatever_reaches_a_planned_chunk_after_the_plan_forbids(write: str) -> None:
    planned = Planned()
    WRITES[write](planned.table)
    assert planned.failing() == {"chunks_written_since"}


def test_a_base_that_main_has_left_forbids() -> None:
    planned = Planned()
    first = planned.table.head
    planned.table.append_rows(reading(20, 5.5))
    planned.copy()
    planned.make_plan()
    planned.table.rollback(first)
    assert {"base_lost", "chunks_written_since"} <= planned.failing()


def test_after_a_base_that_main_has_left_every_chunk_counts_as_written() -> None:
    planned = Planned()
    first = planned.table.head
    planned.table.append_rows(reading(20, 5.5))
    planned.copy()
    planned.make_plan()
    planned.table.rollback(first)
    services, chunks = planned.lake.services(), planned.plan.chunks
    judged = planned.evidence(services, planned.plan)
    assert judged.facts["chunks_written_since"] == len(chunks) > 0


def test_a_drop_whose_base_main_leaves_after_the_gate_is_overtaken() -> None:
    planned = Planned(wish=PolicyWish(PolicyType.RETENTION, drop_after="7d"), synced=False)
    first = planned.table.head
    planned.table.append_rows(reading(20, 5.5))
    planned.make_plan()
    services = planned.lake.services()
    ((passed, _),) = gate_drops(services, [planned.plan])
    planned.table.rollback(first)
    (dropped,) = drop_chunks(services, [passed])
    assert isinstance(dropped.error, PlanStale) and not dropped.chunks
    assert dropped.error.found == "a chunk was written since the gate"


def test_a_chunk_of_which_nobody_can_tell_whether_it_was_dropped_forbids() -> None:
    planned = Planned()
    planned.drop_before(DropStatus.UNKNOWN)
    assert planned.failing() == {"drops_unknown"}
    force = Force(planned.plan.chunks, "no use")
    assert planned.failing(force=force) == {"drops_unknown"}
    (judged,) = judge_drops(planned.lake.services(), [planned.plan])
    assert judged.apart == {day_name(0): Deferral.UNKNOWN_DROP}


@pytest.mark.parametrize("standing", [DropStatus.IN_FORCE, DropStatus.UNDONE])
def test_a_chunk_whose_earlier_drop_can_be_told_may_go(standing: DropStatus) -> None:
    planned = Planned()
    planned.drop_before(standing)
    assert planned.failing() == set()


def test_an_earlier_drop_that_was_told_on_a_line_that_main_has_left_forbids() -> None:
    planned = Planned()
    planned.drop_before(DropStatus.IN_FORCE)
    planned.table.append_rows(reading(20, 5.5))
    (table,) = chunked_tables(planned.lake.services())
    tracking_of(planned.lake.services(), table)
    assert planned.plan.base_head is not None
    planned.table.rollback(planned.plan.base_head)
    assert planned.failing() == {"drops_unknown"}


def test_a_hold_forbids_forced_drops_too() -> None:
    planned = Planned()
    planned.table.edit(lambda document: document["properties"].update({HOLD: "audit"}))
    assert planned.failing() == {"planned_held"}
    assert planned.failing(force=Force(planned.plan.chunks, "no use")) == {"planned_held"}


def test_a_policy_that_was_made_longer_forbids() -> None:
    planned = Planned()
    forget_policy(planned.lake.services(), planned.table.name, PolicyType.TIERED_RETENTION)
    assert planned.failing() == {"chunks_young"}
    longer = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="9d")
    add_policy(planned.lake.services(), planned.table.name, longer)
    assert planned.failing() == {"chunks_young"}


def test_the_latest_chunks_that_are_to_stay_forbid() -> None:
    planned = Planned()
    planned.keep_latest(3)
    assert planned.failing() == set()
    planned.keep_latest(4)
    assert planned.failing() == {"chunks_latest"}


def test_a_chunk_of_a_year_to_come_is_none_of_the_latest() -> None:
    planned = Planned()
    planned.table.append_rows(reading(20, 4000))
    planned.copy()
    planned.make_plan()
    planned.keep_latest(4)
    assert planned.failing() == {"chunks_latest"}


def test_a_chunk_that_was_emptied_is_none_of_the_latest() -> None:
    planned = Planned()
    planned.table.delete_chunks(day_name(5))
    planned.copy()
    planned.make_plan()
    planned.keep_latest(3)
    assert planned.failing() == {"chunks_latest"}


def test_rows_without_a_time_forbid() -> None:
    planned = Planned()
    planned.table.append_rows(reading(20, None))
    planned.copy()
    planned.make_plan()
    failing = planned.failing(chunks=(*planned.plan.chunks, UNBOUNDED))
    assert {"chunks_without_time", "chunks_young", "files_differ"} <= failing
    force = Force((*planned.plan.chunks, UNBOUNDED), "no use")
    assert "chunks_without_time" in planned.failing(None, force, chunks=force.chunks)


def test_a_live_file_that_is_not_planned_forbids() -> None:
    planned = Planned()
    services = told(planned, lambda listed: listed[day_name(0)].add("file:///w/more.parquet"))
    assert planned.failing(services) == {"files_differ"}


def test_a_planned_file_that_the_engine_does_not_have_forbids() -> None:
    planned = Planned()
    services = told(planned, lambda listed: listed.pop(day_name(0)))  # type: ignore[arg-type]
    assert planned.failing(services) == {"files_differ"}


def test_a_file_with_rows_of_other_chunks_forbids() -> None:
    planned = Planned()
    services = told(planned, lambda listed: listed.update({"*": {"file:///w/wide.parquet"}}))
    assert planned.failing(services) == {"files_reaching_beyond"}


def test_an_engine_that_cannot_list_forbids() -> None:
    planned = Planned()

    def fail(_: object) -> None:
        raise SyncRefused("no answer", object="t")

    failing = planned.failing(told(planned, fail))
    assert {"unreadable", "files_differ", "chunks_proved"} <= failing


def test_a_manifest_that_cannot_be_read_forbids() -> None:
    planned = Planned()
    planned.table.append_rows(reading(20, 5.5))
    planned.lake.spoil(planned.table.manifest_list(planned.table.head))
    assert {"unreadable", "chunks_written_since"} <= planned.failing()


def test_replication_that_was_not_heard_of_lately_forbids() -> None:
    planned = Planned()
    planned.lake.clock.moment += timedelta(hours=3)
    assert planned.failing() == {"not_durable"}


def test_a_sync_that_was_stopped_forbids() -> None:
    planned = Planned()
    stop_sync(planned.lake.services(), planned.table.name)
    assert planned.failing() == {"not_durable"}


def test_rows_that_cold_has_otherwise_forbid() -> None:
    planned = Planned()
    cold = planned.of_cold()
    file = cold.of_kind(FileKind.DATA)[0]
    rows = cold.rows.written(file.path)
    other = data_bytes([reading(0, 0, 99), *rows[1:]])
    planned.lake.store.write(file.path, other)
    assert planned.failing() == {"rows_differ"}


def test_cold_that_cannot_be_read_forbids() -> None:
    planned = Planned()
    planned.lake.spoil(planned.of_cold().metadata_location)
    assert {"cold_unreadable", "rows_differ"} <= planned.failing()


def test_cold_that_is_not_what_replication_left_forbids() -> None:
    planned = Planned()
    cold = planned.of_cold()
    cold.edit(lambda document: document["properties"].update({"meltline.sync-place": "7"}))
    assert {"cold_unreadable", "rows_differ"} <= planned.failing()


def test_cold_that_does_not_say_what_it_alone_has_forbids() -> None:
    planned = Planned()
    cold = planned.of_cold()
    cold.edit(lambda document: document["properties"].update({SYNC_DROPPED: "much"}))
    assert {"cold_unreadable", "rows_differ"} <= planned.failing()


def test_a_larger_share_of_the_table_than_may_go_at_once_forbids() -> None:
    planned = Planned()
    services = planned.lake.services()
    config = replace(services.config, chunks=ChunkSettings(max_drop_share=0.4))
    assert planned.failing(replace(services, config=config)) == {"share_allowed"}


# --- what is gated, and what force passes over ----------------------------------------------------


def test_lt_19_plain_retention_without_sync_is_not_asked_for_a_copy() -> None:
    plain = PolicyWish(PolicyType.RETENTION, drop_after="7d")
    assert Planned(wish=plain, synced=False).failing() == set()


def test_lt_20_tiered_retention_without_sync_is() -> None:
    planned = Planned(wish=PolicyWish(PolicyType.RETENTION, drop_after="7d"), synced=False)
    forget_policy(planned.lake.services(), planned.table.name, PolicyType.RETENTION)
    add_policy(planned.lake.services(), planned.table.name, TIERED)
    assert planned.failing() == {"not_durable", "rows_differ"}


def test_lt_22_force_passes_over_the_proof_and_no_more() -> None:
    planned = Planned()
    stop_sync(planned.lake.services(), planned.table.name)
    force = Force(planned.plan.chunks, "nobody needs them")
    assert planned.failing(force=force) == set()
    assert planned.failing(force=Force(force.chunks[1:], "not all")) == {"chunks_young"}
    planned.table.append_rows(reading(20, 0.5))
    assert planned.failing(force=force) == {"chunks_written_since"}
