"""Stores chunks, their replication and their policies in SQL, for the control ledger."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, func, select, text
from sqlalchemy import update as update_of

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.refusals import (
    chunk_after,
    require_bases,
    sync_moved,
    walked_on,
)
from meltline.adapters.sql_ledger.rows import (
    from_row,
    insert_first,
    rows_in,
    to_row,
    upsert,
)
from meltline.adapters.sql_ledger.tables.chunk_tables import (
    chunk_policies,
    chunked_tables,
    chunks,
    table_syncs,
)
from meltline.domain.chunks.chunk import WERE_DROPPED, Chunk, ChunkStatus
from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType, require_fits
from meltline.domain.chunks.sync import Position, TableSync, TrackedTable
from meltline.domain.grouping import grouped
from meltline.ports import ChunkSum, DropSum


@dataclass(frozen=True)
class TrackedRows:
    """The port `ChunkLedger`: a writer of chunks locks their table's row first."""

    database: Database

    def tracked(self, uuids: Collection[str] | None = None) -> Sequence[TrackedTable]:
        with self.database.reading() as connection:
            tables = [_tracked(row) for row in _of_tables(connection, chunked_tables, uuids)]
        return sorted(tables, key=lambda tracked: (tracked.table, tracked.table_uuid))

    def of(self, table_uuid: str, *, resident: bool = False) -> Mapping[str, Chunk]:
        query = select(chunks).where(chunks.c.table_uuid == table_uuid).order_by(chunks.c.name)
        if resident:
            query = query.where(chunks.c.status != ChunkStatus.DROPPED)
        return {chunk.name: chunk for chunk in self.database.records(Chunk, query)}

    def sums(self) -> Sequence[ChunkSum]:
        with self.database.reading() as connection:
            rows = connection.execute(_sums()).all()
        return [
            ChunkSum(uuid, status, n, int(rows), int(bytes), last if stamped else None)
            for uuid, status, n, rows, bytes, last, stamped in rows
        ]

    def drop_sums(self) -> Sequence[DropSum]:
        key = (chunks.c.table_uuid, chunks.c.drop_plan)
        query = select(*key, func.sum(chunks.c.dropped_bytes)).group_by(*key).order_by(*key)
        with self.database.reading() as connection:
            rows = connection.execute(query.where(chunks.c.status.in_(WERE_DROPPED))).all()
        return [DropSum(uuid, plan, int(size)) for uuid, plan, size in rows]

    def advance(
        self,
        before: TrackedTable | None,
        after: TrackedTable,
        chunks: Collection[Chunk],
        *,
        anew: bool = False,
    ) -> None:
        with self.database.writing() as connection:
            if not _walk(connection, before, after):
                raise walked_on(after)
            if anew:
                _forget_chunks(connection, after.table_uuid)
            elif before is not None:
                stored = _stored(connection, after.table_uuid, chunks)
                require_bases(stored, chunks)
            _save(connection, chunks)

    def move(self, moves: Sequence[tuple[Chunk, Chunk]]) -> Sequence[bool]:
        if not moves:
            return []
        with self.database.writing() as connection:
            stored = _locked(connection, [before for before, _ in moves])
            moved: dict[tuple[str, str], Chunk] = {}
            answers = []
            for before, after in moves:
                key = (before.table_uuid, before.name)
                chunk = chunk_after(before, after, moved.get(key, stored.get(key)))
                answers.append(chunk is not None)
                if chunk is not None:
                    moved[key] = chunk
            _save(connection, moved.values())
        return answers

    def forget(self, table_uuid: str) -> None:
        with self.database.writing() as connection:
            tracked = chunked_tables.c.table_uuid == table_uuid
            connection.execute(delete(chunked_tables).where(tracked))
            _forget_chunks(connection, table_uuid)


@dataclass(frozen=True)
class SyncRows:
    """The port `SyncLedger`."""

    database: Database

    def all(self, uuids: Collection[str] | None = None) -> Sequence[TableSync]:
        with self.database.reading() as connection:
            syncs = [_sync(row) for row in _of_tables(connection, table_syncs, uuids)]
        return sorted(syncs, key=lambda sync: (sync.table, sync.table_uuid))

    def save(self, before: TableSync | None, after: TableSync) -> None:
        row = _row_with(after, "committed", after.committed)
        with self.database.writing() as connection:
            if before is None:
                is_saved = insert_first(connection, table_syncs, row)
            else:
                seen = _row_with(before, "committed", before.committed)
                names = ("table_uuid", "generation", "state", "heartbeat", *_POSITION["committed"])
                is_saved = _update_if(connection, table_syncs, _same(table_syncs, seen, names), row)
            if not is_saved:
                raise sync_moved(after)


@dataclass(frozen=True)
class ChunkPolicyRows:
    """The port `ChunkPolicyLedger`."""

    database: Database

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ChunkPolicy]:
        with self.database.reading() as connection:
            policies = [_policy(row) for row in _of_tables(connection, chunk_policies, uuids)]
        return sorted(policies, key=lambda policy: policy.id)

    def add(self, policy: ChunkPolicy) -> ChunkPolicy:
        uuid = policy.table_uuid
        row = to_row(policy)
        del row["id"]
        with self.database.writing() as connection:
            # Two policies of two types may contradict each other; no constraint can express that.
            if connection.dialect.name == "postgresql":
                connection.execute(text("LOCK TABLE chunk_policies IN SHARE ROW EXCLUSIVE MODE"))
            standing = [_policy(r) for r in _of_tables(connection, chunk_policies, [uuid])]
            named = select(chunked_tables.c.table).where(chunked_tables.c.table_uuid == uuid)
            require_fits(str(connection.execute(named).scalar() or uuid), policy, standing)
            number = connection.execute(
                chunk_policies.insert().values(row).returning(chunk_policies.c.seq)
            ).scalar_one()
        return replace(policy, id=number)

    def remove(self, table_uuid: str, type: PolicyType) -> bool:
        c = chunk_policies.c
        where = (c.table_uuid == table_uuid, c.type == type)
        return bool(self.database.change(delete(chunk_policies).where(*where)))


