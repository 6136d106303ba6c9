"""Storage totals: bytes by stage, per table and day.

The report step, `meltline storage` and guards call it. Stages are derived from the ledger. A byte
counts once, for the owner of its file, however many tables reference it. A past day can be computed
again: a file counts from its first commit until its deletion (ML-4, ML-18, I-3).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from meltline.app.catalog.registrations import UNOBSERVED
from meltline.app.services import ReadContext
from meltline.app.storage.references import Lookup, References
from meltline.app.storage.unread_tables import UnreadTable, unread_tables
from meltline.domain.deletion.storage import FileReference, Stage, StorageRow
from meltline.domain.iceberg.locations import OwnerIndex, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import (
    ENDED,
    ControlLedger,
    KnownTable,
    SnapshotKey,
    StoredObject,
    UsageQuery,
    UsageTotals,
    UsedFile,
)


@dataclass(frozen=True)
class StorageTotals:
    """Stored bytes at one moment.

    Attributes:
        names: Names of all tables ever known, by UUID.
        cold: Bytes that had been copied to cold by then, by the UUID of the hot table.
        deep: Bytes that had been copied to the permanent store, likewise.
        observed: The last complete observation of each table, by UUID.
    """

    at: datetime
    holdings: UsageTotals
    names: Mapping[str, TableName]
    cold: Mapping[str, int]
    deep: Mapping[str, int]
    observed: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def observed_at(self) -> datetime | None:
        """The last observation of any table; None if there was none."""
        return max(self.observed.values(), default=None)

    def computed_at(self, uuid: str) -> datetime:
        """The last observation of this table, or of any if this one is gone."""
        return min(self.at, self.observed.get(uuid) or self.observed_at or self.at)


def storage_rows(
    totals: StorageTotals, in_flight: Mapping[str, int] | None = None
) -> list[StorageRow]:
    """Builds a row per owner; foreign bytes count for the table that references them."""
    holdings = totals.holdings

    def row(uuid: str, name: TableName) -> StorageRow:
        def owned(stage: Stage) -> int:
            return holdings.owned.get((uuid, stage), 0)

        return StorageRow(
            table=name,
            table_uuid=uuid,
            active_bytes=owned(Stage.ACTIVE),
            historical_bytes=owned(Stage.HISTORICAL),
            retained_for_clone_bytes=owned(Stage.RETAINED_FOR_CLONE),
            failsafe_bytes=owned(Stage.FAILSAFE),
            deleted_bytes=owned(Stage.DELETED),
            foreign_bytes=holdings.foreign.get(uuid, 0),
            in_flight_bytes=None if in_flight is None else in_flight.get(uuid, 0),
            computed_at=totals.computed_at(uuid),
            cold_bytes=totals.cold.get(uuid, 0),
            deep_bytes=totals.deep.get(uuid, 0),
        )

    rows = [row(uuid, name) for uuid, name in totals.names.items()]
    return sorted(rows, key=lambda storage_row: storage_row.table)


def totals_now(context: ReadContext) -> StorageTotals:
    """Computes the totals by the tables' current metadata. Raises CatalogUnlistable."""
    return StoredBytes(context).at(None)


