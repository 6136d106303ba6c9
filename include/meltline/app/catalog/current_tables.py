"""Reads current tables directly from the catalogs, for steps that recheck before they commit.

It collects the reads of `app/catalog` that a recheck needs in one object, with nothing cached
between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.catalog.metadata import Loaded, standing_states
from meltline.app.catalog.registrations import identified
from meltline.app.catalog.tables import ObservedTable, is_ledger, keep_requests, observed_table
from meltline.app.safety.owner_guards import OwnerGuards
from meltline.app.services import ReadContext
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import Retention
from meltline.domain.retention.retained_snapshots import KeepRequest
from meltline.ports import CatalogEntry, CatalogListing


@dataclass(frozen=True)
class StandingTables:
    """Reads tables, their namespaces' properties, and what keeps their snapshots."""

    _context: ReadContext

    def listings(self) -> dict[str, CatalogListing]:
        """Lists every catalog now. Raises CatalogUnlistable."""
        return {name: catalog.listing() for name, catalog in self._context.catalogs.items()}

    def load(self, entries: Iterable[CatalogEntry]) -> Loaded:
        """Loads tables with the ids of their registrations, or the error of each that failed.

        All entries of one call are identified together, among all registrations ever observed.
        """
        context = self._context
        return identified(context, standing_states(context.catalogs, context.store, entries))

    def names_of(self, uuid: str) -> Sequence[TableName]:
        """Returns every name under which a registration was ever observed."""
        known = self._context.control.registrations.all()
        return [table.name for table in known if table.uuid == uuid]

    def observed(self, state: TableMetadata, listing: CatalogListing) -> ObservedTable:
        """Returns a table with its inherited properties and its current policy-store settings."""
        return observed_table(self._context, state, listing, anew=True)

    def owner_guards(self) -> OwnerGuards:
        """Reads which tables' owners forbid deletions, according to the control ledger now."""
        return OwnerGuards.read(self._context.control.decisions)

    def keep_requests(
        self, tables: Sequence[ObservedTable], as_of: datetime
    ) -> Iterator[tuple[KeepRequest, Retention, ObservedTable]]:
        """Yields what keeps the snapshots of some tables, by current policies, leases and holds."""
        return keep_requests(self._context, tables, as_of)

    def is_ledger(self, name: TableName) -> bool:
        """Returns whether it is one of the file ledger's own tables."""
        return is_ledger(self._context, name)
