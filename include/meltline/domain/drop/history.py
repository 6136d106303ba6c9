"""Lists existing and dropped objects, for `SHOW ... HISTORY` (TT-47 to TT-50)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.domain.iceberg.metadata_editor import is_first_file
from meltline.domain.iceberg.table_metadata import TableMetadata


@dataclass(frozen=True)
class HistoryRow:
    """One version of one object: the columns of TT-48, in their order.

    Attributes:
        created_on: When it was created, as far as is known.
        kind: TABLE, TRANSIENT, SCHEMA or DATABASE.
        cluster_by: The sort order, else the partitioning; empty if there is neither.
        rows: Rows of a table's current snapshot; None if it does not state them. `bytes` likewise.
        retention_time: In days, or `infinite`; for a dropped one as it was frozen.
        dropped_on: None for an existing object.
    """

    created_on: datetime | None
    name: str
    database_name: str
    schema_name: str
    kind: str
    comment: str
    cluster_by: str
    rows: int | None
    bytes: int | None
    owner: str
    retention_time: int | str
    dropped_on: datetime | None


@dataclass(frozen=True)
class Version:
    """A row of the listing.

    Attributes:
        recorded: Orders drops of one moment, as `undrop` does: when the drop was committed, and its
            batch.
    """

    row: HistoryRow
    recorded: tuple[datetime, str] | None = None


def ordered(versions: Iterable[Version]) -> list[HistoryRow]:
    """Sorts existing objects first, by name; then dropped ones, the latest first (TT-43, TT-50)."""

    def place(row: HistoryRow) -> tuple[str, str, str]:
        return row.name, row.database_name, row.schema_name

    by_name = sorted(versions, key=lambda version: place(version.row))
    there = [version.row for version in by_name if version.row.dropped_on is None]
    dropped = [(v.row.dropped_on, v.recorded, v.row) for v in by_name if v.row.dropped_on]
    dropped.sort(key=lambda version: version[:2], reverse=True)
    return [*there, *(row for *_, row in dropped)]


def is_like(name: str, pattern: str) -> bool:
    """Matches SQL's LIKE, ignoring case: `%` any text, `_` one letter, a backslash escapes."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    expression = "".join(wild.get(p) or re.escape(p[1:] if len(p) > 1 else p) for p in parts)
    return re.fullmatch(expression, name, re.IGNORECASE | re.DOTALL) is not None


def created_on(state: TableMetadata) -> datetime | None:
    """Returns when a table was created: its first metadata file, else the oldest trace of it."""
    if created := known_creation(state):
        return created
    moments = [*state.metadata_times.values(), state.last_updated]
    moments += [logged.at for logged in state.snapshot_log]
    moments += [snapshot.committed_at for snapshot in state.snapshots.values()]
    return min(moments, default=None)


def known_creation(state: TableMetadata) -> datetime | None:
    """Returns when a table was created; None if its metadata no longer reaches back that far.

    The snapshot that a clone begins with is older than the clone.
    """
    first = state.metadata_log[0] if state.metadata_log else state.metadata_location
    if not is_first_file(first):
        return None
    created = state.metadata_times.get(first, state.last_updated)
    return min([created, *(logged.at for logged in state.snapshot_log[:1])])


def total(state: TableMetadata, key: str) -> int | None:
    """Returns a total of the current snapshot's summary; 0 for a table without a snapshot."""
    head = state.current_snapshot
    if head is None:
        return 0
    raw = head.summary.get(key, "")
    return int(raw) if raw.isdecimal() else None


def cluster_by(document: Mapping[str, Any]) -> str:
    """Returns the columns by which a table's rows are clustered, from its metadata document."""
    names = {
        field.get("id"): str(field.get("name"))
        for schema in _list(document, "schemas")
        for field in _list(schema, "fields")
    }
    sort = _of_id(document, "sort-orders", "order-id", "default-sort-order-id")
    spec = _of_id(document, "partition-specs", "spec-id", "default-spec-id")
    for fields in (_list(sort, "fields"), _list(spec, "fields")):
        if fields:
            return ", ".join(_term(field, names) for field in fields)
    return ""


def _term(field: Mapping[str, Any], names: Mapping[Any, str]) -> str:
    column = names.get(field.get("source-id"), str(field.get("name", "?")))
    transform = str(field.get("transform", "identity"))
    return column if transform == "identity" else f"{transform}({column})"


def _of_id(document: Mapping[str, Any], key: str, id_key: str, default: str) -> Mapping[str, Any]:
    record_id = document.get(default)
    return next((record for record in _list(document, key) if record.get(id_key) == record_id), {})


def _list(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    rows = document.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
