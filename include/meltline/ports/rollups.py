"""Protocols of rollups: their declarations in the ledger, and the engine that refreshes them.

`app/chunks` calls them; `adapters/sql_ledger` and `adapters/chunks` implement them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.rollup import Rollup, RollupQuery, StaleBuckets
from meltline.domain.iceberg.names import TableName


class RollupReader(Protocol):
    """Reads which rollups are declared."""

    def all(self, sources: Collection[str] | None = None) -> Sequence[Rollup]:
        """Returns rollups by name, of some source registrations or of all (None)."""
        ...


class RollupLedger(RollupReader, Protocol):
    """Stores rollups. Their declarations exist only here."""

    def add(self, rollup: Rollup) -> Rollup:
        """Stores a rollup under a new id, and returns it with the id.

        Raises:
            NameConflict: Another rollup has that name; of two concurrent requests one fails.
        """
        ...

    def save(self, before: Rollup, after: Rollup) -> bool:
        """Changes a rollup by compare-and-swap; False if another run has changed it."""
        ...

    def remove(self, name: str) -> bool:
        """Removes a rollup; False if there is none."""
        ...


@dataclass(frozen=True)
class RollupRefresh:
    """One refresh, published in one commit.

    Attributes:
        query: The aggregation.
        source: The source table.
        snapshot_id: The source's snapshot; None for a table without one.
        layout: The source's layout, with its column of times.
        table: The rollup's own table; `base` is its metadata file on which this was decided.
        stale: The buckets to aggregate again.
        properties: Properties to set on the rollup's table; others stay.
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
    """The result of a refresh.

    Attributes:
        buckets: The starts of the buckets whose rows changed.
        rows: Rows written.
        files: Files removed.
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
        """Creates the rollup's table, with the aggregation's columns and no rows.

        Raises:
            RollupInvalid: The engine cannot parse the aggregation, or not on that source.
            NameConflict: Another table has the name.
        """
        ...

    def refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        """Aggregates stale buckets and replaces those whose rows differ; no other file is touched.

        Returns:
            The result; None if the rollup's table has moved on, and nothing was published.

        Raises:
            RollupRefused: The engine cannot read or write one of the tables.
            SyncRefused: Another writer deletes rows in the rollup's table.
            MeltlineError: The outcome is unknown; the table's properties record it.
        """
        ...
