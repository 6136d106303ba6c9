"""gc.enabled=false that Meltline has not set is the owner's: the table is only observed (O1)."""

import pytest

from meltline.app.catalog.management import attach, detach
from meltline.app.clone.clone import clone
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.run.gate_step import run_gate
from meltline.app.safety.owner_guards import OwnerGuards
from meltline.app.storage.explain import explain_table
from meltline.app.storage.storage_answer import storage_answer
from meltline.domain.clone.clones import GC_BEFORE, owner_guard
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import DAY, T0, Lake, Table
from tests.lake.swept import FIRST, SECOND, swept

NAME = TableName.parse("lake.air.t")
GUARD = {"gc.enabled": "false"}


def shared_unseen(**properties: str) -> tuple[Lake, Table]:
    """A table overwritten on the days 0 to 3, and registered in a catalog that is not listed."""
    lake = Lake(unlisted=("dark",))
    table = lake.on(0).table("t", properties=properties)
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.register("dark.air.t", table.metadata_location)
    lake.on(4)
    table.overwrite("last")
    return lake, table


def live_on(lake: Lake, *days: float) -> list[int]:
    """Runs on these days; returns how many files each purged."""
    return [sum(t.files_purged for t in lake.on(day).run().tables.values()) for day in days]


def overridden(lake: Lake, reason: str = "the other catalog is gone") -> None:
    attach(lake.services(), NAME, reason, despite_guard=True)


def test_a_table_that_its_owner_guards_never_expires_and_nothing_of_it_is_swept() -> None:
    lake, table = shared_unseen(**GUARD)
    orphan = table.data("left behind")
    lake.store.write(orphan, b"left behind")
    snapshots = table.snapshots
    assert live_on(lake, 5, 60) == [0, 0]
    swept(lake, 60 + FIRST, 60 + SECOND)
    assert live_on(lake, 120, 121) == [0, 0]
    assert table.snapshots == snapshots and lake.waiting() == {}
    assert lake.store.size(orphan) is not None
    lake.check_nothing_is_missing()


def test_without_the_owners_setting_the_same_table_expires_so_that_the_setting_is_what_keeps() -> (
    None
):
    lake, table = shared_unseen()
    del lake.catalogs["dark"]
    assert sum(live_on(lake, 5, 60, 120)) > 0
    assert len(table.snapshots) == 1


@pytest.mark.parametrize("setting", ["gc.enabled", "meltline.owner-gc"])
def test_what_waits_is_taken_back_when_the_owner_sets_the_guard(setting: str) -> None:
    lake, table = shared_unseen()
    del lake.catalogs["dark"]
    lake.on(40).run()
    waiting = set(lake.waiting())
    assert waiting
    table.configure(**{setting: "false"})
    run = lake.on(41).run()
    assert (lake.waiting(), run.exit_code) == ({}, 0)
    states = frozenset({DepartureState.CANCELLED})
    assert {d.path for d in lake.files.departures.in_states(states)} == waiting
    assert live_on(lake, 60, 90) == [0, 0]
    assert waiting <= lake.paths()
    table.unset(setting)
    lake.on(91).run()
    assert set(lake.waiting().values()) == {T0 + 98 * DAY}  # the whole failsafe once more
    assert waiting <= lake.waiting().keys()  # nothing leaks
    assert live_on(lake, 98) == [len(waiting)]
    assert live_on(lake, 99) == [0]


def test_the_run_ends_well_and_storage_explain_and_doctor_name_setting_bytes_and_command() -> None:
    lake, _ = shared_unseen(**GUARD)
    run = lake.on(60).run()
    assert run.exit_code == 0
    answer = storage_answer(lake.services())
    (line,) = answer.lines
    size = line.bytes["historical_bytes"]
    assert size and answer.exit_code == 0
    (note,) = answer.notes
    assert note.startswith("lake.air.t: its owner set gc.enabled=false: ")
    assert note.endswith("`meltline attach lake.air.t --despite-gc-disabled --reason TEXT`")
    explanations = explain_table(lake.services(), NAME)
    assert {e.guards for e in explanations} == {(note,)}
    assert "not managed: its owner set gc.enabled=false" in explanations[-1].keep_reasons
    (found,) = [f for f in examine(lake.services()) if f.code == "owner_guard"]
    assert (found.level, found.object) == ("info", "lake.air.t")
    assert f"{found.object}: {found.message}; {found.fix}" == note


