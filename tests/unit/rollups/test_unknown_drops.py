"""Rollups over a table of which nobody can tell whether a drop was undone (chunk-facts, R5)."""

from contextlib import suppress

import pytest

from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.rollups.refresh import refresh_rollup
from meltline.app.chunks.rounds import gate_drops
from meltline.app.chunks.run import run_chunks
from meltline.app.chunks.settle import DropAnswer, settle_drops
from meltline.app.observe.drop_evidence import record_drops_of_tables
from meltline.domain.chunks.chunk import ChunkStatus
from tests.chunks.chunk_kills import ChunkProcess
from tests.chunks.chunk_tables import day_name, reading
from tests.lives.kills import Killed
from tests.unit.rollups.rolled_up_table import RolledUp


def rolled_back_unseen() -> RolledUp:
    """Days 0 and 1 were dropped; main went back and on, and its history expired before a look."""
    rolled = RolledUp()
    rolled.declare()
    rolled.refresh()
    before = rolled.hot.head
    rolled.drop()
    rolled.hot.rollback(before)
    rolled.hot.put([0], [reading(0, 0, value=7)])
    named = {ref["snapshot-id"] for ref in rolled.hot.refs.values()}
    rolled.hot.expire_elsewhere(*(set(rolled.hot.snapshots) - named))
    run_chunks(rolled.lake.services(), rolled.lake.request("walks"))
    return rolled


def test_a_bucket_of_an_unknown_chunk_keeps_its_value_until_a_person_has_answered() -> None:
    rolled = rolled_back_unseen()
    rows = rolled.rows()
    assert rolled.lake.chunks()[day_name(0)].status is ChunkStatus.UNKNOWN
    rolled_up = refresh_rollup(rolled.lake.services(), "daily")
    assert rolled_up.error is None
    assert rolled.rows() == rows


@pytest.mark.parametrize(
    ("answer", "is_new"), [(DropAnswer.UNDONE, True), (DropAnswer.IN_FORCE, False)]
)
def test_a_correction_reaches_the_rollup_once_the_drop_is_said_to_be_undone(
    answer: DropAnswer, is_new: bool
) -> None:
    rolled = rolled_back_unseen()
    rows = rolled.rows()
    refresh_rollup(rolled.lake.services(), "daily")
    settle_drops(rolled.lake.services(), rolled.hot.name, answer, "seen")
    refresh_rollup(rolled.lake.services(), "daily")
    assert (rolled.rows() != rows) is is_new


@pytest.mark.parametrize("is_noted", [False, True])
def test_buckets_of_a_drop_that_main_was_replaced_without_stay(is_noted: bool) -> None:
    """A run died after its drop; whether another one has noted it since makes no difference."""
    rolled = RolledUp()
    rolled.declare()
    rolled.refresh()
    rows, process = rolled.rows(), ChunkProcess(1, True, "dropper", lake=rolled.lake)
    planned = rolled.plan().plan
    assert planned is not None
    services = process.of(rolled.lake.services())
    gate_drops(services, [planned.plan])
    with suppress(Killed):
        drop_chunks(services, [*services.control.plans.current([planned.plan.id]).values()])
    rolled.lake.let_leases_end()
    rows_in_hot = rolled.hot.rows_now()
    rolled.hot.leave_main()
    rolled.hot.append_rows(*rows_in_hot)
    assert not rolled.lake.chunks()[day_name(0)].drops
    if is_noted:
        services = rolled.lake.services()
        record_drops_of_tables(services, [HotTable.load(services, rolled.hot.name).state])
        assert rolled.lake.chunks()[day_name(0)].drops
    assert refresh_rollup(rolled.lake.services(), "daily").error is None
    assert rolled.rows() == rows
