"""One file whose copy in cold nobody can vouch for keeps no other file in hot."""

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.run.lifecycle import Run, run_step
from meltline.app.run.steps import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.services import SweepServices
from meltline.domain.deletion.withheld import Why
from tests.doubles.sweeper import MemorySweeper
from tests.lake.lake import COLD_WAREHOUSE, Lake
from tests.unit.archive.test_cold_gate import EXPIRE_DAY, PURGE_DAY, Idle
from tests.unit.archive.test_copy_proofs import archived, flip, last_copy
from tests.unit.archive.test_handoff import daily


def waiting_data(lake: Lake) -> set[str]:
    return {path for path in lake.waiting() if path.endswith(".parquet")}


def written_again(lake: Lake, path: str, more: int) -> bytes:
    """A writer puts a new object under the path of a file that waits in failsafe."""
    content = b"n" * (len(lake.store.read(path)) + more)
    lake.on(EXPIRE_DAY + 2).store.write(path, content)
    return content


def others_go_and_it_stays(lake: Lake, path: str, others: set[str]) -> Summary:
    summary = lake.on(PURGE_DAY).run()
    assert summary.exit_code == 0, summary.as_json()
    assert others and not others & lake.paths() and path in lake.paths()
    return summary


@pytest.mark.parametrize("more", [0, 1], ids=["of the same size", "longer"])
def test_a_new_object_under_the_path_of_an_archived_file_holds_up_no_other(more: int) -> None:
    lake, _ = archived()
    path = min(waiting_data(lake))  # those that come first are held against their copies
    others = waiting_data(lake) - {path}
    content = written_again(lake, path, more)
    summary = others_go_and_it_stays(lake, path, others)
    assert any(path in notice for notice in summary.notices)
    assert lake.store.read(path) == content and path not in lake.waiting()


@pytest.mark.parametrize("is_lost", [True, False])
def test_where_its_copy_is_hurt_as_well_it_is_kept_by_name_and_the_others_go(
    is_lost: bool,
) -> None:
    lake, _ = archived()
    path, copy = last_copy(lake)
    others = waiting_data(lake) - {path}
    written_again(lake, path, 0)
    hurt(lake, copy, is_lost=is_lost)
    summary = others_go_and_it_stays(lake, path, others)
    (kept,) = lake.control.places.withheld()
    assert (kept.why, kept.files, kept.table) == (Why.UNPROVED, 1, "lake.air.t")
    told = " ".join(summary.notices)
    assert kept.notice in told and "meltline cold verify lake.air.t" in told and path in told
    assert any(kept.place in finding.message for finding in examine(lake.services()))
    assert path in lake.waiting(), "it is not forgotten"


def hurt(lake: Lake, copy: str, *, is_lost: bool) -> None:
    if is_lost:
        lake.store.delete([copy])
    else:
        lake.store.write(copy, b"x" * len(lake.store.read(copy)))


def test_it_goes_once_its_copy_is_what_was_recorded_again() -> None:
    lake, _ = archived()
    path, copy = last_copy(lake)
    body, shown = lake.store.read(copy), lake.store.measure(copy)
    written_again(lake, path, 0)
    hurt(lake, copy, is_lost=False)
    lake.on(PURGE_DAY).run()
    assert lake.control.places.withheld() and shown is not None
    lake.store.write(copy, body)
    assert lake.on(PURGE_DAY + 1).run().exit_code == 0
    (left,) = lake.control.places.withheld()  # the purge has met it, and its copy is no matter
    assert left.why is Why.NOT_AS_RECORDED and path not in lake.waiting()


def test_a_copy_that_only_a_gate_finds_damaged_holds_the_others_up_for_one_night() -> None:
    lake, _ = archived()
    path, copy = last_copy(lake)
    others = waiting_data(lake) - {path}
    written_again(lake, path, 0)
    flip(lake, copy)
    assert lake.on(PURGE_DAY).run().exit_code == 3 and others <= lake.paths()
    assert lake.on(PURGE_DAY + 1).run().exit_code == 0
    assert not others & lake.paths() and path in lake.paths()
    nights = [lake.on(PURGE_DAY + night).run().exit_code for night in range(2, 12)]
    assert nights == [0] * 10 and path in lake.paths()


def test_what_a_sweep_finds_under_the_path_of_an_archived_file_holds_up_no_other() -> None:
    """Its copy is of the file that was there before it, and nothing is compared with that."""
    lake, table = archived()
    path = min(waiting_data(lake))
    written_again(lake, path, 0)
    lake.on(PURGE_DAY).run()
    assert path in lake.paths() and path not in lake.waiting()
    sweeper = MemorySweeper(lake.store, lake.file_tables)
    for day in (24, 32):
        table.overwrite(f"z{day}")
        services = SweepServices(**vars(lake.on(day).services()), sweeper=sweeper)
        run_step(SWEEP, services, lake.request())
    lake.on(33).run()
    others = waiting_data(lake) - {path}
    assert others and path in lake.waiting()
    assert lake.on(60).run().exit_code == 0
    assert not ({path} | others) & lake.paths()


def test_while_nothing_may_be_mended_the_others_go_too() -> None:
    lake, _ = archived()
    path, copy = last_copy(lake)
    others = waiting_data(lake) - {path}
    hurt(lake.on(EXPIRE_DAY + 1), copy, is_lost=False)
    summary = lake.on(PURGE_DAY).run(services=lake.services(archive=Idle()))
    assert summary.exit_code == 0 and not others & lake.paths() and path in lake.paths()
    lake.on(PURGE_DAY + 1).run()
    assert path not in lake.paths() and not lake.control.places.withheld()


def test_statistics_that_come_after_the_handoff_go_to_cold_with_the_next_one() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    services, request = lake.on(EXPIRE_DAY).services(), lake.request()
    Run(services, request).hand_off_to_cold()
    table.statistics(table.snapshots[0])
    lake.run()
    assert any(path.endswith(".stats") for path in lake.waiting())
    assert lake.on(PURGE_DAY).run().exit_code == 0 and lake.deleter.deleted
    copies = [path for path in lake.paths(COLD_WAREHOUSE) if path.endswith(".stats")]
    document = lake.document(lake.cold.listing().entries[0].metadata_location)
    assert [file["statistics-path"] for file in document["statistics"]] == copies != []
