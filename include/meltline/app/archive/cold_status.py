"""Archive status per table and snapshot, and recovery of archive records in a lost ledger.

The commands `cold status`, `cold list`, `cold adopt` and `init` call it.
"""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.archive.cold_tables import ListedColdTables, plain_name, require_cold
from meltline.app.catalog.tables import ObservedTable, cold_policy_of, read_tables
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import COLD_OF, ArchivedSnapshot, read_archived
from meltline.domain.archive.cold import cold_policy
from meltline.domain.archive.cold_proofs import proofs_folder, read_proofs
from meltline.domain.errors import TableNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata


@dataclass(frozen=True)
class ColdStatus:
    """Progress of the archive with one table.

    Attributes:
        table: Its name in hot, or its last one.
        policy: Which of its expired snapshots are archived; empty if hot does not have the table.
        waiting: Expired snapshots without a verified copy.
        archived: Snapshots in cold.
        bytes: Their size in cold; shared files count once.
        oldest: When the oldest of them was committed; `newest` likewise.
    """

    table: TableName
    policy: str
    waiting: int
    archived: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None


def cold_status(context: ReadContext, name: TableName | None = None) -> list[ColdStatus]:
    """Returns the progress for each table that is archived or has an archive policy, or for one.

    Raises:
        TableNotFound: Neither hot nor cold knows the table.
    """
    tables = {t.state.uuid: t for t in read_tables(context) if t.managed}
    copies = _copies(context)
    waiting = {
        pending.table.state.uuid: pending.waiting
        for pending in pending_handoffs(context, list(tables.values()), context.clock.now())
    }
    policy_uuids = {uuid for uuid, table in tables.items() if cold_policy_of(context, table).is_on}
    statuses = [
        _status(context, tables.get(uuid), copies.get(uuid, []), waiting.get(uuid, 0))
        for uuid in policy_uuids | copies.keys()
    ]
    statuses = [status for status in statuses if name in (None, status.table)]
    _require_any(statuses, name)
    return sorted(statuses, key=lambda status: status.table)


def _copies(context: ReadContext) -> dict[str, list[ArchivedSnapshot]]:
    """Returns the recorded copies, by table UUID."""
    copies: dict[str, list[ArchivedSnapshot]] = {}
    for copy in context.control.archived.all():
        copies.setdefault(copy.table_uuid, []).append(copy)
    return copies


def _status(
    context: ReadContext,
    table: ObservedTable | None,
    copies: Sequence[ArchivedSnapshot],
    waiting: int,
) -> ColdStatus:
    times = [copy.committed_at for copy in copies]
    return ColdStatus(
        table=copies[-1].table if table is None else plain_name(table),
        policy="" if table is None else str(cold_policy_of(context, table).cadence),
        waiting=waiting,
        archived=len(copies),
        bytes=sum(copy.bytes_copied for copy in copies),
        oldest=min(times, default=None),
        newest=max(times, default=None),
    )


def cold_list(context: ReadContext, name: TableName) -> list[ArchivedSnapshot]:
    """Returns the archived snapshots of a table, oldest first; also of a dropped or renamed one.

    Raises:
        TableNotFound: Cold has nothing of it.
    """
    uuids = {t.state.uuid for t in read_tables(context) if plain_name(t) == name}
    copies = [c for c in context.control.archived.all() if c.table_uuid in uuids or c.table == name]
    _require_any(copies, name)
    return sorted(copies, key=lambda copy: (copy.committed_at, copy.snapshot_id))


def _require_any(rows: Sequence[object], name: TableName | None) -> None:
    """Raises TableNotFound if nothing of the requested table was found."""
    if name is not None and not rows:
        raise TableNotFound(
            f"nothing of {name} is in cold, and no policy wants it there",
            object=str(name),
            expected="a table with archived snapshots, or with meltline.cold set",
            found="neither",
            next="`meltline cold status` lists the tables",
        )


def remember_copies(context: ReadContext) -> int:
    """Records copies in the ledger that only cold knows; returns their number.

    It is needed after `meltline cold adopt`, or after a ledger was lost: cold describes its own
    content. Copies of another installation are excluded.
    """
    tier = require_cold(context)
    recorded = {(copy.table_uuid, copy.snapshot_id) for copy in context.control.archived.all()}
    levels = {t.state.uuid: t.levels for t in read_tables(context)}
    new: list[ArchivedSnapshot] = []
    tables = ListedColdTables.read(context)
    for state in tables.all():
        if isinstance(state, TableMetadata) and tables.owner.owns(state):
            uuid = state.properties.get(COLD_OF, "")
            keep_for = cold_policy(context.config.account, levels.get(uuid, ())).keep_for
            table = replace(state.name, catalog=context.config.hot)
            copies = read_archived(state, table, keep_for)
            new += [copy for copy in copies if (uuid, copy.snapshot_id) not in recorded]
    context.control.archived.save(new)
    _remember_proofs(context, tier)
    return len(new)


def _remember_proofs(context: ReadContext, tier: ColdTier) -> None:
    """Records the archive's copy proofs in the ledger; the newest proof of a file counts."""
    folder = proofs_folder(tier.warehouse)
    documents = sorted(tier.store.list(folder), key=lambda stored: stored.modified_at, reverse=True)
    for stored in documents:
        try:
            document = gzip.decompress(tier.store.read(stored.path)).decode()
        except (OSError, EOFError, ValueError, zlib.error):
            continue  # its files are read again
        proofs = {proof.path: proof for proof in read_proofs(document)}
        recorded = context.control.copies.of(list(proofs))
        context.control.copies.save(
            [proof for proof in proofs.values() if proof.path not in recorded]
        )
