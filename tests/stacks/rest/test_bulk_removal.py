"""Thousands of snapshots leave in one commit, with one update where the server takes that."""

from collections.abc import Iterator, Sequence

import pytest

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.protocol import (
    CommitRejected,
    Json,
    LoadedTable,
    RestProtocol,
)
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.clock import WallClock
from meltline.domain.iceberg.names import TableName
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.rest.raced_tables import RacedTable, set_ref

SNAPSHOTS = 2_200
PLANNED = range(1, SNAPSHOTS - 99)


class Watched(RestProtocol):
    """The protocol; remembers the updates of each commit, and may take one id in each alone."""

    def __init__(self, table: RacedTable, *, is_old: bool = False) -> None:
        super().__init__(table.name.catalog, lambda: table.protocol.catalog)
        self.commits: list[Sequence[Json]] = []
        self._is_old = is_old

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        if self._is_old and any(len(u.get("snapshot-ids", ())) > 1 for u in updates):
            raise CommitRejected(f"{name}: invalid snapshot ids, expected one", object=str(name))
        self.commits.append(updates)
        return super().commit(name, requirements, updates)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    with iceberg_server(tmp_path_factory.mktemp("bulk")) as running:
        yield running


def long_table(server: IcebergServer, name: str) -> RacedTable:
    """A table with a long history, which came in one commit."""
    table = RacedTable(server, TableName("lake", ("air",), name))
    metadata = table.load().metadata
    at, location = metadata["last-updated-ms"], metadata["location"]
    snapshots: list[Json] = [
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": number,
                "sequence-number": number,
                "timestamp-ms": at + number,
                "manifest-list": f"{location}/metadata/snap-{number}.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
                **({"parent-snapshot-id": number - 1} if number > 1 else {}),
            },
        }
        for number in range(1, SNAPSHOTS + 1)
    ]
    table.commit(*snapshots, set_ref("main", SNAPSHOTS, "branch"))
    assert len(table.snapshots()) == SNAPSHOTS
    return table


@pytest.mark.parametrize("is_old", [False, True], ids=["at once", "one id in an update"])
def test_thousands_of_snapshots_leave_in_one_commit(server: IcebergServer, is_old: bool) -> None:
    table = long_table(server, f"long{is_old}")
    protocol = Watched(table, is_old=is_old)
    table.tag("known", SNAPSHOTS - 1)
    plan = table.plan(PLANNED)
    outcome = RestCommitter({"lake": protocol}, ObjectStores({}), WallClock()).expire(
        plan, plan.base_location
    )
    assert outcome is not None and not outcome.restored
    (updates,) = protocol.commits
    removals = [update for update in updates if update["action"] == "remove-snapshots"]
    assert len(removals) == (len(PLANNED) if is_old else 1)
    assert sum(len(update["snapshot-ids"]) for update in removals) == len(PLANNED) > 2_000
    assert table.snapshots().keys() == set(range(SNAPSHOTS - 99, SNAPSHOTS + 1))
