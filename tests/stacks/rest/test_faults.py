"""Expirations over REST through a way on which everything goes wrong: no ref is lost in the end."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from tests.contract.ledger.postgres import throwaway_postgres
from tests.seeds import SEED
from tests.stacks.fault_proxy import Answer, Fault, FaultProxy, Request, fault_proxy, of_rest
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.rest.raced_tables import RacedTable

ROUNDS = int(os.environ.get("MELTLINE_FAULT_ROUNDS", "6"))
MOST_RUNS = 12
PLANNED = [1, 2, 3]
FAULTS = [fault for fault in Fault if fault is not Fault.PARTIAL]
_NUMBERS = count(1)


@dataclass
class Way:
    """A server, and the proxy on the way to it."""

    server: IcebergServer
    proxy: FaultProxy

    @property
    def words(self) -> dict[str, str]:
        """How a committer reaches it: it logs in, and asks what else it needs by the proxy too."""
        uri = f"http://127.0.0.1:{self.proxy.port}"
        tokens = f"{uri}/v1/oauth/tokens"
        return {"uri": uri, "credential": "meltline:secret", "oauth2-server-uri": tokens}

    def fails(self, fault: Fault, times: int, at: Callable[[Request], bool]) -> None:
        """Has the next so many of some requests fail."""
        left = [times]

        def choose(request: Request) -> Fault | None:
            if not left[0] or not at(request):
                return None
            left[0] -= 1
            return fault

        self.proxy.chooses = choose


@dataclass
class Counts:
    """What came of the rounds with one fault."""

    rounds: int = 0
    endangered: int = 0
    runs: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = {kind: self.outcomes.count(kind) for kind in sorted(set(self.outcomes))}
        return f"{self.rounds} rounds, {self.endangered} refs came, {max(self.runs)} runs, {kinds}"


def is_commit(request: Request) -> bool:
    return request.method == "POST" and "/tables/" in request.path


def is_of_table(request: Request) -> bool:
    return "/tables/" in request.path


@contextmanager
def a_way(home: Path, **settings: str) -> Iterator[Way]:
    with (
        iceberg_server(home, settings=settings) as server,
        fault_proxy(server.port, of_rest) as proxy,
    ):
        proxy.patience = 1.0
        yield Way(server, proxy)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with a_way(tmp_path_factory.mktemp("rest-faults")) as way:
        yield way


@pytest.fixture(autouse=True)
def calm(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "way" in request.fixturenames:
        proxy = request.getfixturevalue("way").proxy
        proxy.chooses, proxy.changes = (lambda request: None), (lambda request, answer: answer)


def a_table(way: Way, chance: random.Random) -> RacedTable:
    name = TableName("lake", ("air",), f"t{next(_NUMBERS)}")
    table = RacedTable(way.server, name, format_version=chance.choice([1, 2, 3]), way=way.words)
    for snapshot in range(1, 6):
        table.append(snapshot)
    return table


def runs_until_known(table: RacedTable, plan: Plan) -> tuple[int, str]:
    """A run that commits, and as many after it as it takes to know what came of that.

    As a chain goes on: planned ids that are there have their commit withdrawn, others confirmed.
    """
    for run in range(1, MOST_RUNS + 1):
        try:
            if run == 1:
                outcome = table.committer.expire(plan, plan.base_location)
                return run, "nothing was done" if outcome is None else "committed"
            if table.snapshots().keys() & set(PLANNED):  # or some are back for refs
                assert table.committer.withdraw(plan)
                return run, "withdrawn"
            if table.committer.confirm(plan) is not None:
                return run, "confirmed"
        except MeltlineError:
            continue
    pytest.fail(f"after {MOST_RUNS} runs nobody knows what came of it")


def lives(way: Way, fault: Fault, chance: random.Random, counts: Counts) -> None:
    """One table: people tag while its expiration is committed, and the way fails."""
    table = a_table(way, chance)
    plan = table.plan(PLANNED)
    refs: dict[str, int] = {}

    def tag() -> None:
        for number in range(chance.randint(0, 2)):
            refs[f"p{number}"] = chance.choice([1, 2, 3, 4])
            table.tag(f"p{number}", refs[f"p{number}"])

    table.before_commit = tag
    way.fails(fault, chance.randint(1, 3), chance.choice([is_commit, is_of_table]))
    runs, outcome = runs_until_known(table, plan)
    now, snapshots = table.refs(), table.snapshots()
    lost = {name: id for name, id in refs.items() if now.get(name) != id or id not in snapshots}
    assert not lost, f"{fault.name}, {table.name}: {lost}, seed {SEED}"
    assert now["main"] == 5 and snapshots.keys() >= {4, 5}
    counts.rounds += 1
    counts.endangered += sum(id in PLANNED for id in refs.values())
    counts.runs.append(runs)
    counts.outcomes.append(outcome)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.slow("many commits through a proxy that fails")
def test_no_ref_is_lost_and_the_outcome_is_known_in_the_end(way: Way, fault: Fault) -> None:
    chance, counts = random.Random(f"{fault.name}{SEED}"), Counts()
    before = way.proxy.counts[fault.name]
    for _ in range(ROUNDS):
        lives(way, fault, chance, counts)
    assert way.proxy.counts[fault.name] - before >= ROUNDS // 2, "little went wrong"
    print(f"{fault.name}: {way.proxy.counts[fault.name] - before} faults in {counts}")


def test_who_has_to_log_in_again_in_the_middle_goes_on(way: Way) -> None:
    table = a_table(way, random.Random(SEED))
    plan = table.plan(PLANNED)
    asked: list[str] = []

    def ended(request: Request) -> Fault | None:
        asked.append(request.path)
        is_first = is_commit(request) and sum("/tables/" in path for path in asked) == 2
        return Fault.EXPIRED if is_first else None

    way.proxy.chooses = ended
    outcome = table.committer.expire(plan, plan.base_location)
    assert outcome is not None and table.snapshots().keys() == {4, 5}
    again = max(at for at, path in enumerate(asked) if path.endswith("/oauth/tokens"))
    assert asked[again - 1] == asked[again + 1], "the same request, after another login"


@pytest.fixture(params=["SQLite", "Postgres"])
def restartable(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Way]:
    home = tmp_path_factory.mktemp("rest-killed")
    if request.param == "SQLite":
        with a_way(home) as way:
            yield way
        return
    with throwaway_postgres() as postgres:
        database = postgres.create_database()
        address = database.partition("@")[2]
        settings = {
            "CATALOG_URI": f"jdbc:postgresql://{address}",
            "CATALOG_JDBC_USER": "meltline",
            "CATALOG_JDBC_PASSWORD": postgres.password,
        }
        with a_way(home, **settings) as way:
            yield way


def test_a_server_that_is_killed_between_commit_and_answer_loses_nothing(
    restartable: Way,
) -> None:
    """Its process is killed by its id once its commit is made, and started again."""
    chance, counts, kills = random.Random(SEED), Counts(), 0

    def killing(request: Request, answer: Answer) -> Answer:
        nonlocal kills
        if is_commit(request) and restartable.proxy.counts["LOST"]:
            kills += 1
            restartable.proxy.counts["LOST"] = 0
            restartable.server.stop()
            restartable.server.start()
        return answer

    restartable.proxy.changes = killing
    for _ in range(max(2, ROUNDS // 2)):
        lives(restartable, Fault.LOST, chance, counts)
    assert kills
    print(f"killed between commit and answer: {kills} times, {counts}")
