"""Chunked tables, joined from the catalog and the ledger.

The steps of chunk runs, SQL and the commands load their tables here. The steps share it, so it is
part of none of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.metadata import load_document, metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.resolve import load_table
from meltline.app.catalog.tables import ObservedTable, observed_table, read_tables
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.chunks.policies import ChunkPolicy
from meltline.domain.chunks.sync import TableSync, TrackedTable
from meltline.domain.errors import NotChunked
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import ObjectReader


@dataclass(frozen=True)
class HotTable:
    """A hot table at one metadata version."""

    state: TableMetadata
    store: ObjectReader

    @classmethod
    def load(cls, context: ReadContext, name: TableName) -> "HotTable":
        """Loads the table's current metadata from its catalog. Raises as `load_table`."""
        return cls(load_table(context, name), context.store)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The raw metadata document, which few callers need. Raises as `load_document`."""
        return load_document(self.store, self.state.name, self.state.metadata_location)[1]

    @cached_property
    def line(self) -> Sequence[Snapshot]:
        """Main's history, newest first, as far as the metadata has it; in format 1 too."""
        head = self.state.current_snapshot_id
        return [] if head is None else list(self.state.ancestry(head))

    def since(self, snapshot_id: int | None) -> list[Snapshot] | None:
        """Returns main's snapshots after a given one, oldest first; None if main does not have it.

        Args:
            snapshot_id: Such a snapshot; None is before the first one that was ever committed.
        """
        if snapshot_id is None:
            ends = not self.line or self.line[-1].parent_id is None
            return list(reversed(self.line)) if ends else None
        for place, snapshot in enumerate(self.line):
            if snapshot.snapshot_id == snapshot_id:
                return list(reversed(self.line[:place]))
        return None


@dataclass(frozen=True)
class ChunkedTable:
    """A table that is split into chunks: its catalog state and its ledger records.

    Attributes:
        observed: The table with the properties around it.
        sync: Its replication; None without one.
        policies: The policies of its chunks.
    """

    observed: ObservedTable
    tracked: TrackedTable
    sync: TableSync | None
    policies: Sequence[ChunkPolicy]

    @property
    def state(self) -> TableMetadata:
        """The table's metadata."""
        return self.observed.state

    @property
    def tier_policy(self) -> ChunkPolicy | None:
        """The policy that flags its chunks."""
        return next((policy for policy in self.policies if policy.tier_after), None)

    @property
    def drop_policy(self) -> ChunkPolicy | None:
        """The policy that drops its chunks."""
        return next((policy for policy in self.policies if policy.drop_after), None)


def chunked_tables(
    context: ReadSources, globs: tuple[str, ...] = (), only: Collection[str] | None = None
) -> list[ChunkedTable]:
    """Returns the readable tables that are split into chunks, by name; no other table is read.

    Args:
        context: Where they are.
        globs: Over their names; none is all.
        only: Restricts the result to these registrations.
    """
    control = context.control
    tracked = control.chunks.tracked(only)
    if not tracked:
        return []
    uuids = [table.table_uuid for table in tracked]
    syncs = {sync.table_uuid: sync for sync in control.syncs.all(uuids)}
    policies = grouped(control.chunk_policies.all(uuids), lambda policy: policy.table_uuid)
    standing = _standing(context, tracked)
    return [
        ChunkedTable(
            observed, table, syncs.get(table.table_uuid), policies.get(table.table_uuid, ())
        )
        for table in tracked
        if (observed := standing.get(table.table_uuid))
        and observed.drop is None
        and selected(observed.state.name, globs)
    ]


def missing_tables(
    context: ReadSources, tables: Iterable[ChunkedTable], globs: tuple[str, ...] = ()
) -> list[TableName]:
    """Returns chunked tables that were left out because they are dropped, gone or unreadable."""
    seen = {table.state.uuid for table in tables}
    return [
        table.table
        for table in context.control.chunks.tracked()
        if table.table_uuid not in seen and selected(table.table, globs)
    ]


def _standing(context: ReadSources, tracked: Sequence[TrackedTable]) -> dict[str, ObservedTable]:
    """Finds tables by their registrations: under their last name, else, once renamed, anywhere."""
    standing: dict[str, ObservedTable] = {}
    named = {table.table.catalog for table in tracked}
    catalogs = [catalog for name, catalog in context.catalogs.items() if name in named]
    for name, listing in list_catalogs(catalogs).listings.items():
        entries = [
            entry for t in tracked if t.table.catalog == name if (entry := listing.of(t.table))
        ]
        for state in metadata_of(load_tables(context, entries).values()):
            standing[state.uuid] = observed_table(context, state, listing)
    if missing := {table.table_uuid for table in tracked} - standing.keys():
        elsewhere = grouped(read_tables(context), lambda table: table.state.uuid)
        # One id under two names: it is unknown which of them is meant.
        once = {uuid: same[0] for uuid, same in elsewhere.items() if len(same) == 1}
        standing |= {uuid: once[uuid] for uuid in missing & once.keys()}
    return standing


def require_tracked(context: ReadSources, state: TableMetadata) -> TrackedTable:
    """Returns the ledger's record of a table's chunks.

    Raises:
        NotChunked: There is none: the table is neither synced nor has a policy.
    """
    for tracked in context.control.chunks.tracked([state.uuid]):
        return tracked
    raise NotChunked(
        f"{state.name} is not cut into chunks",
        object=str(state.name),
        expected="a table that is synced, or has a policy of chunks",
        found="neither",
        next=f"`meltline chunks sync {quote(state.name)}`, or give it a policy",
    )
