"""Resolves the tables of a clone's source at its one point in time.

`clone` and shares call it. It is apart from `app/time_travel`, which resolves a point for one table
only (TT-33 to TT-38, DS-13).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.app.catalog.metadata import load_document
from meltline.app.catalog.registrations import load_opened
from meltline.app.services import ReadContext
from meltline.app.time_travel.query import past_of, with_end
from meltline.domain.clock import Clock
from meltline.domain.clone.clones import Source, columns_then
from meltline.domain.drop.history import known_creation
from meltline.domain.errors import (
    BeforeCreation,
    ChildInsufficientRetention,
    MetadataUnreadable,
    OutsideRetention,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    Moment,
    Past,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
    resolve,
)
from meltline.domain.units import format_instant
from meltline.ports import CatalogListing, ObjectReader

_SHOWN = 5
Document = Mapping[str, Any]


@dataclass(frozen=True)
class SkippedTable:
    """A table of a schema or database that its clone omits."""

    table: TableName
    reason: str


@dataclass(frozen=True)
class Children:
    """The tables of a clone at its point, and the omitted ones."""

    sources: tuple[Source, ...]
    skipped: tuple[SkippedTable, ...] = ()


def sources_at(
    context: ReadContext,
    name: ObjectName,
    listing: CatalogListing,
    point: TravelPoint | None,
    *,
    ignore_insufficient: bool = False,
) -> Children:
    """Resolves a table, or every table of a schema or database, at one point.

    Without a point the result is the listing, which a SQL catalog reads at one instant. A table
    that was created later is omitted. Tables dropped since are not included, as in Snowflake.

    Raises:
        BeforeCreation: The table was created at the point or later; if there are several, all of
            them.
        OutsideRetention: The point is in the future, or the table cannot be read so far back.
        ChildInsufficientRetention: One of several cannot be read so far back, and is not to be
            omitted.
        StatementNotFound: The statement is unknown.
        StatementNotCompleted: It is still running, or has failed.
        RefNotFound: The table has no such tag.
        UsageInvalid: A tag was given for several tables.
        MetadataUnreadable: One of the tables cannot be read.
    """
    opened = _open(context, name, listing)
    if point is None:
        return Children(tuple(Source(s, document, s.current_snapshot_id) for s, document in opened))
    _require_sensible(context.clock, name, point)
    point = with_end(context, point, [state for state, _ in opened])
    policies = context.control.policies.all()
    sources: list[Source] = []
    absent: list[SkippedTable] = []
    short: list[SkippedTable] = []
    for state, document in opened:
        try:
            past = past_of(context, state, listing, policies)
            sources.append(_source_at(context.store, past, document, point))
        except (BeforeCreation, OutsideRetention) as refused:
            if name.table:
                raise
            if isinstance(refused, BeforeCreation):
                absent.append(SkippedTable(state.name, refused.found))
            else:
                readable = refused.expected.removeprefix("a time ")
                reason = f"{refused.found}; it can be read {readable}"
                short.append(SkippedTable(state.name, reason))
    if short and not ignore_insufficient:
        raise _insufficient(name, short)
    if absent and len(absent) == len(opened):
        raise _nothing_there(name, absent, point)
    return Children(
        tuple(sources), tuple(sorted((*absent, *short), key=lambda skipped: skipped.table))
    )


def _open(
    context: ReadContext, name: ObjectName, listing: CatalogListing
) -> list[tuple[TableMetadata, Document]]:
    entries = [pointer for pointer in listing.entries if name.covers(pointer.name)]
    return load_opened(context, entries, open_in=context)


def _require_sensible(clock: Clock, name: ObjectName, point: TravelPoint) -> None:
    now = clock.now()
    if isinstance(point.to, Moment) and point.to.at > now:
        raise OutsideRetention(
            f"{name} cannot be cloned as of {format_instant(point.to.at)}: a time to come",
            object=str(name),
            expected=f"a time until {format_instant(now)}",
            found=f"{format_instant(point.to.at)}: a time to come",
            next="choose a time that has come",
        )
    if isinstance(point.to, TagPoint) and not name.table:
        raise UsageInvalid(
            f"a {name.kind} cannot be cloned at a tag",
            object=str(name),
            expected="one instant for all its tables",
            found=f"the tag {point.to.name}, which each table has, or has not, for itself",
            next="give a time, or clone one table",
        )


def _source_at(store: ObjectReader, past: Past, document: Document, point: TravelPoint) -> Source:
    state = past.state
    _require_created(state, point)
    snapshot_id = resolve(past, point).snapshot_id
    earlier = None
    if isinstance(point.to, Moment):
        earlier = _document_at(store, state, document, point.to.at, point.side)
    if earlier is not None and (earlier.get("current-snapshot-id") or -1) != (snapshot_id or -1):
        earlier = None  # the clocks of metadata and log differ: the snapshot decides
    return Source(state, document, snapshot_id, columns_then(document, snapshot_id, earlier))


def _require_created(state: TableMetadata, point: TravelPoint) -> None:
    """Refuses a point at or before a table's creation, if its metadata has that time."""
    at, created = _instant(state, point), known_creation(state)
    if at is None or created is None or at > created:
        return
    if isinstance(point.to, StatementPoint) and point.side is PointSide.AT and at == created:
        return  # the statement that created it
    raise BeforeCreation(
        f"{state.name} was not there yet at {format_instant(at)}",
        object=str(state.name),
        expected=f"a time after {format_instant(created)}",
        found=f"it was made at {format_instant(created)}",
        next="choose a later time, or leave the time out for the present",
    )


