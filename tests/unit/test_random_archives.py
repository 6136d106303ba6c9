"""Random lives of a lake whose history goes to cold: the lives of `test_random_lifecycles`, and
beside their invariants these two, held at every commit and after every step.

Nothing that the policy chooses leaves hot without a whole copy in cold, and cold never shrinks
(AR-30, AR-35, I-8). `MELTLINE_EXAMPLES=2000` looks longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meltline.app.services import Services
from meltline.domain.archive import COLD_OF
from meltline.domain.cold_paths import mirrored
from meltline.domain.names import TableName
from meltline.ports import CommitOutcome, Committer
from tests.seeds import examples
from tests.unit.lake import COLD_WAREHOUSE, Table, business
from tests.unit.random_engines import Engines
from tests.unit.recorded import live
from tests.unit.test_random_lifecycles import RandomLifecycles
from tests.unit.watched_lake import WatchedLake


@dataclass
class ArchivedLake(WatchedLake):
    """A watched lake, all of whose history is wanted in cold.

    Attributes:
        copies: Every file that was ever in cold, and what it held; metadata files aside.
        archived: Every snapshot that was ever in cold, by the hot table's UUID.
    """

    copies: dict[str, bytes] = field(default_factory=dict)
    archived: set[tuple[str, int]] = field(default_factory=set)

    def services(self, **changes: Any) -> Services:
        built = super().services(**changes)
        return replace(built, committer=_Watch(self, built.committer))

    def check(self) -> None:
        super().check()
        self.check_cold()

    def check_cold(self) -> None:
        there = {path: self.store.read(path) for path in self.paths(COLD_WAREHOUSE)}
        kept = {path: body for path, body in there.items() if "metadata.json" not in path}
        lost = {path for path, body in self.copies.items() if kept.get(path) != body}
        assert not lost, f"I-8: gone from cold, or changed: {sorted(lost)}"
        self.copies = kept
        found = set(self.in_cold())
        assert self.archived <= found, f"I-8: cold forgot {self.archived - found}"
        self.archived = found

    def in_cold(self) -> list[tuple[str, int]]:
        """The snapshots that cold has whole."""
        found = []
        for entry in self.cold.listing().entries:
            document = self.document(entry.metadata_location)
            uuid = document["properties"][COLD_OF]
            for snapshot in document["snapshots"]:
                files = set(self._walk(snapshot["manifest-list"]))
                assert files <= self.copies.keys() | self.paths(COLD_WAREHOUSE)
                found.append((uuid, snapshot["snapshot-id"]))
        return found


@dataclass
class _Watch:
    """Holds each expiration against cold at the moment of its commit."""

    lake: ArchivedLake
    inner: Committer

    def expire(
        self, table: TableName, base_location: str, snapshots: Sequence[int], refs: Sequence[str]
    ) -> CommitOutcome | None:
        lake, hot = self.lake, Table(self.lake, table)
        there = set(lake.in_cold())
        for snapshot_id in set(snapshots) & set(hot.snapshots):
            assert (hot.uuid, snapshot_id) in there, f"{table}: {snapshot_id} would be lost"
            for path in lake._walk(hot.manifest_list(snapshot_id)):
                copy = mirrored(path, COLD_WAREHOUSE)
                assert lake.store.size(copy) is not None, f"{table}: {path} has no copy"
        return self.inner.expire(table, base_location, snapshots, refs)


class RandomArchives(RandomLifecycles):
    """One such lake's life."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = ArchivedLake(
            other_catalogs=("theirs",), has_cold=True, account=business(cold="all")
        )
        self.engines = Engines(self.lake)

    def teardown(self) -> None:
        super().teardown()
        if not self.is_broken:
            self.lake.check_cold()


def test_random_lives_keep_every_invariant_and_all_that_cold_should_have() -> None:
    live(RandomArchives, lives=examples(8), moves=20)
