"""Every control ledger: tables, places, leases, policies, copies, runs, the switch, the audit."""

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from meltline.domain.archive.archive import ArchivedSnapshot, Validity
from meltline.domain.arming import Arming
from meltline.domain.deletion.foreign_owners import AllowedOwner, ForeignSign, SignKind
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState, PlanTotals
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import RunNotFound
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.domain.units import from_millis
from meltline.ports import (
    AuditEntry,
    ControlLedger,
    Incident,
    Lease,
    PurgeVeto,
    RememberedMetadata,
    RunRecord,
    StatementRecord,
    StatementState,
    StopSwitch,
)
from tests.contract.ledger.control_ledgers import (
    HUGE,
    NOW,
    ODD_NAMES,
    Shop,
    a_plan,
    a_storage_row,
    a_table,
    a_withheld_file,
    ledger,
    postgres_server,
    shop,
)

__all__ = ["ledger", "postgres_server", "shop"]


def test_an_incident_stands_until_it_is_over(ledger: ControlLedger) -> None:
    first = Incident("list x", "ListChanged", "x", "lake.air.a", "u-1", NOW, "it changed", "look")
    later = replace(first, at=NOW + timedelta(hours=1))
    other = replace(later, id="list y", object="y")
    ledger.incidents.add([first])
    ledger.incidents.add([other, later])
    assert list(ledger.incidents.all()) == [first, other]
    ledger.incidents.end([first.id, "none"])
    assert list(ledger.incidents.all()) == [other]


def test_an_id_of_a_registration_is_given_once(ledger: ControlLedger) -> None:
    first, other = a_table("e-1", "lake.air.a"), a_table("e-1", "lake.air.b")
    assert ledger.registrations.open([first]) == [first]
    assert ledger.registrations.open([other, a_table("e-2")]) == [a_table("e-2")]
    assert ledger.registrations.all() == [first, a_table("e-2")]
    assert ledger.registrations.open([first]) == []


def test_a_half_seen_place_is_never_forgotten_and_keeps_the_catalog_that_it_came_with(
    ledger: ControlLedger,
) -> None:
    ledger.places.add_half_seen({"s3://n/wh/": "nessie", "s3://n/x/": "nessie"})
    ledger.places.add_half_seen({"s3://n/wh/": "other", "s3://y/": "other"})
    ledger.places.add_half_seen({})
    expected = {"s3://n/wh/": "nessie", "s3://n/x/": "nessie", "s3://y/": "other"}
    assert ledger.places.half_seen() == expected
    assert not ledger.places.all(), "where files lie is another question"


def test_what_a_step_withheld_is_told_until_it_withholds_something_else(
    ledger: ControlLedger,
) -> None:
    twins = [a_withheld_file("s3://mirror"), a_withheld_file("s3://other", files=1)]
    swept = replace(a_withheld_file(), step="sweep", why=Why.OUTSIDE, claimant="")
    ledger.places.save_withheld("purge", [*reversed(twins)])
    ledger.places.save_withheld("sweep", [swept])
    assert list(ledger.places.withheld()) == [*twins, swept]
    ledger.places.save_withheld("purge", twins[1:])
    assert list(ledger.places.withheld()) == [twins[1], swept]
    ledger.places.save_withheld("purge", [])
    assert list(ledger.places.withheld()) == [swept]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_tables_with_odd_names_come_back_as_they_were(ledger: ControlLedger, name: str) -> None:
    table = replace(a_table(name=name), status="unreadable", incomplete=True, error="no 'list'")
    ledger.registrations.save([table])
    assert list(ledger.registrations.all()) == [table]


def test_a_table_seen_again_replaces_what_was_known_of_it(ledger: ControlLedger) -> None:
    later = replace(a_table(), metadata_location="file:/m/v2", observed_at=NOW + timedelta(hours=1))
    ledger.registrations.save([a_table(), a_table("u-2", "lake.air.planes")])
    ledger.registrations.save([later])
    assert list(ledger.registrations.all()) == [later, a_table("u-2", "lake.air.planes")]


def test_two_names_over_one_metadata_file_are_both_remembered(ledger: ControlLedger) -> None:
    twins = [a_table(name="lake.air.a"), replace(a_table(name="lake.air.b"), status="gone")]
    ledger.registrations.save(twins)
    assert list(ledger.registrations.all()) == twins


