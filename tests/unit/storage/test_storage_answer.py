"""What `meltline storage` says where it does not know: an unknown figure is none, and never 0."""

from datetime import timedelta

import pytest

from meltline.app.storage.storage_answer import StorageAnswer, StorageLine, storage_answer
from meltline.domain.errors import AsOfInFuture
from tests.lake.lake import DAY, T0, Lake, Table


def answer(lake: Lake, *globs: str, by: str = "table") -> StorageAnswer:
    return storage_answer(lake.services(), globs, by=by)


def line(lake: Lake, name: str, by: str = "table") -> StorageLine:
    return next(line for line in answer(lake, by=by).lines if line.name == name)


def observed() -> tuple[Lake, Table]:
    """Two tables, of which each was read on day 0."""
    lake = Lake()
    table = lake.on(0).table("t")
    table.overwrite("a")
    lake.table("u").overwrite("b")
    lake.run()
    return lake, table


def test_a_table_that_cannot_be_read_has_no_figures_but_the_time_it_was_read_last() -> None:
    lake, table = observed()
    lake.spoil(table.metadata_location)
    for day in (1, 2):
        lake.on(day).run()
    told = answer(lake)
    broken, whole = told.lines
    assert (broken.state, broken.bytes["active_bytes"], broken.bytes["historical_bytes"]) == (
        "unreadable",
        None,
        None,
    )
    assert whole.state == "ok" and whole.bytes["active_bytes"]
    assert told.exit_code == 4
    (unread,) = told.unread
    assert (unread.table, unread.last_read_at) == (table.name, T0)
    assert "2026-01-01T00:00:00Z" in told.notes[0] and "meltline doctor" in told.notes[0]


def test_a_table_that_was_never_read_is_named_without_a_time() -> None:
    lake, _ = observed()
    later = lake.on(1).table("later")
    later.overwrite("c")
    lake.spoil(later.metadata_location)
    told = answer(lake)
    assert [(u.table, u.last_read_at) for u in told.unread] == [(later.name, None)]
    assert told.exit_code == 4 and "never" in told.notes[0]


def test_a_table_whose_new_snapshot_cannot_be_read_is_unreadable_too() -> None:
    lake, table = observed()
    lake.on(1)
    lake.spoil(table.manifest_list(table.append("c")))
    lake.run()
    told = line(lake, str(table.name))
    assert (told.state, told.bytes["active_bytes"]) == ("unreadable", None)
    assert told.unread[0].last_read_at == T0


def test_no_day_is_remembered_of_a_table_that_cannot_be_read() -> None:
    lake, table = observed()
    lake.spoil(table.metadata_location)
    lake.on(1).run()
    assert [row.table.name for row in lake.control.storage.of("2026-01-02")] == ["u"]
    assert len(lake.control.storage.of("2026-01-01")) == 2


def test_before_the_first_observation_nothing_is_said_to_be_stored() -> None:
    lake = Lake()
    lake.table("t").overwrite("a")
    told = answer(lake)
    (row,) = told.lines
    assert (row.state, row.bytes["active_bytes"], row.computed_at) == (
        "not observed yet",
        None,
        None,
    )
    assert told.observed_at is None and told.exit_code == 0
    assert "nothing was observed yet" in told.notes[0]


def test_a_table_that_came_since_the_last_observation_is_marked() -> None:
    lake, _ = observed()
    new = lake.on(1).table("new")
    new.overwrite("c")
    told = answer(lake)
    assert [(u.table, u.error) for u in told.unread] == [(new.name, "")]
    assert told.exit_code == 0 and "meltline observe" in told.notes[0]


def test_what_was_active_when_it_was_observed_is_active_until_the_next_observation() -> None:
    lake, table = observed()
    before = line(lake, str(table.name)).bytes["active_bytes"]
    lake.on(1)
    table.append("c")
    after = line(lake, str(table.name)).bytes["active_bytes"]
    assert before and after and after > before / 2


def test_each_line_says_when_the_ledger_was_fed_and_not_when_it_was_asked() -> None:
    lake, table = observed()
    lake.on(3)
    told = answer(lake)
    assert (told.at, told.observed_at) == (T0 + 3 * DAY, T0)
    assert {row.computed_at for row in told.lines} == {T0}
    past = storage_answer(lake.services(), as_of=T0 - DAY)
    assert {row.computed_at for row in past.lines} == {T0 - DAY}
    assert table.name


def test_a_time_that_has_not_come_is_refused() -> None:
    lake, _ = observed()
    with pytest.raises(AsOfInFuture) as refused:
        storage_answer(lake.services(), as_of=T0 + timedelta(seconds=1))
    assert "--dry-run" in refused.value.next


def test_names_with_dots_are_summed_in_their_own_namespace() -> None:
    lake = Lake()
    for name in ("lake.air.`a.b`", "lake.air.c", "lake.`sea.x`.d", "lake.`sea.x`.`e.f`"):
        lake.table(name).overwrite("a")
    lake.run()
    by_namespace = answer(lake, by="namespace").lines
    assert [row.name for row in by_namespace] == ["lake.`sea.x`", "lake.air"]
    single = {row.name: row.bytes["active_bytes"] or 0 for row in answer(lake).lines}
    sums = [row.bytes["active_bytes"] for row in by_namespace]
    assert sums == [
        single["lake.`sea.x`.d"] + single["lake.`sea.x`.`e.f`"],
        single["lake.air.`a.b`"] + single["lake.air.c"],
    ]


def test_a_sum_tells_what_is_known_and_is_marked_where_something_is_not() -> None:
    lake, table = observed()
    lake.spoil(table.metadata_location)
    lake.on(1).run()
    told, known = line(lake, "lake.air", by="namespace"), line(lake, "lake.air.u")
    assert (told.state, told.bytes["active_bytes"]) == ("unreadable", known.bytes["active_bytes"])


def test_a_glob_that_matches_no_table_is_named() -> None:
    lake, _ = observed()
    told = answer(lake, "lake.air.t", "lake.aire.*")
    assert [row.name for row in told.lines] == ["lake.air.t"]
    assert (told.exit_code, told.notes) == (4, ["no table matches lake.aire.*"])
