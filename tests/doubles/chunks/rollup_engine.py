"""Rollups in memory: buckets that differ are staged with what stands beside them, and published."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.ranges import TimeRange, Unit
from meltline.domain.chunks.rollup import (
    NO_SNAPSHOT,
    ROLLUP_COMMIT,
    ROLLUP_HEAD,
    RollupQuery,
    StaleBuckets,
)
from meltline.domain.errors import RollupInvalid, RollupRefused, SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.units import to_millis
from meltline.ports.rollups import RefreshOutcome, RollupRefresh
from tests.doubles.chunks.aggregates import Values, aggregated, column_types
from tests.doubles.chunks.commits import TableCommit, TableWriter, published
from tests.doubles.chunks.rows import Row, TableRows, row


class MemoryRollupEngine:
    """The port `RollupEngine` over catalogs in memory.

    Args:
        writer: Writes to the catalog of the rollups and their sources.
    """

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer

    def create(
        self,
        table: TableName,
        query: RollupQuery,
        source: TableName,
        partition: Unit,
        properties: Mapping[str, str],
    ) -> None:
        """Makes the table beside its source. See the port.

        Raises:
            RollupInvalid: The source lacks a column.
            NameConflict: Another table has the name.
        """
        _, rows = self._writer.load(source)
        try:
            types = column_types(query, _types(rows))
        except KeyError as missing:
            raise RollupInvalid(
                f"the rollup's query cannot be carried out over {source}",
                object=str(table),
                expected="a query over the source's columns",
                found=f"column {missing}",
                next="mend the query",
            ) from missing
        number = self._writer.new_id()
        place = f"{rows.document['location'].rpartition('/')[0]}/{table.name}-{number}"
        document = _new_document(types, query, partition, place)
        document["table-uuid"] = str(UUID(int=number, version=4))
        document["last-updated-ms"] = to_millis(self._writer.clock.now())
        document["properties"] = dict(properties)
        first = f"{place}/metadata/00000-{number}.metadata.json"
        self._writer.store.write(first, json.dumps(document).encode())
        self._writer.catalogs[table.catalog].register(table, first)

    def refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        """Stages what differs, and publishes it by one compare-and-set. See the port.

        Raises:
            RollupRefused: One of the tables cannot be read.
        """
        try:
            return self._refresh(refresh)
        except (OSError, ValueError, KeyError, SyncRefused) as error:
            raise RollupRefused(
                f"{refresh.table} cannot be refreshed",
                object=str(refresh.table),
                expected="rows that can be read, and the columns of the query",
                found=f"{type(error).__name__}: {error}",
                next="it keeps its rows; mend its source, or declare it anew",
            ) from error

    def _refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        base, own = self._writer.load(refresh.table)
        if base != refresh.base:
            return None
        head = _head(own)
        change = _Change.of(refresh, own, self._aggregated(refresh))
        staged = base
        if change.buckets:
            commit = self._commit(refresh, own, change)
            head = commit.snapshot_id
            document: dict[str, Any] = commit.document(is_staged=True)
            at = self._swap(refresh.table, base, document)
            if at is None:
                return None
            staged = at
        return self._published(refresh, staged, head, change)

    def _published(
        self, refresh: RollupRefresh, base: str, head: int | None, change: "_Change"
    ) -> RefreshOutcome | None:
        """Rows, and up to where they go, in one metadata file."""
        _, standing = self._writer.load(refresh.table)
        document = json.loads(json.dumps(standing.document))
        if head is not None and head != _head(standing):
            published(document, head, self._writer.clock.now())
        at_head = {ROLLUP_HEAD: str(NO_SNAPSHOT if head is None else head)}
        document["properties"] |= {**refresh.properties, **at_head}
        if self._swap(refresh.table, base, document) is None:
            return None
        return RefreshOutcome(change.moments, len(change.rows), len(change.files))

    def _swap(self, table: TableName, base: str, document: dict[str, Any]) -> str | None:
        return self._writer.catalogs[table.catalog].commit(table, base, document)

    def _aggregated(self, refresh: RollupRefresh) -> list[Values]:
        """The stale buckets as they are to be."""
        if refresh.snapshot_id is None:
            return []
        _, source = self._writer.load(refresh.source)
        column_types(refresh.query, _types(source))  # it has the columns that the query reads
        names = {id: name for name, id in _columns(source).items()}
        column, query = refresh.layout.column, refresh.query
        rows = []
        for values in source.rows_at(refresh.snapshot_id):
            moment = column.instant(dict(values).get(column.field_id))
            if moment is None:
                continue
            start = query.width.floor(moment)
            if _is_stale(refresh.stale, TimeRange(start, query.width.after(start))):
                rows.append({names[id]: cell for id, cell in values if id in names})
        return aggregated(query, rows)

    def _commit(self, refresh: RollupRefresh, own: TableRows, change: "_Change") -> TableCommit:
        operation = "append" if not change.files else "overwrite" if change.rows else "delete"
        return TableCommit(
            own,
            self._writer.store,
            self._writer.clock,
            self._writer.new_id(),
            operation,
            summary={ROLLUP_COMMIT: str(refresh.snapshot_id)},
            added=self._writer.files(own, _bucket(own, refresh.query), change.rows),
            removed=frozenset(change.files),
        )


@dataclass(frozen=True)
class _Change:
    """What a refresh has to write.

    Attributes:
        buckets: Those whose rows differ, as the table has them; `moments` are their starts.
        files: The data files that have rows of these.
        rows: What takes their place: other buckets of the same files stay as they are.
    """

    buckets: frozenset[int]
    moments: Sequence[Any]
    files: Sequence[str]
    rows: Sequence[Row]

    @classmethod
    def of(cls, refresh: RollupRefresh, own: TableRows, new: Sequence[Values]) -> "_Change":
        ids, column = _columns(own), _bucket(own, refresh.query)
        aggregates = [row({ids[name]: cell for name, cell in values.items()}) for values in new]
        by_file = _rows_by_file(own)
        standing = [
            values
            for of_file in by_file.values()
            for values in of_file
            if _is_stale(refresh.stale, _times(refresh, column, values))
        ]
        counts, before = Counter(aggregates), Counter(standing)
        differing = (counts - before) + (before - counts)
        buckets = frozenset(dict(values)[column.field_id] for values in differing)
        files = [path for path, of_file in by_file.items() if _has(of_file, column, buckets)]
        beside = [values for path in files for values in by_file[path]]
        rows = [values for values in aggregates if _has([values], column, buckets)]
        rows += [values for values in beside if not _has([values], column, buckets)]
        return cls(buckets, [column.instant(at) for at in sorted(buckets)], sorted(files), rows)


def _has(rows: Sequence[Row], column: TimeColumn, buckets: frozenset[int]) -> bool:
    return any(dict(values).get(column.field_id) in buckets for values in rows)


def _is_stale(stale: StaleBuckets, bucket: TimeRange) -> bool:
    is_named = stale.ranges is None or any(times.overlaps(bucket) for times in stale.ranges)
    return is_named and not any(times.overlaps(bucket) for times in stale.frozen)


def _times(refresh: RollupRefresh, column: TimeColumn, values: Row) -> TimeRange:
    start = column.instant(dict(values).get(column.field_id))
    if start is None:
        raise ValueError("a row of the rollup has no bucket")
    return TimeRange(start, refresh.query.width.after(start))


def _rows_by_file(table: TableRows) -> dict[str, list[Row]]:
    head = _head(table)
    if head is None:
        return {}
    paths = [file.path for file in table.live(head) if file.kind is FileKind.DATA]
    return {path: table.rows_at(head, {path}) for path in paths}


def _head(table: TableRows) -> int | None:
    main = (table.document.get("refs") or {}).get(MAIN)
    return None if main is None else int(main["snapshot-id"])


def _fields(table: TableRows) -> Sequence[Mapping[str, Any]]:
    document = table.document
    schemas = document.get("schemas") or [document["schema"]]
    current = document.get("current-schema-id", 0)
    fields: list[Mapping[str, Any]] = next(
        schema["fields"] for schema in schemas if schema.get("schema-id", 0) == current
    )
    return fields


def _columns(table: TableRows) -> dict[str, int]:
    return {field["name"]: field["id"] for field in _fields(table)}


def _types(table: TableRows) -> dict[str, str]:
    return {field["name"]: field["type"] for field in _fields(table)}


def _bucket(table: TableRows, query: RollupQuery) -> TimeColumn:
    return TimeColumn(
        query.bucket_column, _columns(table)[query.bucket_column], ColumnKind.TIMESTAMPTZ
    )


def _new_document(
    types: Mapping[str, str], query: RollupQuery, partition: Unit, location: str
) -> dict[str, Any]:
    """A table of format 2 without a snapshot, cut by its buckets."""
    fields = [
        {"id": id, "name": name, "required": False, "type": of}
        for id, (name, of) in enumerate(types.items(), 1)
    ]
    bucket = next(field["id"] for field in fields if field["name"] == query.bucket_column)
    name = f"{query.bucket_column}_{partition}"
    cut = {"source-id": bucket, "field-id": 1000, "name": name, "transform": str(partition)}
    return {
        "format-version": 2,
        "location": location,
        "last-sequence-number": 0,
        "last-column-id": len(fields),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [cut]}],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
    }
