"""Files that are wanted back while they wait are not purged."""

from collections.abc import Callable, Sequence

import pytest

from meltline.app.observe.observe import observe
from meltline.app.purge.plan_purge import plan_purge
from meltline.app.purge.purge import apply_purges
from meltline.app.refs.branches import rollback
from meltline.app.retention.consumers import set_consumer
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.tombstones import audit_cancelled
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import (
    FilesClaimed,
    PlanStale,
)
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.timeline import Point
from meltline.ports import PurgeVeto
from tests.lake.lake import Lake, Table
from tests.unit.retention.test_holds import claim, gated_purge, hold, overwritten


def want(lake: Lake, table: Table, snapshot: dict[str, object]) -> set[str]:
    """The word that a command leaves for an expired snapshot; returns the files it names."""
    manifests = lake.manifests[str(snapshot["manifest-list"])]
    lake.control.vetoes.add(
        PurgeVeto("w", table.uuid, int(str(snapshot["snapshot-id"])),
                   str(snapshot["manifest-list"]), (), "tester", "recover t", lake.clock.now())
    )  # fmt: skip
    named = {str(snapshot["manifest-list"]), *(manifest.path for manifest in manifests)}
    return named | {entry.path for manifest in manifests for entry in manifest.live}


def expired_first() -> tuple[Lake, Table, dict[str, object]]:
    """A table whose first snapshot's files wait in failsafe, past their time."""
    lake, table = overwritten()
    first = table.snapshot(table.snapshots[0])
    lake.run()
    lake.on(30)
    return lake, table, first


def test_the_next_run_turns_what_is_wanted_back_into_cancelled_departures() -> None:
    lake, table, first = expired_first()
    waiting = lake.waiting().keys()
    wanted = want(lake, table, first)
    assert wanted <= waiting
    lake.run()
    cancelled = lake.files.departures.in_states(frozenset({DepartureState.CANCELLED}))
    assert {departure.path for departure in cancelled} == wanted
    assert set(lake.deleter.deleted) == waiting - wanted
    assert lake.control.vetoes.all() == []
    assert [e.reason for e in lake.control.audit.entries() if e.action == "cancel departure"] == [
        "recover t"
    ]


@pytest.mark.parametrize(("files", "last"), [(100, "f099"), (103, "and 3 more")])
def test_the_audit_says_how_many_cancelled_departures_it_does_not_name(
    files: int, last: str
) -> None:
    services = Lake().services()
    audit_cancelled(AuditTrail.of(services), [f"f{n:03}" for n in range(files)], "needed")
    (entry,) = [e for e in services.control.audit.entries() if e.action == "cancel departure"]
    assert entry.object == f"{files} files"
    assert entry.detail.splitlines()[99:][-1] == last


def test_a_preview_leaves_out_what_is_wanted_back_and_settles_nothing() -> None:
    lake, table, first = expired_first()
    waiting = lake.waiting().keys()
    wanted = want(lake, table, first)
    services = lake.services()
    (planned,) = plan_purge(
        services, observe(services), run_id="r", as_of=lake.clock.now(), dry_run=True
    )
    assert {file.path for file in planned.files} == waiting - wanted
    assert lake.control.vetoes.all() and lake.waiting().keys() == waiting


def test_what_is_wanted_back_after_the_plan_is_refused_by_the_gate() -> None:
    lake, table, first = expired_first()
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    want(lake, table, first)
    ((judged, result),) = run_gate(services, [planned.plan])
    assert judged.state is PlanState.REFUSED
    assert "planned_referenced is 0" in {failed.expectation for failed in result.failed}


def test_what_is_wanted_back_after_the_gate_is_not_deleted() -> None:
    lake, table, first = expired_first()
    waiting = lake.waiting().keys()
    plan = gated_purge(lake)
    wanted = want(lake, table, first)
    (done,) = apply_purges(lake.services(), [plan])
    assert done.error is None
    assert set(lake.deleter.deleted) == waiting - wanted


def test_what_is_wanted_back_during_the_purge_is_seen_before_the_next_batch() -> None:
    lake, table, first = expired_first()
    plan = gated_purge(lake)
    named: set[str] = set()
    reads = lake.control.vetoes.all

    def arrive_late() -> Sequence[PurgeVeto]:
        if not named and lake.control.claims.paths():  # after the claim, before the proof
            named.update(want(lake, table, first))
        return reads()

    lake.control.vetoes.all = arrive_late  # type: ignore[method-assign]
    apply_purges(lake.services(), [plan])
    assert named and not named & set(lake.deleter.deleted)


def test_where_wanted_files_cannot_be_named_nothing_of_the_group_is_purged() -> None:
    lake, table, first = expired_first()
    plan = gated_purge(lake)
    want(lake, table, first)
    content = lake.spoil(str(first["manifest-list"]))
    (done,) = apply_purges(lake.services(), [plan])
    assert isinstance(done.error, PlanStale)
    lake.run()
    assert not lake.deleter.deleted and lake.control.vetoes.all()
    lake.mend(str(first["manifest-list"]), content)
    lake.run()
    assert lake.control.vetoes.all() == []


def test_a_word_for_a_snapshot_whose_list_is_gone_is_given_up_and_said() -> None:
    lake, table, first = expired_first()
    want(lake, table, first)
    lake.store.delete([str(first["manifest-list"])])
    lake.run()
    assert lake.control.vetoes.all() == []
    assert "give up wanted files" in {entry.action for entry in lake.control.audit.entries()}


def came_back(interfere: Callable[[Lake, Table, int], object]) -> tuple[Lake, Table, int]:
    """Another engine registers an old metadata file: an expired snapshot is there again."""
    lake, table = overwritten()
    first, old = table.snapshots[0], table.metadata_location
    lake.run()
    lake.on(30)
    table.drop()
    again = lake.register("lake.air.t", old)
    interfere(lake, again, first)
    return lake, again, first


@pytest.mark.parametrize(
    "interfere",
    [
        lambda lake, table, first: hold(lake, f"lake.air.t@{first}"),
        lambda lake, table, first: rollback(
            lake.services(), table.name, Point(first), dry_run=False
        ),
    ],
    ids=["hold", "rollback"],
)
def test_a_snapshot_that_came_back_is_kept_by_a_hold_or_a_rollback_to_it(
    interfere: Callable[[Lake, Table, int], object],
) -> None:
    lake, table, first = came_back(interfere)
    assert [w.snapshot_id for w in lake.control.vetoes.all()] == [first]
    lake.run()
    assert first in table.snapshots
    assert lake.control.vetoes.all() == []


def test_a_snapshot_whose_files_a_purge_has_claimed_is_not_held() -> None:
    lake, table = overwritten()
    first, old = table.snapshots[0], table.metadata_location
    lake.run()
    lake.on(30)
    paths = claim(lake, gated_purge(lake))
    table.drop()
    again = lake.register("lake.air.t", old)
    with pytest.raises(FilesClaimed) as refused:
        hold(lake, f"lake.air.t@{first}")
    named = {again.manifest_list(first), *again.manifests(first), again.data("f0")}
    assert set(refused.value.object.split(", ")) == named <= set(paths)
    assert lake.control.vetoes.all() == [] and again.refs.keys() == {"main"}
    with pytest.raises(FilesClaimed):
        rollback(lake.services(), again.name, Point(first), dry_run=False)
    with pytest.raises(FilesClaimed):
        set_consumer(lake.services(), again.name, "bill", first)
    assert again.refs.keys() == {"main"}
    assert again.head != first
    hold(lake, f"lake.air.t@{again.head}")  # nothing of that one is claimed
