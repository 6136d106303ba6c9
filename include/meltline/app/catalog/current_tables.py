"""Tables as their catalogs have them at this moment, for steps that check once more."""

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
    """Reads tables, their namespaces' properties, and who keeps what of them; changes nothing."""

    _context: ReadContext

    def listings(self) -> dict[str, CatalogListing]:
        """Every catalog's listing, taken now. Raises CatalogUnlistable."""
        return {name: catalog.listing() for name, catalog in self._context.catalogs.items()}

    def load(self, entries: Iterable[CatalogEntry]) -> Loaded:
        """Tables with the ids of their registrations, or why one could not be had.

        Together: who is which registration is looked up among all that were ever seen.
        """
        context = self._context
        return identified(context, standing_states(context.catalogs, context.store, entries))

    def names_of(self, uuid: str) -> Sequence[TableName]:
        """Every name under which a registration was ever seen."""
        known = self._context.control.registrations.all()
        return [table.name for table in known if table.uuid == uuid]

    def observed(self, state: TableMetadata, listing: CatalogListing) -> ObservedTable:
        """A table with the properties around it, and with what a policy store says of it now."""
        return observed_table(self._context, state, listing, anew=True)

    def owner_guards(self) -> OwnerGuards:
        """Which tables' owners forbid deletions, by what the control ledger knows now."""
        return OwnerGuards.read(self._context.control.decisions)

    def keep_requests(
        self, tables: Sequence[ObservedTable], as_of: datetime
    ) -> Iterator[tuple[KeepRequest, Retention, ObservedTable]]:
        """What keeps snapshots of some tables, by today's policies, leases and holds."""
        return keep_requests(self._context, tables, as_of)

    def is_ledger(self, name: TableName) -> bool:
        """Whether it is one of the file ledger's own tables."""
        return is_ledger(self._context, name)