def test_an_error_that_quotes_a_corrupt_file_can_be_stored(ledger: ControlLedger) -> None:
    ledger.registrations.save([replace(a_table(), error="not Avro: 'Obj\x00\udcff'")])
    assert ledger.registrations.all()[0].error.startswith("not Avro: 'Obj")


def test_a_time_in_another_zone_comes_back_as_the_same_instant(ledger: ControlLedger) -> None:
    far = NOW.astimezone(timezone(timedelta(hours=13)))
    ledger.registrations.save([replace(a_table(), observed_at=far)])
    assert ledger.registrations.all()[0].observed_at == NOW


def test_saving_nothing_is_allowed(ledger: ControlLedger) -> None:
    ledger.registrations.save([])
    ledger.registrations.add_ownerships([], NOW)
    ledger.registrations.add_sharing([])
    ledger.observations.save_sightings({})
    ledger.storage.save("2026-03-01", [])
    assert not ledger.registrations.all()
    assert not ledger.observations.sightings()


def test_ownership_is_added_once_and_a_prefix_may_have_two_owners(ledger: ControlLedger) -> None:
    first, second = Ownership("file:///w/air/", "u-1"), Ownership("file:///w/air/", "u-2")
    ledger.registrations.add_ownerships([second, first], NOW)
    ledger.registrations.add_ownerships([first], NOW + timedelta(days=1))
    assert list(ledger.registrations.ownerships()) == [first, second]


def test_sharing_has_no_direction_and_is_never_with_oneself(ledger: ControlLedger) -> None:
    ledger.registrations.add_sharing([("u-2", "u-1"), ("u-1", "u-1")])
    ledger.registrations.add_sharing([("u-1", "u-2"), ("u-2", "u-3")])
    assert list(ledger.registrations.sharing()) == [("u-1", "u-2"), ("u-2", "u-3")]


def test_sightings_come_back_and_the_newest_replaces(ledger: ControlLedger) -> None:
    ledger.observations.save_sightings(
        {"u-1": {HUGE: SnapshotObservation(), -HUGE - 1: SnapshotObservation(NOW, True)}, "u-2": {}}
    )
    ledger.observations.save_sightings(
        {"u-1": {HUGE: SnapshotObservation(NOW)}, "u-3": {1: SnapshotObservation()}}
    )
    assert ledger.observations.sightings() == {
        "u-1": {HUGE: SnapshotObservation(NOW), -HUGE - 1: SnapshotObservation(NOW, True)},
        "u-3": {1: SnapshotObservation()},
    }
    assert ledger.observations.sightings({"u-3", "u-9"}) == {"u-3": {1: SnapshotObservation()}}
    assert not ledger.observations.sightings(set())


def test_a_lease_counts_until_it_has_ended(ledger: ControlLedger) -> None:
    lease = Lease("l-1", "u-1", HUGE, NOW)
    ledger.leases.save(lease)
    assert list(ledger.leases.active(NOW)) == [lease]
    assert not ledger.leases.active(NOW + timedelta(milliseconds=1))
    ledger.leases.save(replace(lease, expires_at=NOW + timedelta(days=1)))
    assert len(ledger.leases.active(NOW + timedelta(milliseconds=1))) == 1


def test_a_lease_is_renewed_by_its_own_time_while_it_lasts(ledger: ControlLedger) -> None:
    lease = Lease("l-1", "u-1", HUGE, NOW, ODD_NAMES[0], "ann", 60_000)
    ledger.leases.save(lease)
    renewed = replace(lease, expires_at=NOW + timedelta(minutes=1))
    assert ledger.leases.renew("l-1", NOW) == renewed
    assert list(ledger.leases.active(NOW)) == [renewed]
    late = NOW + timedelta(minutes=1, milliseconds=1)
    assert ledger.leases.renew("l-1", late) is None and ledger.leases.renew("l-2", NOW) is None
    assert list(ledger.leases.active(NOW)) == [renewed]


def test_a_lease_that_was_removed_does_not_come_back(ledger: ControlLedger) -> None:
    for id in ("l-1", "l-2"):
        ledger.leases.save(Lease(id, "u-1", 1, NOW, ttl_ms=1000))
    assert ledger.leases.remove("l-1") and not ledger.leases.remove("l-1")
    assert ledger.leases.renew("l-1", NOW) is None
    assert [lease.id for lease in ledger.leases.active(NOW)] == ["l-2"]


