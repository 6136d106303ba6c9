"""Which chunk is dropped, which waits and why, on real tables (LT-7 to LT-26, LT-29, LT-33)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.chunks.policies import forget_policy
from meltline.app.chunks.replication.declare import stop_sync
from meltline.app.retention.holds import add_hold, remove_hold
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, deferred, dropped, ids

pytestmark = pytest.mark.spark

DROPPING = (PolicyType.RETENTION, PolicyType.TIERED_RETENTION)
each_kind = pytest.mark.parametrize("kind", DROPPING)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("matrix"))


def filled(lake: ChunkLake, table: str) -> None:
    """Two commits of old and young days, on a table that nobody has told Meltline of."""
    lake.create(table)
    lake.insert(table, *OLD, *YOUNG, rows=1)
    lake.insert(table, *OLD, *YOUNG, rows=1)


def synced(lake: ChunkLake, table: str, *kinds: PolicyType) -> None:
    filled(lake, table)
    lake.sync(table)
    lake.follow(table)
    for kind in kinds:
        lake.policy(table, kind)


# --- the table of {synced, unsynced} x {retention, tiered retention} x what is known --------------


def test_plain_retention_drops_unsynced_chunks_outright_whatever_happened_to_the_table(
    lake: ChunkLake,
) -> None:
    filled(lake, "u_plain")
    first = lake.w.snapshots("u_plain")[0]
    lake.policy("u_plain", PolicyType.RETENTION)
    lake.w.sql(f"CALL rollback_to_snapshot('n.u_plain', {first})")
    lake.insert("u_plain", 9)
    run = lake.run("u_plain")
    assert dropped(run) == lake.days(*OLD) and deferred(run) == {}
    assert lake.hot_days("u_plain") == lake.days(*YOUNG)


def test_tiered_retention_never_drops_what_is_not_synced(lake: ChunkLake) -> None:
    filled(lake, "u_tiered")
    added = lake.policy("u_tiered", PolicyType.TIERED_RETENTION)
    assert any("not synced" in notice for notice in added.notices)
    first = lake.w.snapshots("u_tiered")[0]
    lake.w.sql(f"CALL rollback_to_snapshot('n.u_tiered', {first})")
    run = lake.run("u_tiered")
    assert dropped(run) == []
    assert deferred(run) == dict.fromkeys(lake.days(*OLD), Deferral.NOT_SYNCED)
    assert run.summary.exit_code == 0


@each_kind
def test_a_durable_chunk_is_dropped_without_being_tiered_first(
    lake: ChunkLake, kind: PolicyType
) -> None:
    """LT-21; LT-23, LT-33: cold stays as it is, and shows what hot does not show any more."""
    table = f"durable_{kind}"
    synced(lake, table, kind)
    before, everything = lake.cold_document(table), lake.hot(table)
    assert set(lake.statuses(table).values()) == {"active"}
    run = lake.run(table, steps=[step for step in lake.steps if step.name != "evaluate_chunks"])
    assert dropped(run) == lake.days(*OLD) and deferred(run) == {}
    assert lake.hot_days(table) == lake.days(*YOUNG)
    after = lake.cold_document(table)
    assert after["current-snapshot-id"] == before["current-snapshot-id"]
    assert lake.cold(table) == everything == lake.both(table)
    (done,) = run.results
    assert done.out_of_hot and done.out_of_history and done.gone
    assert done.out_of_hot < done.out_of_history <= done.gone
    assert lake.head(table) == lake.w.snapshots(table)[-1]
    assert lake.w.document(table)["snapshots"][-1]["summary"]["operation"] == "delete"


def late_row(lake: ChunkLake, table: str) -> None:
    lake.insert(table, OLD[0])


def no_copy_yet(lake: ChunkLake, table: str) -> None:
    stop_sync(lake.services(), lake.name(table))
    lake.sync(table)


def silence(lake: ChunkLake, table: str) -> None:
    lake.ahead += timedelta(hours=3)


def stop(lake: ChunkLake, table: str) -> None:
    stop_sync(lake.services(), lake.name(table))


def lost_positions(lake: ChunkLake, table: str) -> None:
    ledger, uuid = lake.services().control.chunks, lake.uuid(table)
    (tracked,) = ledger.tracked([uuid])
    chunks = [replace(c, last_write=None) for c in ledger.of(uuid).values()]
    ledger.advance(tracked, tracked, chunks, anew=True)


def rollback(lake: ChunkLake, table: str) -> None:
    first = lake.w.snapshots(table)[0]
    lake.w.sql(f"CALL rollback_to_snapshot('n.{table}', {first})")


def rollback_that_replication_has_seen(lake: ChunkLake, table: str) -> None:
    rollback(lake, table)
    assert lake.replicate(table).error is not None


def unreadable_cold(lake: ChunkLake, table: str) -> None:
    lake.w.spark.sql(f"DROP TABLE {lake.cold_name(table)}")
    assert lake.replicate(table).error is not None


UNPROVED: dict[str, tuple[Callable[[ChunkLake, str], None], Deferral]] = {
    "behind": (late_row, Deferral.BEHIND),
    "no copy yet": (no_copy_yet, Deferral.NOT_STREAMING),
    "not heard of": (silence, Deferral.STALE_HEARTBEAT),
    "stopped": (stop, Deferral.NOT_SYNCED),
    "lost positions": (lost_positions, Deferral.NO_WRITE_POSITION),
    "rolled back": (rollback, Deferral.DIVERGED),
    "known to be rolled back": (rollback_that_replication_has_seen, Deferral.DIVERGED),
    "cold is gone": (unreadable_cold, Deferral.NOT_STREAMING),
}


@pytest.mark.parametrize("state", UNPROVED)
def test_a_chunk_that_is_not_proved_waits_with_the_reason_by_both_kinds_of_retention(
    lake: ChunkLake, state: str
) -> None:
    """LT-11, LT-15, LT-19 and LT-20: nothing is flagged or dropped, and the run succeeds."""
    table = state.replace(" ", "_")
    synced(lake, table)
    change, reason = UNPROVED[state]
    change(lake, table)
    before = lake.hot(table)
    waiting = lake.days(OLD[0]) if reason is Deferral.BEHIND else lake.days(*OLD)
    for kind in DROPPING:
        lake.policy(table, kind)
        run = lake.run(table)
        others = set(lake.days(*OLD)) - set(waiting)
        assert set(dropped(run)) == (others if kind is DROPPING[0] else set())
        assert deferred(run) == dict.fromkeys(waiting, reason)
        assert run.summary.exit_code == 0
        assert {lake.statuses(table)[name] for name in waiting} == {"active"}
        forget_policy(lake.services(), lake.name(table), kind)
    kept = [row for row in before if f"{row[1]:%Y-%m-%d}" in waiting]
    assert [row for row in lake.hot(table) if f"{row[1]:%Y-%m-%d}" in waiting] == kept
    if change is not rollback:  # the ledger, by which alone the status goes, knows nothing of it
        assert not lake.status(table).caught_up


# --- tiering --------------------------------------------------------------------------------------


def test_tiering_flags_what_is_proved_and_moves_nothing(lake: ChunkLake) -> None:
    """LT-3, LT-10, LT-25: hot answers the same for the whole window."""
    synced(lake, "flags", PolicyType.TIERED_RETENTION)
    lake.insert("flags", 4)
    lake.follow("flags")
    document, rows = lake.w.document("flags"), lake.hot("flags")
    steps = [step for step in lake.steps if step.name == "evaluate_chunks"]
    run = lake.run("flags", steps=steps)
    assert run.summary.exit_code == 0
    assert lake.w.document("flags")["current-snapshot-id"] == document["current-snapshot-id"]
    assert lake.hot("flags") == rows
    tiered = {name for name, status in lake.statuses("flags").items() if status == "tiered"}
    assert tiered == set(lake.days(4, *OLD))
    lake.run("flags")
    assert lake.hot_days("flags") == lake.days(4, *YOUNG)
    line = lake.status("flags")
    assert (line.tiered_chunks, line.dropped_chunks, line.active_chunks) == (1, 3, 2)
    assert line.reclaimable_bytes > 0 and line.caught_up
    assert line.on_disk_bytes > 0 and line.reclaimed_bytes == 0  # time travel reads them


def test_a_chunk_waits_until_cold_has_the_commit_that_was_newest_when_the_policy_came(
    lake: ChunkLake,
) -> None:
    """LT-6, LT-7, LT-12: one commit before it is not enough, that very one is."""
    lake.create("boundary")
    lake.insert("boundary", *OLD, 0)
    lake.sync("boundary")
    lake.follow("boundary")
    lake.insert("boundary", *OLD)
    lake.policy("boundary", PolicyType.TIERED_RETENTION)
    positions = {chunk.last_write for chunk in lake.chunks("boundary").values()}
    committed = lake.sync_of("boundary").committed
    assert committed and max(p or 0 for p in positions) == committed.place + 1
    run = lake.run("boundary")
    assert deferred(run) == dict.fromkeys(lake.days(*OLD), Deferral.BEHIND)
    lake.follow("boundary")
    assert dropped(lake.run("boundary")) == lake.days(*OLD)


def test_a_quiet_old_chunk_goes_while_the_head_moves_on(lake: ChunkLake) -> None:
    """LT-13: the chunk's own position is compared, not the table's."""
    synced(lake, "quiet", PolicyType.RETENTION)
    for _ in range(3):
        lake.insert("quiet", 0)
    run = lake.run("quiet")
    committed = lake.sync_of("quiet").committed
    assert committed and committed.snapshot_id != lake.head("quiet")
    assert dropped(run) == lake.days(*OLD)


def test_a_backfilled_chunk_is_dropped_only_after_its_late_rows_are_copied(lake: ChunkLake) -> None:
    """LT-29, and LT-14: only the chunk that the statement touched waits."""
    synced(lake, "backfill", PolicyType.TIERED_RETENTION)
    lake.run("backfill", steps=lake.until("plan_drops")[0])
    late = lake.insert("backfill", OLD[1])
    assert lake.statuses("backfill")[lake.day(OLD[1])] == "tiered"
    run = lake.run("backfill")
    assert dropped(run) == lake.days(OLD[0], OLD[2])
    assert deferred(run) == {lake.day(OLD[1]): Deferral.BEHIND}
    assert lake.statuses("backfill")[lake.day(OLD[1])] == "active"
    lake.follow("backfill")
    assert dropped(lake.run("backfill")) == lake.days(OLD[1])
    assert set(late) <= set(ids(lake.cold("backfill"))) - set(ids(lake.hot("backfill")))


# --- force ----------------------------------------------------------------------------------------


def test_force_passes_over_the_proof_of_the_named_chunks_and_no_hold(lake: ChunkLake) -> None:
    """LT-22."""
    synced(lake, "forced", PolicyType.TIERED_RETENTION)
    lake.insert("forced", OLD[0], OLD[1])
    word: dict[str, Any] = {"force": "nobody needs these rows", "chunks": (lake.day(OLD[0]),)}
    held = add_hold(lake.services(), str(lake.name("forced")), reason="a dispute")
    run = lake.run("forced", **word)
    assert dropped(run) == [] and deferred(run)[lake.day(OLD[0])] == Deferral.HELD
    remove_hold(lake.services(), held.id, reason="settled")
    preview = lake.run("forced", dry_run=True, **word)
    (planned,) = preview.planned_drops
    assert planned.at_risk == 4 and planned.bytes_at_risk > 0
    assert [d.reason for d in planned.unproved] == [Deferral.BEHIND]
    assert dropped(lake.run("forced", **word)) == [lake.day(OLD[0])]
    assert lake.hot_days("forced") == lake.days(OLD[1], OLD[2], *YOUNG)
    entries = lake.services().control.audit.entries()
    (entry,) = [e for e in entries if "force" in e.action]
    assert entry.reason == "nobody needs these rows"


# --- what cold keeps ------------------------------------------------------------------------------


def test_over_a_whole_history_of_drops_colds_files_only_grow(lake: ChunkLake) -> None:
    """LT-1, LT-26; LT-33: what left hot is read from cold."""
    synced(lake, "history", PolicyType.TIERED_RETENTION)
    files = lake.cold_files("history")
    for moment in ("drop", "late rows", "drop again", "newer rows", "dropped by force"):
        if moment in ("drop", "drop again"):
            lake.run("history")
        if moment == "late rows":
            lake.insert("history", *OLD)
        if moment == "newer rows":
            lake.insert("history", 7, 0)
        if moment == "dropped by force":
            lake.run("history", force="a test", chunks=(lake.day(0),))
        expected = lake.both("history")
        lake.follow("history")
        assert files <= lake.cold_files("history")
        files = lake.cold_files("history")
        assert lake.cold("history") == expected
    assert lake.hot_days("history") == lake.days(7, 1)
    assert set(lake.days(*OLD)) <= {f"{row[1]:%Y-%m-%d}" for row in lake.cold("history")}
