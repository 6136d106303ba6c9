"""The guard of tables that share files: it stops engines from expiring or purging them.

A clone's source gets `gc.enabled=false` before the clone is registered, and stores its previous
value in `meltline.gc-enabled-before`. The daily report, which knows every file and its references,
restores that value once the table shares no file any more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from meltline.app.catalog.commit import same_table
from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.tables import is_ledger
from meltline.app.safety.audit import audit
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.services import ReadContext
from meltline.app.storage.report import StorageTotals, StoredBytes
from meltline.domain.clone.clones import GC_BEFORE, guarded, is_guarded, unguarded
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import CommitConflict, MeltlineError
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import (
    NOT_REGISTERED,
    Catalog,
    CatalogEditor,
    CatalogEntry,
    GuardKind,
    GuardReader,
    RegistrationReader,
    SnapshotKey,
)

CLONED = "clone"
LIFTED = "lift guard"
"""Names of cloning and of lifting a guard in the audit; they are written and never read."""

_UNSHARED = "it shares no file any more"


def set_guard(
    log: GuardLog,
    editors: Mapping[str, CatalogEditor],
    seen: TableMetadata,
    snapshot_id: int | None = None,
) -> bool:
    """Sets the guard of a table, if it still has a snapshot.

    Returns:
        Whether that took a commit: False if the table was guarded already.

    Raises:
        CommitConflict: The snapshot has expired since the table was read, or every attempt lost to
            another commit.
        TableNotFound: The table has been replaced, renamed or dropped.
        CatalogReadOnly: It cannot be changed from here.
    """
    changed = False
    log.sets(seen.uuid)

    def edit(document: MetadataEditor) -> None:
        nonlocal changed
        if snapshot_id is not None and snapshot_id not in document.state.snapshots:
            raise snapshot_lost(seen, snapshot_id)
        document.set_properties(guarded(document.properties))
        changed = document.is_changed

    editors[seen.name.catalog].edit_table(seen.name, same_table(seen, edit))
    return changed


def snapshot_lost(seen: TableMetadata, snapshot_id: int) -> CommitConflict:
    """Error for a snapshot that expired while a command worked on it."""
    return CommitConflict(
        f"snapshot {snapshot_id} of {seen.name} has expired meanwhile",
        object=f"{seen.name}@{snapshot_id}",
        expected="a snapshot that stays until the command has ended",
        found="it is gone from the table",
        next="run the command again; nothing was made",
    )


def lift_guard(editors: Mapping[str, CatalogEditor], seen: TableMetadata) -> None:
    """Restores a table's previous `gc.enabled`. Raises as `Catalog.edit_table` does."""

    def edit(document: MetadataEditor) -> None:
        if is_guarded(document.properties):
            document.set_properties(*unguarded(document.properties))

    editors[seen.name.catalog].edit_table(seen.name, same_table(seen, edit))


@contextmanager
def taken_back_if_refused(back: ExitStack) -> Iterator[None]:
    """Wraps a registration: after any failure except a refusal, nothing is reverted.

    It is then unknown whether the tables are registered, so everything that they need stays.
    """
    try:
        yield
    except NOT_REGISTERED:
        raise
    except BaseException:
        back.pop_all()
        raise


def take_back_guard(
    registrations: RegistrationReader,
    editors: Mapping[str, CatalogEditor],
    seen: TableMetadata,
    failed: str,
) -> None:
    """Lifts a guard that was set for a table whose registration failed, if that is possible.

    If another table shares files too, the guard stays: the daily report lifts it once that has
    ended.

    Args:
        registrations: The ledger of sharing pairs.
        editors: The editors of all catalogs.
        seen: The guarded table.
        failed: The UUID that the new table would have had.
    """
    pairs = [pair for pair in registrations.sharing() if seen.uuid in pair]
    if all({seen.uuid, failed}.issuperset(pair) for pair in pairs):
        with suppress(MeltlineError):
            lift_guard(editors, seen)


