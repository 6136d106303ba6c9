"""Query: the rows of a table as they were at a point of its past (TT-1 to TT-3, TT-26 to TT-32)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from meltline.app.catalog.metadata import load_state
from meltline.app.catalog.registrations import load_opened
from meltline.app.catalog.resolve import catalog_of
from meltline.app.catalog.tables import observed_table, retention_of
from meltline.app.retention.leases import leased
from meltline.app.retention.policies import APPLIED
from meltline.app.services import ReadContext
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import (
    MetadataUnreadable,
    ObjectDropped,
    StatementNotCompleted,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.schema_compatibility import changed_schema, require_readable
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    Past,
    Resolved,
    StatementPoint,
    TravelPoint,
    readable_window,
    resolve,
)
from meltline.domain.units import format_instant
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    PastView,
    ReadRows,
    SnapshotReader,
    StatementState,
)

HOT = "hot"
"""The tier that everything inside the window is read from."""

_LEASE = timedelta(minutes=10)


class SchemaChoice(StrEnum):
    """Under which columns old rows are shown."""

    CURRENT = "current"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class Located:
    """A point of a table's past, found.

    Attributes:
        table: The name that it was asked for by.
        state: The table that is read: of cold, the cold one.
        document: The table's metadata document, for its schemas.
        tier: Where its rows are read from.
    """

    table: TableName
    state: TableMetadata
    document: Mapping[str, Any]
    resolved: Resolved
    tier: str = HOT

    def view(self, schema: SchemaChoice) -> PastView | None:
        """How it is read under the wanted columns; None where Spark's own clause shows those.

        Raises:
            SchemaIncompatible: A column has become something its old values cannot be read as.
        """
        snapshot_id = self.resolved.snapshot_id
        if snapshot_id is None:
            return PastView(self.state.name)
        own = changed_schema(self.state, self.document, snapshot_id)
        if own is None:
            return None
        if schema is SchemaChoice.SNAPSHOT:
            return PastView(self.state.name, snapshot_id, own["schema-id"])
        require_readable(self.state, self.document, own)
        return PastView(self.state.name, snapshot_id)


@dataclass(frozen=True)
class Answer:
    """The rows at a point, and which point that is."""

    located: Located
    read: ReadRows


def locate(context: ReadContext, table: TableName, point: TravelPoint) -> Located:
    """Finds what main of a table held at a point. Reads metadata alone.

    Raises:
        TableNotFound: There is no such table.
        ObjectDropped: It has been dropped.
        OutsideRetention: The point is outside the window, to come, or nobody can tell.
        StatementNotFound: Nobody knows of such a statement.
        StatementNotCompleted: It is still running, or has failed.
        RefNotFound: The table has no such tag.
        MetadataUnreadable: The table cannot be read.
    """
    if is_dropped_name(table.namespace):
        raise ObjectDropped(
            f"{table} has been dropped",
            object=str(table),
            expected="a table that is there",
            found="a dropped one",
            next="`meltline undrop NAME` brings it back with its past",
        )
    catalog = catalog_of(context, table.catalog)
    pointer = CatalogEntry(table, catalog.location(table))
    ((state, document),) = load_opened(context, [pointer])
    past = past_of(context, state, catalog.listing(), context.control.policies.all())
    resolved = resolve(past, with_end(context, point))
    return Located(table, state, document, resolved)


def query(
    context: ReadContext,
    reader: Callable[[], SnapshotReader],
    table: TableName,
    point: TravelPoint,
    *,
    schema: SchemaChoice = SchemaChoice.CURRENT,
    limit: int | None = None,
    find: Callable[[ReadContext, TableName, TravelPoint], Located] = locate,
) -> Answer:
    """Reads a table as it was; in hot its snapshot is leased meanwhile (TT-4).

    Args:
        context: Where the table is.
        reader: Starts what reads rows; called only once the point is known to be readable.
        table: The table.
        point: The point.
        schema: The present columns by field id, or the snapshot's own.
        limit: At most so many rows; None is all.
        find: Finds the point: in hot, or in other tiers too.

    Raises:
        UsageInvalid: `limit` is negative, or whatever `find` raises.
        SchemaIncompatible: A column has become something its old values cannot be read as.
    """
    if limit is not None and limit < 0:
        raise UsageInvalid(
            "a limit cannot be negative",
            object="--limit",
            expected="0 or more rows",
            found=str(limit),
            next="leave it out for all rows",
        )
    located = find(context, table, point)
    snapshot_id = located.resolved.snapshot_id
    view = located.view(schema) or PastView(located.state.name, snapshot_id)
    if snapshot_id is None or located.tier != HOT:  # nothing leaves other tiers by itself
        return Answer(located, reader().read(view, limit))
    with leased(context, table, snapshot_id, _LEASE, audited=False):
        return Answer(located, reader().read(view, limit))


def past_of(
    context: ReadContext,
    state: TableMetadata,
    listing: CatalogListing,
    policies: Mapping[str, Mapping[str, str]],
) -> Past:
    """A table with its window, and with its earlier metadata files where they can be had.

    Args:
        context: Where it is.
        state: The table.
        listing: Its catalog's, for the policies around it.
        policies: What the control ledger knows of policies from earlier.
    """

    def read(location: str) -> TableMetadata | None:
        try:
            return load_state(context.store, state.name, location)
        except MetadataUnreadable:
            return None

    retention = retention_of(
        context.config.account, observed_table(context, state, listing), policies
    )
    applied = policies.get(state.uuid, {}).get(APPLIED, "")
    window = readable_window(retention, applied)
    return Past(state=state, now=context.clock.now(), window=window, read=read)


def with_end(
    context: ReadContext, point: TravelPoint, states: Sequence[TableMetadata] = ()
) -> TravelPoint:
    """A statement with when it ended: by the ledger, else by the last commit that it made.

    Args:
        context: What knows of it.
        point: The point; one that is no statement comes back as it is.
        states: Whose commits tell. Tables that it did not change are taken as of then (TT-35).

    Raises:
        StatementNotCompleted: It is still running, or has failed.
    """
    if not isinstance(point.to, StatementPoint):
        return point
    statement = context.control.statements.get(point.to.id)
    if statement is None:
        own = [
            snapshot.committed_at
            for state in states
            for snapshot in state.snapshots.values()
            if snapshot.summary.get(STATEMENT_ID) == point.to.id
        ]
        return replace(point, to=replace(point.to, completed_at=max(own, default=None)))
    if statement.state is not StatementState.COMPLETED:
        raise StatementNotCompleted(
            f"statement {statement.id} is not completed",
            object=statement.id,
            expected="a statement that has ended well",
            found=f"{statement.state}, begun at {format_instant(statement.started_at)}",
            next="wait for it, or give a time instead",
        )
    return replace(point, to=replace(point.to, completed_at=statement.completed_at))
