"""Query: reads the rows of a table at a point of its past (TT-1 to TT-3, TT-26 to TT-32).

The API, the CLI and SQL call it; clones and restores use its resolution of points. The rules of
points and windows are in `domain/time_travel`; this module adds metadata, policies and the lease.
"""

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
"""The tier that serves every point inside the window."""

_LEASE = timedelta(minutes=10)


class SchemaChoice(StrEnum):
    """The schema in which old rows are shown."""

    CURRENT = "current"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class Located:
    """A resolved point of a table's past.

    Attributes:
        table: The requested name.
        state: The table that is read; for cold, the cold table.
        document: The table's metadata document, for its schemas.
        tier: The tier that has its rows.
    """

    table: TableName
    state: TableMetadata
    document: Mapping[str, Any]
    resolved: Resolved
    tier: str = HOT

    def view(self, schema: SchemaChoice) -> PastView | None:
        """The view that shows the requested columns; None if Spark's own clause shows them.

        Raises:
            SchemaIncompatible: A column's type has changed so that its old values cannot be read.
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
    """The rows at a point, and the resolved point."""

    located: Located
    read: ReadRows


def locate(context: ReadContext, table: TableName, point: TravelPoint) -> Located:
    """Finds the state of a table's main at a point. Reads metadata only.

    Raises:
        TableNotFound: There is no such table.
        ObjectDropped: It has been dropped.
        OutsideRetention: The point is outside the window, in the future, or unknown.
        StatementNotFound: The statement is unknown.
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
    """Reads a table at a past point; in hot, a lease keeps its snapshot meanwhile (TT-4).

    Args:
        context: The ports.
        reader: Starts the reader of rows; called only after the point is known to be readable.
        table: The table.
        point: The point.
        schema: The current columns by field id, or the snapshot's own.
        limit: Maximum number of rows; None is all.
        find: Finds the point: in hot, or in other tiers too.

    Raises:
        UsageInvalid: `limit` is negative; also every error of `find`.
        SchemaIncompatible: A column's type has changed so that its old values cannot be read.
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
    if snapshot_id is None or located.tier != HOT:  # no run expires rows of other tiers
        return Answer(located, reader().read(view, limit))
    with leased(context, table, snapshot_id, _LEASE, audited=False):
        return Answer(located, reader().read(view, limit))


def past_of(
    context: ReadContext,
    state: TableMetadata,
    listing: CatalogListing,
    policies: Mapping[str, Mapping[str, str]],
) -> Past:
    """Builds a table's past: its window, and its earlier metadata files if they can be read.

    Args:
        context: The ports.
        state: The table.
        listing: The listing of its catalog, for inherited policies.
        policies: Earlier policies, from the control ledger.
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
    """Adds the end of a statement to a point: by the ledger, otherwise by its last commit.

    Args:
        context: The ports.
        point: The point; any other kind is returned unchanged.
        states: Tables whose commits may show the end. Tables that the statement did not change are
            read as of then (TT-35).

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
