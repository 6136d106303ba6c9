"""One suite for every control ledger: in memory, on an SQLite file, on a real Postgres."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Table, create_engine, make_url, select, text

from meltline.adapters.sql_ledger.engine import scrubbed
from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.adapters.sql_ledger.tables import decision_tables, schema
from meltline.domain.archive.archive import ArchivedSnapshot, Validity
from meltline.domain.clock import Clock, FixedClock
from meltline.domain.deletion.gate import FailedExpectation, GateResult
from meltline.domain.deletion.plan import TRANSITIONS, Plan, PlanKind, PlanState
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.epochs import Epoch
from meltline.domain.errors import (
    ConfigInvalid,
    LockHeld,
    LockLost,
    MeltlineError,
    PlanNotFound,
    PlanStale,
    SetupMissing,
)
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.domain.units import from_millis
from meltline.ports import (
    Approval,
    AuditEntry,
    Claim,
    ControlLedger,
    DisownedTime,
    Incident,
    KnownTable,
    Lease,
    Lock,
    PlanTransition,
    PurgeVeto,
    RememberedMetadata,
    RunRecord,
    StatementRecord,
    StatementState,
    StopSwitch,
    VouchedFile,
)
from meltline.testing.control.ledger import memory_control_ledger
from tests.contract.postgres import PostgresServer, throwaway_postgres

NOW = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
SOON = timedelta(0)
LEASE = timedelta(minutes=5)
HUGE = 9_223_372_036_854_775_807
MANY = 2500  # more than one statement of a database may name
ODD_NAMES = ("lake.air.`t[1]`", "lake.air.`it's`", "lake.`a.b`.c.`d``e`", "lake.air.`ж %s`")


@dataclass
class RealTime:
    """Real time that a test can push forward, as if a process had been dead for a while."""

    skipped: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.skipped


@dataclass
class SandboxClock:
    """A simulated clock that a test moves."""

    moment: datetime = NOW
    simulated: bool = True

    def now(self) -> datetime:
        return self.moment


@dataclass
class Shop:
    """One ledger, of one kind, and further handles on it."""

    open_handle: Callable[[Clock, RealTime], ControlLedger]
    clock: SandboxClock = field(default_factory=SandboxClock)
    real_time: RealTime = field(default_factory=RealTime)

    def handle(self) -> ControlLedger:
        return self.open_handle(self.clock, self.real_time)

    def let_leases_end(self) -> None:
        self.real_time.skipped += 2 * LEASE.total_seconds()


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with throwaway_postgres() as server:
        yield server


SQL = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


def a_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/made/control.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.create_database()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return a_url(request.param, request, tmp_path)


OpenSql = Callable[[str], ControlLedger]


@pytest.fixture
def open_sql() -> Iterator[OpenSql]:
    with ExitStack() as closing:

        def open_sql(url: str) -> ControlLedger:
            ledger = sql_control_ledger(url, FixedClock(NOW))
            closing.callback(ledger.database.close)
            return ledger

        yield open_sql


@pytest.fixture(params=["memory", *SQL])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "memory":
        yield a_memory_shop()
        return
    url = a_url(request.param, request, tmp_path)
    with ExitStack() as closing:

        def open_handle(clock: Clock, real_time: RealTime) -> ControlLedger:
            ledger = sql_control_ledger(url, clock, lease_time=real_time)
            closing.callback(ledger.database.close)
            return ledger

        yield Shop(open_handle)


def a_memory_shop() -> Shop:
    clock, real_time = SandboxClock(), RealTime()
    ledger = memory_control_ledger(clock, lease_time=real_time)
    return Shop(lambda *_: ledger, clock, real_time)


@pytest.fixture
def ledger(shop: Shop) -> ControlLedger:
    ledger = shop.handle()
    ledger.database.prepare()
    return ledger


_numbers = count(1)


def a_plan(**changes: object) -> Plan:
    plan = Plan(
        id=f"e{next(_numbers):015x}",
        run_id="run-1",
        kind=PlanKind.EXPIRE,
        table=TableName.parse("lake.air.flights"),
        table_uuid="u-1",
        digest="sha256:aa",
        as_of=NOW - timedelta(days=1),
        created_at=NOW,
        base_location="file:/w/air/flights/metadata/v1.metadata.json",
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def a_passed_plan(ledger: ControlLedger) -> Plan:
    return ledger.plans.move(add_plan(ledger, a_plan()), PlanState.PASSED)


def a_table(uuid: str = "u-1", name: str = "lake.air.flights") -> KnownTable:
    return KnownTable(uuid, TableName.parse(name), "file:/m/v1", "file:/w/air", "live", NOW)


def a_result(plan_id: str = "e1", *, ran_at: datetime = NOW, **changes: object) -> GateResult:
    result = GateResult(plan_id, "sha256:aa", "expire", 9, (), ran_at, ran_at + timedelta(hours=6))
    return replace(result, **changes)  # type: ignore[arg-type]


def a_storage_row(uuid: str = "u-1", name: str = "lake.air.flights") -> StorageRow:
    return StorageRow(TableName.parse(name), uuid, 5, 4, 3, 2, 1, 0, None, NOW, 7, 6)


def a_lock(
    ledger: ControlLedger, stack: ExitStack, key: str = "group-1", who: str = "run-1"
) -> Lock:
    return stack.enter_context(ledger.locks.take(key, who, wait=SOON, lease=LEASE))


def add_plan(ledger: ControlLedger, plan: Plan) -> Plan:
    (stored,) = ledger.plans.add([plan])
    return stored


def gate_result(ledger: ControlLedger, plan_id: str) -> GateResult | None:
    return ledger.verdicts.newest([plan_id]).get(plan_id)


def claim(
    ledger: ControlLedger, plan_id: str, number: int, paths: Sequence[str], lock: Lock
) -> bool:
    (answer,) = ledger.claims.take([Claim(plan_id, number, lock, paths)])
    if isinstance(answer, MeltlineError):
        raise answer
    return answer


def finish(ledger: ControlLedger, plan_id: str, number: int, lock: Lock) -> None:
    (refused,) = ledger.claims.finish([Claim(plan_id, number, lock)])
    if refused is not None:
        raise refused


def drop(ledger: ControlLedger, plan_id: str, number: int, lock: Lock) -> None:
    ledger.claims.drop([Claim(plan_id, number, lock)])


# --- readiness, generation, time -------------------------------------------------------------


def test_a_ledger_is_prepared_once_and_the_second_time_changes_nothing(shop: Shop) -> None:
    ledger = shop.handle()
    assert not ledger.database.is_prepared()
    ledger.database.prepare()
    ledger.database.set_generation(3)
    ledger.registrations.save([a_table()])
    shop.handle().database.prepare()
    assert shop.handle().database.is_prepared()
    assert ledger.database.generation() == 3
    assert list(ledger.registrations.all()) == [a_table()]


@pytest.mark.parametrize(
    "use",
    [
        lambda ledger: ledger.registrations.all(),
        lambda ledger: ledger.database.newest_time(),
        lambda ledger: ledger.database.now(),
        lambda ledger: add_plan(ledger, a_plan()),
        lambda ledger: ledger.plans.get("last"),
        lambda ledger: ledger.switch.stopped(),
        lambda ledger: ledger.locks.take("k", "me", wait=SOON, lease=LEASE).__enter__(),
        lambda ledger: ledger.locks.take_all({"k": "me"}, wait=SOON, lease=LEASE).__enter__(),
    ],
)
def test_a_ledger_that_was_never_prepared_says_what_to_run(
    shop: Shop, use: Callable[[ControlLedger], object]
) -> None:
    with pytest.raises(SetupMissing) as refused:
        use(shop.handle())
    assert refused.value.next == "run `meltline init`"


def test_the_generation_starts_at_nothing_and_is_remembered(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert ledger.database.generation() == 0
    ledger.database.set_generation(7)
    assert shop.handle().database.generation() == 7


def test_epochs_are_told_from_the_newest_that_was_confirmed_on(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert list(ledger.epochs.since()) == []
    first, second, beside, later = (
        Epoch(number, nonce, f"run {nonce}", "me", NOW)
        for number, nonce in ((1, "a"), (2, "b"), (2, "c"), (3, "d"))
    )
    for epoch in (later, beside, second, first):
        ledger.epochs.add(epoch)
    assert list(ledger.epochs.since()) == [first, second, beside, later]
    assert not ledger.epochs.has("run b")
    ledger.epochs.confirm("a")
    ledger.epochs.confirm("b")
    ledger.epochs.confirm("b")
    second = replace(second, confirmed=True)
    assert list(shop.handle().epochs.since()) == [second, beside, later]
    assert list(ledger.epochs.since(1)) == [replace(first, confirmed=True), second, beside, later]
    assert ledger.epochs.has("run b") and not ledger.epochs.has("run d")


def test_approvals_can_be_forgotten_all_at_once(ledger: ControlLedger) -> None:
    ledger.verdicts.approve(Approval("p-1", "d", "me", "why", NOW))
    assert ledger.verdicts.forget_approvals() == 1
    assert ledger.verdicts.approval("p-1", "d") is None
    assert ledger.verdicts.forget_approvals() == 0


def test_the_newest_time_is_that_of_the_newest_write_and_never_goes_back(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert ledger.database.newest_time() is None
    ledger.audit.add(AuditEntry(NOW, "me", "stop", "all"))
    assert ledger.database.newest_time() == NOW
    shop.clock.moment = NOW + timedelta(days=2)
    ledger.registrations.save([a_table()])
    shop.clock.moment = NOW + timedelta(days=1)
    shop.handle().switch.set(None)
    assert ledger.database.newest_time() == NOW + timedelta(days=2)


def test_a_person_s_word_takes_back_the_newest_time_if_it_is_still_that(
    shop: Shop, ledger: ControlLedger
) -> None:
    shop.clock.moment = NOW + timedelta(days=400)
    ledger.switch.set(None)
    ahead, shop.clock.moment = shop.clock.moment, NOW
    word = DisownedTime(ahead, "me", "the battery was empty", NOW)
    assert not ledger.decisions.disown_time(replace(word, recorded=NOW))
    assert ledger.database.newest_time() == ahead and list(ledger.decisions.disowned_times()) == []
    assert ledger.decisions.disown_time(word)
    assert shop.handle().database.newest_time() == NOW
    assert list(shop.handle().decisions.disowned_times()) == [word]
    assert not ledger.decisions.disown_time(word)
    shop.clock.moment = ahead
    ledger.switch.set(None)
    assert ledger.database.newest_time() == ahead
    assert ledger.decisions.disown_time(word)
    assert list(ledger.decisions.disowned_times()) == [word, word]


def test_locks_that_a_clock_took_that_was_ahead_are_free_after_that_and_no_others(
    shop: Shop, ledger: ControlLedger
) -> None:
    ledger.switch.set(None)
    (own,) = ledger.locks.rows.take({"own": "me"}, LEASE)
    shop.real_time.skipped += 86400
    (ahead,) = shop.handle().locks.rows.take({"ahead": "a dead one"}, LEASE)
    shop.real_time.skipped -= 86400
    assert not ledger.locks.rows.take({"ahead": "me"}, LEASE)
    newest = ledger.database.newest_time()
    assert newest is not None
    assert ledger.decisions.disown_time(DisownedTime(newest, "me", "why", NOW))
    (taken,) = ledger.locks.rows.take({"ahead": "me"}, LEASE)
    assert taken.token == ahead.token + 1
    ledger.locks.check(own)


def test_times_that_have_not_come_yet_are_not_the_newest_time(ledger: ControlLedger) -> None:
    assert ledger.database.newest_time() is None
    ledger.verdicts.save([a_result(ran_at=NOW)])
    ledger.leases.save(Lease("l-1", "u-1", 1, NOW + timedelta(days=9)))
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE):
        pass
    assert ledger.database.newest_time() == NOW


def test_taking_a_lock_alone_records_no_time(ledger: ControlLedger) -> None:
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        ledger.locks.check(lock)
    assert ledger.database.newest_time() is None


def test_the_database_tells_its_own_time(ledger: ControlLedger) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    found = ledger.database.now()
    assert before <= found <= datetime.now(UTC) + timedelta(milliseconds=2)
    assert found.utcoffset() == timedelta(0)


# --- objects ---------------------------------------------------------------------------------


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


# --- plans, gates, approvals -----------------------------------------------------------------


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_plan_comes_back_as_it_was_stored(ledger: ControlLedger, name: str) -> None:
    plan = a_plan(
        kind=PlanKind.PURGE,
        table=TableName.parse(name),
        snapshots=(-HUGE - 1, HUGE),
        refs=("it's", "ж"),
        gone_snapshots=(7,),
        heads={"main": HUGE, "b": 2},
        window_start=NOW - timedelta(days=7),
        files=3,
        bytes=HUGE,
        note="why",
        batch=3,
    )
    assert add_plan(ledger, plan) == plan
    assert ledger.plans.get(plan.id) == plan


def test_a_plan_stored_twice_keeps_the_first(ledger: ControlLedger) -> None:
    first = a_plan(bytes=1)
    add_plan(ledger, first)
    assert add_plan(ledger, replace(first, bytes=2, state=PlanState.PASSED)) == first
    assert list(ledger.plans.find()) == [first]


def test_a_plan_is_found_by_a_prefix_that_no_other_plan_shares(ledger: ControlLedger) -> None:
    one, other = add_plan(ledger, a_plan(id="ab12")), add_plan(ledger, a_plan(id="ab34"))
    assert ledger.plans.get("ab1") == one
    assert ledger.plans.get("ab34") == other
    with pytest.raises(PlanNotFound, match="start of several") as refused:
        ledger.plans.get("ab")
    assert refused.value.found == "several plans: ab12, ab34"


def test_a_whole_id_is_found_even_where_it_begins_another(ledger: ControlLedger) -> None:
    short = add_plan(ledger, a_plan(id="ab"))
    add_plan(ledger, a_plan(id="ab34"))
    assert ledger.plans.get("ab") == short


@pytest.mark.parametrize("asked", ["last", "", "%", "_", "AB", "ab12x"])
def test_a_plan_that_is_not_there_is_named(ledger: ControlLedger, asked: str) -> None:
    if asked != "last":
        add_plan(ledger, a_plan(id="ab12"))
    with pytest.raises(PlanNotFound) as refused:
        ledger.plans.get(asked)
    assert refused.value.object == asked


def test_the_last_plan_is_the_newest_and_among_equals_the_one_stored_later(
    ledger: ControlLedger,
) -> None:
    add_plan(ledger, a_plan(id="late", created_at=NOW))
    add_plan(ledger, a_plan(id="early", created_at=NOW - timedelta(days=1)))
    assert ledger.plans.get("last").id == "late"
    add_plan(ledger, a_plan(id="later", created_at=NOW))
    assert ledger.plans.get("last").id == "later"
    assert [plan.id for plan in ledger.plans.find()] == ["later", "late", "early"]


def test_plans_are_filtered_by_run_state_and_table(ledger: ControlLedger) -> None:
    add_plan(ledger, a_plan(id="a", run_id="r1"))
    add_plan(ledger, a_plan(id="b", run_id="r2", table_uuid="u-2"))
    add_plan(ledger, a_plan(id="c", run_id="r2"))
    ledger.plans.move(ledger.plans.get("c"), PlanState.REFUSED)
    found = {
        "run": ledger.plans.find(run_id="r2"),
        "table": ledger.plans.find(table_uuid="u-1"),
        "state": ledger.plans.find(states=iter([PlanState.PLANNED, PlanState.STALE])),
        "all": ledger.plans.find(run_id="r2", table_uuid="u-1", states=[PlanState.REFUSED]),
        "limit": ledger.plans.find(limit=2),
    }
    assert {what: [plan.id for plan in plans] for what, plans in found.items()} == {
        "run": ["c", "b"],
        "table": ["c", "a"],
        "state": ["b", "a"],
        "all": ["c"],
        "limit": ["c", "b"],
    }


def test_a_move_keeps_the_base_and_replaces_the_note(ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    applying = ledger.plans.move(plan, PlanState.APPLYING, committed_base="v7", note="intent")
    assert (applying.state, applying.committed_base) == (PlanState.APPLYING, "v7")
    applied = ledger.plans.move(applying, PlanState.APPLIED)
    assert applied == replace(plan, state=PlanState.APPLIED, committed_base="v7", note="")
    assert ledger.plans.get(plan.id) == applied


@pytest.mark.parametrize(
    ("start", "to"),
    [(start, to) for start in PlanState for to in PlanState if to not in TRANSITIONS[start]],
)
def test_a_plan_cannot_make_a_move_that_does_not_exist(start: PlanState, to: PlanState) -> None:
    ledger = memory_control_ledger(FixedClock(NOW))
    ledger.database.prepare()
    _refuses_move(ledger, start, to)


@pytest.mark.parametrize(
    ("start", "to"),
    [(PlanState.PLANNED, PlanState.APPLYING), (PlanState.APPLIED, PlanState.PLANNED)],
)
def test_no_ledger_makes_a_move_that_does_not_exist(
    ledger: ControlLedger, start: PlanState, to: PlanState
) -> None:
    _refuses_move(ledger, start, to)


def _refuses_move(ledger: ControlLedger, start: PlanState, to: PlanState) -> None:
    plan = add_plan(ledger, a_plan(state=start))
    with pytest.raises(PlanStale):
        ledger.plans.move(plan, to)
    assert ledger.plans.get(plan.id).state is start


def test_a_plan_that_another_run_moved_stays_where_it_is(ledger: ControlLedger) -> None:
    seen = a_passed_plan(ledger)
    ledger.plans.move(seen, PlanState.STALE, note="head moved")
    with pytest.raises(PlanStale) as refused:
        ledger.plans.move(seen, PlanState.APPLYING)
    assert refused.value.found == "stale"
    assert ledger.plans.get(seen.id).note == "head moved"


def test_a_plan_that_was_never_stored_cannot_move(ledger: ControlLedger) -> None:
    with pytest.raises(PlanNotFound):
        ledger.plans.move(a_plan(), PlanState.PASSED)


def test_the_gate_result_stored_last_is_the_one_that_counts(ledger: ControlLedger) -> None:
    failed = a_result(
        failed=(FailedExpectation("no head in plan", "it's", "ж 3"),), error="x", docs="d"
    )
    assert gate_result(ledger, "e1") is None
    ledger.verdicts.save([a_result()])
    ledger.verdicts.save([a_result("e2")])
    ledger.verdicts.save([failed])
    assert gate_result(ledger, "e1") == failed
    assert gate_result(ledger, "e2") == a_result("e2")


def test_a_refused_plan_that_a_later_run_plans_again_is_that_runs_and_is_counted(
    ledger: ControlLedger,
) -> None:
    refused = ledger.plans.move(add_plan(ledger, a_plan()), PlanState.REFUSED, note="why")
    later = replace(
        a_plan(run_id="run-2", as_of=NOW, created_at=NOW + timedelta(days=1), batch=3, files=2),
        id=refused.id,
    )
    ledger.plans.repeat([later])
    assert ledger.plans.get(refused.id) == replace(later, repeats=1)
    assert not ledger.plans.find(run_id="run-1") and len(ledger.plans.find()) == 1
    ledger.plans.repeat([replace(later, run_id="run-3")])  # nobody has refused it since
    assert ledger.plans.get(refused.id).run_id == "run-2"
    ledger.plans.move(ledger.plans.get(refused.id), PlanState.REFUSED)
    ledger.plans.repeat([replace(later, run_id="run-3", digest="sha256:bb")])
    ledger.plans.repeat([replace(later, id="never")])
    assert ledger.plans.get(refused.id).run_id == "run-2"
    ledger.plans.repeat([replace(later, run_id="run-3")])
    assert (ledger.plans.get(refused.id).run_id, ledger.plans.get(refused.id).repeats) == (
        "run-3",
        2,
    )


@pytest.mark.parametrize("kind", SQL)
def test_refusals_of_one_plan_take_one_row_and_a_pass_between_them_stays(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, open_sql: OpenSql
) -> None:
    url = a_url(kind, request, tmp_path)
    ledger = open_sql(url)
    ledger.database.prepare()
    refused = a_result(failed=(FailedExpectation("unreadable is 0", "x", "1"),))
    for verdict in (refused, refused, a_result(), refused, refused, replace(refused, docs="last")):
        ledger.verdicts.save([verdict, replace(verdict, plan_id="e2")])
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        query = text("SELECT plan_id, failed, docs FROM gate_results ORDER BY plan_id, seq")
        rows = [(row[0], "unreadable" in row[1], row[2]) for row in connection.execute(query)]
    engine.dispose()
    assert rows == [
        (plan, is_refusal, docs)
        for plan in ("e1", "e2")
        for is_refusal, docs in ((True, ""), (False, ""), (True, "last"))
    ]


def test_an_approval_holds_for_one_digest(ledger: ControlLedger) -> None:
    approval = Approval("e1", "sha256:aa", "ann", "known\x00", NOW)
    ledger.verdicts.approve(replace(approval, reason="first"))
    ledger.verdicts.approve(replace(approval, reason="second"))
    assert ledger.verdicts.approval("e1", "sha256:aa") == replace(approval, reason="second")
    assert ledger.verdicts.approval("e1", "sha256:bb") is None
    assert ledger.verdicts.approval("e2", "sha256:aa") is None


# --- locks -----------------------------------------------------------------------------------


def test_a_lock_that_is_held_names_its_holder(shop: Shop, ledger: ControlLedger) -> None:
    with (
        ledger.locks.take("group-1", "run-1 on host-a", wait=SOON, lease=LEASE),
        pytest.raises(LockHeld, match="run-1 on host-a") as refused,
        shop.handle().locks.take("group-1", "run-2", wait=SOON, lease=LEASE),
    ):
        pytest.fail("two holders of one lock")
    assert "since 20" in refused.value.found


def test_locks_of_two_keys_are_held_side_by_side(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        ledger.locks.check(a_lock(ledger, stack, "group-1"))
        ledger.locks.check(a_lock(ledger, stack, "group-2"))


def test_tokens_grow_and_are_never_used_again(shop: Shop, ledger: ControlLedger) -> None:
    tokens = []
    for handle in (ledger, shop.handle(), ledger):
        with handle.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


def test_a_lock_is_free_at_the_end_even_after_a_failure(ledger: ControlLedger) -> None:
    with pytest.raises(RuntimeError), ledger.locks.take("k", "a", wait=SOON, lease=LEASE) as first:
        raise RuntimeError
    with pytest.raises(LockLost):
        ledger.locks.check(first)
    with ledger.locks.take("k", "b", wait=SOON, lease=LEASE) as second:
        ledger.locks.check(second)


def test_a_lock_whose_lease_is_over_can_be_taken_over(shop: Shop, ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        shop.let_leases_end()
        with pytest.raises(LockLost):
            ledger.locks.check(dead)
        alive = a_lock(shop.handle(), stack, who="run-2")
        assert alive.token > dead.token
        ledger.locks.check(alive)
        with pytest.raises(LockLost) as refused:
            ledger.locks.check(dead)
        assert "run-2" in refused.value.found


def test_the_end_of_a_former_holder_does_not_free_its_successors_lock(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as successor:
        with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE):
            shop.let_leases_end()
            alive = a_lock(shop.handle(), successor, who="run-2")
        ledger.locks.check(alive)


def test_a_simulated_clock_ages_no_lease(shop: Shop, ledger: ControlLedger) -> None:
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        shop.clock.moment += timedelta(days=90)
        with pytest.raises(LockHeld), ledger.locks.take("group-1", "r", wait=SOON, lease=LEASE):
            pytest.fail("taken over")
        ledger.locks.check(lock)


def test_a_held_lock_outlives_its_lease(shop: Shop, ledger: ControlLedger) -> None:
    short = timedelta(seconds=1.5)
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=short) as lock:
        time.sleep(1.5 * short.total_seconds())
        shop.handle().locks.check(lock)


def test_a_lock_is_waited_for(shop: Shop, ledger: ControlLedger) -> None:
    with ThreadPoolExecutor(1) as pool:
        with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as first:
            waiting = pool.submit(_hold_once, shop.handle(), "run-2", timedelta(seconds=20))
            time.sleep(0.3)
            assert not waiting.done()
        assert waiting.result().token > first.token


def _hold_once(ledger: ControlLedger, holder: str, wait: timedelta) -> Lock:
    with ledger.locks.take("group-1", holder, wait=wait, lease=LEASE) as lock:
        return lock


def test_a_lock_that_was_taken_over_refuses_writes(shop: Shop, ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        claim(ledger, plan.id, 1, ["file:/a"], dead)
        shop.let_leases_end()
        a_lock(shop.handle(), stack, who="run-2")
        with pytest.raises(LockLost):
            ledger.plans.move(plan, PlanState.APPLYING, lock=dead)
        with pytest.raises(LockLost):
            claim(ledger, plan.id, 2, ["file:/b"], dead)
        with pytest.raises(LockLost):
            finish(ledger, plan.id, 1, dead)
    assert ledger.plans.get(plan.id) == plan
    assert ledger.claims.paths() == {"file:/a": plan.id}


def test_a_plan_moves_under_a_lock_that_is_held(ledger: ControlLedger) -> None:
    plan = a_passed_plan(ledger)
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        moved = ledger.plans.move(plan, PlanState.APPLYING, lock=lock)
    assert moved.state is PlanState.APPLYING


def test_of_many_threads_one_takes_the_lock_and_one_moves_the_plan(
    shop: Shop, ledger: ControlLedger
) -> None:
    # PX-9
    plan = a_passed_plan(ledger)
    racers = 4
    start = Barrier(racers)

    def race(handle: ControlLedger, who: str) -> tuple[bool, bool]:
        start.wait()
        locked = len(handle.locks.rows.take({"group-1": who}, LEASE)) == 1
        start.wait()
        return locked, _moves(handle, plan)

    with ThreadPoolExecutor(racers) as pool:
        runs: list[Future[tuple[bool, bool]]] = [
            pool.submit(race, shop.handle(), f"run-{n}") for n in range(racers)
        ]
        locked, moved = zip(*(run.result() for run in runs), strict=True)
    assert sum(locked) == 1
    assert sum(moved) == 1


def _moves(ledger: ControlLedger, plan: Plan) -> bool:
    try:
        ledger.plans.move(plan, PlanState.APPLYING)
    except PlanStale:
        return False
    return True


def _race_in_a_process(url: str, plan: Plan, start_at: float) -> tuple[int, int]:
    """Holds one lock again and again; returns how often, and how many plan moves it won."""
    ledger = sql_control_ledger(url, FixedClock(NOW))
    ledger.database.is_prepared()
    time.sleep(max(0.0, start_at - time.time()))
    won = int(_moves(ledger, plan))
    tokens = [_hold_once(ledger, "racer", timedelta(seconds=60)).token for _ in range(5)]
    ledger.database.close()
    return len(set(tokens)), won


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_of_two_processes_one_moves_the_plan_and_both_get_the_lock_in_turn(
    url: str, open_sql: OpenSql
) -> None:
    ledger = open_sql(url)
    ledger.database.prepare()
    plan = a_passed_plan(ledger)
    start_at = time.time() + 3
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(_race_in_a_process, url, plan, start_at) for _ in range(2)]
        held, won = zip(*(run.result(timeout=120) for run in runs), strict=True)
    assert held == (5, 5)
    assert sum(won) == 1
    with ledger.locks.take("group-1", "after", wait=SOON, lease=LEASE) as lock:
        assert lock.token == 11


# --- purge batches ---------------------------------------------------------------------------


def test_claimed_paths_are_known_until_the_batch_is_finished(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        assert claim(ledger, "e1", 1, ["file:/a", "file:/it's", "file:/a"], lock)
        assert claim(ledger, "e1", 2, ["file:/b"], lock)
        finish(ledger, "e1", 1, lock)
        assert ledger.claims.paths() == {"file:/b": "e1"}
        finish(ledger, "e1", 1, lock)
        assert not claim(ledger, "e1", 1, ["file:/a"], lock)
        assert ledger.claims.paths() == {"file:/b": "e1"}


def test_a_dropped_claim_can_be_made_again(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claim(ledger, "e1", 1, ["file:/a"], lock)
        drop(ledger, "e1", 1, lock)
        assert not ledger.claims.paths()
        with pytest.raises(LockLost):
            finish(ledger, "e1", 1, lock)
        assert claim(ledger, "e1", 1, ["file:/a"], lock)


def test_a_claim_of_a_finished_batch_cannot_be_dropped(ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claim(ledger, "e1", 1, ["file:/a"], lock)
        finish(ledger, "e1", 1, lock)
        drop(ledger, "e1", 1, lock)
        drop(ledger, "e1", 99, lock)
        assert not claim(ledger, "e1", 1, ["file:/a"], lock)


def test_a_batch_of_a_dead_holder_is_claimed_again_with_a_newer_token(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        claim(ledger, "e1", 1, ["file:/a", "file:/b"], a_lock(ledger, stack))
        shop.let_leases_end()
        alive = a_lock(ledger, stack, who="run-2")
        with pytest.raises(LockLost):
            finish(ledger, "e1", 1, alive)
        assert claim(ledger, "e1", 1, ["file:/b"], alive)
        assert set(ledger.claims.paths()) == {"file:/a", "file:/b"}
        finish(ledger, "e1", 1, alive)
        assert not ledger.claims.paths()


def test_a_batch_under_another_living_lock_is_left_alone(shop: Shop, ledger: ControlLedger) -> None:
    with ExitStack() as stack:
        claim(ledger, "e1", 1, ["file:/a"], a_lock(ledger, stack, "group-1", "run-1"))
        other = a_lock(ledger, stack, "group-2", "run-2")
        with pytest.raises(LockHeld, match="run-1"):
            claim(ledger, "e1", 1, ["file:/a"], other)
        shop.let_leases_end()
        heir = a_lock(ledger, stack, "group-3", "run-3")
        assert claim(ledger, "e1", 1, ["file:/a"], heir)


# --- many at once ----------------------------------------------------------------------------


def kinds(answers: Iterable[object]) -> list[type]:
    return [type(answer) for answer in answers]


def a_lost_lock(ledger: ControlLedger, key: str, who: str = "run-0") -> Lock:
    with ledger.locks.take(key, who, wait=SOON, lease=LEASE) as lock:
        return lock


def of_nobody(ledger: ControlLedger, *keys: str) -> bool:
    """Whether each of these locks is free."""
    return all(ledger.locks.rows.holding(key) is None for key in keys)


def test_of_several_moves_those_that_may_are_made_and_each_other_has_its_own_error(
    ledger: ControlLedger,
) -> None:
    free, late, unheld, wild, held = plans = ledger.plans.add([a_plan() for _ in range(5)])
    never, lost = a_plan(), a_lost_lock(ledger, "group-1")
    ledger.plans.move(late, PlanState.STALE, note="head moved")
    with ExitStack() as stack:
        alive = a_lock(ledger, stack, "group-2")
        answers = ledger.plans.move_all(
            [
                PlanTransition(free, PlanState.PASSED),
                PlanTransition(late, PlanState.PASSED),
                PlanTransition(never, PlanState.PASSED),
                PlanTransition(unheld, PlanState.PASSED, lost),
                PlanTransition(wild, PlanState.APPLIED, alive),
                PlanTransition(held, PlanState.PASSED, alive),
            ]
        )
    assert kinds(answers) == [Plan, PlanStale, PlanNotFound, LockLost, PlanStale, Plan]
    assert [one.object for one in answers if isinstance(one, MeltlineError)] == [
        late.id, never.id, "group-1", wild.id
    ]  # fmt: skip
    passed = [replace(plan, state=PlanState.PASSED) for plan in (free, held)]
    assert [answers[0], answers[-1]] == passed
    now = ledger.plans.current([plan.id for plan in plans])
    assert [now[plan.id] for plan in plans] == [
        passed[0], replace(late, state=PlanState.STALE, note="head moved"), unheld, wild, passed[1]
    ]  # fmt: skip


def test_one_that_moves_many_plans_is_refused_each_that_another_run_moved(
    shop: Shop, ledger: ControlLedger
) -> None:
    mine, theirs = (a_passed_plan(ledger) for _ in range(2))
    assert kinds(shop.handle().plans.move_all([PlanTransition(theirs, PlanState.APPLYING)])) == [
        Plan
    ]
    moves = [PlanTransition(plan, PlanState.APPLYING) for plan in (theirs, mine)]
    refused, moved = ledger.plans.move_all(moves)
    assert isinstance(refused, PlanStale) and refused.found == "applying"
    assert moved == replace(mine, state=PlanState.APPLYING)


def test_each_move_has_a_note_and_a_base_of_its_own(ledger: ControlLedger) -> None:
    one, other, third = (a_passed_plan(ledger) for _ in range(3))
    begun = ledger.plans.move_all(
        [
            PlanTransition(one, PlanState.APPLYING, note="it's", committed_base="v7"),
            PlanTransition(other, PlanState.APPLYING, committed_base="v8"),
            PlanTransition(third, PlanState.STALE, note="ж"),
        ]
    )
    assert list(begun) == [
        replace(one, state=PlanState.APPLYING, note="it's", committed_base="v7"),
        replace(other, state=PlanState.APPLYING, committed_base="v8"),
        replace(third, state=PlanState.STALE, note="ж"),
    ]
    one, other = (ledger.plans.get(plan.id) for plan in (one, other))
    ended = ledger.plans.move_all(
        [
            PlanTransition(one, PlanState.APPLIED),
            PlanTransition(other, PlanState.FAILED, note="two", committed_base="v9"),
        ]
    )
    assert list(ended) == [
        replace(one, state=PlanState.APPLIED, note="", committed_base="v7"),
        replace(other, state=PlanState.FAILED, note="two", committed_base="v9"),
    ]
    now = ledger.plans.current([one.id, other.id, third.id])
    assert [now[plan.id] for plan in (one, other, third)] == [*ended, begun[2]]


def test_answers_about_nothing_are_nothing(ledger: ControlLedger) -> None:
    add_plan(ledger, a_plan())
    ledger.verdicts.save([a_result()])
    ledger.verdicts.save([])
    ledger.claims.drop([])
    for answers in (
        ledger.plans.add([]),
        ledger.plans.move_all([]),
        ledger.claims.take([]),
        ledger.claims.finish([]),
    ):
        assert list(answers) == []
    assert ledger.plans.current([]) == {} and ledger.verdicts.newest([]) == {}
    assert ledger.locks.lost([]) == {}
    with ledger.locks.take_all({}, wait=SOON, lease=LEASE) as held:
        assert held == {}


@pytest.mark.parametrize("unknown", ["never", "e"])  # and no id is taken for the start of one
def test_plans_of_which_one_was_never_stored_are_not_told(
    ledger: ControlLedger, unknown: str
) -> None:
    plan = add_plan(ledger, a_plan())
    with pytest.raises(PlanNotFound) as refused:
        ledger.plans.current([plan.id, unknown])
    assert refused.value.object == unknown


def test_of_several_plans_those_that_are_there_already_stay_as_they_were(
    ledger: ControlLedger,
) -> None:
    first = add_plan(ledger, a_plan(bytes=1))
    new, other = a_plan(), a_plan()
    again = replace(first, bytes=2, state=PlanState.PASSED)
    assert list(ledger.plans.add([new, again, other])) == [new, first, other]
    assert list(ledger.plans.find()) == [other, new, first]
    assert ledger.plans.current([first.id, new.id]) == {first.id: first, new.id: new}


def test_many_plans_are_added_judged_moved_claimed_and_finished_in_single_calls(
    ledger: ControlLedger,
) -> None:
    plans = [a_plan() for _ in range(MANY)]
    ids = [plan.id for plan in plans]
    assert list(ledger.plans.add(plans)) == plans
    assert ledger.plans.current(ids) == dict(zip(ids, plans, strict=True))
    results = {id: a_result(id) for id in ids}
    ledger.verdicts.save(list(results.values()))
    assert ledger.verdicts.newest([*ids, "never"]) == results
    moved = ledger.plans.move_all([PlanTransition(plan, PlanState.PASSED) for plan in plans])
    assert list(moved) == [replace(plan, state=PlanState.PASSED) for plan in plans]
    paths = {path: id for id in ids for path in (f"file:/{id}/a", f"file:/{id}/it's")}
    with ExitStack() as stack:
        lock = a_lock(ledger, stack)
        claims = [Claim(id, 1, lock, [f"file:/{id}/a", f"file:/{id}/it's"]) for id in ids]
        assert list(ledger.claims.take(claims)) == [True] * MANY
        assert ledger.claims.paths() == paths
        ledger.claims.drop(claims)
        assert not ledger.claims.paths()
        assert list(ledger.claims.take(claims)) == [True] * MANY
        assert ledger.claims.paths() == paths
        assert list(ledger.claims.finish(claims)) == [None] * MANY
        assert not ledger.claims.paths()
        assert list(ledger.claims.take(claims)) == [False] * MANY


def test_of_several_claims_each_has_its_own_answer_and_the_rest_are_made(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack, "group-3", "run-3")
        claim(ledger, "e5", 1, ["file:/5a"], dead)
        shop.let_leases_end()
        mine, other = (a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in (1, 2))
        claim(ledger, "e1", 1, ["file:/1"], mine)
        finish(ledger, "e1", 1, mine)
        claim(ledger, "e2", 1, ["file:/2"], other)
        answers = ledger.claims.take(
            [
                Claim("e1", 1, mine, ["file:/1"]),
                Claim("e2", 1, mine, ["file:/2", "file:/2b"]),
                Claim("e3", 1, dead, ["file:/3"]),
                Claim("e4", 1, mine, ["file:/4"]),
                Claim("e4", 2, other, ["file:/4b"]),
                Claim("e5", 1, mine, ["file:/5b"]),
            ]
        )
        assert answers[0] is False
        held, lost = answers[1:3]
        assert isinstance(held, LockHeld) and held.found == "run-2 holds the lock group-2"
        assert isinstance(lost, LockLost) and lost.object == "group-3"
        assert list(answers[3:]) == [True, True, True]
        assert ledger.claims.paths() == {
            "file:/2": "e2",
            "file:/4": "e4",
            "file:/4b": "e4",
            "file:/5a": "e5",
            "file:/5b": "e5",
        }
        # Each is claimed under the lock that asked for it.
        ours = [Claim("e4", 1, mine), Claim("e4", 2, other), Claim("e5", 1, mine)]
        assert list(ledger.claims.finish(ours)) == [None] * 3
        assert ledger.claims.paths() == {"file:/2": "e2"}


def test_a_batch_that_is_not_ours_is_named_and_the_others_are_finished(
    ledger: ControlLedger,
) -> None:
    lost = a_lost_lock(ledger, "group-3")
    with ExitStack() as stack:
        mine, other = (a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in (1, 2))
        claims = [Claim(f"e{n}", 1, lock, [f"file:/{n}"]) for n, lock in enumerate([mine] * 3)]
        ledger.claims.take([*claims, Claim("e9", 1, other, ["file:/9"])])
        finish(ledger, "e2", 1, mine)
        answers = ledger.claims.finish(
            [claims[0], Claim("e9", 1, mine), Claim("e7", 1, mine), Claim("e1", 1, lost), *claims]
        )
        assert kinds(answers) == [type(None), LockLost, LockLost, LockLost, *[type(None)] * 3]
        refused = [one.object for one in answers if one is not None]
        assert refused == ["e9/1", "e7/1", "group-3"]
        assert ledger.claims.paths() == {"file:/9": "e9"}
        assert list(ledger.claims.take(claims)) == [False] * 3
        assert claim(ledger, "e9", 1, [], other)


def test_of_several_claims_one_that_a_later_lock_took_over_is_not_dropped(
    shop: Shop, ledger: ControlLedger
) -> None:
    with ExitStack() as stack:
        dead = a_lock(ledger, stack)
        claims = [Claim(id, 1, dead, [f"file:/{id}"]) for id in ("e1", "e2", "e3")]
        assert list(ledger.claims.take(claims)) == [True] * 3
        shop.let_leases_end()
        alive = a_lock(ledger, stack, who="run-2")
        assert claim(ledger, "e2", 1, ["file:/e2"], alive)
        ledger.claims.drop([*claims, Claim("never", 1, dead)])
        assert ledger.claims.paths() == {"file:/e2": "e2"}
        finish(ledger, "e2", 1, alive)


def test_the_newest_gate_result_of_each_plan_is_told_and_nothing_of_others(
    ledger: ControlLedger,
) -> None:
    first, second = a_result("e1"), a_result("e1", suite="second")
    third = a_result("e2", suite="third", failed=(FailedExpectation("one", "it's", "ж 3"),))
    ledger.verdicts.save([first, a_result("e3"), a_result("e2")])
    ledger.verdicts.save([third, first, second])
    assert ledger.verdicts.newest(["e2", "e1", "e9"]) == {"e1": second, "e2": third}


def test_of_two_runs_with_the_same_plans_in_other_orders_one_gets_each(
    shop: Shop, ledger: ControlLedger
) -> None:
    plans = list(ledger.plans.add([a_plan(state=PlanState.PASSED) for _ in range(300)]))
    start = Barrier(2, timeout=60)

    def race(handle: ControlLedger, order: Sequence[Plan], lock: Lock) -> tuple[set[str], set[str]]:
        start.wait()
        moved = handle.plans.move_all(
            [PlanTransition(plan, PlanState.APPLYING, lock) for plan in order]
        )
        start.wait()
        claims = [Claim(plan.id, 1, lock, [f"file:/{plan.id}"]) for plan in order]
        claimed = handle.claims.take(claims)
        assert set(kinds(moved)) <= {Plan, PlanStale} and set(kinds(claimed)) <= {bool, LockHeld}
        return (
            {plan.id for plan, answer in zip(order, moved, strict=True) if type(answer) is Plan},
            {plan.id for plan, answer in zip(order, claimed, strict=True) if answer is True},
        )

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        locks = [a_lock(ledger, stack, f"group-{n}", f"run-{n}") for n in range(2)]
        runs = [
            pool.submit(race, shop.handle(), order, lock)
            for order, lock in zip([plans, plans[::-1]], locks, strict=True)
        ]
        (moved, claimed), (moved_too, claimed_too) = (run.result(timeout=60) for run in runs)
    everything = {plan.id for plan in plans}
    assert moved | moved_too == everything and not moved & moved_too
    assert claimed | claimed_too == everything and not claimed & claimed_too
    assert ledger.claims.paths() == {f"file:/{id}": id for id in everything}


# --- many locks ------------------------------------------------------------------------------


def test_of_several_locks_all_that_are_free_are_taken_and_freed_also_after_a_failure(
    shop: Shop, ledger: ControlLedger
) -> None:
    wanted = {f"group-{n}": f"run-1 plan {n}" for n in (3, 1, 2)}
    with ledger.locks.take("group-2", "run-2 on host-a", wait=SOON, lease=LEASE) as theirs:
        with (
            pytest.raises(RuntimeError),
            shop.handle().locks.take_all(wanted, wait=SOON, lease=LEASE) as held,
        ):
            first, refused, last = (held[key] for key in sorted(wanted))
            assert isinstance(refused, LockHeld) and "run-2 on host-a" in refused.found
            assert refused.object == "group-2" and len(held) == 3
            assert isinstance(first, Lock) and isinstance(last, Lock)
            assert [first.holder, last.holder] == ["run-1 plan 1", "run-1 plan 3"]
            known = [first, theirs, last]
            assert ledger.locks.lost(known) == {}
            raise RuntimeError
        assert set(ledger.locks.lost(known)) == {known[0], known[2]}
        assert of_nobody(ledger, "group-1", "group-3")
    with ledger.locks.take_all(wanted, wait=SOON, lease=LEASE) as again:
        assert kinds(again.values()) == [Lock] * 3
    assert of_nobody(ledger, *wanted)


def test_locks_are_taken_in_the_order_of_their_keys_up_to_the_first_that_is_not_free(
    ledger: ControlLedger,
) -> None:
    wanted = {f"group-{n}": f"run-{n}" for n in (3, 2, 1)}
    with ledger.locks.take("group-2", "run-9", wait=SOON, lease=LEASE):
        assert list(ledger.locks.rows.take(wanted, LEASE)) == [Lock("group-1", "run-1", 1)]
        assert of_nobody(ledger, "group-3") and not ledger.locks.rows.take(wanted, LEASE)


def test_many_locks_are_taken_used_and_freed_together(shop: Shop, ledger: ControlLedger) -> None:
    wanted = {f"group-{n:04}": f"run-1 plan {n}" for n in reversed(range(1200))}
    with ledger.locks.take_all(wanted, wait=SOON, lease=LEASE) as held:
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert {lock.key: lock.holder for lock in locks} == wanted
        assert ledger.locks.lost(locks) == {}
        claims = [Claim(lock.key, 1, lock, [f"file:/{lock.key}"]) for lock in locks]
        assert list(ledger.claims.take(claims)) == [True] * 1200
        assert list(ledger.claims.finish(claims)) == [None] * 1200
        shop.let_leases_end()
        assert set(ledger.locks.lost(locks)) == set(locks)
        assert kinds(ledger.claims.finish(claims)) == [LockLost] * 1200
    with shop.handle().locks.take_all(wanted, wait=SOON, lease=LEASE) as held:
        assert [one.token for one in held.values() if isinstance(one, Lock)] == [2] * 1200


def test_all_locks_that_are_held_together_outlive_their_lease(
    shop: Shop, ledger: ControlLedger
) -> None:
    short = timedelta(seconds=1.5)
    wanted = {f"group-{n}": "run-1" for n in range(3)}
    with ledger.locks.take_all(wanted, wait=SOON, lease=short) as held:
        time.sleep(1.5 * short.total_seconds())
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert len(locks) == 3 and shop.handle().locks.lost(locks) == {}
    assert of_nobody(ledger, *wanted)


def test_a_lock_in_the_middle_is_waited_for_and_no_later_one_is_held_meanwhile(
    shop: Shop, ledger: ControlLedger
) -> None:
    keys = [f"group-{n}" for n in (1, 2, 3)]
    with ThreadPoolExecutor(1) as pool:
        with ledger.locks.take("group-2", "run-2", wait=SOON, lease=LEASE) as theirs:
            wait = timedelta(seconds=20)
            waiting = pool.submit(_hold_all_once, shop.handle(), keys[::-1], "run-1", wait)
            _wait_until(lambda: ledger.locks.rows.holding("group-1") is not None)
            time.sleep(0.6)  # for some tries
            assert not waiting.done() and of_nobody(ledger, "group-3")
            with ledger.locks.take("group-3", "run-3", wait=SOON, lease=LEASE) as later:
                pass
            assert not waiting.done()
        first, second, third = waiting.result(timeout=30)
    assert [lock.key for lock in (first, second, third)] == keys
    assert second.token > theirs.token and third.token > later.token
    assert of_nobody(ledger, *keys)


def test_runs_that_want_the_same_locks_do_not_wait_for_each_other_in_a_ring(
    shop: Shop, ledger: ControlLedger
) -> None:
    keys = [f"group-{n:02}" for n in range(20)]
    start = Barrier(2, timeout=60)

    def race(handle: ControlLedger, order: Sequence[str], who: str) -> list[Lock]:
        start.wait()
        return _hold_all_once(handle, order, who, timedelta(seconds=5))

    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(race, shop.handle(), order, f"run-{n}")
            for n, order in enumerate([keys, keys[::-1]])
        ]
        one, other = (run.result(timeout=60) for run in runs)
    assert [lock.key for lock in one] == [lock.key for lock in other] == keys
    tokens = ([lock.token for lock in locks] for locks in (one, other))
    assert sorted(tokens) == [[1] * len(keys), [2] * len(keys)]


def _hold_all_once(
    ledger: ControlLedger, keys: Sequence[str], holder: str, wait: timedelta
) -> list[Lock]:
    with ledger.locks.take_all(dict.fromkeys(keys, holder), wait=wait, lease=LEASE) as held:
        locks = [one for one in held.values() if isinstance(one, Lock)]
        assert ledger.locks.lost(locks) == {}
        return sorted(locks, key=lambda lock: lock.key)


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_locks_that_are_lost_are_named_and_each_says_why(
    shop: Shop, ledger: ControlLedger
) -> None:
    ended = a_lost_lock(ledger, "group-1")
    with ExitStack() as stack:
        dead, over = (a_lock(ledger, stack, f"group-{n}") for n in (2, 3))
        shop.let_leases_end()
        alive = a_lock(ledger, stack, "group-2", "run-2")
        never = Lock("group-9", "run-1", 1)
        lost = shop.handle().locks.lost([alive, ended, dead, over, never])
        assert lost.keys() == {ended, dead, over, never}
        assert kinds(lost.values()) == [LockLost] * 4
        for lock, error in lost.items():
            with pytest.raises(LockLost) as refused:
                ledger.locks.check(lock)
            assert (refused.value.object, refused.value.found) == (error.object, error.found)
        assert lost[ended].found == lost[never].found == "free"
        assert "run-2" in lost[dead].found


# --- runs, switch, audit, storage ------------------------------------------------------------


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


def test_the_stop_switch_is_set_changed_and_released(shop: Shop, ledger: ControlLedger) -> None:
    assert ledger.switch.stopped() is None
    ledger.switch.set(StopSwitch("ann", "audit", NOW))
    ledger.switch.set(StopSwitch("bob", "it's", NOW))
    assert shop.handle().switch.stopped() == StopSwitch("bob", "it's", NOW)
    ledger.switch.set(None)
    assert shop.handle().switch.stopped() is None


def test_audit_entries_stay_in_order_and_are_found_by_object_and_time(
    ledger: ControlLedger,
) -> None:
    # PX-13
    first = AuditEntry(NOW, "ann", "stop", "all", "why", "detail")
    second = AuditEntry(NOW, "ann", "go", "all")
    third = AuditEntry(NOW + timedelta(milliseconds=1), "bob", "attach", "lake.air.`it's`")
    for entry in (first, second, third):
        ledger.audit.add(entry)
    assert list(ledger.audit.entries()) == [first, second, third]
    assert list(ledger.audit.entries("all")) == [first, second]
    assert list(ledger.audit.entries(since=third.at)) == [third]
    assert not ledger.audit.entries("all", since=third.at)


def test_a_remembered_metadata_file_comes_back_whole_and_is_forgotten_once_it_is_not_current(
    ledger: ControlLedger,
) -> None:
    versioned = RememberedMetadata("s3://lake/it's.metadata.json", HUGE, b"\x00\xff", 'W/"v1"')
    older = RememberedMetadata("file:/lake/b", 1, b"b")
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


# --- the databases ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "table", "beside"),
    [
        (KnownTable, schema.tables, set()),
        (Ownership, schema.ownerships, {"first_seen_at"}),
        (SnapshotObservation, schema.sightings, {"table_uuid", "snapshot_id"}),
        (Lease, schema.leases, set()),
        (StatementRecord, schema.statements, set()),
        (PurgeVeto, schema.wanted_back, set()),
        (VouchedFile, decision_tables.vouched, set()),
        (DisownedTime, decision_tables.disowned_times, {"seq"}),
        (Epoch, decision_tables.epochs, set()),
        (Plan, schema.plans, {"seq"}),
        (GateResult, schema.gate_results, {"seq"}),
        (Approval, schema.approvals, {"seq"}),
        (RunRecord, schema.runs, {"seq"}),
        (StopSwitch, schema.stop_switch, {"id"}),
        (AuditEntry, schema.audit, {"seq"}),
        (StorageRow, schema.storage, {"day"}),
    ],
)
def test_every_field_of_a_record_has_its_column(
    record: type, table: Table, beside: set[str]
) -> None:
    assert {one.name for one in fields(record)} | beside == set(table.columns.keys())


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_the_revisions_make_the_schema_that_the_code_expects(url: str, open_sql: OpenSql) -> None:
    ledger = open_sql(url)
    ledger.database.prepare()
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        # Names, keys and indexes; types are plain in the revisions, on purpose.
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.REVISION
    engine.dispose()


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_a_ledger_of_the_first_revision_is_brought_up_to_date_with_all_that_it_holds(
    url: str, open_sql: OpenSql
) -> None:
    ledger = open_sql(url)
    ledger.database.prepare()
    ledger.registrations.add_sharing([("a", "b")])
    ledger.registrations.save([a_table()])
    plan = add_plan(ledger, a_plan())
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        new = ("policies", "wanted_back", "metadata_documents", "statements", "archived")
        newer = ("copies", "entries", "incidents", "vouched", "lifted_guards")
        for table in (*new, *newer, "places", "withheld", "epochs", "disowned_times"):
            connection.execute(text(f"DROP TABLE {table}"))
        for column in ("table_uuid", "newest"):
            connection.execute(text(f"ALTER TABLE tables DROP COLUMN {column}"))
        for column in ('"table"', "who", "ttl_ms"):
            connection.execute(text(f"ALTER TABLE leases DROP COLUMN {column}"))
        connection.execute(text("ALTER TABLE plans DROP COLUMN batch"))
        connection.execute(text("ALTER TABLE plans DROP COLUMN repeats"))
        for column in ("cold_bytes", "deep_bytes"):
            connection.execute(text(f"ALTER TABLE storage DROP COLUMN {column}"))
        connection.execute(text("INSERT INTO leases VALUES ('l-1', 'u-1', 7, 9000)"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    engine.dispose()
    old = open_sql(url)
    assert not old.database.is_prepared()
    old.database.prepare()
    assert old.observations.documents(["file:///m"]) == {} and old.archived.all() == []
    assert (
        old.registrations.sharing() == [("a", "b")]
        and old.vetoes.all() == []
        and old.policies.all() == {}
    )
    assert old.plans.get(plan.id) == plan and plan.batch == 1
    lease = Lease("l-1", "u-1", 7, from_millis(9000))
    assert old.leases.active(from_millis(0)) == [lease] and old.statements.get("s-1") is None
    # What was known by Iceberg's UUID keeps that as its id, and nobody else gets it.
    assert old.registrations.all() == [replace(a_table(), table_uuid="u-1")]
    assert old.registrations.open([a_table()]) == []


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_processes_that_initialise_at_the_same_time_do_not_disturb_each_other(
    url: str, open_sql: OpenSql
) -> None:
    ledgers = [open_sql(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda ledger: ledger.database.prepare(), ledgers))
    assert all(ledger.database.generation() == 0 for ledger in ledgers)


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_a_ledger_of_a_newer_meltline_is_left_as_it_is(url: str, open_sql: OpenSql) -> None:
    open_sql(url).database.prepare()
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    ledger = open_sql(url)
    assert not ledger.database.is_prepared()
    with pytest.raises(SetupMissing, match="newer Meltline"):
        ledger.database.prepare()


def test_asking_for_a_ledger_creates_no_file(tmp_path: Path, open_sql: OpenSql) -> None:
    assert not open_sql(f"sqlite:///{tmp_path}/c.db").database.is_prepared()
    assert not list(tmp_path.iterdir())


def test_a_reader_of_a_sqlite_ledger_does_not_hold_up_its_writers(
    tmp_path: Path, open_sql: OpenSql
) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    ledger = open_sql(url)
    ledger.database.prepare()
    engine = create_engine(url)
    with engine.connect() as reader:
        reader.exec_driver_sql("BEGIN")
        assert not reader.execute(select(schema.sharing)).all()
        started = time.monotonic()
        ledger.registrations.add_sharing([("a", "b")])
        assert time.monotonic() - started < 5
    engine.dispose()


def test_a_driver_that_repeats_the_password_is_not_quoted() -> None:
    for url in ("postgresql://u:sesame@h/db", "postgresql://u@h/db?password=sesame"):
        said = scrubbed('bad string "password=sesame"', make_url(url))
        assert said == 'bad string "password=***"'


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://meltline:sesame@127.0.0.1:1/db",
        "postgresql+psycopg://meltline:sesame@127.0.0.1:1/db",
        "postgresql://meltline@127.0.0.1:1/db?password=sesame",
        "postgresql://meltline:sesame@127.0.0.1:1/db?nonsense=sesame",
    ],
)
def test_a_database_that_does_not_answer_is_named_without_its_password(
    url: str, open_sql: OpenSql
) -> None:
    with pytest.raises(SetupMissing) as refused:
        open_sql(url).database.prepare()
    assert refused.value.object == "postgresql://127.0.0.1:1/db"
    assert "sesame" not in _everything_said(refused.value)


@pytest.mark.postgres
def test_a_wrong_password_is_not_repeated(
    postgres_server: PostgresServer, open_sql: OpenSql
) -> None:
    url = postgres_server.url("postgres").replace(postgres_server.password, "sesame")
    with pytest.raises(SetupMissing, match="does not answer") as refused:
        open_sql(url).database.is_prepared()
    assert "sesame" not in _everything_said(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://meltline:ses/ame@host:5432/db",
        "mysql://meltline:ses/ame@host/db",
        "ses/ame",
        "",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(
    url: str, open_sql: OpenSql
) -> None:
    if url.startswith("postgresql"):
        url = "postgresql://meltline:ses@host:ses/ame/db"
    with pytest.raises(ConfigInvalid) as refused:
        open_sql(url)
    assert refused.value.object == "control"
    assert "ses" not in _everything_said(refused.value).replace("passes", "")


def _everything_said(error: BaseException) -> str:
    said = []
    at: BaseException | None = error
    while at is not None:
        said += [str(at), *map(str, vars(at).values())]
        at = (
            None
            if at.__suppress_context__ and at.__cause__ is None
            else at.__cause__ or at.__context__
        )
    return " ".join(said)
