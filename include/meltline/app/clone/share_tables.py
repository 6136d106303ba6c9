"""The tables of shares: their current state, and the state after an update.

`clone/shares.py` compares both to create, update, list and drop shares (ML-19, ML-20, DS-14).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from meltline.app.catalog.dropped import DroppedTable, dropped_place
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import load_opened, load_standing, load_tables
from meltline.app.catalog.resolve import catalog_of
from meltline.app.clone.clone import clone_naming, new_identity
from meltline.app.clone.clone_points import sources_at
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import Identity, Source
from meltline.domain.clone.shares import (
    Origin,
    Share,
    is_of_share,
    is_untouched,
    read_origin,
    tag_of,
)
from meltline.domain.drop.drops import read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, CatalogListing


@dataclass(frozen=True)
class SharedTable:
    """A table of a share.

    Attributes:
        source: The table whose state it shows, by its name when it was pinned; None if the property
            that says so was removed.
        snapshot_id: The pinned snapshot; None for a table without any.
        behind: Whether the source has changed since, or is gone.
        written: Whether the shared table was written to: an update reverts that.
        gone: Whether the shared table was dropped: its source still keeps the snapshot, under the
            share's tag, until the share is updated or dropped.
    """

    source: TableName | None
    table: TableName
    snapshot_id: int | None
    behind: bool = False
    written: bool = False
    gone: bool = False

    @property
    def condition(self) -> str:
        """Formats the condition: `current`, `behind`, `written to` or `table gone`."""
        if self.gone:
            return "table gone"
        if self.written:
            return "written to"
        return "behind" if self.behind else "current"


@dataclass(frozen=True)
class StandingTable:
    """A table of a share in its current state."""

    state: TableMetadata
    document: Mapping[str, Any]

    @property
    def origin(self) -> Origin | None:
        """The table whose state it shows; None if that property was removed."""
        return read_origin(self.state.properties)

    @property
    def is_the_shares(self) -> bool:
        """Whether it was created for a share; all others belong to users."""
        return is_of_share(self.state.properties)

    @property
    def is_written(self) -> bool:
        """Whether it was written to since it was created or updated."""
        return not is_untouched(self.document)


@dataclass(frozen=True)
class SharePart:
    """The intended state of a table of a share.

    Attributes:
        source: The state that it will show.
        own: Its own name, UUID and location.
        now: Its current state; None if it is yet to be created.
    """

    source: Source
    own: Identity
    now: StandingTable | None

    @property
    def is_behind(self) -> bool:
        """Whether it shows another snapshot now, or another table: copies have equal ids."""
        if self.now is None:
            return False
        shows = self.now.origin.uuid if self.now.origin else None
        head = self.now.state.current_snapshot_id
        return shows != self.source.state.uuid or head != self.source.snapshot_id

    @property
    def shown(self) -> SharedTable:
        """The report on it: what it will show, and how its current state differs."""
        return SharedTable(
            source=self.source.state.name,
            table=self.own.name,
            snapshot_id=self.source.snapshot_id,
            behind=self.is_behind,
            written=self.now is not None and self.now.is_written,
        )

    def is_to_change(self, share: Share) -> bool:
        """Whether the table is new, behind or written to, or its tag was removed."""
        tag = self.source.state.refs.get(tag_of(share.name))
        pinned = None if tag is None else tag.snapshot_id
        now, shown = self.now, self.source.snapshot_id
        return now is None or self.is_behind or now.is_written or pinned != shown


def share_parts(
    context: ReadContext, share: Share, listing: CatalogListing, standing: Sequence[StandingTable]
) -> list[SharePart]:
    """Computes the intended tables of a share.

    Args:
        context: The ports.
        share: The share.
        listing: The listing of its catalog.
        standing: Its tables in their current state.

    Raises:
        MetadataUnreadable: One of the sources cannot be read.
    """
    sources = sources_at(context, share.source, listing, None).sources
    by_name = {table.state.name: table for table in standing}
    parts = []
    for source in sources:
        name = place_in(share, source.state.name)
        own = new_identity(context, name, source.state, listing)
        if name in by_name:
            own = Identity(name, by_name[name].state.uuid, by_name[name].state.location)
        parts.append(SharePart(source, own, by_name.get(name)))
    return parts


def standing_tables(
    context: ReadContext, share: Share, listing: CatalogListing
) -> list[StandingTable]:
    """Reads the tables in a share's namespace in their current state, the share's and others.

    Raises:
        MetadataUnreadable: One of them cannot be read.
    """
    entries = [pointer for pointer in listing.entries if share.place.covers(pointer.name)]
    opened = load_opened(context, entries, open_in=context)
    return [StandingTable(state, document) for state, document in opened]


def lost_sources(
    context: ReadContext,
    share: Share,
    listing: CatalogListing,
    standing: Sequence[StandingTable],
    dropped: Sequence[DroppedTable],
) -> list[TableMetadata]:
    """Sources that still have the share's tag, though no table of the share shows them any more.

    The shared table was dropped, or a command was killed. `dropped` has the catalog's dropped
    tables.
    """
    origins = [table.origin for table in standing if table.origin]
    names, uuids = {origin.name for origin in origins}, {origin.uuid for origin in origins}
    entries = [
        pointer
        for pointer in listing.entries
        if share.source.covers(pointer.name) and pointer.name not in names
    ]
    states = metadata_of(load_tables(context, entries).values())
    states += [t.state for t in dropped if share.source.covers(t.drop.object.table_name)]
    return [s for s in states if tag_of(share.name) in s.refs and s.uuid not in uuids]


def gone_tables_of(share: Share, lost: Sequence[TableMetadata]) -> Iterator[SharedTable]:
    """The report on dropped tables of a share, from the sources that keep their state."""
    for state in lost:
        pinned = state.refs[tag_of(share.name)].snapshot_id
        drop = read_drop(state.name.catalog, state.properties)
        name = drop.object.table_name if drop else state.name
        yield SharedTable(name, place_in(share, name), pinned, gone=True)


def place_in(share: Share, source: TableName) -> TableName:
    """Maps a source table's name to its name in the share."""
    return clone_naming(share.source, replace(share.place, table=share.source.table))(source)


