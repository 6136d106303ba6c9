"""Rollups: what the ledger knows of them, and what aggregates them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.rollup import Rollup, RollupQuery, StaleBuckets
from meltline.domain.iceberg.names import TableName


class RollupReader(Protocol):
    """Which rollups are declared."""

    def all(self, sources: Collection[str] | None = None) -> Sequence[Rollup]:
        """By name; of some registrations alone, None is all."""
        ...


class RollupLedger(RollupReader, Protocol):
    """Remembers rollups. Only here stands what a person has said of them."""

    def add(self, rollup: Rollup) -> Rollup:
        """Stores one under an id of its own, which it returns it with.

        Raises:
            NameConflict: There is one of that name: of two people one comes first.
        """
        ...

    def save(self, before: Rollup, after: Rollup) -> bool:
        """Changes one where it is as it was read; False where somebody else has changed it."""
        ...

    def remove(self, name: str) -> bool:
        """Forgets one; False where there is none."""
        ...


@dataclass(frozen=True)
class RollupRefresh:
    """What one refresh is to do, in one commit that everybody sees at once.

    Attributes:
        query: The aggregation.
        source: What it reads.
        snapshot_id: As of when; None of a table without a snapshot.
        layout: The source's: its column of times.
        table: The rollup's own table; `base` is its metadata file that this was decided on.
        stale: Which buckets are aggregated anew.
        properties: Of the rollup's table from then on, beside those that it has.
    """

    query: RollupQuery
    source: TableName
    snapshot_id: int | None
    layout: ChunkLayout
    table: TableName
    base: str
    stale: StaleBuckets
    properties: Mapping[str, str]


@dataclass(frozen=True)
class RefreshOutcome:
    """What a refresh has done.

    Attributes:
        buckets: The starts of those whose rows are others now.
        rows: How many it wrote.
        files: How many it took away.
    """

    buckets: Sequence[datetime]
    rows: int
    files: int


class RollupEngine(Protocol):
    """Aggregates rows through the engine."""

    def create(
        self,
        table: TableName,
        query: RollupQuery,
        source: TableName,
        partition: Unit,
        properties: Mapping[str, str],
    ) -> None:
        """Makes the rollup's table, with the aggregation's columns and no rows.

        Raises:
            RollupInvalid: The engine cannot read the aggregation, or not over that source.
            NameConflict: Another table has the name.
        """
        ...

    def refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        """Aggregates stale buckets and replaces those whose rows differ; no other file is touched.

        Returns:
            What was done; None where the rollup's table has moved on, and nothing was published.

        Raises:
            RollupRefused: The engine cannot read or write one of the tables.
            SyncRefused: Somebody deletes rows in the rollup's table.
            MeltlineError: Nobody knows what became of it: the table's properties tell.
        """
        ...
