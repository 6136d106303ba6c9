"""The gate's own look at the catalogs: every table, and every name that a table has left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from meltline.app.catalog.dropped import is_let_go
from meltline.app.catalog.management import never_read, vouched_for
from meltline.app.catalog.metadata import load_concurrently, load_states, standing_states
from meltline.app.catalog.registrations import as_registered, identified
from meltline.app.services import RunContext
from meltline.config.load import Config
from meltline.domain.drop.drops import LET_GO, levels_of
from meltline.domain.errors import CatalogUnlistable, MeltlineError, MetadataMissing
from meltline.domain.iceberg.locations import OwnerIndex, Ownership, claim_prefix
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ACCOUNT, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, CatalogListing, KnownTable, RegistrationReader, SnapshotKey

_LEFT = ("gone", LET_GO)


@dataclass(frozen=True)
class LiveCatalogs:
    """What every catalog holds right now, as far as it can be read.

    Attributes:
        states: Every readable table, those that left their catalog included.
        listings: By catalog.
        unreadable: Why something could not be read, by table UUID (empty UUID: not known whose).
        vanished: Tables that left their catalog and whose last metadata file has gone too, by UUID.
            All that they referred to is in the index, and stays referenced.
        lost: Snapshots of names that tables have left and whose manifest list has gone; likewise.
    """

    states: tuple[TableMetadata, ...]
    listings: Mapping[str, CatalogListing]
    unreadable: Mapping[str, tuple[str, ...]]
    vanished: frozenset[str] = frozenset()
    lost: frozenset[SnapshotKey] = frozenset()

    def of(self, uuid: str, name: TableName) -> TableMetadata | None:
        """The table of that UUID and name."""
        return self._by_name.get((uuid, name))

    def registrations(self, uuid: str) -> Sequence[TableMetadata]:
        """The table of that UUID, under each name that it has."""
        return self._by_uuid.get(uuid, ())

    @cached_property
    def _by_uuid(self) -> Mapping[str, Sequence[TableMetadata]]:
        by_uuid: dict[str, list[TableMetadata]] = {}
        for state in self.states:
            by_uuid.setdefault(state.uuid, []).append(state)
        return by_uuid

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, TableName], TableMetadata]:
        """The first of each, by UUID and name."""
        return {(state.uuid, state.name): state for state in reversed(self.states)}

    def levels(self, state: TableMetadata, ledger: str) -> list[tuple[str, Mapping[str, str]]]:
        """The table's properties and those of its namespaces and the account, nearest first."""
        listing = self.listings.get(state.name.catalog)
        namespaces = listing.namespaces if listing else {}
        parts = state.name.namespace
        around = [
            (str(ObjectName(state.name.catalog, parts[:n])), namespaces.get(parts[:n], {}))
            for n in range(len(parts), 0, -1)
        ]
        return [
            (str(state.name), state.properties),
            *levels_of(state.name, state.properties, namespaces),
            *around,
            (ACCOUNT, namespaces.get((ledger,), {})),
        ]


def look_afresh(context: RunContext) -> LiveCatalogs:
    """Lists every catalog and loads every table again, the ones that left their catalog too."""
    look = _Look(context, context.control.registrations.all())
    look.list_catalogs()
    standing = [pointer for listing in look.listings.values() for pointer in listing.entries]
    left_names = look.names_left(standing)
    look.add_standing(identified(context, standing_states(context, standing)))
    loaded = load_states(context.store, left_names)
    look.add_left(
        [(row, as_registered(loaded[pointer], row)) for pointer, row in left_names.items()]
    )
    return LiveCatalogs(
        tuple(look.states),
        look.listings,
        {uuid: tuple(errors) for uuid, errors in look.unreadable.items()},
        frozenset(look.vanished),
        frozenset(look.lost),
    )


