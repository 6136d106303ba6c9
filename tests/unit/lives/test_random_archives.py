"""Random lives of a lake whose history goes to cold: the lives of `test_random_lifecycles`, and
beside their invariants these two, held at every commit and after every step.

Nothing that the policy chooses leaves hot without a whole copy in cold, and cold never shrinks
(AR-30, AR-35, I-8). Copies are damaged and lost while their originals wait in failsafe, and others
commit to the archive: no original is deleted unless its copy is whole byte for byte, and nothing
hides a foreign commit. `MELTLINE_EXAMPLES=2000` looks longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st

from meltline.app.run.summary import Summary
from meltline.app.services import RunContext
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.archive.seals import foreign_to
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.names import TableName
from meltline.ports import CommitOutcome, Committer, DeleteOutcome, Deleter
from tests.lake.lake import COLD_WAREHOUSE, DAY, Table, business
from tests.lives.random_engines import Engines, chosen
from tests.lives.recorded import live, rule
from tests.lives.watched_lake import WatchedLake
from tests.seeds import beginnings
from tests.unit.lives.test_random_lifecycles import NUMBER, RandomLifecycles


@dataclass
class ArchivedLake(WatchedLake):
    """A watched lake, all of whose history is wanted in cold.

    Attributes:
        copies: Every file that was ever in cold, and what it held; metadata files aside.
        hurt: Those of them that have been damaged or lost, and were not made anew since.
        meddled: Tables of the archive to which somebody else has committed.
        archived: Every snapshot that was ever in cold, by the hot table's UUID.
    """

    copies: dict[str, bytes] = field(default_factory=dict)
    archived: set[tuple[str, int]] = field(default_factory=set)
    hurt: set[str] = field(default_factory=set)
    meddled: set[TableName] = field(default_factory=set)

    def services(self, **changes: Any) -> RunContext:
        built = super().services(**changes)
        deleter = _WatchOriginals(self, built.deleter)
        return replace(built, committer=_Watch(self, built.committer), deleter=deleter)

    def check(self) -> None:
        super().check()
        self.check_cold()

    def peek(self, path: str) -> bytes:
        return b"" if path in self.hurt else super().peek(path)

    def check_cold(self) -> None:
        there = {path: self.store.read(path) for path in self.paths(COLD_WAREHOUSE)}
        kept = {path: body for path, body in there.items() if "metadata.json" not in path}
        lost = {path for path, body in self.copies.items() if kept.get(path) != body}
        assert lost <= self.hurt, f"I-8: gone from cold, or changed: {sorted(lost - self.hurt)}"
        self.hurt = lost
        self.copies = kept | {path: self.copies[path] for path in lost}
        for name in self.meddled:
            assert foreign_to(self.document(self.cold.location(name))), f"{name}: hidden"
        found = set(self.in_cold())
        assert self.archived <= found, f"I-8: cold forgot {self.archived - found}"
        self.archived = found

    def in_cold(self) -> list[tuple[str, int]]:
        """The snapshots that cold has whole."""
        found, there = [], self.copies.keys() | self.paths(COLD_WAREHOUSE)
        for entry in self.cold.listing().entries:
            document = self.document(entry.metadata_location)
            uuid = document["properties"][COLD_OF]
            for snapshot in document["snapshots"]:
                files = set(self._walk(snapshot["manifest-list"]))
                assert files <= there
                found.append((uuid, snapshot["snapshot-id"]))
        return found

    def beyond_proof(self) -> set[str]:
        """Files whose copies are hurt, and of which nothing is left that these could be made of."""
        held = {one.why for one in self.control.places.withheld()}
        hurt = {path for path in self.rewritten if mirrored(path, COLD_WAREHOUSE) in self.hurt}
        return hurt if Why.UNPROVED in held else set()

    def hurt_a_copy(self, number: int, *, lose: bool) -> None:
        """A copy whose original waits in failsafe loses a bit, or all."""
        copies = [mirrored(path, COLD_WAREHOUSE) for path in sorted(self.waiting())]
        whole = [copy for copy in copies if copy in self.copies.keys() - self.hurt]
        if not whole:
            return
        path = chosen(whole, number)
        body = self.copies[path]
        if lose:
            self.store.delete([path])
        else:
            at = number % len(body)
            self.store.write(path, body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        self.hurt.add(path)

    def restore_copies(self) -> set[str]:
        """A person restores what cold lost of files that other tools have deleted; says which."""
        deleted = {mirrored(path, COLD_WAREHOUSE) for path in self.lost - self.everywhere()}
        for copy in self.hurt & deleted:
            self.store.write(copy, self.copies[copy])
        return self.hurt & deleted

    def meddle(self, number: int) -> None:
        """Somebody commits to a table of the archive."""
        names = sorted(entry.name for entry in self.cold.listing().entries)
        if not names:
            return
        name = chosen(names, number)
        base = self.cold.location(name)
        document = self.document(base)
        document["properties"]["owner"] = f"somebody {number}"
        assert self.cold.commit(name, base, document)
        self.meddled.add(name)


@dataclass
class _WatchOriginals:
    """Holds each delete against the copy at that very moment: whole, byte for byte."""

    lake: ArchivedLake
    inner: Deleter

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        lake = self.lake
        before = {file.path: self._body(file.path) for file in files}
        outcomes = self.inner.delete(files, keys_per_second)
        for path in (one.path for one in outcomes if not one.error and not one.replaced):
            copy = mirrored(path, COLD_WAREHOUSE)
            body, original = self._body(copy), before[path]
            if copy in lake.copies:
                assert body == lake.copies[copy], f"{path} goes, its copy is not whole"
            if None not in (body, original) and path.endswith(".parquet"):
                is_another = path in lake.rewritten  # than the one that was copied, and swept
                assert original == body or is_another, f"{path} goes, its copy is another"
        return outcomes

    def _body(self, path: str) -> bytes | None:
        store = self.lake.store
        return store.read(path) if store.size(path) is not None else None


@dataclass
class _Watch:
    """Holds each expiration against cold at the moment of its commit."""

    lake: ArchivedLake
    inner: Committer

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        table = plan.table
        lake, hot = self.lake, Table(self.lake, table)
        there = set(lake.in_cold())
        entries = {known.uuid for known in lake.control.registrations.all() if known.name == table}
        for snapshot_id in set(plan.snapshots) & set(hot.snapshots):
            is_there = any((entry, snapshot_id) in there for entry in entries)
            assert is_there, f"{table}: {snapshot_id} would be lost"
            for path in lake._walk(hot.manifest_list(snapshot_id)):
                copy = mirrored(path, COLD_WAREHOUSE)
                has_copy = lake.store.size(copy) is not None
                assert has_copy or copy in lake.hurt, f"{table}: {path} has no copy"
        return self.inner.expire(plan, base_location)

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return self.inner.confirm(plan)

    def withdraw(self, plan: Plan) -> bool:
        return self.inner.withdraw(plan)


class RandomArchives(RandomLifecycles):
    """One such lake's life."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = ArchivedLake(
            other_catalogs=("theirs",), has_cold=True, account=business(cold="all")
        )
        self.engines = Engines(self.lake)

    @rule(number=NUMBER, lose=st.booleans())
    def a_copy_is_hurt(self, number: int, lose: bool) -> None:
        self.lake.check()
        self.lake.hurt_a_copy(number, lose=lose)

    @rule(number=NUMBER)
    def somebody_commits_to_the_archive(self, number: int) -> None:
        self.lake.meddle(number)

    def night(self, services: RunContext | None = None) -> Summary:
        """Where cold has lost copies of files that are alive, a gate refuses for one night.

        Nothing looks for them before a purge asks (docs/decisions/027). Where another tool has
        deleted the original as well it refuses until a person has restored the copy.
        """
        is_hurt = bool(self.lake.hurt)
        summary = super().night(services)
        if is_hurt and refused_for_cold(summary):
            self.pass_time(DAY)
            summary = super().night()
        if refused_for_cold(summary) and self.lake.restore_copies():
            self.pass_time(DAY)
            return super().night()
        return summary

    def teardown(self) -> None:
        super().teardown()
        if not self.is_broken:
            self.lake.check_cold()


def refused_for_cold(summary: Summary) -> bool:
    """Whether gates have refused because of cold, and for nothing else."""
    refused = [line["refused"] for line in summary.as_json()["tables"] if line["refused"]]
    return bool(refused) and all("cold_" in why for why in refused)


@pytest.mark.slow("random lives")
def test_random_lives_keep_every_invariant_and_all_that_cold_should_have() -> None:
    """The same ones each time, as those with copies, while lives of this kind are open."""
    for begin, lives in beginnings(few=2, many=8, draws_new=False):
        live(RandomArchives, lives=lives, moves=20, begin=begin)