def test_a_statement_is_known_by_its_id_and_how_far_it_has_come(ledger: ControlLedger) -> None:
    running = StatementRecord("s-1", "INSERT", "ann", StatementState.RUNNING, NOW)
    ledger.statements.save(running)
    assert ledger.statements.get("s-1") == running and ledger.statements.get("s-2") is None
    ended = replace(running, state=StatementState.COMPLETED, completed_at=NOW + timedelta(1))
    ledger.statements.save(ended)
    assert ledger.statements.get("s-1") == ended


def test_policies_are_remembered_by_object_and_key_and_forgotten_one_by_one(
    ledger: ControlLedger,
) -> None:
    assert ledger.policies.all() == {}
    ledger.policies.save({"u-1": {"days": "7", "kind": "a"}, "lake.`it's`": {"days": "30"}})
    ledger.policies.save({"u-1": {"days": "9"}, "account": {"min": "1"}})
    assert ledger.policies.all() == {
        "u-1": {"days": "9", "kind": "a"},
        "lake.`it's`": {"days": "30"},
        "account": {"min": "1"},
    }
    ledger.policies.save({"u-1": {"days": None, "never": None}, "account": {"min": None}})
    assert ledger.policies.all() == {"u-1": {"kind": "a"}, "lake.`it's`": {"days": "30"}}
    ledger.policies.save({})
    assert ledger.policies.all().keys() == {"u-1", "lake.`it's`"}


def test_what_is_wanted_back_stays_until_it_is_settled(shop: Shop, ledger: ControlLedger) -> None:
    first = PurgeVeto("a", "u-1", -HUGE, "s3://b/l.avro", (), "ann", "hold t\0", NOW)
    second = PurgeVeto("b", "u-2", HUGE, "", ("s3://b/m1.avro", "s3://b/m2"), "ж", "why", NOW)
    ledger.vetoes.add(second)
    ledger.vetoes.add(first)
    ledger.vetoes.add(first)
    found = shop.handle().vetoes.all()
    assert [replace(one, reason="") for one in found] == [
        replace(first, reason=""), replace(second, reason="")
    ]  # fmt: skip
    ledger.vetoes.remove(["a", "never"])
    assert ledger.vetoes.all() == [second]
    ledger.vetoes.remove([])
    assert ledger.vetoes.all() == [second]


def a_copy(uuid: str = "u-1", snapshot_id: int = 7, **changes: Any) -> ArchivedSnapshot:
    copy = ArchivedSnapshot(
        table_uuid=uuid,
        table=TableName.parse("lake.air.`it's`"),
        snapshot_id=snapshot_id,
        committed_at=from_millis(1000),
        validity=Validity(from_millis(1000), from_millis(2000)),
        files=3,
        bytes=HUGE,
        rows=5,
        files_copied=2,
        bytes_copied=17,
        cold_location="s3://cold/m.json",
        verified_at=NOW,
        keep_until=NOW + timedelta(days=2557),
    )
    return replace(copy, **changes)


def test_copies_in_cold_are_told_by_table_time_and_id(shop: Shop, ledger: ControlLedger) -> None:
    assert ledger.archived.all() == []
    late = a_copy(snapshot_id=-HUGE, committed_at=from_millis(3000))
    endless = a_copy("u-2", HUGE, validity=Validity(from_millis(1), None))
    ledger.archived.save([late, endless])
    ledger.archived.save([a_copy()])
    ledger.archived.save([])
    assert shop.handle().archived.all() == [a_copy(), late, endless]
    assert ledger.archived.all(["u-2", "never"]) == [endless]
    assert ledger.archived.all([]) == []


def test_what_is_known_of_a_copy_is_replaced_when_it_is_verified_again(
    ledger: ControlLedger,
) -> None:
    ledger.archived.save([a_copy(), a_copy(snapshot_id=8)])
    again = a_copy(verified_at=NOW + timedelta(days=1))
    ledger.archived.save([again])
    assert ledger.archived.all() == [again, a_copy(snapshot_id=8)]


