"""One installation manages a warehouse: whichever copy of it runs second is refused."""

from contextlib import suppress
from dataclasses import replace

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.orphans.sweep import sweep
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.installations import (
    mark_of,
    mark_roots,
    other_installations,
    require_typed,
)
from meltline.domain.epochs import EPOCH, GENERATION, Epoch, EpochNote, number_in
from meltline.domain.errors import LedgerOutOfStep, StoreRefused, UsageInvalid
from tests.doubles.store import _place
from tests.lake.lake import WAREHOUSE, Lake
from tests.lives.copied_installations import Installation, mark
from tests.lives.kills import Killed, Process

OTHER = ("meltline_b",)
OTHER_EPOCH = "7 0123456789abcdef 2026-01-09T00:00:00Z ann: run nightly"


def aged_lake(**more: object) -> Lake:
    """With a table of which some history may expire."""
    lake = Lake(**more)  # type: ignore[arg-type]
    table = lake.on(0).table("one")
    for day in range(3):
        table.overwrite(f"f{day}")
        lake.on(day + 1)
    return lake.on(12)


def refused(lake: Lake) -> LedgerOutOfStep:
    paths, deleted = lake.paths(), len(lake.deleter.deleted)
    with pytest.raises(LedgerOutOfStep) as error:
        lake.run()
    assert lake.paths() == paths
    assert len(lake.deleter.deleted) == deleted
    return error.value


# --- copies ---------------------------------------------------------------------------------------


def test_a_copy_that_runs_after_its_original_is_refused() -> None:
    lake = aged_lake()
    assert lake.run().exit_code == 0
    copied = Installation.of(lake)
    lake.on(21).run()
    lake.on(25)
    copied.put_into(lake)
    error = refused(lake)
    assert "another installation manages this warehouse" in error.message
    note = EpochNote(mark(lake).decode())
    assert note.id in error.found and "tester: a step by itself" in error.found
    assert error.object == WAREHOUSE
    assert not error.next.startswith("`meltline init")
    assert "ledger_out_of_step" in {finding.code for finding in examine(lake.services())}


def test_an_original_whose_copy_runs_first_is_refused() -> None:
    lake = aged_lake()
    lake.run()
    ours, copied = Installation.of(lake), Installation.of(lake)
    copied.put_into(lake)
    lake.on(21).run()
    ours.put_into(lake)
    assert "another installation" in refused(lake).message


def test_of_two_copies_that_begin_in_one_moment_only_one_destroys() -> None:
    """Both have passed the first look when the first of them marks the warehouse."""
    lake = aged_lake()
    lake.run()
    copied = Installation.of(lake)
    first = replace(lake.services(), run_id="first")
    RunEpoch(first).require()
    copied.put_into(lake)
    with pytest.raises(LedgerOutOfStep, match="another installation"):
        RunEpoch(replace(lake.services(), run_id="second")).require()


def test_a_run_asks_again_before_each_batch() -> None:
    lake = aged_lake()
    epoch = RunEpoch(replace(lake.services(), run_id="long"))
    epoch.require()
    epoch.require()
    lake.store.write(mark_of(WAREHOUSE), OTHER_EPOCH.encode())
    with pytest.raises(LedgerOutOfStep, match="another installation"):
        epoch.require()


def test_a_mark_that_came_since_the_last_look_is_not_overwritten() -> None:
    lake = aged_lake()
    lake.store.write(mark_of(WAREHOUSE), OTHER_EPOCH.encode())
    with pytest.raises(LedgerOutOfStep, match="another installation"):
        mark_roots(lake.services(), Epoch(9, "ours", "run x", "tester", lake.clock.now()))
    assert mark(lake) == OTHER_EPOCH.encode()


def test_catalog_and_ledger_that_both_were_restored_are_refused() -> None:
    lake = aged_lake()
    before = Installation.of(lake)
    lake.run()
    before.put_into(lake)
    refused(lake)


def test_every_storage_root_is_marked_and_compared() -> None:
    roots = ("file:///more", "file:///most")
    lake = aged_lake(storage_roots=roots)
    lake.run()
    marks = {lake.store.read(mark_of(root)) for root in (WAREHOUSE, *roots)}
    assert len(marks) == 1
    lake.store.write(mark_of(roots[1]), OTHER_EPOCH.encode())
    assert refused(lake).object == roots[1]


def test_a_root_that_does_not_say_refuses() -> None:
    lake = aged_lake()
    lake.run()
    lake.store._failing.add(_place(mark_of(WAREHOUSE)))
    with pytest.raises(StoreRefused):
        lake.on(21).run()


