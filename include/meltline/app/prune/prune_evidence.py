"""Gate facts of a prune: finds the files that cold still references, and what forbids a delete.

The gate of a prune calls it, the deletes for their proof, and `cold_prune.py` for retention and
holds. The proof shares nothing with the planner. It lists and loads every cold table again, and
opens every manifest of every remaining snapshot with the gate's own reader. Then it searches the
manifests for the planned files. An unreadable object forbids the prune.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.archive.cold_files import own_files
from meltline.app.archive.cold_tables import ListedColdTables, require_copies
from meltline.app.catalog.tables import (
    ObservedTable,
    cold_policy_of,
    is_ledger,
    levels_around,
    read_tables,
)
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot, read_archived
from meltline.domain.archive.cold import ColdPolicy, cold_policy
from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.archive.pruning import PrunePlan
from meltline.domain.errors import (
    GateNotPassed,
    HoldInForce,
    MeltlineError,
    MetadataUnreadable,
)
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.domain.units import format_instant
from meltline.ports import CopyReader, ListedCopy

_SHOWN = 5
PROOF_LASTS = timedelta(minutes=5)
"""The maximum age of a proof when deletes are sent (docs/safety.md)."""


def _tables(context: ReadContext, plan: PrunePlan) -> list[TableMetadata]:
    """Reads every cold table as it is now.

    Raises:
        GateNotPassed: One cannot be read, so it is unknown which files it needs.
        CatalogUnlistable: The cold catalog cannot be listed.
    """
    states = list[TableMetadata]()
    for state in ListedColdTables.read(context).all():
        if isinstance(state, MeltlineError):
            raise refused(plan, f"a cold table cannot be read: {state.message}")
        states.append(state)
    return states


def readable_tables(context: ReadContext) -> list[ObservedTable]:
    """Reads every table of hot: they have the holds and policies, and may reference files of cold.

    Raises:
        MetadataUnreadable: One cannot be read.
        CatalogUnlistable: A catalog cannot be listed.
    """
    tables = read_tables(context)
    names = {table.state.name for table in tables}
    for catalog in context.catalogs.values():
        for pointer in catalog.listing().entries:
            if pointer.name not in names and not is_ledger(context, pointer.name):
                raise MetadataUnreadable(
                    f"{pointer.name} cannot be read: nobody knows whether it forbids to prune",
                    object=str(pointer.name),
                    expected="every table of hot readable",
                    found="one that is not",
                    next="`meltline doctor` says what is wrong with it",
                )
    return tables


def _guests(context: ReadContext, tier: ColdTier) -> Iterator[tuple[TableMetadata, list[int]]]:
    """Returns tables of hot with their snapshots in cold, which another tool registered there."""
    for table in readable_tables(context):
        snapshots = table.state.snapshots.items()
        ids = [id for id, s in snapshots if lies_under(s.manifest_list, tier.warehouse)]
        if ids:
            yield table.state, ids


def _staying(state: TableMetadata, plan: PrunePlan, *, removed: bool) -> list[int]:
    """The snapshots of a cold table that stay; once the planned ones are removed, all others."""
    leaving = plan.snapshots if state.uuid == plan.cold_uuid and not removed else ()
    return [id for id in state.snapshots if id not in leaving]


def needed(context: ReadContext, tier: ColdTier, plan: PrunePlan, *, removed: bool) -> set[str]:
    """Selects a plan's files that something in cold still references.

    Args:
        context: The ports to read with.
        tier: The cold tier.
        plan: The plan.
        removed: Whether its snapshots have left their table.

    Raises:
        GateNotPassed: An object that stays cannot be read; MetadataUnreadable, a table of hot.
        CatalogUnlistable: A catalog cannot be listed.
    """
    reader = require_copies(context)
    own, manifests = set[str](), dict[str, ListedCopy]()
    cold = _tables(context, plan)
    stays = [(state, _staying(state, plan, removed=removed)) for state in cold]
    for state, ids in (*stays, *_guests(context, tier)):
        own |= own_files(state, ids) | {state.metadata_location, *state.metadata_log}
        manifests |= _manifests(reader, plan, [state.snapshots[id] for id in ids])
    keys = {location_key(path) for path in (*own, *manifests)}
    alive = reader.alive(list(manifests.values()), plan.files, of_copies=True)
    return alive | {path for path in plan.files if location_key(path) in keys}


def _manifests(
    reader: CopyReader, plan: PrunePlan, snapshots: Sequence[Snapshot]
) -> dict[str, ListedCopy]:
    """The manifests of snapshots, by path. Raises GateNotPassed if a list cannot be read."""
    inline = {path for snapshot in snapshots for path in snapshot.inline_manifests}
    manifests = {path: ListedCopy(path, 0, None) for path in inline}
    lists = [snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list]
    for listed in reader.lists(lists, of_copies=True).values():
        if isinstance(listed, str):
            raise refused(plan, listed)
        manifests |= {manifest.path: manifest for manifest in listed}
    return manifests


@dataclass(frozen=True)
class Duties:
    """Conditions that must be met before snapshots of a table may leave cold.

    Attributes:
        policy: The table's policy for cold, as it is today.
        deep_due: Whether the permanent store must have them first.
        copies: Records of the copies, from the ledger and from cold.
    """

    policy: ColdPolicy
    deep_due: bool
    copies: Mapping[int, tuple[ArchivedSnapshot, ...]]

    def keep_until(self, snapshot_id: int) -> datetime | None:
        """Until when a snapshot must stay: the latest recorded time; None if none is recorded."""
        return max((copy.keep_until for copy in self.copies.get(snapshot_id, ())), default=None)


def duties(
    context: ReadContext,
    state: TableMetadata,
    name: TableName,
    uuid: str,
    table: ObservedTable | None,
) -> Duties:
    """Reads the duties, unless a hold forbids the prune. See `known_duties`. Raises HoldInForce."""
    if held_by_hold(context, name, table):
        raise HoldInForce(
            f"a hold forbids to prune {name}",
            object=str(name),
            expected="no hold on it, or around it",
            found="one in force",
            next="`meltline hold list` tells whose word it is",
        )
    return known_duties(context, state, name, uuid, table)


def known_duties(
    context: ReadContext,
    state: TableMetadata,
    name: TableName,
    uuid: str,
    table: ObservedTable | None,
) -> Duties:
    """Reads the duties.

    Args:
        context: The ports to read them with.
        state: The cold table.
        name: The hot table's name.
        uuid: Its UUID.
        table: The hot table; None if hot no longer has it. Then its policy is unknown, and the
            permanent store must have its snapshots wherever there is such a store.
    """
    config = context.config
    policy = cold_policy(config.account, ()) if table is None else cold_policy_of(context, table)
    copies: dict[int, tuple[ArchivedSnapshot, ...]] = {}
    for copy in (
        *context.control.archived.all([uuid]),
        *read_archived(state, name, policy.keep_for),
    ):
        copies[copy.snapshot_id] = (*copies.get(copy.snapshot_id, ()), copy)
    return Duties(policy, policy.deep or (table is None and bool(config.deep)), copies)


def held_by_hold(context: ReadContext, name: TableName, table: ObservedTable | None) -> bool:
    """Whether a hold applies to the hot table, or, if that is gone, to a namespace it was in."""
    held = table.held if table is not None else False
    if table is None and name.catalog in context.catalogs:
        listing = context.catalogs[name.catalog].listing()
        around = levels_around(context, ObjectName(name.catalog, name.namespace), listing)
        held = any(is_held(properties, context.clock.now()) for _, properties in around)
    return held


def require_past(context: ReadContext, name: TableName, duty: Duties, ids: Sequence[int]) -> None:
    """Refuses while one of the snapshots must stay.

    Raises:
        HoldInForce: Names them, and until when.
    """
    now = context.clock.now()
    early = [
        f"snapshot {id} until {format_instant(until) if until else 'somebody knows its time'}"
        for id in ids
        if (until := duty.keep_until(id)) is None or until > now
    ]
    if early:
        raise HoldInForce(
            f"{len(early)} of {len(ids)} snapshots of {name} must stay in cold",
            object=str(name),
            expected=f"snapshots whose retention in cold is past at {format_instant(now)}",
            found="; ".join(early[:_SHOWN]),
            next="choose an earlier --before",
        )


def refused(plan: PrunePlan, reason: str) -> GateNotPassed:
    """Returns the error that refuses a plan."""
    return GateNotPassed(
        f"nothing leaves cold: {reason}",
        object=plan.digest,
        expected="proof that what is left in cold needs none of the planned files",
        found=reason,
        next="`meltline cold verify TABLE` and `meltline cold deepen TABLE` tell more",
    )
