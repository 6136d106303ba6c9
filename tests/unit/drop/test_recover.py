"""Recover: what waits in failsafe as a new table, best effort, and told so (ML-5, ML-25)."""

from datetime import timedelta
from typing import Any

import pytest

from meltline.app.drop.recover import Recovered, recover
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.audit import decisions
from meltline.domain.errors import (
    CommitConflict,
    FilesClaimed,
    NameConflict,
    NamespaceNotFound,
    RecoveryImpossible,
    UsageInvalid,
)
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from meltline.ports import Claim
from tests.lake.lake import MINUTE, Lake, Table

NAME, NEW = "lake.air.t", "lake.air.back"


def expired() -> tuple[Lake, Table, list[int]]:
    """A table overwritten on the days 0 to 3; on day 12 the first three expired."""
    lake = Lake()
    table = lake.on(0).table("t")
    ids = []
    for day in range(4):
        lake.on(day)
        ids.append(table.overwrite(f"f{day}"))
    lake.on(12).run()
    assert table.snapshots == [ids[3]] and table.data("f1") in lake.waiting()
    return lake, table, ids


def bring_back(lake: Lake, snapshot_id: int | None = None, target: str = NEW) -> Recovered:
    services = lake.services()
    return recover(services, NAME, target, reason="needed", snapshot_id=snapshot_id)


def new(lake: Lake) -> Table:
    return Table(lake, TableName.parse(NEW))


def test_an_expired_snapshot_is_a_new_table_again_with_all_its_files() -> None:
    lake, table, ids = expired()
    done = bring_back(lake, ids[1])
    assert done.files_found == 4 and done.missing == ()  # data, two manifests and their list
    made = new(lake)
    assert made.uuid != table.uuid and made.location != table.location
    assert (made.snapshots, made.head) == ([ids[1]], ids[1])
    assert {entry.path for entry in made.live()} == {table.data("f1")}
    assert made.refs.keys() == {"main"} and table.snapshots == [ids[3]]


def test_without_a_snapshot_the_newest_expired_one_comes_back() -> None:
    lake, _, ids = expired()
    assert bring_back(lake).snapshot.snapshot_id == ids[2]


def test_its_files_do_not_depart_any_more_and_no_later_purge_takes_them() -> None:
    lake, table, ids = expired()
    bring_back(lake, ids[1])
    assert lake.on(13).run().exit_code == 0
    assert table.data("f1") not in lake.waiting()
    lake.on(60).run()
    assert table.data("f1") in lake.paths() and table.data("f0") not in lake.paths()


def test_from_the_word_on_a_purge_leaves_its_files_alone_before_anybody_has_looked() -> None:
    lake, table, ids = expired()
    lake.on(30)
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    (plan, _), *_ = run_gate(services, [planned.plan])
    bring_back(lake, ids[1])
    apply_purges(services, [plan])
    assert table.data("f1") in lake.paths()
    lake.check_nothing_is_missing()


def test_when_the_recovered_table_lets_them_go_they_wait_their_whole_time_again() -> None:
    # ML-8
    lake, table, ids = expired()
    bring_back(lake, ids[1])
    lake.on(13).run()
    made = new(lake)
    made.overwrite("fresh")
    lake.on(40).run()
    departed = lake.files.departures.in_states(
        frozenset({DepartureState.FAILSAFE}), paths=[table.data("f1")]
    )
    assert [d.departed_at for d in departed] == [lake.clock.now()]


def test_engines_may_not_purge_a_table_whose_files_lie_in_another_ones_folder() -> None:
    lake, table, ids = expired()
    table.configure(**{"meltline.hold": "audit"})
    bring_back(lake, ids[1])
    assert new(lake).document["properties"] == {
        "gc.enabled": "false",
        "meltline.gc-enabled-before": "not set",
    }


def test_files_that_are_gone_are_named_and_the_rest_comes_back() -> None:
    lake, table, ids = expired()
    lake.store.delete([table.data("f1")])
    done = bring_back(lake, ids[1])
    assert (done.files_found, done.missing) == (3, (table.data("f1"),))
    lake.store.write(table.data("f1"), b"d")  # so that the lake is whole again


