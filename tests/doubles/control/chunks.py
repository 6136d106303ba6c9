"""Chunks, their replication and their policies, in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meltline.adapters.sql_ledger import refusals
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType, require_fits
from meltline.domain.chunks.sync import TableSync, TrackedTable
from meltline.domain.grouping import grouped
from meltline.ports import ChunkSum, DropSum
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryChunks:
    """The port `ChunkLedger`."""

    database: MemoryDatabase
    tables: dict[str, TrackedTable] = field(default_factory=dict)
    rows: dict[str, dict[str, Chunk]] = field(default_factory=dict)

    def tracked(self, uuids: Collection[str] | None = None) -> Sequence[TrackedTable]:
        with self.database.reading():
            tables = [t for t in self.tables.values() if uuids is None or t.table_uuid in uuids]
        return sorted(tables, key=lambda tracked: (tracked.table, tracked.table_uuid))

    def of(self, table_uuid: str, *, resident: bool = False) -> Mapping[str, Chunk]:
        with self.database.reading():
            chunks = sorted(self.rows.get(table_uuid, {}).items())
        return {key: chunk for key, chunk in chunks if chunk.is_resident or not resident}

    def sums(self) -> Sequence[ChunkSum]:
        with self.database.reading():
            every = [chunk for of_table in self.rows.values() for chunk in of_table.values()]
        together = grouped(every, lambda chunk: (chunk.table_uuid, chunk.status))
        return [
            ChunkSum(
                uuid,
                status,
                len(alike),
                sum(chunk.rows for chunk in alike),
                sum(chunk.bytes for chunk in alike),
                _newest_write(alike),
            )
            for (uuid, status), alike in sorted(together.items())
        ]

    def drop_sums(self) -> Sequence[DropSum]:
        with self.database.reading():
            every = [chunk for of_table in self.rows.values() for chunk in of_table.values()]
        dropped = [chunk for chunk in every if chunk.was_dropped]
        together = grouped(dropped, lambda chunk: (chunk.table_uuid, chunk.drop_plan))
        return [
            DropSum(uuid, plan, sum(chunk.dropped_bytes for chunk in alike))
            for (uuid, plan), alike in sorted(together.items())
        ]

    def advance(
        self,
        before: TrackedTable | None,
        after: TrackedTable,
        chunks: Collection[Chunk],
        *,
        anew: bool = False,
    ) -> None:
        with self.database.writing():
            stored = self.tables.get(after.table_uuid)
            is_as_read = (
                stored is not None and stored.walked == before.walked if before else stored is None
            )
            if not is_as_read:
                raise refusals.walked_on(after)
            kept = {} if anew else self.rows.get(after.table_uuid, {})
            refusals.require_bases(kept, chunks)
            self.tables[after.table_uuid] = after
            self.rows[after.table_uuid] = kept | {chunk.name: chunk for chunk in chunks}

    def move(self, moves: Sequence[tuple[Chunk, Chunk]]) -> Sequence[bool]:
        if not moves:
            return []
        with self.database.writing():
            return [self._move(before, after) for before, after in moves]

    def _move(self, before: Chunk, after: Chunk) -> bool:
        of_table = self.rows.get(before.table_uuid, {})
        chunk = refusals.chunk_after(before, after, of_table.get(before.name))
        if chunk is not None:
            of_table[chunk.name] = chunk
        return chunk is not None

    def forget(self, table_uuid: str) -> None:
        with self.database.writing():
            self.tables.pop(table_uuid, None)
            self.rows.pop(table_uuid, None)


@dataclass
class MemorySyncs:
    """The port `SyncLedger`."""

    database: MemoryDatabase
    rows: dict[str, TableSync] = field(default_factory=dict)

    def all(self, uuids: Collection[str] | None = None) -> Sequence[TableSync]:
        with self.database.reading():
            syncs = [s for s in self.rows.values() if uuids is None or s.table_uuid in uuids]
        return sorted(syncs, key=lambda sync: (sync.table, sync.table_uuid))

    def save(self, before: TableSync | None, after: TableSync) -> None:
        with self.database.writing():
            stored = self.rows.get(after.table_uuid)
            if _compared(stored) != _compared(before):
                raise refusals.sync_moved(after)
            self.rows[after.table_uuid] = after


@dataclass
class MemoryChunkPolicies:
    """The port `ChunkPolicyLedger`."""

    database: MemoryDatabase
    chunks: MemoryChunks
    rows: dict[tuple[str, PolicyType], ChunkPolicy] = field(default_factory=dict)
    number: int = 0

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ChunkPolicy]:
        with self.database.reading():
            policies = [p for p in self.rows.values() if uuids is None or p.table_uuid in uuids]
        return sorted(policies, key=lambda policy: policy.id)

    def add(self, policy: ChunkPolicy) -> ChunkPolicy:
        with self.database.writing():
            tracked = self.chunks.tables.get(policy.table_uuid)
            table = str(tracked.table) if tracked else policy.table_uuid
            require_fits(table, policy, self.all([policy.table_uuid]))
            self.number += 1
            stored = replace(policy, id=self.number)
            self.rows[policy.table_uuid, policy.type] = stored
            return stored

    def remove(self, table_uuid: str, type: PolicyType) -> bool:
        with self.database.writing():
            return self.rows.pop((table_uuid, type), None) is not None


def _newest_write(chunks: Sequence[Chunk]) -> int | None:
    places = [chunk.last_write for chunk in chunks if chunk.last_write is not None]
    return max(places) if len(places) == len(chunks) else None


def _compared(sync: TableSync | None) -> object:
    return sync and (sync.generation, sync.state, sync.committed, sync.heartbeat)
