"""What others delete or add in cold is found by the number of rows, before anything else goes."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from meltline.app.chunks.cold_overrides import accept_cold
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.proofs import ColdSide, unproved
from meltline.app.chunks.reading.cold_row_findings import cold_row_findings
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.tracking import tracking_of
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED
from meltline.domain.errors import SyncRefused, UsageInvalid
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    EQUALITY,
    MERGE_ON_READ,
    ChunkTable,
    day_name,
    reading,
    values_of,
)
from tests.doubles.chunks import complete_rows_of
from tests.lives.kills import Killed
from tests.unit.chunks.tiers import DAYS, Tiers

ROWS = list(range(2 * DAYS))
Change = Callable[[ChunkTable], object]


def dropped() -> Tiers:
    """Tiers of which days 0 to 2 are in cold alone."""
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[day_name(2)] == "dropped"
    return tiers


def by_others(tiers: Tiers, change: Change) -> ChunkTable:
    """Cold after somebody else's commit."""
    (entry,) = tiers.lake.cold.listing().entries
    tiers.lake.catalogs["ice"] = tiers.lake.cold
    cold = ChunkTable(tiers.lake, entry.name)
    cold.learn_files()
    change(cold)
    del tiers.lake.catalogs["ice"]
    return cold


def viewed(tiers: Tiers) -> list[int]:
    read = complete_rows(tiers.lake.services(), tiers.hot.name).read
    return values_of(complete_rows_of(read, tiers.lake.store))


def deleted(mode: str) -> Change:
    return lambda cold: cold.put([0], mode=mode)


CHANGES: dict[str, Change] = {
    "a chunk is emptied": lambda cold: cold.delete_chunks(day_name(0)),
    "everything is deleted": lambda cold: cold.delete_chunks(*map(day_name, range(DAYS))),
    "a row is added": lambda cold: cold.append_rows(reading(99, 0)),
    "a row is deleted by rewriting": deleted(COPY_ON_WRITE),
    "a row is deleted by position": deleted(MERGE_ON_READ),
    "a row is deleted by condition": deleted(EQUALITY),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_others_change_in_cold_stops_everything_that_counts_on_it(change: Change) -> None:
    tiers = dropped()
    by_others(tiers, change)
    before = tiers.statuses()
    with pytest.raises(SyncRefused, match="other rows"):
        viewed(tiers)
    assert [f.code for f in cold_row_findings(tiers.lake.services())] == ["chunks_cold_changed"]
    tiers.lake.on(13)
    assert tiers.run("finds it") == before
    refused = tiers.replicate()
    assert refused.sync.reason == COLD_CHANGED and refused.error is not None
    assert "chunks accept" in refused.error.next
    assert tiers.anew().sync.reason == COLD_CHANGED


def test_proofs_gates_and_drops_refuse_cold_that_was_changed_since_the_last_pass() -> None:
    tiers = dropped()
    tiers.lake.on(13)
    assert tiers.replicate().error is None
    by_others(tiers, CHANGES["a chunk is emptied"])
    services = tiers.lake.services()
    (table,) = chunked_tables(services)
    assert table.sync is not None
    with pytest.raises(SyncRefused, match="other rows"):
        ColdSide.read(services, table.sync, services.chunk_rows)
    reasons = unproved(services, table, tracking_of(services, table), [a_due_chunk(tiers)])
    assert "other rows" in reasons[day_name(4)].detail


def a_due_chunk(tiers: Tiers) -> Chunk:
    return tiers.lake.chunks()[day_name(4)]


def test_what_others_change_after_a_pass_that_died_is_found() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(90, 5))
    dying = tiers.die_at("control.syncs.save", 1)
    with suppress(Killed):
        tiers.replicate(None, dying.of(tiers.lake.services()))
    assert dying.dead
    tiers.lake.let_leases_end()
    by_others(tiers, CHANGES["a chunk is emptied"])
    before = tiers.statuses()
    assert tiers.replicate().sync.reason == COLD_CHANGED
    tiers.lake.on(13)
    assert tiers.run("drops nothing") == before


