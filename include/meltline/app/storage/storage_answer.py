"""The answer of `meltline storage`: a line for each table, namespace or catalog.

The CLI and the pages show it. The bytes come from `storage/report.py`; this module groups them, and
marks the tables whose figures are unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.app.safety.arming import ArmingCheck
from meltline.app.services import ReadContext
from meltline.app.storage.guarded_tables import GuardedTable, guarded_tables
from meltline.app.storage.report import (
    StoredBytes,
    in_flight_bytes,
    listed_files,
    storage_rows,
)
from meltline.app.storage.unread_tables import UnreadTable
from meltline.domain.clock import require_come
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.errors import UsageInvalid
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName, selected, unmatched
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import format_instant

COLUMNS = (
    "active_bytes",
    "historical_bytes",
    "retained_for_clone_bytes",
    "failsafe_bytes",
    "deleted_bytes",
    "foreign_bytes",
    "in_flight_bytes",
    "cold_bytes",
    "deep_bytes",
)
_BY_METADATA = (
    "active_bytes",
    "historical_bytes",
    "retained_for_clone_bytes",
    "foreign_bytes",
)
"""Columns that are unknown for an unreadable table."""

BY: Mapping[str, Callable[[TableName], str]] = {
    "table": str,
    "namespace": lambda name: str(ObjectName(name.catalog, name.namespace)),
    "catalog": lambda name: name.catalog,
}
"""Ways to group the lines."""


@dataclass(frozen=True)
class StorageLine:
    """Bytes of one table, or of all in a namespace or catalog.

    Attributes:
        name: The name of the table, namespace or catalog.
        bytes: Bytes by column; None is unknown. With several tables, the sum of the known ones.
        computed_at: The last observation of the line's table; with several, the earliest. None if
            there was none.
        unread: Its tables whose bytes are unknown.
    """

    name: str
    bytes: Mapping[str, int | None]
    computed_at: datetime | None
    unread: Sequence[UnreadTable] = ()

    @property
    def state(self) -> str:
        """`ok`, or the worst state of its tables."""
        return max((table.state for table in self.unread), default="ok")

    def as_json(self) -> dict[str, Any]:
        """Formats a row of the document."""
        computed_at = format_instant(self.computed_at) if self.computed_at else None
        return {
            "table": self.name,
            **self.bytes,
            "computed_at": computed_at,
            "state": self.state,
        }


@dataclass(frozen=True)
class StorageAnswer:
    """Stored bytes, now or at an earlier instant.

    Attributes:
        at: The instant.
        observed_at: The last observation of any table; None: never.
        unmatched: Globs that no table matches.
        not_armed: A message that nothing expires because the catalog is not armed; empty if it is.
        guarded: For tables whose owners forbid deletions: the setting, and the bytes that it keeps.
    """

    at: datetime
    observed_at: datetime | None
    lines: Sequence[StorageLine]
    unmatched: Sequence[str] = ()
    not_armed: str = ""
    guarded: Sequence[str] = ()

    @property
    def unread(self) -> Sequence[UnreadTable]:
        """Tables whose bytes are unknown."""
        return [table for line in self.lines for table in line.unread]

    @property
    def notes(self) -> Sequence[str]:
        """Messages that qualify the figures."""
        globs = [f"no table matches {glob}" for glob in self.unmatched]
        if self.observed_at is None:
            first = "nothing was observed yet: `meltline observe`, or a first run, reads the tables"
            return [first, *globs]
        return [*globs, *(table.sentence for table in self.unread), *self.guarded]

    @property
    def exit_code(self) -> int:
        """Returns 4 if a table could not be read, or a glob matches nothing; otherwise 0."""
        return 4 if self.unmatched or any(table.error for table in self.unread) else 0

    def as_json(self) -> dict[str, Any]:
        """Formats the document of `storage --json`."""
        return {
            "at": format_instant(self.at),
            "observed_at": format_instant(self.observed_at) if self.observed_at else None,
            "rows": [line.as_json() for line in self.lines],
            "unread": [
                {
                    "table": str(table.table),
                    "state": table.state,
                    "error": table.error or None,
                    "last_read_at": table.last_read_at and format_instant(table.last_read_at),
                }
                for table in self.unread
            ],
            "not_armed": self.not_armed or None,
            "notes": list(self.notes),
        }


def storage_answer(
    context: ReadContext,
    tables: tuple[str, ...] = (),
    as_of: datetime | None = None,
    *,
    by: str = "table",
    listing: bool = False,
) -> StorageAnswer:
    """Computes the stored bytes at an instant; None is now.

    Args:
        context: The ports.
        tables: Globs; none is all.
        as_of: The instant.
        by: The grouping of the lines: a key of `BY`.
        listing: Whether to list the store, for files that no commit has referenced yet.

    Raises:
        UsageInvalid: `by` is unknown, or a listing was requested for the past.
        AsOfInFuture: The instant is in the future.
        CatalogUnlistable: A catalog cannot be listed.
    """
    _require_sensible(by, listing, as_of)
    require_come(as_of, context.clock.now(), "`meltline run --dry-run --as-of T` previews a run")
    stored = listed_files(context) if listing else ()
    history = StoredBytes(context)
    totals = history.at(as_of, [file.path for file in stored])
    flying = in_flight_bytes(context, stored, totals) if listing else None
    unread = [table for table in history.unread if selected(table.table, tables)]
    rows = [row for row in storage_rows(totals, flying) if selected(row.table, tables)]
    not_armed = ArmingCheck.of(context).refusal()
    return StorageAnswer(
        totals.at,
        totals.observed_at,
        _lines(rows, unread, by),
        unmatched(tables, [*(row.table for row in rows), *(table.table for table in unread)]),
        not_armed.message if not_armed else "",
        [guard.sentence for guard in _guarded(context, history.states, tables, rows)],
    )


def _guarded(
    context: ReadContext,
    states: Sequence[TableMetadata],
    globs: tuple[str, ...],
    rows: Sequence[StorageRow],
) -> list[GuardedTable]:
    chosen = [state for state in states if selected(state.name, globs)]
    return guarded_tables(context, chosen, rows)


def _lines(rows: Iterable[StorageRow], unread: Sequence[UnreadTable], by: str) -> list[StorageLine]:
    name_of = BY[by]
    by_name = grouped(rows, lambda row: name_of(row.table))
    unread_by_name = grouped(unread, lambda table: name_of(table.table))
    names = sorted(by_name.keys() | unread_by_name.keys())
    return [_line(name, by_name.get(name, ()), unread_by_name.get(name, ())) for name in names]


def _line(name: str, rows: Sequence[StorageRow], unread: Sequence[UnreadTable]) -> StorageLine:
    unknown = {table.uuid for table in unread}
    never = {table.uuid for table in unread if not table.error}
    fed = [row.computed_at for row in rows if row.table_uuid not in never]
    return StorageLine(
        name,
        {column: _sum(column, rows, unknown) for column in COLUMNS},
        min(fed, default=None),
        unread,
    )


def _sum(column: str, rows: Sequence[StorageRow], unknown: set[str]) -> int | None:
    """Sums the rows with a known value; None if there are none."""
    sizes = [
        getattr(row, column)
        for row in rows
        if column not in _BY_METADATA or row.table_uuid not in unknown
    ]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _require_sensible(by: str, listing: bool, as_of: datetime | None) -> None:
    if by not in BY:
        raise UsageInvalid(
            f"--by {by} is not known",
            object="--by",
            expected=", ".join(BY),
            found=by,
            next="choose one of them",
        )
    if listing and as_of is not None:
        raise UsageInvalid(
            "--listing shows what is in the store now: it does not go with --as-of",
            object="--listing",
            next="leave out one of the two",
        )