def test_a_copy_that_cold_has_no_more_is_forgotten_and_no_other(
    shop: Shop, ledger: ControlLedger
) -> None:
    deep = a_copy(snapshot_id=8, deep_at=NOW, deep_bytes=HUGE)
    ledger.archived.save([a_copy(), deep, a_copy("u-2")])
    ledger.archived.forget("u-1", [7, 9])
    ledger.archived.forget("u-2", [])
    assert shop.handle().archived.all() == [deep, a_copy("u-2")]


def test_copies_of_many_tables_are_asked_for_at_once(ledger: ControlLedger) -> None:
    copies = [a_copy(f"u-{number:04}") for number in range(1200)]
    ledger.archived.save(copies)
    assert ledger.archived.all([copy.table_uuid for copy in copies]) == copies


def test_a_run_is_stored_when_it_starts_and_completed_when_it_ends(ledger: ControlLedger) -> None:
    run = RunRecord("r1", NOW - timedelta(days=1), NOW)
    ledger.runs.start(run)
    ledger.runs.start(replace(run, started_at=NOW + timedelta(hours=1)))
    assert list(ledger.runs.newest(5)) == [run]
    ended = replace(run, ended_at=NOW + timedelta(minutes=1), summary='{"plans": ["ж"]}')
    ledger.runs.finish(ended)
    assert list(ledger.runs.newest(5)) == [ended]


def test_runs_come_newest_first_and_one_that_never_started_can_end(ledger: ControlLedger) -> None:
    for day in (2, 3, 1):
        run = RunRecord(f"r{day}", NOW, NOW + timedelta(days=day))
        ledger.runs.finish(replace(run, ended_at=run.started_at))
    assert [run.id for run in ledger.runs.newest(2)] == ["r3", "r2"]
    second, third = NOW + timedelta(days=2), NOW + timedelta(days=3)
    assert [run.id for run in ledger.runs.newest(None, since=second)] == ["r3", "r2"]
    assert [run.id for run in ledger.runs.newest(None, second, third)] == ["r2"]


def test_a_run_is_found_by_its_id_the_start_of_one_or_as_the_last(ledger: ControlLedger) -> None:
    for day, id in enumerate(("ab", "ab12", "ac", "x_y")):
        ledger.runs.start(RunRecord(id, NOW, NOW - timedelta(days=day)))
    for asked, id in {"last": "ab", "ab": "ab", "ab1": "ab12", "ac": "ac", "x_": "x_y"}.items():
        assert ledger.runs.get(asked).id == id
    for asked in ("a", "", "%", "AB"):
        with pytest.raises(RunNotFound) as refused:
            ledger.runs.get(asked)
        assert refused.value.object == asked


def test_what_became_of_a_runs_plans_is_added_up_by_kind_and_state(ledger: ControlLedger) -> None:
    def plan(id: str, run: str, kind: PlanKind = PlanKind.EXPIRE, **sizes: Any) -> Plan:
        return replace(a_plan(), id=id, run_id=run, kind=kind, **sizes)

    ledger.plans.add([plan("e1", "r1", snapshots=(1, 2), files=3, bytes=2**60)])
    ledger.plans.add([plan("e2", "r1", snapshots=(7,), files=4, bytes=2**61)])
    (refused,) = ledger.plans.add([plan("e3", "r1", snapshots=(), files=1, bytes=5)])
    ledger.plans.move(refused, PlanState.REFUSED)
    ledger.plans.add([plan("p1", "r1", PlanKind.PURGE, snapshots=(), files=0, bytes=0)])
    ledger.plans.add([plan("e4", "r2", snapshots=(9,), files=1, bytes=1)])
    planned, expire, purge = PlanState.PLANNED, PlanKind.EXPIRE, PlanKind.PURGE
    assert ledger.runs.plan_totals(["r1", "none"]) == {
        "r1": [
            PlanTotals(expire, planned, 2, 3, 7, 2**60 + 2**61),
            PlanTotals(expire, PlanState.REFUSED, 1, 0, 1, 5),
            PlanTotals(purge, planned, 1, 0, 0, 0),
        ],
        "none": [],
    }
    assert ledger.runs.plan_totals([]) == {}


def test_the_stop_switch_is_set_changed_and_released(shop: Shop, ledger: ControlLedger) -> None:
    assert ledger.switch.stopped() is None
    ledger.switch.set(StopSwitch("ann", "audit", NOW))
    ledger.switch.set(StopSwitch("bob", "it's", NOW))
    assert shop.handle().switch.stopped() == StopSwitch("bob", "it's", NOW)
    ledger.switch.set(None)
    assert shop.handle().switch.stopped() is None