_POSITION = {
    role: tuple(f"{role}_{part}" for part in ("generation", "place", "snapshot"))
    for role in ("walked", "committed")
}


def _row_with(record: Any, role: str, position: Position | None) -> dict[str, object]:
    """Returns a record's row, with its position in three columns."""
    row = to_row(record)
    del row[role]
    parts = (
        (position.generation, position.place, position.snapshot_id)
        if position
        else (None, None, None)
    )
    return row | dict(zip(_POSITION[role], parts, strict=True))


def _position(facts: dict[str, Any], role: str) -> Position | None:
    generation, place, snapshot_id = (facts.pop(name) for name in _POSITION[role])
    return None if place is None else Position(generation, place, snapshot_id)


_LAYOUT = ("column", "field_id", "kind", "pattern", "type", "unit")


def _tracked_row(tracked: TrackedTable) -> dict[str, object]:
    row = _row_with(tracked, "walked", tracked.walked)
    del row["layout"]
    column = tracked.layout.column
    of_layout = (column.name, column.field_id, column.kind, column.pattern, column.type)
    return row | dict(zip(_LAYOUT, (*of_layout, tracked.layout.unit), strict=True))


def _tracked(row: Row[Any]) -> TrackedTable:
    facts = dict(row._mapping)
    *of_column, unit = (facts.pop(name) for name in _LAYOUT)
    walked = _position(facts, "walked")
    return TrackedTable(layout=ChunkLayout(TimeColumn(*of_column), unit), walked=walked, **facts)


def _sync(row: Row[Any]) -> TableSync:
    facts = dict(row._mapping)
    return TableSync(committed=_position(facts, "committed"), **facts)


def _policy(row: Row[Any]) -> ChunkPolicy:
    facts = dict(row._mapping)
    return ChunkPolicy(id=facts.pop("seq"), **facts)


def _of_tables(
    connection: Connection, table: Table, uuids: Collection[str] | None
) -> Iterable[Row[Any]]:
    """Returns the rows of some registrations; None is all."""
    query = select(table)
    if uuids is None:
        return connection.execute(query)
    return rows_in(connection, query, table.c.table_uuid, uuids)


def _same(table: Table, row: Mapping[str, Any], names: Iterable[str]) -> list[ColumnElement[bool]]:
    """Returns conditions that a stored row equals a row in these columns; null equals null."""
    return [table.c[name].is_not_distinct_from(row[name]) for name in names]


def _update_if(
    connection: Connection,
    table: Table,
    where: Sequence[ColumnElement[bool]],
    row: Mapping[str, Any],
) -> bool:
    return bool(connection.execute(update_of(table).where(*where).values(row)).rowcount)


def _walk(connection: Connection, before: TrackedTable | None, after: TrackedTable) -> bool:
    """Stores a table's walked position; returns False if a concurrent run changed it."""
    row = _tracked_row(after)
    if before is None:
        return insert_first(connection, chunked_tables, row)
    names = ("table_uuid", *_POSITION["walked"])
    where = _same(chunked_tables, _tracked_row(before), names)
    return _update_if(connection, chunked_tables, where, row)


def _locked(connection: Connection, some: Iterable[Chunk]) -> dict[tuple[str, str], Chunk]:
    """Reads stored chunks and locks their tables' rows, so that no other run changes them."""
    by_table = grouped(some, lambda chunk: chunk.table_uuid)
    key = chunked_tables.c.table_uuid
    for _ in rows_in(connection, select(key).order_by(key).with_for_update(), key, by_table):
        pass
    return {
        (uuid, name): chunk
        for uuid, of_table in by_table.items()
        for name, chunk in _stored(connection, uuid, of_table).items()
    }


def _stored(connection: Connection, table_uuid: str, some: Iterable[Chunk]) -> dict[str, Chunk]:
    query = select(chunks).where(chunks.c.table_uuid == table_uuid)
    rows = rows_in(connection, query, chunks.c.name, (chunk.name for chunk in some))
    return {row.name: from_row(Chunk, row) for row in rows}


def _save(connection: Connection, some: Iterable[Chunk]) -> None:
    upsert(connection, chunks, [to_row(chunk) for chunk in some])


def _forget_chunks(connection: Connection, table_uuid: str) -> None:
    connection.execute(delete(chunks).where(chunks.c.table_uuid == table_uuid))


def _sums() -> Select[Any]:
    """Selects columns of `ix_chunks_sums` only: that index alone answers for a million chunks."""
    c = chunks.c
    number = func.count()
    columns = (
        number,
        func.sum(c.rows),
        func.sum(c.bytes),
        func.max(c.last_write),
    )
    query = select(c.table_uuid, c.status, *columns, func.count(c.last_write) == number)
    return query.group_by(c.table_uuid, c.status).order_by(c.table_uuid, c.status)
