"""Identifies the registration of a table: an id of ours, because copies share Iceberg's UUID.

Observe, gates and commands resolve each loaded table here. `rewrite_table_path` and
`register_table` copy and move tables to other files with their UUID, snapshot ids and names. So all
state about a table belongs to the id of one registration, its entry.

A name keeps its registration, or takes over another name's, on two conditions. The UUID is equal,
and the last observed metadata file is the current one or is in its log. A table that is written to
all day outgrows its log between two observations. Under the same name and in the same folder,
main's last observed head then proves the lineage as well. Its id and the location of its manifest
list must be equal. A clone's head is in its source's folder, and so are the heads of all copies of
the clone. Anything else is a new registration (decision 028).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.metadata import (
    Loaded,
    load_concurrently,
    load_document,
    load_state,
    load_states,
    metadata_of,
    standing_states,
)
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.errors import MeltlineError
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.locations import claim_prefix, location_key
from meltline.domain.iceberg.metadata_parser import equal_ids
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata
from meltline.ports import CatalogEntry, CatalogListing, KnownTable, ObjectReader

UNOBSERVED = "unobserved"
"""The status of a registration that a command met before any observation."""

LastSeen = tuple[KnownTable, TableMetadata | MeltlineError]
"""A registration, and its last observed metadata, or the error of reading that."""


def newest_of(state: TableMetadata) -> str:
    """Returns main's head, in the form of `KnownTable.newest`."""
    if MAIN not in state.refs:
        return ""
    head = state.snapshots[state.refs[MAIN].snapshot_id]
    return f"{head.snapshot_id} {head.files_key}"


def goes_on(state: TableMetadata, row: KnownTable) -> bool:
    """Returns whether a table continues the registration of a row."""
    if comes_of(state, row):
        return True
    same = state.table_uuid == row.table_uuid and state.name == row.name
    same = same and claim_prefix(state.location) == claim_prefix(row.location)
    return same and not row.is_ended and _has_newest(state, row) is True


def comes_of(state: TableMetadata, row: KnownTable) -> bool:
    """Returns whether a table's log contains a row's metadata file, and no snapshot contradicts it.

    Some tools rewrite a table's paths and keep its log. The snapshots are then at other paths, and
    the table is another registration.
    """
    leads = state.leads_on(row.table_uuid, row.metadata_location)
    return leads and _has_newest(state, row) is not False


def _has_newest(state: TableMetadata, row: KnownTable) -> bool | None:
    """Returns whether a row's `newest` is at the same path; None if the table does not have it."""
    snapshot_id, _, place = row.newest.partition(" ")
    snapshot = state.snapshots.get(int(snapshot_id)) if snapshot_id else None
    return None if snapshot is None else snapshot.files_key == place


def _place_in_log(state: TableMetadata, row: KnownTable) -> int:
    """Returns the position of a row's metadata file in a table's log; -1 if absent."""
    log = [location_key(path) for path in (*state.metadata_log, state.metadata_location)]
    at = location_key(row.metadata_location)
    return max((place for place, path in enumerate(log) if path == at), default=-1)


def is_still(state: TableMetadata, seen: TableMetadata) -> bool:
    """Returns whether the table under a name is the one that was read there, or continues it."""
    return goes_on(state, known_table(seen, "live", seen.last_updated))


def with_entries(
    context: ReadSources,
    states: Iterable[TableMetadata],
    *,
    open_in: ReadContext | None = None,
    filed: Collection[str] | None = None,
) -> list[TableMetadata]:
    """Gives each current table the id of its registration.

    Args:
        context: Has the registrations.
        states: Loaded tables; a name twice is the same registration.
        open_in: Stores ids of registrations that are new; with None such an id is valid for this
            call alone.
        filed: Ids whose snapshots the file ledger knows; None if the caller does not know. A new
            registration gets none of them, whatever the control ledger has lost.
    """
    listed = list(states)
    for _ in range(3):  # others may open the same registrations at this moment
        entries = _Entries.of(context, filed)
        new = entries.assign(listed)
        if new and open_in and filed is None:
            filed = open_in.reader.registrations()
            continue
        if not (open_in and new):
            break
        opened = open_in.control.registrations.open(
            [known_table(state, UNOBSERVED, context.clock.now()) for state in entries.with_ids(new)]
        )
        if len(opened) == len(new):
            break
    return list(entries.with_ids(listed))


