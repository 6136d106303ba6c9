"""The benchmark chunks: proof of many at once, what follows a large base, status, and one commit.

The gate stands beside the way that is at hand without it: a query over hot and one over cold for
each chunk. Replication of the same hundred commits is timed on a base and on a ten times larger
one.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench
from benchmarks.commits import Commits
from benchmarks.results import Figure, Outcome
from benchmarks.sides import Run
from benchmarks.tiers import Tiers
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.reading.status import tiering_status
from meltline.app.chunks.replication.declare import LayoutWish, start_sync
from meltline.app.chunks.replication.synced_table import open_synced
from meltline.app.chunks.run import ChunkRun
from meltline.app.run.steps import CHUNK_STEPS
from meltline.app.run_request import RunRequest
from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import EPOCH, Unit
from meltline.domain.chunks.sync import (
    SYNC_GENERATION,
    SYNC_PLACE,
    SYNC_SNAPSHOT,
    Position,
    SyncState,
    TrackedTable,
)
from meltline.domain.iceberg.names import TableName

_CHUNKS, _ROWS = 10_000, 4
_ASKED = 50  # chunks for which the single queries are timed; all of them would take hours
_DROPPED = 1000
_BASES = (100_000, 1_000_000)
_COMMITS = 100
_TABLES, _EACH = 1000, 1000
_START = datetime(2020, 1, 1, tzinfo=UTC)


def run_chunks(bench: Bench) -> list[Outcome]:
    """Everything; each part on a lake of its own."""
    return [_proof(bench), _following(bench), _status(bench)]


# --- proof and drop -----------------------------------------------------------------------------


def _proof(bench: Bench) -> Outcome:
    """Evaluating and gating all chunks of a table, beside two queries for each of them."""
    count = max(_ASKED, round(_CHUNKS * bench.scale))
    tiers = Tiers.create(bench, "chunks-proof", count)
    bench.say(f"chunks: a table of {count:,} hours, synced")
    _write_hours(tiers, count)
    start_sync(tiers.services, tiers.name())
    tiers.replicate()
    wish = PolicyWish(PolicyType.TIERED_RETENTION, "1d", "2d")
    add_policy(tiers.services, tiers.name(), wish)
    run = _run(tiers, "proof")

    def ours() -> None:
        run.evaluate_chunks()
        run.plan_drops()
        run.gate_drops()

    meltline = tiers.timed("all chunks at once", ours, f"{count:,} chunks evaluated and gated")
    asked = min(_ASKED, count)
    single = tiers.timed("a query per chunk", lambda: _ask_each(tiers, asked), f"{asked} chunks")
    line = run.summary.as_json()["tables"][0]
    assert line["chunks_tiered"] == count, line
    dropping = _drop(bench)
    ratio = single.seconds / asked * count / meltline.seconds
    figures = (
        Figure("chunks: evaluate and gate, all at once", ratio, 50),
        *dropping.figures,
    )
    note = f"queries were timed for {asked} chunks, and count as if made for {count:,}"
    size = f"{count:,} chunks of {_ROWS} rows"
    return Outcome("chunks", bench.scale, size, figures, (meltline, single), notes=(note,))


def _write_hours(tiers: Tiers, count: int) -> None:
    spark, name = tiers.bench.spark, str(tiers.name())
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, value DOUBLE, place STRING) USING iceberg"
        " PARTITIONED BY (hours(ts)) TBLPROPERTIES ('format-version'='2',"
        " 'write.spark.fanout.enabled'='false', 'write.distribution-mode'='hash')"
    )
    start = int(_START.timestamp())
    spark.sql(
        f"INSERT INTO {name} SELECT id, timestamp_seconds({start} + 3600 * (id div {_ROWS})), "
        f"id * 0.37D, concat('place ', id % 7) FROM range({count * _ROWS})"
    )


def _run(tiers: Tiers, name: str) -> ChunkRun:
    as_of = datetime.now(UTC)
    return ChunkRun(tiers.services, RunRequest(name, as_of), at_once=True)


def _ask_each(tiers: Tiers, count: int) -> None:
    """What people write by hand: rows and a checksum of one chunk on both sides."""
    for number in range(count):
        start = _START + number * timedelta(hours=1)
        end = start + timedelta(hours=1)
        answers = [
            tiers.bench.spark.sql(
                f"SELECT count(*), sum(hash(*)) FROM {table}"
                f" WHERE ts >= TIMESTAMP'{start:%Y-%m-%d %H:%M:%S}'"
                f" AND ts < TIMESTAMP'{end:%Y-%m-%d %H:%M:%S}'"
            ).collect()
            for table in (str(tiers.name()), tiers.cold())
        ]
        assert answers[0] == answers[1], answers


def _drop(bench: Bench) -> Outcome:
    """A thousand chunks leave in one commit, which writes no data."""
    count = max(2, round(_DROPPED * min(1.0, bench.scale * 10)))
    tiers = Tiers.create(bench, "chunks-drop", count)
    _write_hours(tiers, count)
    start_sync(tiers.services, tiers.name())
    tiers.replicate()
    add_policy(tiers.services, tiers.name(), PolicyWish(PolicyType.RETENTION, "", "2d"))
    before = HotTable.load(tiers.services, tiers.name())
    data = sum(1 for _ in tiers.root.glob("hot/n/*/data/**/*.parquet"))
    run = _run(tiers, "drop")
    run.visit(CHUNK_STEPS)
    after = HotTable.load(tiers.services, tiers.name())
    written = sum(1 for _ in tiers.root.glob("hot/n/*/data/**/*.parquet")) - data
    dropped = run.summary.as_json()["tables"][0].get("chunks_dropped", 0)
    assert dropped == count, run.summary.as_json()
    commits = len(after.state.snapshots) - len(before.state.snapshots)
    return Outcome(
        "chunks",
        bench.scale,
        f"{count} chunks",
        (
            Figure(f"chunks: commits that dropped {count:,}", commits, 1, "", at_most=True),
            Figure("chunks: data files that the drop wrote", written, 0, "", at_most=True),
        ),
    )


# --- replication --------------------------------------------------------------------------------


def _following(bench: Bench) -> Outcome:
    """The next hundred commits on a base, and on one ten times as large."""
    runs = [_followed(bench, round(files * bench.scale)) for files in _BASES]
    growth = runs[1].seconds / runs[0].seconds
    manifests = [run.seen.opened.get("manifests", 0) for run in runs]
    figures = (
        Figure("chunks: replication, base ten times as large, time", growth, 1.2, at_most=True),
        Figure(
            "chunks: replication, manifests opened beside the smaller base",
            manifests[1] - manifests[0],
            0,
            "",
            at_most=True,
        ),
    )
    size = f"{_COMMITS} commits on {_BASES[0] * bench.scale:,.0f} and ten times as many files"
    note = "the files of the base were never written: replication opens none of them"
    return Outcome("chunks", bench.scale, size, figures, tuple(runs), notes=(note,))


def _followed(bench: Bench, files: int) -> Run:
    tiers = Tiers.create(bench, f"chunks-base-{files}")
    bench.say(f"chunks: a base of {files:,} files in hot and in cold")
    spark, name = bench.spark, tiers.name()
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, c1 TIMESTAMP) USING iceberg"
        " TBLPROPERTIES ('format-version'='2')"
    )
    base = Commits(20, files // 20, 0)
    bench.committer.commit(str(name), f"file://{tiers.root}/hot/n/t/data", base)
    sync = start_sync(tiers.services, name, wish=LayoutWish("c1", Unit.DAY))
    assert tiers.services.prepare_cold is not None
    tiers.services.prepare_cold()
    hot = HotTable.load(tiers.services, name)
    open_synced(tiers.services, hot, sync)
    bench.committer.commit(tiers.cold(), f"file://{tiers.root}/cold/data", base)
    _call_it_copied(tiers, name)
    for number in range(_COMMITS):
        spark.sql(f"INSERT INTO {name} VALUES ({number}, TIMESTAMP'2026-01-01 00:00:00')")
    return tiers.timed(
        f"replication on {files:,} files", tiers.replicate, f"{_COMMITS} commits copied"
    )


def _call_it_copied(tiers: Tiers, name: TableName) -> None:
    """Says in cold and in the ledger that cold has the base: its files are no files to be read."""
    services = tiers.services
    hot = HotTable.load(services, name)
    (sync,) = services.control.syncs.all([hot.state.uuid])
    (tracked,) = services.control.chunks.tracked([hot.state.uuid])
    assert tracked.walked is not None and services.cold is not None
    at = replace(tracked.walked, generation=sync.generation)
    words = {
        SYNC_GENERATION: str(at.generation),
        SYNC_PLACE: str(at.place),
        SYNC_SNAPSHOT: str(at.snapshot_id),
    }
    services.cold.editor.set_table_properties(sync.cold, words)
    services.control.chunks.advance(tracked, replace(tracked, walked=at), ())
    following = replace(
        sync, state=SyncState.STREAMING, committed=at, heartbeat=services.clock.now()
    )
    services.control.syncs.save(sync, following)


# --- status -------------------------------------------------------------------------------------


def _status(bench: Bench) -> Outcome:
    """What a thousand tables of a thousand chunks look like, from the ledger alone."""
    tables, each = max(2, round(_TABLES * bench.scale)), max(2, round(_EACH * bench.scale))
    tiers = Tiers.create(bench, "chunks-status")
    bench.say(f"chunks: {tables:,} tables of {each:,} chunks in the ledger")
    layout = ChunkLayout(TimeColumn("ts", 2, ColumnKind.TIMESTAMP), Unit.HOUR)
    for number in range(tables):
        uuid = f"table-{number}"
        name = replace(tiers.name(), name=f"t{number}")
        table = TrackedTable(uuid, name, layout, Position(0, 1, 1))
        tiers.services.control.chunks.advance(None, table, _chunks(uuid, each))
    started = time.perf_counter()
    lines = tiering_status(tiers.services)
    seconds = time.perf_counter() - started
    assert len(lines) == tables
    figure = Figure("chunks: status, without the start", seconds, 1, "s", at_most=True)
    return Outcome("chunks", bench.scale, f"{tables:,} tables of {each:,} chunks", (figure,))


def _chunks(uuid: str, count: int) -> list[Chunk]:
    hour = timedelta(hours=1)
    return [
        Chunk(
            uuid,
            Unit.HOUR.label(EPOCH + number * hour),
            EPOCH + number * hour,
            EPOCH + (number + 1) * hour,
            ChunkStatus.TIERED if number % 2 else ChunkStatus.ACTIVE,
            rows=10,
            bytes=1000,
            files=1,
            last_write=1,
        )
        for number in range(count)
    ]
