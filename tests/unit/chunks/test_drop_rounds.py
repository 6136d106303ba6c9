"""One chunk never stops the rest: what a gate finds wrong with it holds back it alone (LT-21)."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.run import ChunkRun, run_chunks
from meltline.app.services import RunContext
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.deletion.limits import ChunkSettings
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import ChunkRows
from tests.chunks.chunk_tables import ChunkTable, chunk_table, day_name, reading
from tests.unit.chunks.tiers import Tiers


@dataclass(frozen=True)
class OddCold:
    """Cold, one chunk of which somebody has changed."""

    inner: ChunkRows
    chunk: str

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
    ) -> Mapping[str, RowDigest]:
        digests = dict(self.inner.digests(table, snapshot_id, layout, chunks, only_files))
        if table.catalog == "ice" and self.chunk in digests:
            rows = digests[self.chunk]
            digests[self.chunk] = replace(rows, checksum=rows.checksum + 1)
        return digests

    def files(
        self, table: TableName, snapshot_id: int, layout: ChunkLayout, chunks: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        return self.inner.files(table, snapshot_id, layout, chunks)


@dataclass(frozen=True)
class OddAndSpoilt:
    """Cold of one table, a chunk of which is odd; meanwhile hot gets a commit that none can read.

    The plan of that table cannot be made anew.
    """

    inner: ChunkRows
    table: ChunkTable
    chunk: str

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
    ) -> Mapping[str, RowDigest]:
        if table.name != self.table.name.name:
            return self.inner.digests(table, snapshot_id, layout, chunks, only_files)
        odd_cold = OddCold(self.inner, self.chunk)
        digests = odd_cold.digests(table, snapshot_id, layout, chunks, only_files)
        if table.catalog == "lake":
            self.table.append_rows(reading(30, 5.5))
            self.table.lake.spoil(self.table.manifest_list(self.table.head))
        return digests

    def files(
        self, table: TableName, snapshot_id: int, layout: ChunkLayout, chunks: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        return self.inner.files(table, snapshot_id, layout, chunks)


def odd(tiers: Tiers, chunk: str) -> RunContext:
    services = tiers.lake.services()
    assert services.chunk_rows is not None
    return replace(services, chunk_rows=OddCold(services.chunk_rows, chunk))


def reasons(run: ChunkRun) -> dict[str, str]:
    return {line["chunk"]: line["reason"] for line in run.summary.deferred}


def test_a_chunk_with_other_rows_in_cold_waits_and_all_others_go() -> None:
    tiers = Tiers()
    tiers.add_policy()
    run = run_chunks(odd(tiers, day_name(1)), tiers.lake.request("a"), at_once=True)
    statuses = tiers.statuses()
    assert [statuses[day_name(day)] for day in range(3)] == ["dropped", "active", "dropped"]
    assert reasons(run)[day_name(1)] == "ROWS_DIFFER"
    assert not any(t.refused or t.skipped or t.failed for t in run.summary.tables.values())


def test_a_table_that_cannot_be_planned_anew_stops_no_other() -> None:
    tiers = Tiers()
    other = chunk_table(tiers.lake, "lake.air.before")
    other.append_rows(*(reading(id, id // 2) for id in range(12)))
    start_sync(tiers.lake.services(), other.name)
    ages = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="5d", drop_after="7d")
    add_policy(tiers.lake.services(), other.name, ages)
    tiers.add_policy()
    run = ChunkRun(tiers.lake.services(), tiers.lake.request("a"), at_once=True)
    for step in (run.replicate_to_cold, run.evaluate_chunks, run.plan_drops):
        step()
    assert run.context.chunk_rows is not None
    odd_rows = OddAndSpoilt(run.context.chunk_rows, other, day_name(1))
    run.context = replace(run.context, chunk_rows=odd_rows)
    run.gate_drops()
    run.drop_chunks()
    statuses = tiers.statuses()
    assert [statuses[day_name(day)] for day in range(3)] == ["dropped"] * 3
    assert not any(c.dropped_at for c in tiers.lake.control.chunks.of(other.uuid).values())
    stopped = run.summary.tables[str(other.name)]
    assert "manifest" in stopped.skipped, stopped


def test_where_no_chunk_is_right_the_plan_is_refused_and_nothing_goes() -> None:
    tiers = Tiers()
    tiers.add_policy()
    first = run_chunks(tiers.lake.services(), tiers.lake.request("a"), at_once=True)
    assert [r.plan.state for r in first.results] == ["applied"]
    tiers.lake.on(11)
    run = run_chunks(odd(tiers, day_name(3)), tiers.lake.request("b"), at_once=True)
    assert tiers.statuses()[day_name(3)] == "tiered"
    (table,) = run.summary.tables.values()
    assert "rows_differ" in table.refused


def test_what_others_do_to_cold_between_gate_and_drop_nobody_has_judged() -> None:
    tiers = Tiers()
    tiers.add_policy()
    run = ChunkRun(tiers.lake.services(), tiers.lake.request("a"), at_once=True)
    for step in (run.replicate_to_cold, run.evaluate_chunks, run.plan_drops, run.gate_drops):
        step()
    tiers.compact_cold(5)
    (plan,) = run.planned
    context = run.context
    (dropped,) = drop_chunks(context, [context.control.plans.get(plan.id)])
    assert "others have changed cold" in str(dropped.error)
    assert tiers.statuses()[day_name(0)] == "tiered"
    assert tiers.run("next")[day_name(0)] == "dropped"


def test_a_backlog_larger_than_the_share_drains_over_the_next_runs_and_says_in_how_many() -> None:
    tiers = Tiers()
    tiers.add_policy()

    def run(id: str) -> ChunkRun:
        services = tiers.lake.services()
        config = replace(services.config, chunks=ChunkSettings(max_drop_share=0.4))
        return run_chunks(replace(services, config=config), tiers.lake.request(id), at_once=True)

    first = run("first").summary
    (waits,) = first.deferred
    assert (waits["chunk"], waits["reason"]) == (day_name(2), "OVER_SHARE")
    assert waits["detail"] == "the 2 oldest of 3 chunks go first: all are dropped in 2 runs"
    assert first.exit_code == 0
    assert Counter(tiers.statuses().values())["dropped"] == 2
    assert run("second").summary.exit_code == 0
    assert Counter(tiers.statuses().values())["dropped"] == 3
