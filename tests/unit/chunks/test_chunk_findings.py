"""What `doctor` says of chunks by the ledger alone, and what `explain` says of one's file."""

from datetime import timedelta

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.reading.explained import file_sentences, table_sentences
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import ChunkRun
from meltline.app.doctor.doctor import examine
from meltline.app.run.steps import CHUNK_STEPS, step_of
from meltline.app.run_request import RunRequest
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import Deletes
from meltline.domain.iceberg.files import FileKind
from tests.chunks.chunk_tables import ChunkTable, chunk_table, reading
from tests.lake.lake import Lake

DROPS = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="7d", drop_after="90d")


def a_lake() -> tuple[Lake, ChunkTable]:
    """A lake on its hundredth day, with rows of the first two days and of yesterday."""
    lake = Lake(has_cold=True).on(100)
    table = chunk_table(lake, "lake.air.t")
    for id, day in enumerate((0, 1, 99), 1):
        table.append_rows(reading(id, day))
    return lake, table


def findings(lake: Lake) -> dict[str, str]:
    """What is said of chunks: each code with its message."""
    return {f.code: f.message for f in examine(lake.services()) if f.code.startswith("chunks_")}


def copy(lake: Lake, deletes: Deletes | None = None) -> None:
    context = lake.services()
    replicate(context, chunked_tables(context), deletes)


def drop_old(lake: Lake, table: ChunkTable) -> None:
    """A run by hand: what is old enough and proved leaves hot."""
    request = RunRequest("by-hand", lake.clock.now(), (str(table.name),))
    run = ChunkRun(lake.services(), request, at_once=True)
    run.visit(CHUNK_STEPS)
    assert sum(len(done.chunks) for done in run.results) == 2, run.summary.as_json()


def look(lake: Lake, table: ChunkTable) -> None:
    """A run takes in what was committed."""
    request = RunRequest("a-look", lake.clock.now(), (str(table.name),))
    ChunkRun(lake.services(), request).visit([step_of("evaluate_chunks")])


def test_a_lake_whose_chunks_are_copied_and_fresh_has_nothing_to_tell() -> None:
    lake, table = a_lake()
    start_sync(lake.services(), table.name)
    add_policy(lake.services(), table.name, DROPS)
    copy(lake)
    assert findings(lake) == {}


def test_replication_that_is_not_heard_of_proves_nothing() -> None:
    lake, table = a_lake()
    start_sync(lake.services(), table.name)
    copy(lake)
    lake.clock.moment += timedelta(hours=3)
    assert "more than 2h ago: no chunk counts as proved" in findings(lake)["chunks_sync_silent"]


def test_a_policy_of_a_table_whose_sync_was_stopped_does_nothing() -> None:
    lake, table = a_lake()
    start_sync(lake.services(), table.name)
    add_policy(lake.services(), table.name, PolicyWish(PolicyType.RETENTION, drop_after="90d"))
    copy(lake)
    stop_sync(lake.services(), table.name)
    assert list(findings(lake)) == ["chunks_policy_idle"]


def test_large_deletes_that_wait_are_an_error_until_a_person_decides() -> None:
    lake, table = a_lake()
    start_sync(lake.services(), table.name)
    copy(lake)
    table.delete_chunks("2026-01-01")
    copy(lake)
    assert "LARGE_DELETES" in findings(lake)["chunks_sync_failed"]
    copy(lake, Deletes.MIRROR)
    assert findings(lake) == {}


def test_late_rows_are_told_until_cold_has_them() -> None:
    lake, table = a_lake()
    start_sync(lake.services(), table.name)
    add_policy(lake.services(), table.name, DROPS)
    copy(lake)
    drop_old(lake, table)
    table.append_rows(reading(9, 0.5))
    assert findings(lake) == {}  # nobody has looked at that commit yet
    look(lake, table)
    assert "1 dropped chunk got 1 late row" in findings(lake)["chunks_late_rows"]
    copy(lake)
    assert findings(lake) == {}


def test_files_that_span_chunks_are_named_where_a_policy_drops() -> None:
    lake, table = a_lake()
    add_policy(lake.services(), table.name, PolicyWish(PolicyType.RETENTION, drop_after="90d"))
    table.cut_anew("")
    table.append_spanning(reading(7, 0.2), reading(8, 1.2))
    look(lake, table)
    assert "SPANS_CHUNKS: files reach into several of 2 chunks" in findings(lake)["chunks_span"]


def test_a_file_is_explained_by_its_chunk_and_what_drops_it() -> None:
    lake, table = a_lake()
    add_policy(lake.services(), table.name, PolicyWish(PolicyType.RETENTION, drop_after="90d"))
    oldest = min(table.of_kind(FileKind.DATA), key=lambda file: file.path)
    (sentence,) = file_sentences(lake.services(), oldest.path, {str(table.name)})
    assert sentence.startswith("chunk 2026-01-01 of lake.air.t is active: drop after 90d, so from")
    assert "2026-04-02" in sentence
    first, _ = table_sentences(lake.services(), table.name)
    assert first.startswith("chunks: 3 in hot")
