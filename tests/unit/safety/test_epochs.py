"""An old backup of the control ledger does not lift what was decided since: the catalog knows."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from meltline.app.catalog.management import attach, detach
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.purge.approvals import approve
from meltline.app.safety.epochs import STOPPED, RunEpoch, raise_epoch
from meltline.app.safety.installations import mark_of
from meltline.app.safety.preconditions import require_generation
from meltline.app.safety.switches import go, stop
from meltline.domain.epochs import EPOCH, number_in
from meltline.domain.errors import (
    CatalogUnlistable,
    LedgerOutOfStep,
    Stopped,
)
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import ROOMY, Lake, Table
from tests.lives.kills import Killed, Process
from tests.lives.restored_ledgers import backup_of, restore
from tests.unit.plan.test_guards import two_tables_in_failsafe

SPACE = ("meltline",)


def properties(lake: Lake) -> dict[str, str]:
    return dict(lake.catalogs["lake"].listing().namespaces[SPACE])


def epoch(lake: Lake) -> int:
    return number_in(properties(lake)[EPOCH])


def aged_lake() -> Lake:
    """With a table of which some history may expire."""
    lake = Lake()
    table = lake.on(0).table("one")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    return lake.on(12)


def is_out_of_step(lake: Lake) -> bool:
    try:
        lake.run()
    except LedgerOutOfStep:
        return True
    return False


def an_unread_table(lake: Lake) -> Any:
    table = lake.table("dark")
    table.append("d")
    lake.spoil(table.metadata_location)
    return table


# --- what a restored ledger would lift ------------------------------------------------------------


def test_a_backup_from_before_a_stop_does_not_lift_it() -> None:
    lake = aged_lake()
    before = backup_of(lake)
    stop(lake.services(), "a fire")
    restore(lake, before)
    assert lake.control.switch.stopped() is None
    with pytest.raises(LedgerOutOfStep) as refused:
        lake.run()
    assert "init --adopt" in refused.value.next
    assert "ledger_out_of_step" in {found.code for found in examine(lake.services())}


def test_adopting_it_puts_the_stop_in_force_again() -> None:
    lake = aged_lake()
    before = backup_of(lake)
    stop(lake.services(), "a fire")
    restore(lake, before)
    done = init(lake.services(), adopt=True)
    assert done.lost is not None and "a fire" in done.lost.stop
    assert "tester: stop" in done.lost.last_known
    held = lake.control.switch.stopped()
    assert held is not None and "a fire" in held.reason
    errors = lake.run().as_json()
    assert Stopped.__name__ in str(errors) or "stopped" in str(errors)
    go(lake.services())
    assert lake.run().exit_code == 0


def test_after_a_go_no_stop_comes_back_by_adopting() -> None:
    lake = aged_lake()
    stop(lake.services(), "a fire")
    before = backup_of(lake)
    go(lake.services())
    restore(lake, before)
    assert is_out_of_step(lake)
    done = init(lake.services(), adopt=True)
    assert done.lost is not None and done.lost.stop == ""
    # The ledger itself says that it is stopped: that is kept until a person says go.
    assert lake.control.switch.stopped() is not None


def test_a_ledger_that_begins_anew_takes_over_the_stop_too() -> None:
    lake = aged_lake()
    empty = backup_of(Lake())
    stop(lake.services(), "a fire")
    restore(lake, empty)
    assert is_out_of_step(lake)
    init(lake.services(), adopt=True)
    assert lake.control.switch.stopped() is not None


def test_approvals_and_words_are_asked_for_again_after_adopting() -> None:
    small = replace(ROOMY, approve_above=0)
    lake, _, plans = two_tables_in_failsafe(small)
    approve(lake.services(), plans, "seen")
    dark = an_unread_table(lake)
    detach(lake.services(), [dark.name], "mine alone")
    before = backup_of(lake)
    attach(lake.services(), dark.name)
    assert list(lake.control.decisions.vouched()) == []
    restore(lake, before)
    assert len(lake.control.decisions.vouched()) == 1  # the word that was taken back
    assert is_out_of_step(lake)
    done = init(lake.services(), adopt=True)
    assert done.lost is not None
    assert (done.lost.approvals, done.lost.words) == (len(plans), (dark.name,))
    assert list(lake.control.decisions.vouched()) == []
    for plan in plans:
        assert lake.control.verdicts.approval(plan.id, plan.digest) is None
    (entry,) = [one for one in lake.control.audit.entries() if one.detail.count("approvals")]
    assert entry.who == "tester"


def test_each_decision_and_each_run_that_destroys_is_known_to_the_catalog() -> None:
    lake, _, plans = two_tables_in_failsafe()
    dark = an_unread_table(lake)
    decisions: list[Callable[[], Any]] = [
        lambda: stop(lake.services(), "why"),
        lambda: go(lake.services()),
        lambda: approve(lake.services(), plans, "seen"),
        lambda: detach(lake.services(), [dark.name], "mine alone"),
        lambda: attach(lake.services(), dark.name),
        lambda: RunEpoch(lake.services()).require(),
    ]
    for decide in decisions:
        before, old = epoch(lake), backup_of(lake)
        decide()
        assert epoch(lake) == before + 1
        now = backup_of(lake)
        restore(lake, old)
        with pytest.raises(LedgerOutOfStep):
            require_generation(lake.services())
        restore(lake, now)
        require_generation(lake.services())


def test_a_backup_from_before_a_run_that_destroyed_something_is_refused() -> None:
    lake = aged_lake()
    before = backup_of(lake)
    assert lake.run().exit_code == 0
    restore(lake, before)
    assert is_out_of_step(lake)


def test_a_backup_since_which_nothing_was_decided_or_destroyed_goes_on() -> None:
    lake = aged_lake()
    lake.run()
    before, at = backup_of(lake), epoch(lake)
    lake.run()
    assert epoch(lake) == at  # it had nothing to do
    restore(lake, before)
    assert lake.run().exit_code == 0


def test_a_run_tells_the_catalog_once_whatever_its_steps() -> None:
    lake, _, _ = two_tables_in_failsafe()
    before = epoch(lake)
    told = Counter[str]()
    process = Process()
    services = replace(process.of(lake.services()), run_id="run-77")
    for _ in range(3):
        RunEpoch(services).require()
    summary = lake.run(services=services)
    told.update(process.calls)
    assert sum(t.files_purged for t in summary.tables.values()) > 0
    assert epoch(lake) == before + 1
    assert told["catalog.set_namespace_properties"] == 1


def test_a_run_that_meets_a_conflict_after_it_began_its_epoch_tries_again() -> None:
    lake = aged_lake()
    table = lake.table("busy")
    for number in range(3):
        table.overwrite(f"b{number}")
    lake.on(30)
    raced = False

    class Busy(Process):
        def call(self, name: str, work: Callable[[], Any]) -> Any:
            nonlocal raced
            if name == "committer.expire" and not raced:
                raced = True
                for one in ("one", "busy"):
                    Table(lake, TableName.parse(f"lake.air.{one}")).append("meanwhile")
            return work()

    summary = lake.run(services=Busy().of(lake.services()))
    assert raced and summary.exit_code == 0, summary.as_json()


def test_nothing_is_destroyed_while_the_catalog_cannot_be_told() -> None:
    lake, tables, _ = two_tables_in_failsafe()
    for table in tables:
        table.overwrite("more")
    lake.on(40)
    snapshots = [len(table.snapshots) for table in tables]

    class Down(Process):
        def call(self, name: str, work: Callable[[], Any]) -> Any:
            if name == "catalog.set_namespace_properties":
                raise ConnectionError(name)
            return work()

    summary = lake.run(services=Down().of(lake.services()))
    assert summary.exit_code != 0 and "does not answer" in str(summary.as_json())
    assert [len(table.snapshots) for table in tables] == snapshots
    assert lake.deleter.deleted == []


# --- a catalog that does not answer ---------------------------------------------------------------


def test_stop_stops_while_the_catalog_is_down_and_says_that_it_was_not_told() -> None:
    lake = aged_lake()
    down = Process(1, False, "catalog", ConnectionError("refused"))
    done = stop(down.of(lake.services()), "a fire")
    assert isinstance(done.unnoted, CatalogUnlistable)
    assert lake.control.switch.stopped() == done.switch
    assert STOPPED not in properties(lake)
    assert "stopped" in str(lake.run().as_json())
    again = stop(lake.services(), "a fire")
    assert again.unnoted is None and "a fire" in properties(lake)[STOPPED]


def test_go_waits_for_the_catalog() -> None:
    lake = aged_lake()
    stop(lake.services(), "a fire")
    down = Process(1, False, "catalog", ConnectionError("refused"))
    with pytest.raises(CatalogUnlistable):
        go(down.of(lake.services()))
    assert lake.control.switch.stopped() is not None


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("line", range(1, 12))
@pytest.mark.parametrize("decide", ["stop", "go", "run"])
def test_a_kill_at_any_line_of_a_decision_never_blocks_what_comes_after(
    decide: str, line: int, after: bool
) -> None:
    lake = aged_lake()
    stop(lake.services(), "first")
    if decide != "go":
        go(lake.services())
    dying = Process(line, after).of(lake.services())
    acts: dict[str, Callable[[], Any]] = {
        "stop": lambda: stop(dying, "a fire"),
        "go": lambda: go(dying),
        "run": lambda: RunEpoch(dying).require(),
    }
    with suppress(Killed):
        acts[decide]()
    require_generation(lake.services())
    stop(lake.services(), "again")
    go(lake.services())
    assert lake.run().exit_code == 0


def test_a_backup_taken_in_the_middle_of_a_stop_has_the_stop_or_is_refused() -> None:
    """Whatever line it was taken at, once the stop is done."""
    lake = aged_lake()
    taken = []
    services = lake.services()

    class Watching(Process):
        def call(self, name: str, work: Callable[[], Any]) -> Any:
            answer = work()
            taken.append(backup_of(lake))
            return answer

    stop(Watching().of(services), "a fire")
    assert len(taken) > 4
    for old in taken:
        restore(lake, old)
        assert lake.control.switch.stopped() is not None or is_out_of_step(lake)


# --- who else has the same ------------------------------------------------------------------------


def test_two_ledgers_restored_from_one_backup_do_not_take_each_other_for_themselves() -> None:
    lake = aged_lake()
    old = backup_of(lake)
    stop(lake.services(), "by the first")
    first = backup_of(lake)
    restore(lake, old)
    noted = stop(lake.services(), "by the second")  # of the same number, were it allowed
    assert isinstance(noted.unnoted, LedgerOutOfStep)
    assert lake.control.switch.stopped() is not None  # it holds all the same
    with pytest.raises(LedgerOutOfStep):
        require_generation(lake.services())
    restore(lake, first)
    require_generation(lake.services())


def test_after_adopting_the_ledger_that_was_left_is_refused() -> None:
    lake = aged_lake()
    old = backup_of(lake)
    stop(lake.services(), "a fire")
    left = backup_of(lake)
    restore(lake, old)
    init(lake.services(), adopt=True)
    go(lake.services())
    assert lake.run().exit_code == 0
    restore(lake, left)
    assert is_out_of_step(lake)


def test_two_controllers_that_raise_at_once_both_come_through() -> None:
    lake = aged_lake()
    services = lake.services()
    before = epoch(lake)
    raced = False

    class Racing(Process):
        def call(self, name: str, work: Callable[[], Any]) -> Any:
            nonlocal raced
            if name == "catalog.set_namespace_properties" and not raced:
                raced = True
                raise_epoch(services, "stop")
            return work()

    raise_epoch(Racing().of(services), "approve")
    assert epoch(lake) == before + 3  # the loser's first number is left out
    require_generation(lake.services())


def test_a_catalog_that_cannot_compare_ends_at_an_epoch_that_the_ledger_knows() -> None:
    """The slower of two writes over the faster one."""
    lake = aged_lake()
    services = lake.services()
    raced = False

    class Blind(Process):
        def call(self, name: str, work: Callable[[], Any]) -> Any:
            nonlocal raced
            if name == "catalog.set_namespace_properties" and not raced:
                raced = True
                known = properties(lake)
                raise_epoch(services, "stop")
                raise_epoch(services, "go")
                lake.catalogs["lake"].set_namespace_properties(SPACE, {EPOCH: known[EPOCH]})
            return work()

    raise_epoch(Blind().of(services), "approve")
    require_generation(lake.services())


def test_a_catalog_that_spells_an_epoch_otherwise_is_set_all_the_same() -> None:
    """Its first two words are the epoch; a catalog, or a person, may write the rest anew."""
    lake = aged_lake()
    stop(lake.services(), "a fire")
    number, nonce = properties(lake)[EPOCH].split(" ")[:2]
    respelled = {EPOCH: f"{number} {nonce} somebody: stop"}
    lake.catalogs["lake"].set_namespace_properties(SPACE, respelled)
    go(lake.services())
    assert epoch(lake) > int(number) and lake.run().exit_code == 0


def test_a_catalog_that_was_set_back_is_refused_until_it_is_adopted() -> None:
    lake = aged_lake()
    old = properties(lake)[EPOCH]
    stop(lake.services(), "a fire")
    lake.catalogs["lake"].set_namespace_properties(SPACE, {EPOCH: old})
    assert is_out_of_step(lake)
    init(lake.services(), adopt=True)
    assert lake.control.switch.stopped() is not None
    go(lake.services())
    assert lake.run().exit_code == 0


def test_a_catalog_without_an_epoch_is_refused_where_the_ledger_knows_one() -> None:
    lake = aged_lake()
    lake.catalogs["lake"].set_namespace_properties(SPACE, {}, [EPOCH])
    assert is_out_of_step(lake)


def test_a_lake_from_before_there_were_epochs_goes_on_and_has_one_from_then_on() -> None:
    lake = aged_lake()
    lake.control.epochs.rows.clear()
    lake.catalogs["lake"].set_namespace_properties(SPACE, {}, [EPOCH])
    lake.store.delete(list(map(mark_of, lake.config().roots)))
    old = backup_of(lake)
    assert lake.run().exit_code == 0
    assert epoch(lake) == 1
    restore(lake, old)
    assert is_out_of_step(lake)
