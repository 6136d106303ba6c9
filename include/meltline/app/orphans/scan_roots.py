"""Scan roots: where a sweep may list, and which files it may record there.

The sweep and its candidates call it. A location that several tables use, or used, is swept only
against all of them.
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
    """Returns the prefixes of the selected tables, as the ledger has them before the observation.

    Returns:
        The scan roots, and the tables that are left out: below a location that contains a whole
        warehouse, files belong to other tables.
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
    """Returns whether a table is in hot and selected; the ledger's own tables never are."""
    name = table.name
    stands = not table.is_ended and name.catalog == context.config.hot
    return stands and not is_ledger(context, name) and selected(name, globs)


@dataclass(frozen=True)
class FolderClaim:
    """Files that may depart under the prefixes of some owners.

    Attributes:
        owner: The table for which departures are recorded; None if none are allowed.
        failsafe: Their failsafe: the longest of all owners.
        ended: UUIDs of owners that left their catalog.
        table_uuids: Iceberg's UUIDs of the other owners.
        contexts: A file is the owners' only if its path contains such a part, because folders
            outside a table's own may be shared. Empty if every file is theirs.
        refused: Why no file may depart although the folder is swept; empty if files may.
        minimum_age: The minimum age of files by the owners' policy stores: the longest.
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
        """Whether files there are compared with tables' references."""
        return self.owner is not None and not self.refused


class Claims:
    """Finds the claim on a file, by the tables as observed now."""

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
        """Returns the claim on a file."""
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
        """Returns what paths must contain; nothing in a table's own folder, or in an allowed one.

        A folder that a table has left, or that only a property names, may be shared with others.
        """
        locations = [table.state.location for uuid in live for table in self._live[uuid]]
        if prefix in map(claim_prefix, locations) or prefix in self._alone:
            return frozenset()
        return contexts_of(locations)

    def _departures_owner(self, live: Sequence[str]) -> TableMetadata | None:
        """Returns the first selected table; None if a hold or an unmanaged table forbids it."""
        tables = [table for uuid in live for table in self._live[uuid]]
        groups = self._observation.groups
        is_held = any(self._held & groups.members(uuid) for uuid in live)
        if is_held or not all(table.managed for table in tables):
            return None
        return next((t.state for t in tables if selected(t.state.name, self._tables)), None)

    def _refusal(self, uuid: str) -> str:
        """Returns why an owner's files cannot be distinguished from orphans; empty if they can."""
        if reason := self._observation.blocked.get(uuid):
            return reason
        if uuid in self._live:
            refusals = ((t.state.name, removal_refusal(t.stated)) for t in self._live[uuid])
            return next((f"{name}: {why}" for name, why in refusals if why), "")
        rows = self._known.get(uuid, [])
        name = rows[0].name if rows else uuid
        if not rows or any(not table.is_ended for table in rows):
            return f"{name} lies there too and was not read today"
        # A document read under one name was also read under the other: it is the same file.
        read = {table.metadata_location for table in rows if not table.incomplete}
        if any(table.incomplete and table.metadata_location not in read for table in rows):
            return f"{name}, which is gone, lies there too and was never read completely"
        return ""