@pytest.mark.parametrize("content", ["", "nonsense", "1", "99999 x", "٣ x y", f"{10**40} x"])
def test_a_mark_that_nobody_of_ours_wrote_refuses(content: str) -> None:
    lake = aged_lake()
    lake.store.write(mark_of(WAREHOUSE), content.encode())
    refused(lake)


# --- healthy lakes --------------------------------------------------------------------------------


def test_runs_of_one_installation_follow_each_other_and_go_on_purging() -> None:
    lake = aged_lake(storage_roots=("file:///more",))
    seen = []
    for day in range(12, 30):
        assert lake.on(day).run().exit_code == 0
        seen.append(number_in(mark(lake).decode()))
    assert lake.deleter.deleted
    assert seen == sorted(seen)


def test_runs_that_take_turns_on_one_ledger_do_not_refuse_each_other() -> None:
    lake = aged_lake()
    one, two = (RunEpoch(replace(lake.services(), run_id=name)) for name in ("one", "two"))
    for epoch in (one, two, one, two):
        epoch.require()


@pytest.mark.parametrize("line", range(1, 12))
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_dies_while_it_marks_is_followed_by_one_that_goes_on(
    line: int, after: bool
) -> None:
    lake = aged_lake()
    lake.run()
    process = Process(line, after)
    with suppress(Killed):
        RunEpoch(replace(process.of(lake.on(13).services()), run_id="dead")).require()
    assert lake.run().exit_code == 0


# --- a second ledger in one catalog ---------------------------------------------------------------


def with_second_ledger() -> Lake:
    lake = aged_lake()
    lake.catalogs["lake"].set_namespace_properties(
        OTHER, {GENERATION: "1", EPOCH: OTHER_EPOCH, "owner": "team b"}
    )
    return lake


def test_a_ledger_in_another_namespace_of_the_catalog_refuses_runs_and_sweeps() -> None:
    lake = with_second_ledger()
    error = refused(lake)
    assert error.object == "namespace lake.meltline_b"
    assert "01234567" in error.found
    with pytest.raises(LedgerOutOfStep):
        sweep(lake.services(), lake.request())


def test_a_namespace_without_a_generation_is_no_installation() -> None:
    lake = aged_lake()
    lake.catalogs["lake"].set_namespace_properties(OTHER, {"owner": "team b"})
    assert lake.run().exit_code == 0


# --- taking over ----------------------------------------------------------------------------------


def test_taking_over_needs_the_other_installations_id() -> None:
    lake = with_second_ledger()
    for typed in ("", "0123", "other"):
        with pytest.raises(UsageInvalid, match="another installation") as error:
            require_typed(lake.services(), typed)
        assert "01234567" in error.value.expected
    require_typed(lake.services(), "01234567")


def test_places_that_know_of_different_epochs_each_need_their_id() -> None:
    lake = with_second_ledger()
    lake.store.write(mark_of(WAREHOUSE), b"9 fedcba9876543210 2026-01-09T00:00:00Z ann: run")
    for typed in ("01234567", "fedcba98"):
        with pytest.raises(UsageInvalid, match="another installation"):
            require_typed(lake.services(), typed)
    require_typed(lake.services(), "fedcba98,01234567")


def test_after_taking_over_the_other_one_is_refused_and_ours_goes_on() -> None:
    lake = aged_lake()
    lake.run()
    ours, copied = Installation.of(lake), Installation.of(lake)
    copied.put_into(lake)
    lake.on(21).run()
    theirs = Installation.of(lake)
    ours.put_into(lake)
    require_typed(lake.services(), EpochNote(mark(lake).decode()).id)
    done = init(lake.services(), adopt=True)
    assert done.adopted
    lake._arm()
    for day in range(22, 40):
        assert lake.on(day).run().exit_code == 0
    assert lake.deleter.deleted
    theirs.put_into(lake)
    refused(lake)


def test_taking_over_ends_the_ledgers_of_other_namespaces() -> None:
    lake = with_second_ledger()
    assert init(lake.services(), adopt=True).adopted
    assert not list(other_installations(lake.services()))
    left = lake.catalogs["lake"].listing().namespaces[OTHER]
    assert set(left) == {"owner", "meltline.superseded-by"}


def test_nobody_begins_in_a_warehouse_that_another_installation_has_marked() -> None:
    lake = aged_lake()
    lake.run()
    with pytest.raises(LedgerOutOfStep, match="another installation"):
        Lake(make_store=lambda clock: lake.store)
