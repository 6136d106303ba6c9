"""People tag, branch and drop while expirations are made over REST, and some of the runs die."""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from meltline.adapters.catalogs.rest.protocol import CommitRaced, CommitRejected
from meltline.domain.iceberg.names import TableName
from tests.seeds import SEED
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.rest.raced_tables import Died, RacedTable, die, set_ref

ROUNDS = int(os.environ.get("MELTLINE_RACES", "60"))
_SNAPSHOTS = 8
_DYING = 0.2  # of the runs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    with iceberg_server(tmp_path_factory.mktemp("races")) as running:
        yield running


@dataclass
class People:
    """Somebody who tags, branches and drops, and remembers what the server said yes to.

    Attributes:
        ending: Tags that a plan is to remove, and what each is on: some are kept longer.
    """

    table: RacedTable
    chance: random.Random
    ending: dict[str, int]
    refs: dict[str, int] = field(default_factory=dict)

    def act(self, times: int) -> None:
        for number in range(times):
            name, snapshot = f"p{number}", self.chance.randint(1, _SNAPSHOTS)
            kind = self.chance.choice(["tag", "tag", "branch"])
            with suppress(CommitRaced, CommitRejected):
                if self.refs and self.chance.random() < 0.15:
                    self.table.untag(gone := self.chance.choice(sorted(self.refs)))
                    del self.refs[gone]
                elif self.chance.random() < 0.2:
                    name = self.chance.choice(sorted(self.ending))
                    longer = {"max-ref-age-ms": 10**12 + number}
                    self.table.commit({**set_ref(name, self.ending[name]), **longer})
                    self.refs[name] = self.ending[name]
                else:
                    self.table.commit(set_ref(name, snapshot, kind))
                    self.refs[name] = snapshot


@pytest.mark.slow("random races")
def test_no_ref_that_the_server_said_yes_to_is_lost(server: IcebergServer) -> None:
    chance = random.Random(SEED)
    endangered = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            name = TableName("lake", ("air",), f"t{number}")
            table = RacedTable(server, name, format_version=chance.choice([1, 2, 3]))
            for snapshot in range(1, _SNAPSHOTS + 1):
                table.append(snapshot)
            endangered += _race(table, chance, pool)
    assert endangered > ROUNDS // 10, "the races endangered next to nothing: they prove nothing"
    print(f"{ROUNDS} races, {endangered} refs were lost by a commit and came back")


def _race(table: RacedTable, chance: random.Random, pool: ThreadPoolExecutor) -> int:
    """One table's race; returns how many refs a commit had lost."""
    ending = {name: chance.randint(1, _SNAPSHOTS - 1) for name in ("old", "older")}
    for name, snapshot in ending.items():
        table.tag(name, snapshot)
    people = People(table, random.Random(chance.random()), ending)
    snapshots = chance.sample(range(1, _SNAPSHOTS), chance.randint(2, 5))
    plan = table.plan(sorted(snapshots), sorted(ending))
    forced = chance.random() < 0.5
    if forced:
        table.before_commit = lambda: people.act(chance.randint(1, 4))
    if chance.random() < _DYING:
        table.after_commit = die
    committer = table.committer
    acting = pool.submit((lambda: None) if forced else lambda: people.act(6))
    outcome = None
    try:
        outcome = committer.expire(plan, plan.base_location)
    except Died:
        acting.result()
        outcome = table.committer.confirm(plan)  # the next run
    acting.result()
    refs = table.refs()
    lost = {name: id for name, id in people.refs.items() if refs.get(name) != id}
    assert not lost, f"{table.name}: {lost}, seed {SEED}"
    assert all(id in table.snapshots() for id in refs.values())
    return len(outcome.restored) if outcome is not None else 0
