"""The holes of the system that chunks come from: none of them is here (chunk-facts, section 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.app.chunks.policies import forget_policy
from meltline.app.chunks.reading.status import list_chunks
from meltline.app.chunks.replication.declare import stop_sync
from meltline.app.run.steps import Step
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SyncState
from meltline.domain.errors import InvalidHorizons, PolicyExists, StoreRefused
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, deferred, dropped
from tests.spark.setups.warehouse import setting

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("holes"))


def evaluation(lake: ChunkLake) -> list[Step]:
    return [step for step in lake.steps if step.name == "evaluate_chunks"]


def tiered(lake: ChunkLake, table: str) -> list[str]:
    return sorted(n for n, status in lake.statuses(table).items() if status == "tiered")


@dataclass
class RowsThatLack:
    """Reads one chunk of cold as if it had no rows."""

    real: Any
    chunk: str
    catalog: str

    def digests(self, table: Any, *asked: Any, **named: Any) -> Any:
        found = dict(self.real.digests(table, *asked, **named))
        if table.catalog == self.catalog:
            found.pop(self.chunk, None)
        return found

    def files(self, *asked: Any) -> Any:
        return self.real.files(*asked)


def test_h1_rows_from_before_the_sync_are_copied_and_verified_before_it_streams(
    lake: ChunkLake,
) -> None:
    lake.create("h1")
    lake.insert("h1", *OLD, *YOUNG)
    lake.policy("h1", PolicyType.TIERED_RETENTION)
    lake.sync("h1")
    assert deferred(lake.run("h1")) == dict.fromkeys(lake.days(*OLD), Deferral.NOT_STREAMING)
    context = lake.services()
    rows = RowsThatLack(context.chunk_rows, lake.day(OLD[0]), lake.cold_catalog)
    done = lake.replicate("h1", services=replace(context, chunk_rows=rows))
    assert done.error and "other rows" in done.error.message
    assert lake.sync_of("h1").state is SyncState.FAILED and lake.cold("h1") == []
    assert dropped(lake.run("h1")) == []
    lake.follow("h1")
    assert lake.cold("h1") == lake.hot("h1")
    assert dropped(lake.run("h1")) == lake.days(*OLD)


def test_h1_a_chunk_whose_rows_in_cold_are_others_waits_and_holds_up_no_other(
    lake: ChunkLake,
) -> None:
    """Its position is durable; a row was taken out of cold behind everybody's back."""
    lake.synced("h1b", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lost = next(row for row in lake.cold("h1b") if f"{row[1]:%Y-%m-%d}" == lake.day(OLD[1]))
    lake.w.spark.sql(f"DELETE FROM {lake.cold_name('h1b')} WHERE id = {lost[0]}")
    run = lake.run("h1b")
    assert tiered(lake, "h1b") == []
    assert deferred(run) == {lake.day(OLD[1]): Deferral.ROWS_DIFFER}
    assert dropped(run) == lake.days(OLD[0], OLD[2])
    assert lost in lake.hot("h1b")


def test_h2_a_change_of_columns_needs_no_new_copy_and_a_new_copy_no_old_position(
    lake: ChunkLake,
) -> None:
    lake.synced("h2", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lake.w.sql("ALTER TABLE {h2} ADD COLUMN n INT", "ALTER TABLE {h2} RENAME COLUMN v TO w")
    lake.follow("h2")
    assert lake.sync_of("h2").generation == 1
    stop_sync(lake.services(), lake.name("h2"))
    assert lake.sync("h2").generation == 2
    assert deferred(lake.run("h2")) == dict.fromkeys(lake.days(*OLD), Deferral.NOT_STREAMING)
    lake.follow("h2")
    ledger, uuid = lake.services().control.chunks, lake.uuid("h2")
    (tracked,) = ledger.tracked([uuid])
    chunks = ledger.of(uuid)
    assert {chunk.generation for chunk in chunks.values()} == {2}
    old = replace(chunks[lake.day(OLD[0])], generation=1, last_write=1)
    ledger.advance(tracked, tracked, [old])
    run = lake.run("h2")
    assert deferred(run) == {old.name: Deferral.OTHER_GENERATION}
    assert dropped(run) == lake.days(OLD[1], OLD[2])


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_h3_an_update_that_moves_a_row_stamps_both_chunks(lake: ChunkLake, mode: str) -> None:
    table = f"h3_{mode[:4]}"
    lake.synced(table, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION, mode=mode)
    first = lake.hot(table)[0]
    lake.w.sql(
        f"UPDATE {{{table}}} SET ts = TIMESTAMP '{lake.day(OLD[1])} 09:00:00' WHERE id = {first[0]}"
    )
    both = lake.days(OLD[0], OLD[1])
    run = lake.run(table)
    assert deferred(run) == dict.fromkeys(both, Deferral.BEHIND)
    assert dropped(run) == lake.days(OLD[2])
    lake.follow(table)
    assert dropped(lake.run(table)) == both
    assert [row[0] for row in lake.cold(table)].count(first[0]) == 1


def test_h4_without_the_tiering_policy_positions_are_stamped_all_the_same(lake: ChunkLake) -> None:
    lake.synced("h4", *OLD, *YOUNG, type=PolicyType.TIERING)
    lake.policy("h4", PolicyType.RETENTION)
    lake.run("h4", steps=evaluation(lake))
    assert tiered(lake, "h4") == lake.days(*OLD)
    forget_policy(lake.services(), lake.name("h4"), PolicyType.TIERING)
    lake.insert("h4", OLD[1])
    run = lake.run("h4")
    assert deferred(run) == {lake.day(OLD[1]): Deferral.BEHIND}
    assert dropped(run) == lake.days(OLD[0], OLD[2])


def test_h5_plain_retention_on_a_synced_table_drops_and_status_shows_it_with_reasons(
    lake: ChunkLake,
) -> None:
    lake.create("h5")
    lake.insert("h5", *OLD, *YOUNG)
    lake.policy("h5", PolicyType.RETENTION)
    lake.sync("h5")
    positions = {chunk.last_write for chunk in lake.chunks("h5").values()}
    assert None not in positions
    assert lake.status("h5").after == "drop after 6d"
    waits = {line.chunk.name: line.waits for line in list_chunks(lake.services(), lake.name("h5"))}
    assert {wait.reason for wait in waits.values() if wait} == {Deferral.NOT_STREAMING}
    lake.follow("h5")
    assert dropped(lake.run("h5")) == lake.days(*OLD)


def test_h6_positions_are_places_on_mains_line_so_format_1_is_told_apart_too(
    lake: ChunkLake,
) -> None:
    """All its sequence numbers are 0, and after a rollback they would tell nothing."""
    lake.synced("h6", *OLD, *YOUNG, type=PolicyType.RETENTION, version=1)
    numbers = {s.get("sequence-number", 0) for s in lake.w.document("h6")["snapshots"]}
    assert numbers == {0}
    lake.insert("h6", OLD[0])
    run = lake.run("h6")
    assert deferred(run) == {lake.day(OLD[0]): Deferral.BEHIND}
    assert dropped(run) == lake.days(OLD[1], OLD[2])
    lake.follow("h6")
    assert dropped(lake.run("h6")) == [lake.day(OLD[0])]
    assert len(lake.both("h6")) == len(lake.cold("h6")) == 12


def test_h7_a_late_write_makes_a_tiered_chunk_active_and_its_bytes_reclaimable_no_more(
    lake: ChunkLake,
) -> None:
    lake.synced("h7", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lake.run("h7", steps=evaluation(lake))
    before = lake.status("h7")
    assert before.tiered_chunks == 3 and before.reclaimable_bytes > 0 and before.caught_up
    lake.w.sql(f"DELETE FROM {{h7}} WHERE id = {lake.hot('h7')[0][0]}")
    lake.run("h7", steps=evaluation(lake))
    after = lake.status("h7")
    assert tiered(lake, "h7") == lake.days(OLD[1], OLD[2])
    assert after.reclaimable_bytes < before.reclaimable_bytes and not after.caught_up
    lake.follow("h7")
    lake.run("h7", steps=evaluation(lake))
    assert tiered(lake, "h7") == lake.days(*OLD)


@pytest.mark.parametrize("first", [PolicyType.TIERING, PolicyType.RETENTION])
def test_h8_of_two_ages_that_contradict_each_other_the_second_is_refused_in_every_order(
    lake: ChunkLake, first: PolicyType
) -> None:
    table = f"h8_{first}"
    lake.create(table)
    lake.insert(table, 0)
    other = PolicyType.RETENTION if first is PolicyType.TIERING else PolicyType.TIERING
    ages = {PolicyType.TIERING: {"tier_after": "9d"}, PolicyType.RETENTION: {"drop_after": "9d"}}
    lake.policy(table, first, **ages[first])
    with pytest.raises(InvalidHorizons):
        lake.policy(table, other, **ages[other])
    for kind in (first, PolicyType.TIERED_RETENTION):
        with pytest.raises(PolicyExists):
            lake.policy(table, kind)
    assert len(lake.services().control.chunk_policies.all([lake.uuid(table)])) == 1


def test_h9_the_gate_and_the_drop_are_bound_to_one_snapshot_and_an_explicit_list_of_files(
    lake: ChunkLake,
) -> None:
    lake.synced("h9", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    judging, dropping = lake.until("drop_chunks")
    run = lake.run("h9", steps=judging)
    (plan,) = lake.services().control.plans.find(run_id=run.request.run_id)
    assert plan.base_head == lake.head("h9") and plan.files == 3
    late = lake.insert("h9", OLD[0])
    run.visit(dropping)
    assert dropped(run) == lake.days(OLD[1], OLD[2])
    assert set(late) <= {row[0] for row in lake.hot("h9")}


def test_h10_chunks_are_named_by_utc_whatever_the_sessions_zone(lake: ChunkLake) -> None:
    with setting(lake.w.spark, "spark.sql.session.timeZone", "Pacific/Kiritimati"):
        lake.create("h10")
        lake.w.sql(
            f"INSERT INTO {{h10}} VALUES (1, TIMESTAMP '{lake.day(10)} 00:30:00Z', 'a'),"
            f" (2, TIMESTAMP '{lake.day(10)} 23:30:00Z', 'a'),"
            f" (3, TIMESTAMP '{lake.day(9)} 00:30:00Z', 'a')"
        )
        lake.sync("h10")
        lake.follow("h10")
        lake.policy("h10", PolicyType.TIERED_RETENTION)
        assert sorted(lake.chunks("h10")) == lake.days(10, 9)
        assert {n: c.rows for n, c in lake.chunks("h10").items()} == {
            lake.day(10): 2,
            lake.day(9): 1,
        }
        assert dropped(lake.run("h10")) == lake.days(10, 9)
        assert lake.hot("h10") == []
    lake.w.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_h10_tiered_retention_tiers_and_a_permission_error_only_defers(lake: ChunkLake) -> None:
    lake.synced("h10p", *OLD, 4, *YOUNG, type=PolicyType.TIERED_RETENTION)
    context = lake.services()
    assert context.cold is not None
    forbidden = replace(context, cold=replace(context.cold, catalog=Forbidden()))
    run = lake.run("h10p", services=forbidden)
    assert dropped(run) == [] and tiered(lake, "h10p") == []
    assert deferred(run).keys() >= set(lake.days(4, *OLD))
    assert lake.hot_days("h10p") == lake.days(4, *OLD, *YOUNG)
    assert dropped(lake.run("h10p")) == lake.days(*OLD)
    assert tiered(lake, "h10p") == [lake.day(4)]


class Forbidden:
    """A cold catalog that nobody may read."""

    def __getattr__(self, name: str) -> Any:
        raise StoreRefused(
            "access denied", object="cold", expected="a right", found="403", next="ask"
        )