def looked_at(context: ReadContext, tables: Sequence[StandingTable]) -> Iterator[SharedTable]:
    """The report on a share's tables in their current state."""
    find = whereabouts(context)
    for table in tables:
        source, head = find(table.origin), table.state.current_snapshot_id
        yield SharedTable(
            source=table.origin.name if table.origin else None,
            table=table.state.name,
            snapshot_id=head,
            behind=source is None or source.current_snapshot_id != head,
            written=table.is_written,
        )


def whereabouts(context: ReadContext) -> Callable[[Origin | None], TableMetadata | None]:
    """Returns a finder of sources by UUID: by old name, by new name, or among dropped tables."""
    every = all_whereabouts(context)

    def find(origin: Origin | None) -> TableMetadata | None:
        return next((s for s in every(origin) if origin and s.uuid == origin.uuid), None)

    return find


def all_whereabouts(context: ReadContext) -> Callable[[Origin | None], Iterator[TableMetadata]]:
    """Returns a finder of every registration with a source's UUID: all have the share's tag."""
    rows = context.control.registrations.all()
    by_uuid = grouped(rows, lambda row: row.uuid)
    by_table_uuid = grouped(rows, lambda row: row.table_uuid)

    @cache
    def unseen(catalog: str) -> Sequence[TableMetadata]:
        """Tables that no observation has recorded yet, such as those renamed since."""
        seen = {CatalogEntry(row.name, row.metadata_location) for row in rows}
        entries = set(catalog_of(context, catalog).listing().entries) - seen
        loaded = load_tables(context, sorted(entries, key=lambda pointer: pointer.name)).values()
        return list(metadata_of(loaded))

    def find(origin: Origin | None) -> Iterator[TableMetadata]:
        if origin is None:
            return
        dropped = dropped_place(origin.uuid, origin.name.catalog)
        known = (*by_uuid.get(origin.uuid, ()), *by_table_uuid.get(origin.uuid, ()))
        for name in dict.fromkeys((origin.name, *(row.name for row in known), dropped)):
            with suppress(MeltlineError):
                at = catalog_of(context, name.catalog).location(name)
                state = load_standing(context, name, at)
                if origin.uuid in (state.uuid, state.table_uuid):
                    yield state
        with suppress(MeltlineError):
            uuid, others = origin.uuid, unseen(origin.name.catalog)
            yield from (s for s in others if uuid in (s.uuid, s.table_uuid))

    return find
