"""What people and other tools do about rollups, by small numbers."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType

from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.rollups.declare import RollupWish, create_rollup, invalidate
from meltline.app.chunks.rollups.drop import drop_rollup
from meltline.app.services import RunContext
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.errors import (
    InvalidHorizons,
    LockHeld,
    MeltlineError,
    NameConflict,
    NotChunked,
    PolicyExists,
    RollupInvalid,
    RollupRefused,
)
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import ChunkTable, reading
from tests.chunks.chunked_lake import ChunkedLake
from tests.chunks.rolled_up import KINDS
from tests.doubles.chunks.commits import TableCommit, TableWriter
from tests.doubles.chunks.rows import Row, TableRows
from tests.lake.lake import DAY, MINUTE, T0, Table
from tests.lives.random_commands import chosen

DECLARED = (
    "hourly", "hourly", "often", "daily", "daily", "three_days", "monthly", "days_of_hours",
    "days_of_hours", "weeks_of_days",
)  # fmt: skip
ABOUT_ROLLUPS = (
    "declare", "declare", "declare", "invalidate", "invalidate", "drop_rollup", "retain",
    "compact_rollup", "cut_rollup", "append_close",
)  # fmt: skip
_MAY_BE = (
    InvalidHorizons, LockHeld, NameConflict, NotChunked, PolicyExists, RollupInvalid,
    RollupRefused,
)  # fmt: skip


class RollupEngines:
    """Acts on a lake's rollups."""

    def __init__(self, lake: ChunkedLake) -> None:
        self.lake = lake
        self._ids = iter(range(100_000, 200_000))

    def act(self, action: str, number: int) -> None:
        """One action; where it does not fit, nothing happens."""
        if self.lake.hot is not None:
            with suppress(*_MAY_BE):
                getattr(self, action)(number)

    def rollup(self, number: int) -> Rollup | None:
        known = self.lake.rolled_up.rollups()
        return chosen(known, number) if known else None

    # --- people --------------------------------------------------------------------------------

    def declare(self, number: int, services: RunContext | None = None) -> None:
        """One kind that there is not yet, with what it reads."""
        name = chosen(DECLARED, number)
        known = {rollup.name for rollup in self.lake.rolled_up.rollups()}
        for needed in _with_below(name):
            if needed not in known:
                wish = RollupWish(needed, KINDS[needed].query)
                create_rollup(services or self.lake.services(), wish, self._resolve)

    def _resolve(self, parts: Sequence[str]) -> TableName:
        hot = self.lake.hot
        if parts[-1] == "chunks" and hot is not None:
            return hot.name  # whatever it is called now
        return TableName("lake", ("air",), parts[-1])

    def invalidate(self, number: int) -> None:
        if rollup := self.rollup(number):
            start = T0 + (number % 13) * DAY + (number % 7) * timedelta(hours=5)
            invalidate(self.lake.services(), rollup.name, start, start + (1 + number % 3) * DAY)

    def drop_rollup(self, number: int) -> None:
        rollup = self.rollup(number // 3)
        if rollup is None or number % 3:
            return
        stories, dates = dict(self.lake.stories), dict(self.lake.restorable)
        own = [t for t in self.lake.registered() if t.uuid == rollup.table_uuid]
        for table in own:
            self.lake.will_drop(table)
        try:
            drop_rollup(self.lake.services(), rollup.name)
        except MeltlineError:
            self.lake.stories, self.lake.restorable = stories, dates
            raise

    def retain(self, number: int) -> None:
        """A policy for the rollup's own table."""
        if rollup := self.rollup(number):
            wish = PolicyWish(PolicyType.RETENTION, drop_after=f"{5 + number % 9}d")
            add_policy(self.lake.services(), rollup.table, wish)

    # --- other tools ---------------------------------------------------------------------------

    def compact_rollup(self, number: int) -> None:
        """Its rows in as few files as its partitions allow."""
        table = self._table(number)
        if table is not None and table.head >= 0:
            own = TableRows(table.name, table.document, self.lake.store)
            self.put(table.name, "", own.rows_at(table.head), "replace")

    def put(
        self,
        name: TableName,
        path: str,
        rows: Sequence[Row],
        operation: str,
        summary: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Rows in the place of a file, or of all; `summary` is what the commit says of itself."""
        catalog = self.lake.catalogs["lake"]
        writer = TableWriter({"lake": catalog}, self.lake.store, self.lake.clock, self.lake.next_id)
        base, own = writer.load(name)
        live = own.live(own.document["refs"]["main"]["snapshot-id"])
        gone = {e.path for e in live if e.kind is FileKind.DATA and path in ("", e.path)}
        commit = TableCommit(
            own,
            self.lake.store,
            self.lake.clock,
            self.lake.next_id(),
            operation,
            summary=summary,
            added=writer.files(own, TimeColumn("bucket", 1, ColumnKind.TIMESTAMPTZ), rows),
            removed=frozenset(gone),
        )
        catalog.commit(name, base, commit.document())

    def cut_rollup(self, number: int) -> None:
        """Its partitions become months: a compaction puts many buckets into a file."""
        if table := self._table(number):

            def change(document: dict[str, object]) -> None:
                specs, last = document["partition-specs"], document["last-partition-id"]
                assert isinstance(specs, list) and isinstance(last, int)
                field = {"source-id": 1, "field-id": last + 1, "name": "m", "transform": "month"}
                id = max(spec["spec-id"] for spec in specs) + 1
                specs.append({"spec-id": id, "fields": [field]})
                document |= {"default-spec-id": id, "last-partition-id": last + 1}

            table.edit(change)

    def _table(self, number: int) -> Table | None:
        rollup = self.rollup(number)
        for table in self.lake.registered():
            if rollup and table.uuid == rollup.table_uuid and table.name == rollup.table:
                return table
        return None

    def append_close(self, number: int) -> None:
        """Rows of one hour, in several buckets of it."""
        table: ChunkTable | None = self.lake.hot
        if table is None:
            return
        day = max(0, (self.lake.clock.moment - T0) // DAY - number % 5)
        times = [day + 0.5 + minutes * (MINUTE / DAY) for minutes in (5, 25, 26, 55)]
        rows = [reading(next(self._ids), time, number % 2) for time in times]
        self.lake.accepted.rows |= set(rows)
        table.append_rows(*rows)
        self.lake.accepted.took(table.head)


def _with_below(name: str) -> list[str]:
    below = KINDS[name].below
    return [*(_with_below(below) if below else []), name]
