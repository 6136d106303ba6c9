"""Control ledgers of every kind, empty or with a plan: what their suites share."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import Clock, FixedClock
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.deletion.withheld import Why, Withheld
from meltline.domain.errors import (
    MeltlineError,
)
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    Claim,
    ControlLedger,
    KnownTable,
    Lock,
)
from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.doubles.control.ledger import memory_control_ledger

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


def a_withheld_file(claimant: str = "s3://mirror", *, files: int = 2) -> Withheld:
    place, table = "s3://lake/air", "lake.air.flights"
    return Withheld("purge", Why.MAYBE_THE_SAME, table, place, claimant, files, 300)


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


def kinds(answers: Iterable[object]) -> list[type]:
    return [type(answer) for answer in answers]


def a_lost_lock(ledger: ControlLedger, key: str, who: str = "run-0") -> Lock:
    with ledger.locks.take(key, who, wait=SOON, lease=LEASE) as lock:
        return lock