def lift_ended_guards(context: ReadContext, history: StoredBytes, totals: StorageTotals) -> None:
    """Lifts the guard of tables that share no file any more.

    Dropped tables keep theirs, so that an undrop restores them unchanged. If the evidence is
    incomplete today, the next report decides.

    Args:
        context: The ports.
        history: The observation of all catalogs and the file ledger that `totals` is based on.
        totals: The bytes stored now, and the tables that share them.
    """
    guarded_ones = [state for state in history.states if _may_lift(context.catalogs, state)]
    if not guarded_ones:
        return
    shares = _sharing(context.control.registrations, history, totals)
    for state in guarded_ones:
        if state.uuid in shares:
            continue
        try:
            with group_locks(context, [state.uuid], f"lift the guard of {state.name}"):
                if _is_all_known(context, history, state):
                    lift_guard(context.editors, state)
                    GuardLog.of(context).save(state.uuid, GuardKind.LIFTED, _UNSHARED)
                    audit(context, LIFTED, str(state.name), _UNSHARED)
        except MeltlineError as stop:
            context.progress(f"report: {state.name} stays guarded today: {stop.message}")


def _may_lift(catalogs: Mapping[str, Catalog], state: TableMetadata) -> bool:
    ours = GC_BEFORE in state.properties and is_guarded(state.properties)
    catalog = catalogs[state.name.catalog]
    return ours and not is_dropped_name(state.name.namespace) and not catalog.observe_only


def _sharing(
    registrations: RegistrationReader, history: StoredBytes, totals: StorageTotals
) -> set[str]:
    """Tables with a file that another registered table references or owns.

    A snapshot that a readable table has expired references nothing any more.
    """
    rows = registrations.all()
    uuids = {state.uuid for state in history.states} | {row.uuid for row in rows}
    standing = uuids - let_go_tables(rows).keys()
    holdings = totals.holdings
    lent = {pair for pair in holdings.lent if pair[0] in standing}
    return {uuid for pair in holdings.together | lent for uuid in pair}


def _is_all_known(context: ReadContext, history: StoredBytes, state: TableMetadata) -> bool:
    """Whether the observation that found nothing shared covered the table's whole sharing group.

    A clone is in the control ledger's group before it is registered. So a clone that was added
    since the observation is found here. A clone in progress has the group's lock, or checks the
    guard again after its registration.
    """
    group = Groups(context.control.registrations.sharing()).members(state.uuid)
    rows = context.control.registrations.all()
    if any(row.uuid in group and row.is_skipped for row in rows):
        return False
    return _is_indexed(history, group) and not _has_come_since(context, history, group)


def _is_indexed(history: StoredBytes, group: Collection[str]) -> bool:
    """Whether all snapshots of a group were indexed in that observation."""
    members = (state for state in history.states if state.uuid in group)
    return all(
        SnapshotKey(state.uuid, number) in history.indexed
        for state in members
        for number in state.snapshots
    )


def _has_come_since(context: ReadContext, history: StoredBytes, group: Collection[str]) -> bool:
    """Whether a table of the group was added or moved since then, or one is unreadable."""
    seen = {CatalogEntry(state.name, state.metadata_location) for state in history.states}
    listings = [catalog.listing() for catalog in context.catalogs.values()]
    new = [e for listing in listings for e in listing.entries if e not in seen]
    later = load_tables(context, [e for e in new if not is_ledger(context, e.name)])
    return any(isinstance(o, MeltlineError) or o.uuid in group for o in later.values())


def may_share(
    registrations: RegistrationReader, decisions: GuardReader, states: Sequence[TableMetadata]
) -> set[str]:
    """UUIDs of tables that, by the ledger, have shared files with another registered table.

    Tables whose guard was lifted because they share nothing any more are omitted.
    """
    uuids = {state.uuid for state in states}
    pairs = [pair for pair in registrations.sharing() if uuids.issuperset(pair)]
    shared = {uuid for pair in pairs for uuid in pair}
    lifted = {r.table_uuid for r in decisions.guards() if r.kind is GuardKind.LIFTED}
    return (uuids & shared) - lifted
