"""Rollups over a table of which nobody can tell whether a drop was undone (chunk-facts, R5)."""

import pytest

from meltline.app.chunks.rollups.refresh import refresh_rollup
from meltline.app.chunks.run import run_chunks
from meltline.app.chunks.settle import DropAnswer, settle_drops
from meltline.domain.chunks.chunk import ChunkStatus
from tests.chunks.chunk_tables import day_name, reading
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