def load_standing(
    context: ReadSources, name: TableName, location: str, *, open_in: ReadContext | None = None
) -> TableMetadata:
    """Loads one table as its catalog has it now. Raises as `load_state` does."""
    entries = [CatalogEntry(name, location)]
    (state,) = _unambiguous(context, entries).values()
    if isinstance(state, MeltlineError):
        raise state
    return with_entries(context, [state], open_in=open_in)[0]


def load_opened(
    context: ReadSources, entries: Sequence[CatalogEntry], *, open_in: ReadContext | None = None
) -> list[tuple[TableMetadata, Mapping[str, Any]]]:
    """Loads current tables and their documents. Raises as `load_state` does."""
    loaded = load_concurrently(
        lambda e: load_document(context.store, e.name, e.metadata_location), entries
    )
    states = with_entries(context, [state for state, _ in loaded], open_in=open_in)
    return [(state, document) for state, (_, document) in zip(states, loaded, strict=True)]


def load_tables(
    context: ReadSources, entries: Iterable[CatalogEntry], *, open_in: ReadContext | None = None
) -> Loaded:
    """Loads every table as its catalog has it now, or returns its error."""
    return identified(context, _unambiguous(context, entries), open_in=open_in)


def _unambiguous(context: ReadSources, entries: Iterable[CatalogEntry]) -> Loaded:
    """Loads every table; returns an error if two of its snapshots have one id."""
    loaded = standing_states(context.catalogs, context.store, entries)
    return {
        at: equal_ids(state) if isinstance(state, TableMetadata) and state.namesakes else state
        for at, state in loaded.items()
    }


def identified(
    context: ReadSources,
    loaded: Loaded,
    *,
    open_in: ReadContext | None = None,
    filed: Collection[str] | None = None,
) -> Loaded:
    """Returns the loaded tables, each with the id of its registration (see `with_entries`)."""
    states = metadata_of(loaded.values())
    identified_states = iter(with_entries(context, states, open_in=open_in, filed=filed))
    return {
        e: next(identified_states) if isinstance(s, TableMetadata) else s for e, s in loaded.items()
    }


def load_last_seen(store: ObjectReader, rows: Sequence[KnownTable]) -> list[LastSeen]:
    """Loads registrations from the metadata files that the ledger recorded last."""
    entries = [CatalogEntry(row.name, row.metadata_location) for row in rows]
    loaded = load_states(store, entries)
    answers = [(row, loaded[at]) for row, at in zip(rows, entries, strict=True)]
    return [
        (row, replace(seen, uuid=row.uuid) if isinstance(seen, TableMetadata) else seen)
        for row, seen in answers
    ]


def known_table(state: TableMetadata, status: str, now: datetime) -> KnownTable:
    """Returns the row for the control ledger of a table whose files were not read yet."""
    return KnownTable(
        uuid=state.uuid,
        name=state.name,
        metadata_location=state.metadata_location,
        location=state.location,
        status=status,
        observed_at=now,
        incomplete=True,
        table_uuid=state.table_uuid,
        newest=newest_of(state),
    )


def forerunners(
    rows: Iterable[KnownTable], states: Iterable[TableMetadata]
) -> Mapping[str, Sequence[str]]:
    """Maps registrations to others that have their last metadata file in their logs.

    Such a file is not exclusively theirs: once they are gone, no other registration would delete
    it.
    """
    lineages = grouped(states, lambda state: state.table_uuid)
    pairs = (
        (row.uuid, state.uuid)
        for row in rows
        for state in lineages.get(row.table_uuid, ())
        if state.uuid != row.uuid and state.leads_on(row.table_uuid, row.metadata_location)
    )
    successors = grouped(pairs, lambda pair: pair[0])
    return {uuid: [heir for _, heir in group] for uuid, group in successors.items()}


def heirs(rows: Iterable[KnownTable], standing: Sequence[TableMetadata]) -> dict[str, str]:
    """Maps registrations without a name to the one that continues each, by their ids.

    It is the case of a table that was registered a second time before its first name went. It is
    not a dropped table, and the files that it released are the heir's to delete.
    """
    standing_uuids = {state.uuid for state in standing}
    ended = grouped((r for r in rows if r.uuid not in standing_uuids), lambda row: row.uuid)
    return {
        uuid: state.uuid
        for uuid, names in ended.items()
        for state in standing
        if all(row.is_ended and comes_of(state, row) for row in names)
    }


