"""What cold alone has stays in cold, whatever dies, comes back or is lost in between (LT-26)."""

from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.domain.chunks.sync import Deletes
from meltline.ports.chunks import DropOutcome, DropRequest
from tests.chunks.chunk_tables import day_name, reading
from tests.lives.kills import Killed
from tests.unit.chunks.tiers import DAYS, Tiers


@dataclass(frozen=True)
class RefusingDropper:
    """A table that has always moved on."""

    def drop(self, request: DropRequest) -> DropOutcome:
        return DropOutcome(None, "others committed first each time")


def test_what_a_person_has_cold_keep_it_keeps_though_the_pass_died_before_its_end() -> None:
    tiers = Tiers()
    tiers.hot.delete_chunks(*map(day_name, range(3)))
    assert tiers.replicate().sync.reason == "LARGE_DELETES"
    dying = tiers.die_at("control.chunks.move", 1)
    with suppress(Killed):
        tiers.replicate(Deletes.KEEP, dying.of(tiers.lake.services()))
    assert dying.dead
    tiers.lake.let_leases_end()
    tiers.hot.append_rows(reading(50, 5))
    tiers.replicate(Deletes.KEEP)
    assert tiers.anew().error is None
    assert tiers.ids() == [*range(2 * DAYS), 50]


@pytest.mark.parametrize("number", [1, 2])
def test_a_drop_that_died_while_it_was_prepared_leaves_a_table_that_goes_on(number: int) -> None:
    tiers = Tiers()
    tiers.add_policy()
    dying = tiers.die_at("control.chunks.move", number)
    with suppress(Killed):
        tiers.run("dies", dying.of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    tiers.hot.put([0], [reading(99, 0)])
    assert tiers.replicate().error is None
    assert tiers.ids() == [*range(1, 2 * DAYS), 99]
    assert tiers.run("next")[day_name(0)] == "dropped"


def test_a_ledger_that_was_lost_learns_from_cold_what_cold_alone_has() -> None:
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.lake.control.chunks.forget(tiers.lake.uuid)
    assert tiers.anew().error is None
    assert tiers.statuses()[day_name(0)] == "dropped"
    assert tiers.ids() == list(range(2 * DAYS))
    assert tiers.told().keys() == set(map(day_name, range(3)))
    assert tiers.anew().error is None
    assert tiers.ids() == list(range(2 * DAYS))


def test_a_rollback_over_two_drops_of_a_chunk_leaves_no_row_twice() -> None:
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0), reading(71, 0))
    tiers.run("second")
    assert tiers.statuses()[day_name(0)] == "dropped"
    tiers.hot.point("main", before)
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.statuses()[day_name(0)] == "active"
    assert tiers.ids() == list(range(2 * DAYS))


def test_a_rollback_to_between_two_drops_leaves_late_rows_late() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0))
    tiers.replicate()
    between = tiers.hot.head
    tiers.hot.append_rows(reading(71, 0))
    tiers.run("second")
    tiers.hot.point("main", between)
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert tiers.ids() == [*range(2 * DAYS), 70]
    assert tiers.run("third")[day_name(0)] == "dropped"
    assert tiers.ids() == [*range(2 * DAYS), 70]


def test_late_rows_of_a_drop_that_was_not_made_are_still_late() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("first")
    tiers.hot.append_rows(reading(70, 0))
    tiers.run("refused", replace(tiers.lake.services(), dropper=RefusingDropper()))
    assert tiers.statuses()[day_name(0)] == "reopened"
    tiers.hot.put([70], [reading(72, 0)])
    tiers.replicate()
    assert tiers.ids() == [*range(2 * DAYS), 72]
    assert tiers.run("again")[day_name(0)] == "dropped"
    assert tiers.ids() == [*range(2 * DAYS), 72]


def test_main_returns_to_a_drop_before_cold_was_brought_to_a_line_without_it() -> None:
    """A pass dies as it copies what a rollback brought back: cold has what it had."""
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    tiers.hot.append_rows(reading(50, 0.5))
    assert tiers.replicate().error is None
    after = tiers.hot.head
    tiers.hot.rollback(before)
    tiers.hot.append_rows(reading(60, 5))
    assert tiers.replicate().sync.reason == "DIVERGED"
    start_sync(tiers.lake.services(), tiers.hot.name)
    with suppress(Killed):
        tiers.replicate(services=tiers.die_at("replicator", 1).of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    assert tiers.statuses()[day_name(0)] == "active"
    tiers.hot.rollback(after)
    assert tiers.fail_and_begin_anew().error is None
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert tiers.ids() == [*range(2 * DAYS), 50]
