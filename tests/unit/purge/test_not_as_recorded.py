"""A file whose size is not what its manifest says is named each night, until it is gone."""

from collections.abc import Callable

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.status.purge_status import purge_status
from meltline.app.storage.explain import explain_path
from meltline.app.storage.file_status import standing_now
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.storage import Stage, StorageRow
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.files import Departure, DepartureState
from tests.lake.lake import Lake, Table
from tests.lake.swept import swept

LONGER = b"n" * 300  # what an engine's file of this table holds is shorter
DUE, LATER = 20, 21  # the night whose purge meets the file, and the next


def miscounted() -> tuple[Lake, Table, str]:
    """A table whose oldest file is longer than its manifest says, and expired on day 12."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
        if day == 0:
            lake.store.write(table.data("f0"), LONGER)
    lake.on(12).run()
    assert table.data("f0") in lake.waiting()
    return lake, table, table.data("f0")


def departure(lake: Lake, path: str) -> Departure:
    (row,) = lake.files.departures.in_states(frozenset(DepartureState), paths=[path])
    return row


def row(lake: Lake, table: Table) -> StorageRow:
    rows = storage_rows(totals_now(lake.services()))
    return next(row for row in rows if row.table_uuid == table.uuid)


def held_back(lake: Lake) -> int:
    return purge_status(lake.services()).held_back[Why.NOT_AS_RECORDED]


def test_it_is_named_each_night_with_its_bytes_and_the_command_that_ends_it() -> None:
    lake, _, path = miscounted()
    first = lake.on(DUE).run()
    assert any(path in notice and "`meltline sweep`" in notice for notice in first.notices)
    for night in range(LATER, LATER + 3):
        assert held_back(lake) == len(LONGER)
        (warning,) = [f for f in examine(lake.services()) if f.code == "not_as_recorded"]
        assert warning.level == "warning" and "1 files, 300 B, are kept" in warning.message
        assert "`meltline sweep`" in warning.fix
        summary = lake.on(night).run()
        assert summary.exit_code == 0 and not summary.plans, "it is not tried again"
        (notice,) = [n for n in summary.notices if "lake.air.t: 1 files, 300 B, are kept" in n]
        assert "`meltline sweep`" in notice
    assert lake.store.read(path) == LONGER


def test_nothing_calls_it_deleted_while_it_is_there() -> None:
    lake, table, path = miscounted()
    lake.on(DUE).run()
    told = explain_path(lake.services(), path)
    assert (told.stage, told.keep_reasons) == ("failsafe", ("failsafe", "not as recorded"))
    assert [decision.action for decision in told.decisions] == ["departed"]
    gone = lake.files.departures.in_states(frozenset({DepartureState.DELETED}))
    assert row(lake, table).failsafe_bytes == departure(lake, path).bytes
    assert row(lake, table).deleted_bytes == sum(file.bytes for file in gone)


def is_swept(lake: Lake, path: str) -> None:
    swept(lake, 22, 29)
    assert departure(lake, path).bytes == len(LONGER)
    lake.on(36).run()


def is_deleted_by_hand(lake: Lake, path: str) -> None:
    lake.store.delete([path])
    lake.on(LATER).run()


@pytest.mark.parametrize("ends", [is_swept, is_deleted_by_hand])
def test_it_ends_with_a_sweep_that_takes_it_as_it_is_or_by_hand(
    ends: Callable[[Lake, str], None],
) -> None:
    lake, _, path = miscounted()
    lake.on(DUE).run()
    lake.on(LATER).run()
    ends(lake, path)
    assert lake.store.size(path) is None
    assert departure(lake, path).state is DepartureState.DELETED
    assert explain_path(lake.services(), path).stage == "deleted"
    lake.on(40).run()
    assert held_back(lake) == 0


def test_one_sweep_alone_leaves_it_where_it_is_and_the_nights_go_on_naming_it() -> None:
    lake, _, path = miscounted()
    lake.on(DUE).run()
    swept(lake, 22)
    lake.on(40).run()
    assert held_back(lake) == len(LONGER)
    assert lake.store.read(path) == LONGER


def test_what_is_as_it_was_recorded_goes_in_its_night_and_nothing_is_named() -> None:
    lake, table, path = miscounted()
    others = {table.data("f1"), table.data("f2")}
    assert others <= set(lake.waiting())
    lake.on(DUE).run()
    assert not others & lake.paths()
    (kept,) = lake.control.places.withheld()
    assert (kept.why, kept.files, kept.step) == (Why.NOT_AS_RECORDED, 1, "delete")
    assert not departure(lake, table.data("f1")).was_left and departure(lake, path).was_left


def test_a_dropped_table_is_let_go_though_such_a_file_stays_and_is_named_on() -> None:
    lake, _, path = miscounted()
    beside = lake.table("beside").name
    drop(lake.services(), "lake.air.t")
    for night in range(DUE, DUE + 25):
        lake.on(night).run()
    assert [entry.name for entry in lake.catalogs["lake"].listing().entries] == [beside]
    assert held_back(lake) == len(LONGER)
    assert {p for p in lake.paths() if "/air/t/" in p} == {path}


def test_a_path_of_two_sizes_counts_by_the_larger_in_the_sums_and_the_list() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("f0")
    lake.store.write(table.data("f0"), LONGER)
    table.append("f0")
    lake.run()
    files = standing_now(lake.services()).files.values()
    assert [file.bytes for file in files if file.path == table.data("f0")] == [len(LONGER)]
    active = sum(file.bytes for file in files if file.stage is Stage.ACTIVE)
    assert row(lake, table).active_bytes == active
