"""Of a dropped table no more is purged than was let go."""

from dataclasses import replace

from meltline.app.drop.drop import drop
from meltline.app.drop.finalize import process_drops
from meltline.app.observe.observe import observe
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.audit import decisions
from meltline.domain.drop.drops import LET_GO
from meltline.ports import StopSwitch
from tests.lake.lake import DAY, T0, Lake, Table
from tests.unit.drop.test_letting_go import back, dropped, dropped_names, names, written


def let_go() -> tuple[Lake, str]:
    """A table whose registration has gone; its metadata files wait. And its last one's place."""
    lake, _ = dropped()
    lake.on(11).run()
    (name,) = dropped_names(lake)
    lake.on(19)
    last = Table(lake, name).metadata_location
    lake.run()
    assert names(lake) == set() and last in lake.waiting()
    return lake, last


def purged() -> Lake:
    """A table that was let go and purged to the last data file; it is still registered."""
    lake, _ = dropped()
    lake.on(11).run()
    lake.on(19)
    services = lake.services()
    plans = Run(services, lake.request()).plan_purge()
    gated = [plan for plan, _ in run_gate(services, [planned.plan for planned in plans])]
    assert all(done.files_purged for done in apply_purges(services, gated))
    assert lake.waiting() == {} and len(dropped_names(lake)) == 1
    return lake


def tended(lake: Lake, *tables: str) -> bool:
    services = lake.services()
    return process_drops(services, observe(services), lake.clock.now(), tables)


def test_the_ledgers_word_alone_lets_no_table_go() -> None:
    lake, table = written()
    row = next(row for row in lake.control.registrations.all() if row.uuid == table.uuid)
    table.drop()
    lake.control.registrations.save([replace(row, status=LET_GO)])
    files = lake.paths()
    for day in (20, 40, 60):
        lake.on(day).run()
    assert files <= lake.paths()


def test_a_table_that_is_registered_again_after_it_was_let_go_keeps_its_metadata() -> None:
    lake, last = let_go()
    back = lake.register("lake.air.again", last)
    for day in (21, 29, 40):
        assert lake.on(day).run().exit_code == 0
    assert back.metadata_location == last and last in lake.paths()


def test_while_a_person_holds_everything_back_nothing_is_let_go() -> None:
    lake = purged()
    lake.control.switch.set(StopSwitch("ann", "a look first", T0 + 18 * DAY))
    assert not tended(lake) and len(dropped_names(lake)) == 1
    lake.control.switch.set(None)
    assert tended(lake) and dropped_names(lake) == []


def test_a_run_for_other_tables_lets_nothing_go() -> None:
    lake, _ = dropped()
    lake.on(11).run(tables=("lake.sea.*",))
    assert lake.waiting() == {}
    lake = purged()
    assert not tended(lake, "lake.sea.*") and len(dropped_names(lake)) == 1
    assert tended(lake, "lake.*") and names(lake) == set()


def test_a_dropped_schema_is_forgotten_after_the_last_of_its_tables() -> None:
    lake, _ = written()
    drop(lake.services(), "lake.air")
    stones = [
        n for n in lake.catalogs["lake"].listing().namespaces if n[:1] == ("meltline_dropped",)
    ]
    assert len([n for n in stones if len(n) == 2]) == 1
    for day in (11, 19, 20, 21):
        lake.on(day).run()
    left = lake.catalogs["lake"].listing().namespaces
    assert not [n for n in left if n[:1] == ("meltline_dropped",) and len(n) == 2]
    assert LET_GO in [e.action for e in decisions(lake.services(), "lake.air")]


def test_a_table_that_came_back_and_is_then_dropped_by_an_engine_is_kept_under_its_own_name() -> (
    None
):
    lake, table = dropped()
    lake.run()
    back(lake)
    lake.on(5).run()
    table.drop()
    lake.on(6).run()
    done = back(lake)
    assert done.drop.noticed and done.drop.at == T0 + 6 * DAY