@dataclass
class _Look:
    """What has been seen so far."""

    context: RunContext
    rows: Sequence[KnownTable]
    listings: dict[str, CatalogListing] = field(default_factory=dict)
    states: list[TableMetadata] = field(default_factory=list)
    unreadable: dict[str, list[str]] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    lost: set[SnapshotKey] = field(default_factory=set)

    def list_catalogs(self) -> None:
        for catalog in self.context.catalogs.values():
            try:
                self.listings[catalog.name] = catalog.listing()
            except CatalogUnlistable as refused:
                self._note("", f"{catalog.name}: {refused.found}")

    def names_left(self, standing: Iterable[CatalogEntry]) -> dict[CatalogEntry, KnownTable]:
        """Names that the ledger knows and that are gone, or of catalogs that nobody can list."""
        present = set(standing)  # by name and place: an old name may be another table's now
        rows = {CatalogEntry(t.name, t.metadata_location): t for t in self.rows}
        return {
            pointer: row
            for pointer, row in rows.items()
            if (row.status in _LEFT or row.name.catalog not in self.listings)
            and pointer not in present
        }

    def add_standing(self, loaded: Mapping[CatalogEntry, TableMetadata | MeltlineError]) -> None:
        rows = self.rows
        # Two registrations may stand at one metadata file: what is unreadable is so for both.
        at: dict[str, set[str]] = {}
        for table in rows:
            at.setdefault(table.metadata_location, set()).add(table.uuid)
            if table.status not in _LEFT:
                at.setdefault(str(table.name), set()).add(table.uuid)
        unreadable = [
            pointer for pointer, answer in loaded.items() if isinstance(answer, MeltlineError)
        ]
        unknown = set(never_read(rows, unreadable))
        unknown -= vouched_for(self.context.control.decisions, self.context.store, unknown)
        for pointer, answer in loaded.items():
            if isinstance(answer, TableMetadata):
                self.states.append(answer)
                continue
            whose = at.get(pointer.metadata_location, set()) | at.get(str(pointer.name), set())
            for uuid in [*sorted(whose), *[""] * (pointer in unknown)]:
                self._note(uuid, f"{pointer.name}: {answer.message}")

    def add_left(self, loaded: Sequence[tuple[KnownTable, TableMetadata | MeltlineError]]) -> None:
        """Adds what tables were under names that they have left, where none goes on from it."""
        standing_uuids = {state.uuid for state in self.states}
        let_go = {row.metadata_location for row, _ in loaded if row.status == LET_GO}
        now = self.context.clock.now()
        ended = [
            state
            for row, state in loaded
            if row.status == LET_GO and isinstance(state, TableMetadata) and is_let_go(state, now)
        ]
        for row, answer in loaded:
            # Gone for good, and read completely before: the index tells what it referred to.
            indexed = row.status == "gone" and not row.incomplete
            if isinstance(answer, TableMetadata):
                if not any(successor.continues(answer) for successor in (*self.states, *ended)):
                    self.states.append(self._without_lost(answer) if indexed else answer)
            elif not isinstance(answer, MetadataMissing):
                self._note(row.uuid, f"{row.name}: {answer.message}")
            elif row.uuid in standing_uuids or row.metadata_location in let_go:
                continue  # the table is there by another name, or was let go
            elif indexed:
                self.vanished.add(row.uuid)
            else:
                self._note(row.uuid, f"{row.name}: {answer.message}")

    def _without_lost(self, state: TableMetadata) -> TableMetadata:
        """A state without the snapshots of which an engine has deleted the manifest list."""
        lists = [s for s in state.snapshots.values() if s.manifest_list]
        sizes = load_concurrently(lambda s: self.context.store.size(s.manifest_list), lists)
        lost_ids = {s.snapshot_id for s, size in zip(lists, sizes, strict=True) if size is None}
        self.lost |= {SnapshotKey(state.uuid, snapshot_id) for snapshot_id in lost_ids}
        snapshots = {sid: s for sid, s in state.snapshots.items() if sid not in lost_ids}
        return replace(state, snapshots=snapshots) if lost_ids else state

    def _note(self, uuid: str, reason: str) -> None:
        self.unreadable.setdefault(uuid, []).append(reason)


def fresh_owners(registrations: RegistrationReader, world: LiveCatalogs) -> OwnerIndex:
    """Owners by today's metadata and by everything the ledger remembers."""
    now = [
        Ownership(claim_prefix(location), state.uuid)
        for state in world.states
        for location in state.owned_locations
    ]
    return OwnerIndex([*registrations.ownerships(), *now])


def ledger_uuids(config: Config, world: LiveCatalogs) -> frozenset[str]:
    """UUIDs of the file ledger's own tables."""
    return frozenset(
        state.uuid
        for state in world.states
        if state.name.catalog == config.hot and state.name.namespace == (config.ledger_namespace,)
    )
