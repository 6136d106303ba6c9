"""Recall: what cold has lost comes back from the permanent store, to its path (AR-29)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from meltline.app.archive.cold_files import live_files, manifests_of, own_files
from meltline.app.archive.cold_tables import ColdTables, require_cold
from meltline.app.archive.replicate import require_deep
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.safety.audit import audit
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.errors import MeltlineError, TableNotFound
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports.retrieval import DeepStore

_LEASE = timedelta(minutes=2)


@dataclass
class Recalled:
    """What came of one table.

    Attributes:
        table: The hot table's name.
        files: Files that cold had lost and has again; `bytes` their sizes.
        errors: Why others are not there.
    """

    table: TableName
    files: int = 0
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


def recall(context: ReadContext, name: TableName) -> list[Recalled]:
    """Puts files back into cold that are gone there; what is there is not touched.

    Args:
        context: Where they are.
        name: The table, by its name in hot.

    Raises:
        ColdMissing: There is no cold tier, or no permanent store.
        TableNotFound: Nothing of the table is in the permanent store.
        CatalogUnlistable: The cold catalog cannot be listed.
    """
    work = _Recall(context, require_cold(context), require_deep(context))
    every = context.control.archived.all()
    copies = [copy for copy in every if copy.table == name and copy.deep_at is not None]
    if not copies:
        raise TableNotFound(
            f"nothing of {name} is in the permanent store",
            object=str(name),
            expected="a table with permanent copies",
            found="none",
            next=f"`meltline cold deepen {quote(name)}` makes them, while cold is whole",
        )
    return [work.table(uuid, own) for uuid, own in grouped(copies, lambda c: c.table_uuid).items()]


@dataclass(frozen=True)
class _Recall:
    """A way through the tables."""

    context: ReadContext
    tier: ColdTier
    deep: DeepStore

    def table(self, uuid: str, copies: list[ArchivedSnapshot]) -> Recalled:
        """One table, from its metadata down; what stops a snapshot is among its errors."""
        context, done = self.context, Recalled(copies[-1].table)
        wait, holder = context.config.limits.lock_wait, f"{context.who} cold recall"
        try:
            with context.control.locks.take(f"handoff {uuid}", holder, wait=wait, lease=_LEASE):
                tables = ColdTables.read(context)
                self._fetch([entry.metadata_location for entry in tables.entries.values()], done)
                state = tables.of(uuid, [copies[-1].table])
                for copy in copies:
                    self._snapshot(state, copy, done)
        except (MeltlineError, FileNotFoundError) as error:
            done.errors.append(_message(error))
        if done.files:
            detail = f"{done.files} files, {done.bytes} bytes, from the permanent store"
            audit(context, "cold recall", str(done.table), detail=detail)
        return done

    def _snapshot(
        self, state: TableMetadata | None, copy: ArchivedSnapshot, done: Recalled
    ) -> None:
        """Its list, then its manifests, then what they name: each tells of the next."""
        try:
            if state is None or copy.snapshot_id not in state.snapshots:
                raise FileNotFoundError(f"the snapshot's entry in {self.tier.catalog.name}")
            self._fetch(own_files(state, [copy.snapshot_id]), done)
            snapshots = [state.snapshots[copy.snapshot_id]]
            manifests = manifests_of(self.context, self.tier, snapshots)
            self._fetch(manifests, done)
            self._fetch(live_files(self.context, self.tier, manifests.values()), done)
        except (MeltlineError, FileNotFoundError) as error:
            done.errors.append(f"snapshot {copy.snapshot_id}: {_message(error)}")

    def _fetch(self, paths: Iterable[str], done: Recalled) -> None:
        """Has cold hold these files. Raises FileNotFoundError where neither has one."""
        asked = sorted(paths)
        sizes = load_concurrently(self.tier.store.size, asked)
        lost = [path for path, size in zip(asked, sizes, strict=True) if size is None]
        for size in load_concurrently(self.deep.give_back, lost):
            done.files += 1
            done.bytes += size


def _message(error: Exception) -> str:
    return error.message if isinstance(error, MeltlineError) else f"{error} is not there"
