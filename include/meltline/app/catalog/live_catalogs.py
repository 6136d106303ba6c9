"""Loads all tables for the gate directly from the catalogs, including those that left a name.

`app.run.gate_step` gives it to the gates. It shares no state with the planner's observation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from meltline.app.catalog.dropped import is_let_go
from meltline.app.catalog.listings import ListedCatalogs, list_catalogs
from meltline.app.catalog.management import held_by_group, holding_back
from meltline.app.catalog.metadata import (
    Loaded,
    errors_of,
    load_concurrently,
    metadata_of,
    standing_states,
)
from meltline.app.catalog.registrations import LastSeen, identified, load_last_seen
from meltline.app.services import RunContext
from meltline.config.load import Config
from meltline.domain.drop.drops import LET_GO, levels_of
from meltline.domain.errors import MetadataMissing
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.locations import OwnerIndex, Ownership, claim_prefix
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ACCOUNT, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, CatalogListing, KnownTable, RegistrationReader, SnapshotKey


@dataclass(frozen=True)
class LiveCatalogs:
    """The current content of every catalog, as far as it can be read.

    Attributes:
        states: Every readable table, including those that left their catalog.
        listings: By catalog.
        unreadable: Reasons why something could not be read, by table UUID. An empty UUID means that
            the table is unknown.
        vanished: UUIDs of tables that left their catalog and whose last metadata file is gone too.
            All files that they referenced are in the index, and stay referenced.
        lost: Snapshots under names that tables have left, and whose manifest list is gone; the same
            applies.
    """

    states: tuple[TableMetadata, ...]
    listings: Mapping[str, CatalogListing]
    unreadable: Mapping[str, tuple[str, ...]]
    vanished: frozenset[str] = frozenset()
    lost: frozenset[SnapshotKey] = frozenset()

    def of(self, uuid: str, name: TableName) -> TableMetadata | None:
        """Returns the table with that UUID and name."""
        return self._by_name.get((uuid, name))

    def registrations(self, uuid: str) -> Sequence[TableMetadata]:
        """Returns the table with that UUID, under each name that it has."""
        return self._by_uuid.get(uuid, ())

    @cached_property
    def _by_uuid(self) -> Mapping[str, Sequence[TableMetadata]]:
        return grouped(self.states, lambda state: state.uuid)

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, TableName], TableMetadata]:
        """The first state of each UUID and name."""
        return {(state.uuid, state.name): state for state in reversed(self.states)}

    def levels(self, state: TableMetadata, ledger: str) -> list[tuple[str, Mapping[str, str]]]:
        """Returns properties of the table, its namespaces and the account, most specific first."""
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
    """Lists every catalog and loads every table again, including those that left their catalog."""
    listed = list_catalogs(context.catalogs.values())
    look = _CatalogScan(context, context.control.registrations.all(), listed)
    loaded = standing_states(context.catalogs, context.store, listed.entries)
    look.add_standing(identified(context, loaded))
    look.add_left(load_last_seen(context.store, look.names_left()))
    return LiveCatalogs(
        tuple(look.states),
        listed.listings,
        {uuid: tuple(errors) for uuid, errors in look.unreadable.items()},
        frozenset(look.vanished),
        frozenset(look.lost),
    )


@dataclass
class _CatalogScan:
    """State of one scan over all catalogs."""

    context: RunContext
    rows: Sequence[KnownTable]
    listed: ListedCatalogs
    states: list[TableMetadata] = field(default_factory=list)
    unreadable: dict[str, list[str]] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    lost: set[SnapshotKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, refused in self.listed.unlisted.items():
            self._note("", f"{name}: {refused.found}")

    def names_left(self) -> list[KnownTable]:
        """Returns known names that are gone, or whose catalog cannot be listed."""
        # By name and location: another table may have an old name now.
        present = set(self.listed.entries)
        rows = {CatalogEntry(t.name, t.metadata_location): t for t in self.rows}
        return [
            row
            for pointer, row in rows.items()
            if (row.is_ended or row.name.catalog not in self.listed.listings)
            and pointer not in present
        ]

    def add_standing(self, loaded: Loaded) -> None:
        """Adds listed tables; an unreadable one counts for all registrations that it may be."""
        # Two registrations may share a metadata file; if it is unreadable, both are.
        at: dict[str, set[str]] = {}
        for table in self.rows:
            at.setdefault(table.metadata_location, set()).add(table.uuid)
            if not table.is_ended:
                at.setdefault(str(table.name), set()).add(table.uuid)
        self.states += metadata_of(loaded.values())
        errors = errors_of(loaded)
        decisions, store = self.context.control.decisions, self.context.store
        confined = held_by_group(self.context, self.rows, errors)
        free = [pointer for pointer in errors if pointer not in confined]
        unknown = holding_back(decisions, store, self.rows, free)
        for pointer, error in errors.items():
            whose = at.get(pointer.metadata_location, set()) | at.get(str(pointer.name), set())
            for uuid in [*sorted(whose), *[""] * (pointer in unknown)]:
                self._note(uuid, f"{pointer.name}: {error.message}")

    def add_left(self, last_seen: Sequence[LastSeen]) -> None:
        """Adds last states under abandoned names, unless another table continues them."""
        standing_uuids = {state.uuid for state in self.states}
        let_go = [(row, answer) for row, answer in last_seen if row.status == LET_GO]
        places = {row.metadata_location for row, _ in let_go}
        ended = _ended(let_go, self.context.clock.now())
        # By Iceberg's UUID: no table with another UUID can continue it.
        successors = grouped([*self.states, *ended], lambda state: state.table_uuid)
        for row, answer in last_seen:
            if isinstance(answer, TableMetadata):
                self._add_last(row, answer, successors.setdefault(answer.table_uuid, []))
            elif not isinstance(answer, MetadataMissing):
                self._note(row.uuid, f"{row.name}: {answer.message}")
            elif row.uuid not in standing_uuids and row.metadata_location not in places:
                self._note_missing(row, answer)

    def _add_last(
        self, row: KnownTable, state: TableMetadata, successors: list[TableMetadata]
    ) -> None:
        if not any(successor.continues(state) for successor in successors):
            last = self._without_lost(state) if _is_indexed(row) else state
            self.states.append(last)
            successors.append(last)

    def _note_missing(self, row: KnownTable, error: MetadataMissing) -> None:
        """Records a missing table that has no other name and whose drop was not finalized."""
        if _is_indexed(row):
            self.vanished.add(row.uuid)
        else:
            self._note(row.uuid, f"{row.name}: {error.message}")

    def _without_lost(self, state: TableMetadata) -> TableMetadata:
        """Returns a state without the snapshots whose manifest list an engine has deleted."""
        lists = [s for s in state.snapshots.values() if s.manifest_list]
        sizes = load_concurrently(lambda s: self.context.store.size(s.manifest_list), lists)
        lost_ids = {s.snapshot_id for s, size in zip(lists, sizes, strict=True) if size is None}
        self.lost |= {SnapshotKey(state.uuid, snapshot_id) for snapshot_id in lost_ids}
        snapshots = {sid: s for sid, s in state.snapshots.items() if sid not in lost_ids}
        return replace(state, snapshots=snapshots) if lost_ids else state

    def _note(self, uuid: str, reason: str) -> None:
        self.unreadable.setdefault(uuid, []).append(reason)


def _ended(let_go: Iterable[LastSeen], now: datetime) -> list[TableMetadata]:
    """Returns states of finalized drops, if the table's own metadata confirms the ledger."""
    return [state for state in metadata_of(s for _, s in let_go) if is_let_go(state, now)]


def _is_indexed(row: KnownTable) -> bool:
    """Returns whether a table is gone and was completely read, so that the index has its files."""
    return row.status == "gone" and not row.incomplete


def fresh_owners(registrations: RegistrationReader, world: LiveCatalogs) -> OwnerIndex:
    """Returns owners of locations, by current metadata and by everything the ledger recorded."""
    now = [
        Ownership(claim_prefix(location), state.uuid)
        for state in world.states
        for location in state.owned_locations
    ]
    return OwnerIndex([*registrations.ownerships(), *now])


def ledger_uuids(config: Config, world: LiveCatalogs) -> frozenset[str]:
    """Returns the UUIDs of the file ledger's own tables."""
    return frozenset(
        state.uuid
        for state in world.states
        if state.name.catalog == config.hot and state.name.namespace == (config.ledger_namespace,)
    )
