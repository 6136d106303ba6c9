"""Where a sweep may look, and what it may take there: by the owners of a place, all of them.

A location that several tables use, or used, is swept only against all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.catalog.tables import is_ledger
from meltline.app.expire.plan_expiration import owner_retentions
from meltline.app.observe.observe import Observation, registrations
from meltline.app.services import ReadContext, RunContext
from meltline.domain.deletion.foreign_owners import contexts_of
from meltline.domain.deletion.orphans import SweptPlaces
from meltline.domain.iceberg.locations import claim_prefix
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.stated_policies import removal_age, removal_refusal
from meltline.ports import KnownTable


def places_to_sweep(
    context: ReadContext, tables: tuple[str, ...]
) -> tuple[SweptPlaces, Mapping[TableName, str]]:
    """The prefixes of the selected tables, as the ledger knows them before anything is looked at.

    Returns:
        The places, and why some tables' prefixes are none: under a location that holds a whole
        warehouse lies what no table has.
    """
    names: dict[str, TableName] = {
        table.uuid: table.name
        for table in context.control.registrations.all()
        if _may_be_swept(context, table, tables)
    }
    warehouses = [
        claim_prefix(catalog.warehouse)
        for catalog in context.config.catalogs.values()
        if catalog.warehouse
    ]
    swept: set[str] = set()
    foreign: set[str] = set()
    refused: dict[TableName, str] = {}
    for ownership in context.control.registrations.ownerships():
        name, prefix = names.get(ownership.table_uuid), ownership.prefix
        if name is not None and any(place.startswith(prefix) for place in warehouses):
            refused[name] = f"not swept: its location {prefix} holds a whole warehouse"
            name = None
        (foreign if name is None else swept).add(prefix)
    return SweptPlaces(swept, foreign), refused


def _may_be_swept(context: ReadContext, table: KnownTable, globs: tuple[str, ...]) -> bool:
    """Whether a table stands in hot and was selected; the ledger's own never are."""
    name = table.name
    stands = not table.is_ended and name.catalog == context.config.hot
    return stands and not is_ledger(context, name) and selected(name, globs)


@dataclass(frozen=True)
class FolderClaim:
    """What may be taken under the prefixes of some owners.

    Attributes:
        owner: The table that departures are recorded for; None where nothing may depart.
        failsafe: How long what departs waits: the longest of all owners.
        ended: UUIDs of owners that left their catalog.
        table_uuids: Iceberg's UUIDs of those that have not.
        contexts: One of these must stand in a path for a file to be the owners': what they write
            outside their own folder may lie beside others' files. Empty where all may be theirs.
        refused: Why nothing may depart although the place is to be swept; empty else.
        minimum_age: How old a file must be by the word of the owners' policy stores: the longest.
    """

    owner: TableMetadata | None = None
    failsafe: timedelta = timedelta(0)
    ended: frozenset[str] = frozenset()
    table_uuids: frozenset[str] = frozenset()
    contexts: frozenset[str] = frozenset()
    refused: str = ""
    minimum_age: timedelta = timedelta(0)

    @property
    def is_judged(self) -> bool:
        """Whether files there are held against what tables name."""
        return self.owner is not None and not self.refused


class Claims:
    """Finds the claim on a file, by what the tables are now."""

    def __init__(
        self, context: RunContext, observation: Observation, tables: tuple[str, ...]
    ) -> None:
        self._observation = observation
        self._tables = tables
        self._live = registrations(observation)
        self._known: dict[str, list[KnownTable]] = {}
        for table in context.control.registrations.all():
            self._known.setdefault(table.uuid, []).append(table)
        policies = context.control.policies.all()
        retentions = owner_retentions(context.config.account, policies, observation)
        self._failsafe = {uuid: retention.failsafe for uuid, retention in retentions.items()}
        self._held = {table.state.uuid for table in observation.tables if table.held}
        self._alone = {owner.id for owner in context.control.owners.allowed()}
        self._of: dict[str, FolderClaim] = {}
        self._folders: dict[str, FolderClaim] = {}

    def on(self, path: str) -> FolderClaim:
        """The claim on a file."""
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            prefix = self._observation.owners.prefix_of(path)
            if prefix not in self._of:
                owners = self._observation.owners.owners(path)
                self._of[prefix] = self._claim(prefix, owners)
            self._folders[folder] = self._of[prefix]
        return self._folders[folder]

    def _claim(self, prefix: str, owners: tuple[str, ...]) -> FolderClaim:
        if not owners or self._observation.ledger_uuids.intersection(owners):
            return FolderClaim()
        if reason := next(filter(None, map(self._refusal, owners)), ""):
            return FolderClaim(refused=reason)
        live = [uuid for uuid in owners if uuid in self._live]
        owner = self._departures_owner(live)
        if owner is None:
            return FolderClaim()
        return FolderClaim(
            owner=owner,
            failsafe=max(self._failsafe[uuid] for uuid in live),
            ended=frozenset(owners) - frozenset(live),
            table_uuids=frozenset(t.state.table_uuid for uuid in live for t in self._live[uuid]),
            contexts=self._contexts(prefix, live),
            minimum_age=max(
                removal_age(table.stated) for uuid in live for table in self._live[uuid]
            ),
        )

    def _contexts(self, prefix: str, live: Sequence[str]) -> frozenset[str]:
        """What must stand in paths there; nothing in a table's own folder, or one that is allowed.

        A folder that a table has left, and one that a property names, may be others' as well.
        """
        locations = [table.state.location for uuid in live for table in self._live[uuid]]
        if prefix in map(claim_prefix, locations) or prefix in self._alone:
            return frozenset()
        return contexts_of(locations)

    def _departures_owner(self, live: Sequence[str]) -> TableMetadata | None:
        """The first selected table; None where a hold, or a table that is not managed, forbids."""
        tables = [table for uuid in live for table in self._live[uuid]]
        groups = self._observation.groups
        is_held = any(self._held & groups.members(uuid) for uuid in live)
        if is_held or not all(table.managed for table in tables):
            return None
        return next((t.state for t in tables if selected(t.state.name, self._tables)), None)

    def _refusal(self, uuid: str) -> str:
        """Why an owner's files cannot be told from orphans; empty when they can."""
        if reason := self._observation.blocked.get(uuid):
            return reason
        if uuid in self._live:
            refusals = ((t.state.name, removal_refusal(t.stated)) for t in self._live[uuid])
            return next((f"{name}: {why}" for name, why in refusals if why), "")
        rows = self._known.get(uuid, [])
        name = rows[0].name if rows else uuid
        if not rows or any(not table.is_ended for table in rows):
            return f"{name} lies there too and was not read today"
        # What was read under one name was read under the other: it is the same document.
        read = {table.metadata_location for table in rows if not table.incomplete}
        if any(table.incomplete and table.metadata_location not in read for table in rows):
            return f"{name}, which is gone, lies there too and was never read completely"
        return ""
