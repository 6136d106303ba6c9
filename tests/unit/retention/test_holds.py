"""Holds: nothing departs and nothing is purged, whatever the limits; files wanted back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.purge.purge import apply_purges
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.retention.holds import add_hold, find_holds, remove_hold
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    FilesClaimed,
    HoldInForce,
    HoldNotFound,
    LockHeld,
    NamespaceNotFound,
    SnapshotNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.retention.holds import Hold
from meltline.ports import Claim, DeleteOutcome
from tests.lake.lake import DAY, ROOMY, T0, Lake, Table

MS = timedelta(milliseconds=1)


def overwritten(name: str = "t", lake: Lake | None = None, files: int = 1) -> tuple[Lake, Table]:
    """A table overwritten on the days 0 to 3; it is day 12, and the first three may go."""
    lake = lake or Lake()
    table = lake.on(0).table(name)
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}", *(f"f{day}-{number}" for number in range(1, files)))
    lake.on(12)
    return lake, table


def departed() -> tuple[Lake, Table]:
    """The same on day 30: what has expired waits in failsafe, and is past its time."""
    lake, table = overwritten()
    lake.run()
    lake.on(30)
    assert lake.waiting()
    return lake, table


def hold(lake: Lake, text: str, until: datetime | None = None) -> Hold:
    return add_hold(lake.services(), text, reason="audit of 2026", until=until)


def release(lake: Lake, found: Hold) -> None:
    remove_hold(lake.services(), found.id, reason="done")


def gated_purge(lake: Lake) -> Plan:
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    return run_gate(services, [planned.plan])[0][0]


# --- on a table or namespace ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air"])
def test_nothing_of_a_held_object_expires_until_the_hold_is_removed(name: str) -> None:
    lake, table = overwritten()
    table.tag("brief", table.head, **{"max-ref-age-ms": 1})
    before = table.snapshots
    found = hold(lake, name)
    lake.run()
    assert table.snapshots == before and lake.waiting() == {} and "brief" in table.refs
    release(lake, found)
    lake.run()
    assert table.snapshots == [table.head] and lake.waiting()


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air"])
def test_nothing_of_a_held_object_is_purged_until_the_hold_is_removed(name: str) -> None:
    lake, _ = departed()
    waiting = lake.waiting()
    found = hold(lake, name)
    assert lake.run().exit_code == 0
    assert lake.waiting() == waiting and not lake.deleter.deleted
    release(lake, found)
    lake.run()
    assert set(lake.deleter.deleted) == waiting.keys()


def test_a_hold_covers_what_lies_deep_in_a_namespace_and_nothing_beside_it() -> None:
    lake = Lake()
    _, deep = overwritten("lake.air.eu.west.t", lake)
    _, beside = overwritten("lake.airport.t", lake)
    hold(lake, "lake.air")
    lake.run()
    assert len(deep.snapshots) == 4 and len(beside.snapshots) == 1


def test_nothing_of_a_held_table_departs_when_another_tool_expires_it() -> None:
    lake, table = overwritten()
    lake.on(5).run()  # all four are known
    found = hold(lake, "lake.air.t")
    table.expire_elsewhere(*table.snapshots[:3])
    table.configure(**{"write.metadata.previous-versions-max": "1"})
    lake.on(12).run()
    assert lake.waiting() == {}
    release(lake, found)
    lake.run()
    assert lake.waiting()


def test_a_hold_that_somebody_set_with_sql_holds_back_the_purge_too() -> None:
    lake, table = departed()
    table.configure(**{"meltline.hold": "by hand"})
    lake.run()
    assert not lake.deleter.deleted
    (held,) = find_holds(lake.services()).holds
    assert (held.hold.id, held.hold.reason, held.hold.who) == ("lake.air.t", "by hand", "")
    release(lake, held.hold)
    lake.run()
    assert lake.deleter.deleted


def test_a_hold_on_a_table_that_shares_files_holds_its_group() -> None:
    lake, _ = departed()
    clone = lake.table("c")
    clone.append("c1")
    lake.control.registrations.add_sharing([(lake.control.registrations.all()[0].uuid, clone.uuid)])
    hold(lake, "lake.air.c")
    lake.run()
    assert not lake.deleter.deleted


def test_two_holds_hold_until_both_are_gone() -> None:
    lake, table = overwritten()
    first, second = hold(lake, "lake.air.t"), hold(lake, "lake.air")
    release(lake, first)
    lake.run()
    assert len(table.snapshots) == 4
    release(lake, second)
    lake.run()
    assert len(table.snapshots) == 1


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air", "lake.air.t@{first}"])
def test_a_hold_ends_by_itself_once_its_time_is_over(name: str) -> None:
    lake, table = overwritten()
    first = table.snapshots[0]
    end = T0 + 20 * DAY
    hold(lake, name.format(first=first), until=end)
    lake.clock.moment = end
    lake.run()
    assert first in table.snapshots
    lake.clock.moment = end + MS
    lake.run()
    assert table.snapshots == [table.head] and table.refs.keys() == {"main"}


def test_a_hold_whose_words_cannot_be_read_holds() -> None:
    lake, table = overwritten()
    table.configure(**{"meltline.hold.x": '{"until": "whenever"}'})
    lake.run()
    assert len(table.snapshots) == 4
    assert find_holds(lake.services()).holds[0].hold.until is None


# --- on a snapshot --------------------------------------------------------------------------------


def test_a_held_snapshot_stays_alone_and_says_who_and_why() -> None:
    lake, table = overwritten()
    first = table.snapshots[0]
    found = hold(lake, f"lake.air.t@{first}")
    table.configure(**{"history.expire.max-ref-age-ms": "1"})
    lake.run()
    assert table.snapshots == [first, table.head]
    assert table.refs[f"hold__{found.id}"] == {
        "type": "tag", "snapshot-id": first, "max-ref-age-ms": 2**63 - 1
    }  # fmt: skip
    written = json.loads(table.document["properties"][f"meltline.snapshot-hold.{found.id}"])
    assert written == {
        "reason": "audit of 2026", "who": "tester", "since": "2026-01-13T00:00:00Z",
        "snapshot": first,
    }  # fmt: skip
    release(lake, found)
    assert table.refs.keys() == {"main"} and table.document["properties"].keys() == {
        "history.expire.max-ref-age-ms"
    }
    lake.run()
    assert table.snapshots == [table.head]


def test_an_expired_or_unknown_snapshot_cannot_be_held() -> None:
    lake, table = overwritten()
    first = table.snapshots[0]
    lake.run()
    for gone in (first, 7):
        with pytest.raises(SnapshotNotFound):
            hold(lake, f"lake.air.t@{gone}")
    with pytest.raises(UsageInvalid, match="has no snapshots"):
        hold(lake, f"lake.air@{table.head}")


# --- a purge on its way ---------------------------------------------------------------------------


def test_a_hold_added_between_gate_and_purge_stops_the_purge() -> None:
    lake, _ = departed()
    waiting = lake.waiting()
    plan = gated_purge(lake)
    found = hold(lake, "lake.air.t")
    (done,) = apply_purges(lake.services(), [plan])
    assert isinstance(done.error, HoldInForce) and "lake.air.t" in done.error.object
    assert not lake.deleter.deleted and lake.control.claims.paths() == {}
    assert lake.run().exit_code == 4  # the plan that was begun is given up
    release(lake, found)
    lake.run()
    assert set(lake.deleter.deleted) == waiting.keys()


def test_a_hold_added_between_plan_and_gate_is_refused_by_the_gate() -> None:
    lake, _ = departed()
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    hold(lake, "lake.air")
    ((judged, result),) = run_gate(services, [planned.plan])
    assert judged.state is PlanState.REFUSED
    assert [failed.expectation for failed in result.failed] == ["planned_held is 0"]


def test_a_hold_on_a_table_that_shares_files_is_refused_by_the_gate() -> None:
    lake, table = departed()
    clone = lake.table("c")
    clone.append("c1")
    lake.control.registrations.add_sharing([(table.uuid, clone.uuid)])
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    hold(lake, "lake.air.c")
    ((_, result),) = run_gate(services, [planned.plan])
    assert "planned_held is 0" in [failed.expectation for failed in result.failed]


def test_each_look_of_the_last_proof_sees_holds_anew() -> None:
    lake, table = departed()
    proof = PurgeRecheck.of(lake.services(), [])
    proof.look()
    proof.require_no_hold(table.uuid)
    table.configure(**{"meltline.hold": "stop"})
    proof.look()
    with pytest.raises(HoldInForce):
        proof.require_no_hold(table.uuid)


def test_a_hold_that_another_engine_sets_during_a_purge_stops_the_next_table() -> None:
    # At that rate sixty files may go by one proof: the second table's are proved apart.
    lake = Lake(limits=replace(ROOMY, delete_keys_per_second=1))
    overwritten("a", lake, files=40)
    _, second = overwritten("b", lake, files=40)
    lake.on(12).run()
    lake.on(30)

    class HoldMeanwhile:
        def delete(self, files: Sequence[DepartedObject], rate: int) -> Sequence[DeleteOutcome]:
            second.configure(**{"meltline.hold": "stop"})
            return lake.deleter.delete(files, rate)

    services = lake.services(deleter=HoldMeanwhile())
    plans = [p.plan for p in Run(services, lake.request()).plan_purge()]
    plans = [plan for plan, _ in run_gate(services, plans)]
    outcome = {str(p.plan.table): p.error for p in apply_purges(services, plans)}
    assert outcome["lake.air.a"] is None
    assert isinstance(outcome["lake.air.b"], HoldInForce)
    assert all("/a/" in path for path in lake.deleter.deleted)


def claim(lake: Lake, plan: Plan) -> list[str]:
    """A purge that claimed its first batch and died."""
    paths = [file.path for file in lake.files.items.of([plan.id])[plan.id]]
    with lake.control.locks.take(plan.table_uuid, "a purge", wait=DAY * 0, lease=DAY) as lock:
        lake.control.plans.move(plan, PlanState.APPLYING, lock=lock)
        lake.control.claims.take([Claim(plan.id, 0, lock, paths)])
    return paths


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_hold_is_refused_when_a_purge_has_claimed_files_and_names_them(
    name: str, dry_run: bool
) -> None:
    lake, table = departed()
    paths = claim(lake, gated_purge(lake))
    before = table.document["properties"]
    with pytest.raises(FilesClaimed) as refused:
        add_hold(lake.services(), name, reason="r", dry_run=dry_run)
    assert sorted(paths)[0] in refused.value.object
    assert table.document["properties"] == before
    assert find_holds(lake.services()).holds == []
    assert [e for e in lake.control.audit.entries() if e.action == "hold add"] == []


def test_a_hold_waits_for_the_run_that_works_on_the_table_and_then_gives_up() -> None:
    lake, table = departed()
    with (
        lake.control.locks.take(table.uuid, "a run", wait=DAY * 0, lease=DAY),
        pytest.raises(LockHeld, match="a run"),
    ):
        hold(lake, "lake.air.t")
    assert find_holds(lake.services()).holds == []


# --- what is said ---------------------------------------------------------------------------------


def test_holds_are_listed_with_who_why_and_until_when() -> None:
    lake, table = overwritten()
    end = T0 + 13 * DAY
    ids = {
        hold(lake, "lake.air.t", until=end).id: "lake.air.t",
        hold(lake, "lake.air").id: "lake.air",
        hold(lake, f"lake.air.t@{table.head}").id: f"lake.air.t@{table.head}",
    }
    found = find_holds(lake.services())
    assert {held.hold.id: held.hold.subject for held in found.holds} == ids
    assert {held.hold.who for held in found.holds} == {"tester"}
    assert {held.hold.until for held in found.holds} == {None, end}
    assert found.unreadable == []


def test_a_table_that_cannot_be_looked_into_is_named_in_the_list() -> None:
    lake, table = overwritten()
    lake.spoil(table.metadata_location)
    assert find_holds(lake.services()).unreadable == ["lake.air.t"]


def test_before_a_hold_ends_the_doctor_and_the_runs_summary_say_so() -> None:
    lake, table = overwritten()
    found = hold(lake, "lake.air", until=T0 + 20 * DAY)
    snapshot = hold(lake, f"lake.air.t@{table.head}", until=T0 + 21 * DAY)

    def notices() -> list[str]:
        return lake.run().as_json()["notices"]  # type: ignore[no-any-return]

    assert notices() == []
    lake.on(15)
    assert notices() == [snapshot.notice, found.notice]
    findings = [f for f in examine(lake.services()) if f.code == "hold_ends_soon"]
    assert {f.object for f in findings} == {"lake.air", f"lake.air.t@{table.head}"}
    lake.on(22)
    assert notices() == []


def test_a_hold_needs_a_reason_an_end_to_come_and_something_to_hold() -> None:
    lake, _ = overwritten()
    ledgers = lake.services()
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(UsageInvalid, match="reason"):
            add_hold(ledgers, "lake.air.t", reason=reason)
    with pytest.raises(UsageInvalid, match="before it begins"):
        hold(lake, "lake.air.t", until=lake.clock.now())
    with pytest.raises(TableNotFound):
        hold(lake, "lake.air.never")
    with pytest.raises(NamespaceNotFound):
        add_hold(ledgers, "lake.never", reason="r", kind=ObjectKind.DATABASE)
    with pytest.raises(HoldNotFound):
        remove_hold(ledgers, "never", reason="r")


def test_only_what_may_be_changed_is_held_and_of_dropped_tables_too() -> None:
    lake = Lake(other_catalogs=("partner",))
    lake.table("partner.n.t").append("f")
    lake.table("lake.meltline_dropped.t").append("f")
    lake.table("lake.meltline.entries").append("f")
    for name in ("partner.n.t", "partner.n", "lake.meltline", "lake.meltline.entries"):
        with pytest.raises(CatalogReadOnly):
            hold(lake, name)
    assert hold(lake, "lake.meltline_dropped.t").object == "lake.meltline_dropped.t"


def test_a_dry_run_holds_nothing() -> None:
    lake, table = overwritten()
    before = table.metadata_location
    found = add_hold(lake.services(), "lake.air.t", reason="r", dry_run=True)
    add_hold(lake.services(), f"lake.air.t@{table.head}", reason="r", dry_run=True)
    assert found.object == "lake.air.t" and table.metadata_location == before
    real = hold(lake, "lake.air.t")
    remove_hold(lake.services(), real.id, reason="r", dry_run=True)
    assert len(find_holds(lake.services()).holds) == 1


def test_who_held_and_released_what_and_why_is_recorded() -> None:
    lake, table = overwritten()
    found = hold(lake, f"lake.air.t@{table.head}")
    release(lake, found)
    entries = [(e.action, e.object, e.reason) for e in lake.control.audit.entries()][-2:]
    subject = f"lake.air.t@{table.head}"
    assert entries == [("hold add", subject, "audit of 2026"), ("hold remove", subject, "done")]


def test_a_hold_that_loses_the_race_for_the_commit_leaves_nothing_behind() -> None:
    lake, table = overwritten()

    def never(*_: object) -> bool:
        return False

    table.catalog.swap = never  # type: ignore[method-assign]
    with pytest.raises(CommitConflict):
        hold(lake, f"lake.air.t@{table.head}")
    assert lake.control.vetoes.all() == [] and table.refs.keys() == {"main"}


def test_a_hold_on_a_dropped_table_is_listed_by_the_name_that_it_had_and_ends_by_its_id() -> None:
    lake = Lake()
    lake.table("t").append("a")
    services = lake.services()
    hold = add_hold(services, "lake.air.t", reason="audit")
    drop(services, "lake.air.t")
    (found,) = find_holds(services).holds
    assert (found.hold.id, found.hold.object) == (hold.id, "lake.air.t (dropped)")
    remove_hold(services, hold.id, reason="over")
    assert find_holds(services).holds == []