@dataclass
class _Entries:
    """Assigns registration ids to tables.

    Attributes:
        rows: Registrations in the ledger, by Iceberg's UUID.
        used: Every id that either ledger ever assigned.
        ids: The id of each name that was identified so far.
    """

    context: ReadSources
    rows: Mapping[str, Sequence[KnownTable]]
    used: set[str]
    ids: dict[tuple[str, TableName], str] = field(default_factory=dict)
    _claimed: set[str] = field(default_factory=set)
    _listings: dict[str, CatalogListing | None] = field(default_factory=dict)

    @classmethod
    def of(cls, context: ReadSources, filed: Collection[str] | None) -> "_Entries":
        known_rows = context.control.registrations.all()
        rows = grouped(known_rows, lambda row: row.table_uuid)
        return cls(context, rows, {row.uuid for row in known_rows}.union(filed or ()))

    def with_ids(self, states: Iterable[TableMetadata]) -> Iterator[TableMetadata]:
        """Yields the states with their ids."""
        return (replace(s, uuid=self.ids[s.table_uuid, s.name]) for s in states)

    def assign(self, states: Sequence[TableMetadata]) -> list[TableMetadata]:
        """Finds the id of each state. Returns those that are new."""
        distinct = sorted(
            {(s.table_uuid, s.name): s for s in states}.values(), key=lambda s: s.name
        )
        present = {state.name for state in distinct}
        unclaimed = [state for state in distinct if not self._take(state, self._own(state))]
        new = [
            state
            for state in unclaimed
            if not self._take(state, self._predecessors(state, present))
        ]
        for state in new:
            self.ids[state.table_uuid, state.name] = self._new_id(state)
        return new

    def _own(self, state: TableMetadata) -> list[KnownTable]:
        """Returns the registrations under the state's name that it continues."""
        rows = (row for row in self._rows(state) if not row.is_ended)
        return [row for row in rows if row.name == state.name and goes_on(state, row)]

    def _predecessors(
        self, state: TableMetadata, present: Collection[TableName]
    ) -> list[KnownTable]:
        """Returns registrations that have left their names and that the table continues.

        The one that left last, by the table's log, comes first. A table that was reverted to an
        older metadata file is another registration, and the log of the one before contains its
        metadata file as well.
        """

        def nearness(row: KnownTable) -> tuple[int, bool, datetime]:
            return _place_in_log(state, row), row.name == state.name, row.observed_at

        rows = [row for row in self._rows(state) if goes_on(state, row)]
        free = [
            row for row in rows if row.uuid not in self._claimed and self._has_left(row, present)
        ]
        return sorted(free, key=nearness, reverse=True)

    def _take(self, state: TableMetadata, rows: Iterable[KnownTable]) -> bool:
        uuid = next((row.uuid for row in rows if row.uuid not in self._claimed), None)
        if uuid is not None:
            self._claimed.add(uuid)
            self.ids[state.table_uuid, state.name] = uuid
        return uuid is not None

    def _rows(self, state: TableMetadata) -> Sequence[KnownTable]:
        return self.rows.get(state.table_uuid, ())

    def _has_left(self, row: KnownTable, present: Collection[TableName]) -> bool:
        """Returns whether a registration has no name any more: only then another name may be it.

        It is not under a name that is present: it would have been assigned by now. It may still be
        under one that cannot be listed or read.
        """
        rows = (peer for peer in self.rows[row.table_uuid] if peer.uuid == row.uuid)
        names = (peer for peer in rows if not peer.is_ended and peer.name not in present)
        return not any(self._stands(peer) for peer in names)

    def _stands(self, row: KnownTable) -> bool:
        listing = self._listing(row.name.catalog)
        if listing is None:
            return True
        pointer = listing.of(row.name)
        if pointer is None:
            return False
        try:
            state = load_state(self.context.store, row.name, pointer.metadata_location)
        except MeltlineError:
            return True
        return goes_on(state, row)

    def _listing(self, name: str) -> CatalogListing | None:
        if name not in self._listings:
            catalogs = self.context.catalogs
            listed = list_catalogs(catalogs[each] for each in catalogs.keys() & {name})
            self._listings[name] = listed.listings.get(name)
        return self._listings[name]

    def _new_id(self, state: TableMetadata) -> str:
        """Returns Iceberg's UUID for the first registration with it, and a derived id for others.

        The id is derived, not random: two runs that observe a new registration give it one id.
        """
        uuid, number = state.table_uuid, 0
        while uuid in self.used:
            facts = (state.table_uuid, str(state.name), state.metadata_location, str(number))
            uuid, number = str(uuid5(NAMESPACE_URL, "\n".join(facts))), number + 1
        self.used.add(uuid)
        return uuid
