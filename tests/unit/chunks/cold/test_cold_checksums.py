"""Rows that others replace in cold by as many other ones are found by their checksums."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from meltline.app.chunks.cold_overrides import accept_cold
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.proofs import ColdSide, unproved
from meltline.app.chunks.reading.cold_row_findings import cold_row_findings
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.run import run_chunks
from meltline.app.chunks.tracking import tracking_of
from meltline.app.services import RunContext
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.names import TableName
from meltline.ports import ChunkRows
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    VALUE,
    ChunkTable,
    day_name,
    reading,
)
from tests.doubles.chunks.rows import Row, refused
from tests.unit.chunks.cold.test_cold_counts import ROWS, by_others, dropped, viewed
from tests.unit.chunks.cold.test_cold_tables import evolved
from tests.unit.chunks.tiers import Tiers

Change = Callable[[ChunkTable], object]


def updates(cold: ChunkTable, mode: str = COPY_ON_WRITE) -> None:
    """One row of day 0 gets another value."""
    cold.put([0], [reading(0, 0, 9)], mode=mode)


def empties_and_fills(cold: ChunkTable) -> None:
    """A day is emptied, and as many other rows come."""
    cold.delete_chunks(day_name(0))
    cold.append_rows(reading(80, 0), reading(81, 0))


def spans(*rows: Row) -> Change:
    """The rows of days 0 and 1 are those from now on, in one file."""

    def change(cold: ChunkTable) -> None:
        cold.delete_chunks(day_name(0), day_name(1))
        cold.append_spanning(*rows)

    return change


UPDATES: dict[str, Change] = {
    "by rewriting": updates,
    "by position": lambda cold: updates(cold, MERGE_ON_READ),
    "in two commits": empties_and_fills,
}


@dataclass
class ReadChunks:
    """The engine, and which chunks of cold it has added up, job by job."""

    inner: ChunkRows
    jobs: list[list[str]] = field(default_factory=list)
    is_broken: bool = False

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
    ) -> Mapping[str, RowDigest]:
        if self.is_broken:
            raise refused(table, "no engine")
        if table.catalog == "ice":
            self.jobs.append(sorted(chunks or ()))
        return self.inner.digests(table, snapshot_id, layout, chunks, only_files)

    def files(
        self, table: TableName, snapshot_id: int, layout: ChunkLayout, chunks: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        return self.inner.files(table, snapshot_id, layout, chunks)


def counted(tiers: Tiers) -> tuple[RunContext, ReadChunks]:
    services = tiers.lake.services()
    assert services.chunk_rows is not None
    engine = ReadChunks(services.chunk_rows)
    return replace(services, chunk_rows=engine), engine


def findings(tiers: Tiers) -> list[tuple[str, str]]:
    return [(f.level, f.code) for f in cold_row_findings(tiers.lake.services())]


def notice(tiers: Tiers) -> str:
    return complete_rows(tiers.lake.services(), tiers.hot.name).notice


@pytest.mark.parametrize("change", UPDATES.values(), ids=UPDATES)
def test_an_update_by_others_in_cold_stops_everything_that_counts_on_it(change: Change) -> None:
    tiers = dropped()
    assert findings(tiers) == []
    by_others(tiers, change)
    before = tiers.statuses()
    assert findings(tiers) == [("info", "chunks_counted_only")]
    assert "rewritten 1 dropped chunk" in notice(tiers)
    tiers.lake.on(13)
    assert tiers.run("finds it") == before
    refused = tiers.replicate()
    assert refused.sync.reason == COLD_CHANGED and refused.error is not None
    assert refused.error.found == f"{day_name(0)}: others have changed the values of rows"
    assert findings(tiers) == [("error", "chunks_cold_changed")]
    with pytest.raises(SyncRefused, match="other rows"):
        viewed(tiers)
    assert tiers.anew().sync.reason == COLD_CHANGED


def test_proofs_gates_and_drops_refuse_cold_that_was_updated_since_the_last_pass() -> None:
    tiers = dropped()
    tiers.lake.on(13)
    assert tiers.replicate().error is None
    by_others(tiers, updates)
    services = tiers.lake.services()
    (table,) = chunked_tables(services)
    assert table.sync is not None
    with pytest.raises(SyncRefused, match="other rows"):
        ColdSide.read(services, table.sync, services.chunk_rows)
    due = tiers.lake.chunks()[day_name(4)]
    reasons = unproved(services, table, tracking_of(services, table), [due])
    assert "other rows" in reasons[day_name(4)].detail


def test_an_update_beside_late_rows_is_found() -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    assert tiers.replicate().error is None
    by_others(tiers, updates)
    assert tiers.replicate().sync.reason == COLD_CHANGED


@pytest.mark.parametrize("is_expired", [False, True])
def test_an_update_that_a_compaction_hides_among_late_rows_is_found_once_they_are_apart(
    is_expired: bool,
) -> None:
    tiers = dropped()
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    assert tiers.replicate().error is None
    by_others(tiers, updates)
    tiers.compact_cold(0)
    assert tiers.replicate().error is None  # which has them apart again
    if is_expired:
        tiers.lake.expire_cold()
    assert "others have rewritten" in notice(tiers)
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_an_update_after_a_compaction_that_was_compared_is_found() -> None:
    tiers = dropped()
    tiers.compact_cold(1)
    assert tiers.replicate().error is None
    by_others(tiers, updates)
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_an_update_whose_snapshots_have_expired_is_found() -> None:
    tiers = dropped()
    by_others(tiers, updates)
    tiers.compact_cold(1)
    tiers.lake.expire_cold()
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_what_a_person_accepts_counts_from_then_on() -> None:
    tiers = dropped()
    by_others(tiers, updates)
    assert tiers.replicate().sync.reason == COLD_CHANGED
    assert accept_cold(tiers.lake.services(), tiers.hot.name, "a correction") != []
    assert viewed(tiers) == ROWS and notice(tiers) == ""
    assert tiers.replicate().error is None
    by_others(tiers, lambda cold: cold.put([0], [reading(0, 0)]))
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_drops_that_were_only_counted_are_added_up_by_the_next_pass() -> None:
    tiers = dropped()
    chunks = tiers.lake.chunks()
    moves = [(c, c.with_rows(c.only_copy.rows)) for c in chunks.values() if c.only_copy]
    assert all(tiers.lake.control.chunks.move(moves))
    assert findings(tiers) == [("info", "chunks_counted_only")]
    tiers.compact_cold()
    assert tiers.replicate().error is None
    assert tiers.lake.chunks() == chunks
    by_others(tiers, updates)
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_a_drop_by_force_goes_on_where_cold_cannot_be_added_up() -> None:
    tiers = dropped()
    services, engine = counted(tiers)
    engine.is_broken, name = True, day_name(4)
    tiers.lake.forced = frozenset({name})
    request = tiers.lake.request("forced", tables=(str(tiers.hot.name),))
    request = replace(request, chunks=(name,), force="nobody needs it")
    run_chunks(services, request, at_once=True)
    drop = tiers.lake.chunks()[name].only_copy
    assert drop is not None and (drop.rows, drop.digest) == (2, None)


# --- what is allowed ---


def test_a_compaction_is_read_once_and_its_own_chunks_alone() -> None:
    tiers = dropped()
    tiers.compact_cold(1)
    services, engine = counted(tiers)
    assert tiers.replicate(services=services).error is None
    assert engine.jobs == [[day_name(1)]]
    assert notice(tiers) == "" and findings(tiers) == []
    assert tiers.replicate(services=services).error is None
    tiers.hot.append_rows(reading(90, 5), reading(70, 0))
    assert tiers.replicate(services=services).error is None
    assert engine.jobs == [[day_name(1)]]
    assert viewed(tiers) == [*ROWS, 70, 90] == tiers.ids()


def test_a_new_generation_reads_no_dropped_chunk_that_was_compared() -> None:
    tiers = dropped()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    start_sync(tiers.lake.services(), tiers.hot.name)
    services, engine = counted(tiers)
    assert tiers.replicate(services=services).error is None
    assert {day for job in engine.jobs for day in job} == {day_name(day) for day in (3, 4, 5)}


def test_compactions_expiries_late_rows_and_further_drops_change_no_checksum() -> None:
    tiers = dropped()
    for id in (70, 71):
        tiers.hot.append_rows(reading(id, 0))
        assert tiers.replicate().error is None
        tiers.compact_cold(0)
        tiers.lake.expire_cold()
        assert tiers.replicate().error is None
        tiers.hot.put([id], [reading(id, 0, 5)])
        assert tiers.replicate().error is None
        tiers.compact_cold(0, 1)
        assert tiers.run(f"again {id}")[day_name(0)] == "dropped"
        assert tiers.replicate().error is None
    tiers.compact_cold()
    assert tiers.replicate().error is None
    assert findings(tiers) == [] and notice(tiers) == ""
    assert viewed(tiers) == [*ROWS, 70, 71] == tiers.ids()


def test_rows_in_a_file_of_several_chunks_are_compared_too() -> None:
    tiers = dropped()
    rows = [reading(id, id // 2) for id in range(4)]
    by_others(tiers, spans(*rows))
    assert tiers.replicate().error is None
    assert findings(tiers) == [] and viewed(tiers) == ROWS
    tiers = dropped()
    by_others(tiers, spans(reading(0, 0, 9), *rows[1:]))
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_a_column_that_comes_changes_no_checksum() -> None:
    tiers = dropped()
    note = {"id": 4, "name": "note", "required": False, "type": "string"}
    evolved(tiers, lambda fields: [*fields, note])
    assert tiers.replicate().error is None
    assert findings(tiers) == []
    tiers.compact_cold()
    assert tiers.replicate().error is None
    by_others(tiers, updates)
    assert tiers.replicate().sync.reason == COLD_CHANGED


def test_a_column_that_goes_has_rows_added_up_again() -> None:
    tiers = dropped()
    evolved(tiers, lambda fields: [one for one in fields if one["id"] != VALUE])
    assert tiers.replicate().error is None
    assert findings(tiers) == [("info", "chunks_counted_only")]
    tiers.compact_cold()
    services, engine = counted(tiers)
    assert tiers.replicate(services=services).error is None
    assert engine.jobs == [[day_name(day) for day in range(3)]]
    assert findings(tiers) == []
    by_others(tiers, lambda cold: cold.put([0], [reading(80, 0)]))
    assert tiers.replicate().sync.reason == COLD_CHANGED