def test_a_row_that_others_add_to_a_reopened_chunk_is_found() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    assert tiers.replicate().error is None
    by_others(tiers, CHANGES["a row is added"])
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_a_row_that_others_add_is_found_though_a_compaction_has_mixed_it_with_late_ones() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    assert tiers.replicate().error is None
    by_others(tiers, CHANGES["a row is added"])
    tiers.compact_cold(0)
    assert tiers.replicate().sync.reason == "COLD_CHANGED"


def test_cold_that_is_set_back_goes_on() -> None:
    tiers = dropped()
    (entry,) = tiers.lake.cold.listing().entries
    cold = ChunkTable(tiers.lake, entry.name)
    tiers.lake.catalogs["ice"] = tiers.lake.cold
    head = cold.head
    del tiers.lake.catalogs["ice"]
    by_others(tiers, CHANGES["a chunk is emptied"])
    assert tiers.replicate().error is not None
    by_others(tiers, lambda table: table.point("main", head))
    assert tiers.replicate().error is None
    assert viewed(tiers) == ROWS


def test_what_a_person_accepts_counts_from_then_on() -> None:
    tiers = dropped()
    by_others(tiers, lambda cold: cold.put([0]))
    with pytest.raises(UsageInvalid):
        accept_cold(tiers.lake.services(), tiers.hot.name, " ")
    assert accept_cold(tiers.lake.services(), tiers.hot.name, "an erasure") != []
    assert tiers.replicate().error is None
    assert viewed(tiers) == ROWS[1:]
    by_others(tiers, lambda cold: cold.put([1]))
    assert tiers.replicate().sync.reason == COLD_CHANGED


# --- what is allowed ---


def test_compactions_late_rows_and_further_drops_change_no_count() -> None:
    tiers = dropped()
    for id in (70, 71):
        tiers.hot.append_rows(reading(id, 0))
        assert tiers.replicate().error is None
        tiers.compact_cold(1)
        tiers.compact_cold(2)
        assert tiers.replicate().error is None
        assert tiers.run(f"again {id}")[day_name(0)] == "dropped"
        assert tiers.replicate().error is None
    tiers.compact_cold(0)
    assert [f.level for f in cold_row_findings(tiers.lake.services())] == ["info"]
    assert tiers.replicate().error is None
    assert viewed(tiers) == [*ROWS, 70, 71] == tiers.ids()


def test_a_late_row_that_is_updated_and_deleted_changes_no_count() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    assert tiers.replicate().error is None
    tiers.hot.put([70], [reading(70, 0, 5)])
    assert tiers.replicate().error is None
    tiers.hot.put([70])
    assert viewed(tiers) == [*ROWS, 71]
    assert tiers.replicate().error is None
    assert viewed(tiers) == [*ROWS, 71] == tiers.ids()


def test_a_pass_that_died_changes_no_count() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(90, 5))
    dying = tiers.die_at("control.syncs.save", 1)
    with suppress(Killed):
        tiers.replicate(None, dying.of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    tiers.compact_cold(1)
    assert tiers.replicate().error is None
    assert viewed(tiers) == [*ROWS, 70, 90] == tiers.ids()


def test_a_rollback_and_another_drop_change_no_count() -> None:
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.point("main", before)
    assert tiers.fail_and_begin_anew().error is None
    tiers.hot.put([0])
    assert tiers.replicate().error is None
    assert tiers.run("second")[day_name(0)] == "dropped"
    assert tiers.replicate().error is None
    assert viewed(tiers) == ROWS[1:] == tiers.ids()


def test_drops_that_were_not_counted_are_counted_by_the_next_pass() -> None:
    tiers = dropped()
    chunks = list(tiers.lake.chunks().values())
    uncounted = [(c, c.with_rows(None)) for c in chunks if c.only_copy]
    assert all(tiers.lake.control.chunks.move(uncounted))
    assert tiers.replicate().error is None
    counts = [c.only_copy.rows for c in tiers.lake.chunks().values() if c.only_copy]
    assert counts == [2, 2, 2]
    by_others(tiers, CHANGES["a chunk is emptied"])
    assert tiers.replicate().sync.reason == COLD_CHANGED