def test_the_word_that_arms_a_catalog_is_stored_replaced_and_taken_back(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert ledger.switch.arming() is None
    word = Arming("lake", "s3://w", "n1", "ann", "it's looked at", NOW)
    ledger.switch.arm(replace(word, nonce="n0"))
    ledger.switch.arm(word)
    assert shop.handle().switch.arming() == word
    assert ledger.switch.stopped() is None
    ledger.switch.arm(None)
    assert shop.handle().switch.arming() is None


def test_audit_entries_stay_in_order_and_are_found_by_object_and_time(
    ledger: ControlLedger,
) -> None:
    # PX-13
    first = AuditEntry(NOW, "ann", "stop", "all", "why", "detail")
    second = AuditEntry(NOW, "ann", "go", "all")
    third = AuditEntry(NOW + timedelta(milliseconds=1), "bob", "attach", "lake.air.`it's`")
    ledger.audit.add(first)
    ledger.audit.add(second, third)
    ledger.audit.add()
    assert list(ledger.audit.entries()) == [first, second, third]
    assert list(ledger.audit.entries("all")) == [first, second]
    assert list(ledger.audit.entries(since=third.at)) == [third]
    assert not ledger.audit.entries("all", since=third.at)


def test_a_remembered_metadata_file_comes_back_whole_and_is_forgotten_once_it_is_not_current(
    ledger: ControlLedger,
) -> None:
    versioned = RememberedMetadata("s3://lake/it's.metadata.json", HUGE, b"\x00\xff", 'W/"v1"')
    older = RememberedMetadata("file:/lake/b", 1, b"b", "2")
    ledger.observations.save_documents([versioned, older], [versioned.location, older.location])
    assert ledger.observations.documents([versioned.location, older.location, "none"]) == {
        document.location: document for document in (versioned, older)
    }
    changed = replace(versioned, size=2, content=b"c", version='"v2"')
    ledger.observations.save_documents([changed], [changed.location])
    known = ledger.observations.documents([changed.location, older.location])
    assert known == {changed.location: changed}


def test_a_days_storage_is_replaced_table_by_table(ledger: ControlLedger) -> None:
    planes = a_storage_row("u-2", "lake.air.`it's`")
    later = replace(a_storage_row(), active_bytes=HUGE, in_flight_bytes=9)
    ledger.storage.save("2026-03-01", [a_storage_row(), planes])
    ledger.storage.save("2026-03-01", [later])
    ledger.storage.save("2026-03-02", [planes])
    assert list(ledger.storage.of("2026-03-01")) == [later, planes]
    assert list(ledger.storage.of("2026-03-02")) == [planes]
    assert not ledger.storage.of("2026-02-28")


def test_signs_of_foreign_owners_are_those_of_the_last_look_at_each_folder(
    shop: Shop, ledger: ControlLedger
) -> None:
    root, other = "s3://b/air/t/", "s3://b/air/u/"
    sign = ForeignSign(root, "uuid-1", SignKind.TABLE, f"{root}metadata/m.json", root, NOW)
    seen = ForeignSign(other, "", SignKind.SEEN, "", other, NOW)
    ledger.owners.save_signs({root, other}, [seen, sign, replace(seen, root=root)])
    stored = shop.handle().owners.signs()
    assert list(stored) == [sign, replace(seen, root=root), seen]
    ledger.owners.save_signs({root}, [])
    assert list(shop.handle().owners.signs()) == [seen]


def test_what_a_person_allows_is_kept_by_id_until_it_is_taken_back(
    shop: Shop, ledger: ControlLedger
) -> None:
    first = AllowedOwner("uuid-1", "ana", "it's gone", NOW)
    for owner in (replace(first, id="s3://b/x/_delta_log/"), first, replace(first, who="bob")):
        ledger.owners.allow(owner)
    allowed = shop.handle().owners.allowed()
    assert list(allowed) == [
        replace(first, id="s3://b/x/_delta_log/"),
        replace(first, who="bob"),
    ]
    assert ledger.owners.disallow("uuid-1")
    assert not ledger.owners.disallow("uuid-1")
