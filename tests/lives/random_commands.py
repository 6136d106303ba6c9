"""Commands that people give to Meltline, chosen by small numbers, and what must come of each."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from meltline.app.catalog.dropped import dropped_tables
from meltline.app.clone.clone import clone
from meltline.app.clone.shares import create_share, drop_share, list_shares, update_share
from meltline.app.drop.drop import drop
from meltline.app.drop.recover import recover
from meltline.app.drop.undrop import undrop
from meltline.app.retention.consumers import remove_consumer, set_consumer
from meltline.app.retention.leases import acquire_lease
from meltline.domain.clone.shares import Origin, Share, read_origin
from meltline.domain.errors import (
    ConsumerAhead,
    FilesClaimed,
    LockHeld,
    MeltlineError,
    MetadataUnreadable,
    NameConflict,
    NamespaceNotFound,
    ObjectDropped,
    OutsideRetention,
    RecoveryImpossible,
    TableNotFound,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import Moment, PointSide, TravelPoint
from tests.lake.lake import DAY, Table
from tests.lives.oracle import Story, ancestry
from tests.lives.watched_changes import WRITERS
from tests.lives.watched_lake import WINDOW, WatchedLake

One = TypeVar("One")
DAY_MS = 86_400_000
_RECOVERY = re.compile(r"`meltline recover (\S+)@(\d+) --as .* until \S+ at least")


def chosen(options: Sequence[One], number: int) -> One:
    return options[number % len(options)]


class Commands:
    """Readers come and go, tables are dropped, brought back, cloned, shared and set otherwise."""

    def __init__(
        self,
        lake: WatchedLake,
        new_file: Callable[[], str],
        free_name: Callable[[str], TableName | None],
    ) -> None:
        self.lake = lake
        self._new_file = new_file
        self._free_name = free_name

    def lease(self, table: Table, number: int) -> None:
        if table.snapshots and table.name.catalog == "lake":
            ttl, snapshot = (1 + number % 7) * DAY, chosen(table.snapshots, number)
            with suppress(MeltlineError):  # a table that cannot be read, a lock
                acquire_lease(self.lake.services(), table.name, snapshot, ttl)

    def read_on(self, table: Table, number: int) -> None:
        """A reader has read to a snapshot: a new one, or on from where it stood, or not at all."""
        self._read_to(table, number, reset=False)

    def read_from_the_beginning(self, table: Table, number: int) -> None:
        """A reader begins with the oldest snapshot that is there, and takes its time."""
        if table.snapshots:
            oldest = len(table.snapshots) * 2 * (number // 2)
            self._read_to(table, oldest + number % 2, reset=True, days=20)

    def read_again(self, table: Table, number: int) -> None:
        """A reader is set to any snapshot, back or to another line."""
        self._read_to(table, number, reset=True)

    def _read_to(self, table: Table, number: int, *, reset: bool, days: int = 0) -> None:
        if not table.snapshots or table.name.catalog != "lake" or not self._all_listed():
            return
        name, snapshot = f"c{number % 2}", chosen(table.snapshots, number // 2)
        before = table.refs.get(f"consumer__{name}")
        keep = (days or 1 + number % 20) * DAY
        with suppress(MetadataUnreadable, FilesClaimed):
            try:
                made = set_consumer(
                    self.lake.services(), table.name, name, snapshot,
                    expires_after=keep, reset=reset,
                )  # fmt: skip
            except ConsumerAhead:
                line = [s["snapshot-id"] for s in ancestry(table.document, snapshot)]
                assert before and not reset and before["snapshot-id"] not in line
                return
            assert made.ends_at == self.lake.clock.moment + keep
            assert table.refs[f"consumer__{name}"]["snapshot-id"] == snapshot

    def stop_reading(self, table: Table, number: int) -> None:
        if f"consumer__c{number % 2}" in table.refs and table.name.catalog == "lake":
            with suppress(MetadataUnreadable):
                remove_consumer(self.lake.services(), table.name, f"c{number % 2}")

    def drop_by_command(self, table: Table, number: int) -> None:
        if table.name.catalog == "lake" and self._all_listed():
            stories, dates = dict(self.lake.stories), dict(self.lake.restorable)
            self.lake.will_drop(table)
            try:
                drop(self.lake.services(), str(table.name))
            except LockHeld:  # a run works on it, and it stands
                self.lake.stories, self.lake.restorable = stories, dates
                raise

    def undrop_by_command(self, number: int) -> None:
        """One that was dropped, whoever did it, comes back as it was, if its name is free."""
        waiting = dropped_tables(self.lake.services(), self.lake.catalogs["lake"].listing())
        if not waiting or not self._all_listed():
            return
        found = chosen(waiting, number)
        try:
            undrop(self.lake.services(), str(found.drop.object))
        except NameConflict:
            pass
        except OutsideRetention as refused:
            self._recover_as_promised(refused.next)

    def _recover_as_promised(self, words: str) -> None:
        """What is said to be there "at least" until a time is given, but for what others took."""
        name, promised = self._free_name("lake"), _RECOVERY.search(words)
        if name is None or promised is None:
            return
        if name.namespace not in self.lake.catalogs["lake"].listing().namespaces:
            return  # a person makes one first
        try:
            done = recover(
                self.lake.services(), promised[1], str(name), reason="promised",
                snapshot_id=int(promised[2]),
            )  # fmt: skip
        except RecoveryImpossible as odd:
            assert self.lake.spoilt, f"{promised[0]}, and it was refused: {odd}, {odd.found}"
            return
        self.lake.stories[name] = Story()
        taken = set(done.missing) & set(self.lake.deleter.deleted)
        assert not taken, f"{promised[0]}, and purged: {sorted(taken)}"

    def clone_by_command(self, table: Table, number: int) -> None:
        """A table as it is, or was some days ago: exactly that, or nothing."""
        name, before = self._free_name("lake"), self.lake.locations()
        if table.name.catalog != "lake" or name is None or not self._all_listed():
            return
        at = self.lake.clock.moment - (number // 2) % 12 * DAY / 4
        point = TravelPoint(PointSide.AT, Moment(at)) if number % 2 else None
        held = self.lake.stories[table.name].answering(at, at) if point else set()
        try:
            clone(self.lake.services(), str(table.name), str(name), point=point)
        except OutsideRetention:
            assert self.lake.locations() == before, "a clone that was refused left something"
            return
        made = Table(self.lake, name)
        self.lake.stories[name] = Story()
        assert not held or set(made.snapshots) <= held, f"{name}: not what {table.name} held"
        assert made.metadata_location not in before.values() and made.uuid != table.uuid

    def share(self, table: Table, number: int) -> None:
        """A table, or all of its database, by hand or with every run."""
        name = f"s{number % 2}"
        there = self.lake.catalogs["lake"].listing().namespaces
        if table.name.catalog != "lake" or (name,) in there or not self._all_listed():
            return
        source = chosen((str(table.name), "lake.air"), number // 2)
        create_share(self.lake.services(), name, source, auto=number % 3 == 0)

    def update_share(self, number: int) -> None:
        if share := self._a_share(number):
            with suppress(ObjectDropped, TableNotFound, NamespaceNotFound):
                update_share(self.lake.services(), share.name)
                shares = list_shares(self.lake.services())
                (tables,) = (found.tables for found in shares if found.share.name == share.name)
                late = [str(table.table) for table in tables if table.condition != "current"]
                assert not late, f"an update has left tables of a share as they were: {late}"

    def write_to_share(self, number: int) -> None:
        if share := self._a_share(number):
            within = [n for n in sorted(self.lake.locations()) if share.place.covers(n)]
            if within:
                Table(self.lake, chosen(within, number)).append(self._new_file())

    def drop_share(self, number: int) -> None:
        if share := self._a_share(number):
            copies = [table for table in self.lake.registered() if share.place.covers(table.name)]
            origins = [read_origin(table.document["properties"]) for table in copies]
            drop_share(self.lake.services(), share.name)
            for table in self.lake.registered():
                if Origin(table.name, table.uuid) in origins:
                    assert f"share__{share.name}" not in table.refs

    def _a_share(self, number: int) -> Share | None:
        if not self._all_listed():
            return None
        shares = [found.share for found in list_shares(self.lake.services())]
        return chosen(shares, number) if shares else None

    def _all_listed(self) -> bool:
        return not any(catalog.unlistable for catalog in self.lake.catalogs.values())

    def retention(self, table: Table, number: int) -> None:
        table.edit(lambda d: d["properties"].update({WINDOW: str(chosen((0, 1, 7, 30), number))}))

    def writer_keep(self, table: Table, number: int) -> None:
        table.edit(
            lambda d: d["properties"].update({WRITERS: f"{chosen((0, 2, 12, 30), number)}d"})
        )

    def fewest(self, table: Table, number: int) -> None:
        fewest = str(1 + number % 3)
        table.configure(history__expire__min_snapshots_to_keep=fewest)

    def ref_age(self, table: Table, number: int) -> None:
        table.configure(history__expire__max_ref_age_ms=str((1 + number % 20) * DAY_MS))