def _instant(state: TableMetadata, point: TravelPoint) -> datetime | None:
    """Returns the time of a point; None for a tag."""
    if isinstance(point.to, Moment):
        return point.to.at
    if isinstance(point.to, TagPoint):
        return None
    seen = list(_commits_of(state, point.to.id))
    if not seen:
        return point.to.completed_at
    return seen[-1] if point.side is PointSide.AT else seen[0]


def _commits_of(state: TableMetadata, statement_id: str) -> Iterator[datetime]:
    """Times at which main moved to each snapshot of a statement."""
    for log_entry in state.snapshot_log:
        snapshot = state.snapshots.get(log_entry.snapshot_id)
        if snapshot is not None and snapshot.summary.get(STATEMENT_ID) == statement_id:
            yield log_entry.at


def _document_at(
    store: ObjectReader, state: TableMetadata, document: Document, at: datetime, side: PointSide
) -> Document | None:
    """Reads the metadata that was current at an instant; None if that file is gone."""
    files = [(file, state.metadata_times[file]) for file in state.metadata_log]
    files.append((state.metadata_location, state.last_updated))
    come = [file for file, since in files if (since <= at if side is PointSide.AT else since < at)]
    if not come:
        return None
    if come[-1] == state.metadata_location:
        return document
    try:
        earlier, past = load_document(store, state.name, come[-1])
    except MetadataUnreadable:
        return None
    return past if earlier.table_uuid == state.table_uuid else None


def _nothing_there(
    name: ObjectName, absent: Sequence[SkippedTable], point: TravelPoint
) -> BeforeCreation:
    """Error for a schema without tables at that point: no catalog records its creation."""
    to = point.to
    when = format_instant(to.at) if isinstance(to, Moment) else "that point"
    return BeforeCreation(
        f"{name} was not there yet at {when}: none of its tables was",
        object=str(name),
        expected="a time at which at least one of its tables was there",
        found="; ".join(f"{skipped.table}: {skipped.reason}" for skipped in absent[:_SHOWN]),
        next="choose a later time, or leave the time out for the present",
    )


def _insufficient(name: ObjectName, short: Sequence[SkippedTable]) -> ChildInsufficientRetention:
    more = f" and {len(short) - _SHOWN} more" if len(short) > _SHOWN else ""
    return ChildInsufficientRetention(
        f"{name} has tables that cannot be read so far back",
        object=", ".join(str(skipped.table) for skipped in short[:_SHOWN]) + more,
        expected="a point that every table of it can be read at",
        found="; ".join(f"{skipped.table}: {skipped.reason}" for skipped in short[:_SHOWN]),
        next="choose a later point, or leave those out: --ignore-insufficient, in SQL "
        "IGNORE TABLES WITH INSUFFICIENT DATA RETENTION",
    )