class StoredBytes:
    """Stored bytes at any instant, from one read of ledgers and catalogs.

    Raises:
        CatalogUnlistable: A catalog cannot be listed, so the heads are unknown.
    """

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._look = Lookup.at_all(context)

    def at(
        self,
        as_of: datetime | None,
        paths: Collection[str] = (),
        *,
        coming: timedelta | None = None,
    ) -> StorageTotals:
        """Computes the totals at an instant; None is now.

        Args:
            as_of: The instant.
            paths: Paths to check for known files; see `UsageTotals.known_paths`.
            coming: Horizon of the forecast of due bytes; see `UsageTotals.due`.
        """
        references = References(self._context, self._look, as_of)
        manifests: dict[int, set[FileReference]] = {}
        lines: dict[str, list[tuple[int, FileReference]]] = {}
        used_files: list[UsedFile] = []
        for snapshot, use in references.of_snapshots():
            if snapshot.by_changes:
                line = lines.setdefault(snapshot.key.table_uuid, [])
                line.append((snapshot.sequence_number, use))
            for manifest in snapshot.manifests:
                manifests.setdefault(manifest, set()).add(use)
            if snapshot.manifest_list:
                size = snapshot.manifest_list_bytes
                used_files.append(UsedFile(snapshot.manifest_list, size, use))
        used_files += [UsedFile(f.path, f.bytes, use) for f, use in references.of_side_files()]
        weighing = UsageQuery(references.at, references.owners, manifests, used_files, paths, lines)
        if coming is not None:
            weighing = replace(weighing, due_by=references.at + coming)
        holdings = self._context.reader.weigh(weighing)
        cold, deep = _archived_bytes(self._context.control, references.at)
        observed = _observed(self._context.control.registrations.all())
        return StorageTotals(references.at, holdings, self._look.names, cold, deep, observed)

    @property
    def unread(self) -> Sequence[UnreadTable]:
        """Tables whose bytes are unknown."""
        return list(unread_tables(self._look, self._context.control.registrations.all()))

    @property
    def states(self) -> Sequence[TableMetadata]:
        """Every readable table of every catalog, except the ledger's own."""
        return self._look.states

    @property
    def indexed(self) -> frozenset[SnapshotKey]:
        """The snapshots whose files are in the ledger."""
        return frozenset(snapshot.key for snapshot in self._look.snapshots)


def _observed(rows: Sequence[KnownTable]) -> dict[str, datetime]:
    """The last complete observation of each registered table, by UUID."""
    seen: dict[str, datetime] = {}
    for row in rows:
        if row.status not in (UNOBSERVED, *ENDED):
            seen[row.uuid] = max(row.observed_at, seen.get(row.uuid, row.observed_at))
    return seen


def _archived_bytes(control: ControlLedger, at: datetime) -> tuple[Counter[str], Counter[str]]:
    cold: Counter[str] = Counter()
    deep: Counter[str] = Counter()
    for copy in control.archived.all():
        if copy.verified_at <= at:
            cold[copy.table_uuid] += copy.bytes_copied
        if copy.deep_at is not None and copy.deep_at <= at:
            deep[copy.table_uuid] += copy.deep_bytes
    return cold, deep


def record_storage(context: ReadContext, history: StoredBytes, totals: StorageTotals) -> None:
    """Stores today's rows under today, never under another day (ML-37).

    An unreadable table has no row today: its bytes are unknown.
    """
    day, unread = context.clock.now().date().isoformat(), {table.uuid for table in history.unread}
    rows = [row for row in storage_rows(totals) if row.table_uuid not in unread]
    context.control.storage.save(day, rows)


def listed_files(context: ReadContext) -> Collection[StoredObject]:
    """Lists the files under the tables' prefixes now, each once, from the store.

    Side files of Hadoop's local file system (`.NAME.crc`) belong to their file and do not count.
    """
    by_key: dict[str, StoredObject] = {}
    for prefix in sorted({o.prefix for o in context.control.registrations.ownerships()}):
        for stored in context.store.list(prefix):
            name = stored.path.rpartition("/")[2]
            if not (name[:1] == "." and name[-4:] == ".crc"):
                by_key.setdefault(location_key(stored.path), stored)
    return by_key.values()


def in_flight_bytes(
    context: ReadContext, listed: Collection[StoredObject], totals: StorageTotals
) -> dict[str, int]:
    """Bytes of listed files that no commit has referenced, by the table that owns their location.

    Args:
        context: The ports.
        listed: The files, listed before the totals were computed, and passed to them as `paths`.
        totals: The totals.
    """
    owners = OwnerIndex(context.control.registrations.ownerships())
    by_uuid: dict[str, int] = {}
    for stored in listed:
        if stored.path not in totals.holdings.known_paths:
            for uuid in owners.owners(stored.path)[:1]:
                by_uuid[uuid] = by_uuid.get(uuid, 0) + stored.bytes
    return by_uuid