def test_a_person_overrides_the_setting_for_one_registration_and_detach_ends_that() -> None:
    lake, table = shared_unseen(**GUARD)
    del lake.catalogs["dark"]
    lake.on(60).run()
    with pytest.raises(UsageInvalid, match="needs a reason"):
        overridden(lake, " ")
    overridden(lake)
    assert sum(live_on(lake, 61, 90, 91)) > 0
    assert len(table.snapshots) == 1
    detach(lake.services(), [NAME], "to be copied")
    attach(lake.services(), NAME)
    table.overwrite("again")
    assert live_on(lake, 150, 190, 191) == [0, 0, 0]


def test_what_the_owner_does_not_forbid_cannot_be_overridden_beforehand() -> None:
    lake, table = shared_unseen()
    lake.on(60).run()
    with pytest.raises(UsageInvalid, match="forbids no deletions"):
        overridden(lake)
    table.configure(**GUARD)
    lake.on(61).run()
    overridden(lake)
    with pytest.raises(UsageInvalid, match="forbids no deletions"):
        overridden(lake)


def test_the_owners_word_to_meltline_itself_cannot_be_overridden() -> None:
    lake, table = shared_unseen(**GUARD)
    table.configure(**{"meltline.owner-gc": "false"})
    lake.on(60).run()
    with pytest.raises(UsageInvalid, match=r"forbids deletions by meltline\.owner-gc"):
        overridden(lake)


def test_an_adopted_ledger_has_forgotten_overrides() -> None:
    lake, _ = shared_unseen(**GUARD)
    lake.on(60).run()
    overridden(lake)
    lake.control.database.set_generation(9)
    init(lake.services(), adopt=True)
    assert OwnerGuards.read(lake.control.decisions).overridden == set()


def test_a_healthy_lake_with_a_clone_and_a_share_keeps_purging() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(3.5)
    clone(lake.services(), "lake.air.t", "lake.air.copy")
    copy = Table(lake, TableName.parse("lake.air.copy"))
    assert GC_BEFORE in table.document["properties"]
    assert GC_BEFORE in copy.document["properties"]
    lake.on(4)
    copy.overwrite("own")
    copy.overwrite("own again")
    assert sum(live_on(lake, 40, 60, 61)) > 0
    assert len(table.snapshots) == 1 and len(copy.snapshots) == 1
    assert all(f.code != "owner_guard" for f in examine(lake.services()))


def test_a_copied_mark_without_a_record_is_the_owners() -> None:
    ours = {**GUARD, GC_BEFORE: "not set"}
    assert owner_guard(ours, recorded=False) == "gc.enabled"
    assert owner_guard(ours, recorded=True) == ""
    assert owner_guard(GUARD, recorded=True) == "gc.enabled"
    assert owner_guard({**ours, "meltline.owner-gc": "FALSE"}, recorded=True) == "meltline.owner-gc"
    assert owner_guard({"gc.enabled": "TRUE", "meltline.owner-gc": "true"}, recorded=False) == ""
    # Odd words keep: Java reads each of them as no.
    assert owner_guard({"gc.enabled": "no"}, recorded=True) == "gc.enabled"
    assert owner_guard({"meltline.owner-gc": "0"}, recorded=True) == "meltline.owner-gc"


def test_a_dropped_table_of_which_the_owner_forbids_deletions_is_never_let_go() -> None:
    lake, table = shared_unseen(**GUARD)
    lake.on(5).run()
    location = table.location
    files = lake.paths(location)
    drop(lake.services(), "lake.air.t")
    assert live_on(lake, 200, 400, 401) == [0, 0, 0]
    assert files <= lake.paths(location)


def test_a_gate_finds_the_owners_setting_by_itself() -> None:
    lake, table = shared_unseen()
    del lake.catalogs["dark"]
    lake.on(40).run()
    plans = [plan for plan in lake.control.plans.find() if plan.files]
    table.configure(**GUARD)
    verdicts = [verdict for _, verdict in run_gate(lake.services(), plans)]
    assert verdicts and not any(verdict.passed for verdict in verdicts)
    assert all("planned_guarded" in {f.fact for f in v.failed} for v in verdicts)


def test_what_doctor_advises_for_unguarded_sharers_leaves_meltline_at_work() -> None:
    lake, table = shared_unseen()
    del lake.catalogs["dark"]
    lake.register("lake.air.same", table.metadata_location)
    lake.on(5).run()

    def advice() -> list[str]:
        found = examine(lake.services())
        return [
            f.fix for f in found if f.code == "shared_files_unguarded" and f.object == str(NAME)
        ]

    (fix,) = advice()
    assert "`meltline attach lake.air.t --despite-gc-disabled --reason TEXT`" in fix
    table.configure(gc__enabled="false")
    overridden(lake, "others share its files")
    assert advice() == []
    assert sum(live_on(lake, 60, 120)) > 0