def test_a_snapshot_whose_list_is_gone_cannot_come_back_and_nothing_is_changed() -> None:
    lake, table, ids = expired()
    before = lake.paths()
    state = lake.document(lake.control.plans.find()[0].committed_base)
    (path,) = [s["manifest-list"] for s in state["snapshots"] if s["snapshot-id"] == ids[1]]
    lake.store.delete([path])
    with pytest.raises(RecoveryImpossible):
        bring_back(lake, ids[1])
    assert lake.paths() == before - {path} and lake.control.vetoes.all() == []
    assert {str(e.name) for e in lake.catalogs["lake"].listing().entries} == {NAME}
    assert table.snapshots == [ids[3]]


def test_after_the_purge_nothing_can_come_back() -> None:
    lake, _, ids = expired()
    lake.on(30).run()
    with pytest.raises(RecoveryImpossible):
        bring_back(lake, ids[1])


def test_what_a_purge_has_begun_to_delete_is_refused_by_name() -> None:
    lake, table, ids = expired()
    plan = lake.control.plans.find()[0]
    with lake.control.locks.take("a purge", "somebody", wait=timedelta(0), lease=MINUTE) as lock:
        lake.control.claims.take([Claim(plan.id, 0, lock, [table.data("f1")])])
        with pytest.raises(FilesClaimed) as refused:
            bring_back(lake, ids[1])
    assert table.data("f1") in refused.value.object and lake.control.vetoes.all() == []


@pytest.mark.parametrize(
    ("text", "target", "snapshot", "reason", "error"),
    [
        ("lake.air.never", NEW, None, "r", RecoveryImpossible),
        (NAME, NAME, None, "r", NameConflict),
        (NAME, "lake.never.t", None, "r", NamespaceNotFound),
        (NAME, NEW, 77, "r", RecoveryImpossible),
        (NAME, NEW, None, " ", UsageInvalid),
        ("t", NEW, None, "r", UsageInvalid),
    ],
)
def test_what_cannot_be_done_says_why(
    text: str, target: str, snapshot: int | None, reason: str, error: type[Exception]
) -> None:
    lake, _, _ = expired()
    before = lake.paths()
    with pytest.raises(error):
        recover(lake.services(), text, target, reason=reason, snapshot_id=snapshot)
    assert lake.paths() == before


def test_where_nobody_knows_whether_it_was_registered_its_metadata_stays() -> None:
    lake, _, ids = expired()
    catalog = lake.catalogs["lake"]
    register = catalog.register

    def answer_is_lost(*words: Any) -> None:
        register(*words)
        raise CommitConflict("nobody knows", object="lake", expected="an answer", found="none")

    catalog.register = answer_is_lost  # type: ignore[method-assign]
    with pytest.raises(CommitConflict):
        bring_back(lake, ids[1])
    lake.check_nothing_is_missing()
    (came,) = [e for e in catalog.listing().entries if str(e.name) == NEW]
    assert came.metadata_location in lake.paths()


def test_a_snapshot_that_is_still_there_needs_no_recovery() -> None:
    lake, _, ids = expired()
    with pytest.raises(UsageInvalid, match="has not expired") as refused:
        bring_back(lake, ids[3])
    assert "branch" in refused.value.next


def test_a_dry_run_looks_and_changes_nothing() -> None:
    lake, _, ids = expired()
    before = lake.paths()
    services = lake.services()
    done = recover(services, NAME, NEW, reason="r", snapshot_id=ids[1], dry_run=True)
    assert done.files_found == 4 and lake.paths() == before and lake.control.vetoes.all() == []


def test_who_recovered_what_and_why_is_remembered() -> None:
    lake, _, ids = expired()
    bring_back(lake, ids[1])
    (entry,) = [e for e in decisions(lake.services(), NAME) if e.action == "recover"]
    assert (entry.who, entry.reason) == ("tester", "needed")
    assert "4 files found" in entry.detail
