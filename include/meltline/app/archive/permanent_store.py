"""Permanent store: copies archived snapshots to it, and restores lost files of cold from it.

The commands `cold deepen` and `cold recall` call it, and prune checks it. Every file of a snapshot
is stored byte for byte, at its path in cold, and so is the table's metadata. Meltline never deletes
anything in it. No query reads it: once its files are back at their paths, it is the cold table
again (AR-29, AR-36).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from meltline.app.archive.cold_files import live_files, manifests_of, own_files
from meltline.app.archive.cold_tables import (
    ListedColdTables,
    plain_name,
    require_cold,
    require_copies,
)
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.catalog.tables import cold_policy_of, read_tables
from meltline.app.safety.audit import audit
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.errors import ColdMissing, MeltlineError, StoreRefused, TableNotFound
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import CopyReader, ListedCopy
from meltline.ports.retrieval import DeepStore

_LEASE = timedelta(minutes=2)


@dataclass
class Deepened:
    """Result of replicating one table.

    Attributes:
        table: The hot table's name.
        snapshots: Snapshots that are new in the permanent store.
        files: Files that were copied; `bytes` their sizes.
        errors: Why other snapshots are missing.
    """

    table: TableName
    snapshots: int
    files: int
    bytes: int
    errors: list[str]


def require_deep(context: ReadContext) -> DeepStore:
    """Returns the permanent store. Raises ColdMissing if none is configured."""
    if context.deep is None:
        raise ColdMissing(
            "no permanent store is configured",
            object=str(context.config.path),
            expected="deep: s3://… or file://…",
            found="no such key",
            next="name a store for what is never deleted, as docs/keep-history-cold.md shows",
        )
    return context.deep


def deepen(context: ReadContext, name: TableName | None = None) -> list[Deepened]:
    """Copies archived snapshots to the permanent store, without files that it already has.

    Args:
        context: Has cold and the permanent store.
        name: One table, by its name in hot, with all its snapshots; None for what the policies
            select.

    Raises:
        ColdMissing: No cold tier, or no permanent store, is configured.
        TableNotFound: Cold has nothing of the table.
        CatalogUnlistable: The cold catalog cannot be listed.
    """
    work = _Deepening(
        context, require_cold(context), require_deep(context), require_copies(context)
    )
    due = due_for_deep(context, name)
    if name is not None and not due:
        raise TableNotFound(
            f"nothing of {name} is in cold",
            object=str(name),
            expected="a table with archived snapshots",
            found="none",
            next="`meltline cold status` lists the tables",
        )
    tables: dict[str, list[ArchivedSnapshot]] = {}
    for copy in due:
        tables.setdefault(copy.table_uuid, []).append(copy)
    return [work.table(uuid, copies) for uuid, copies in tables.items()]


def due_for_deep(context: ReadContext, name: TableName | None) -> list[ArchivedSnapshot]:
    """Returns archived snapshots that belong in the permanent store, copied already or not.

    For tables that hot does not have any more, the account's policy decides.
    """
    tables = {t.state.uuid: t for t in read_tables(context)}
    uuids = {uuid for uuid, table in tables.items() if plain_name(table) == name}
    account = context.config.account.deep
    policies = {uuid: cold_policy_of(context, table).deep for uuid, table in tables.items()}
    return [
        copy
        for copy in context.control.archived.all()
        if (
            policies.get(copy.table_uuid, account)
            if name is None
            else copy.table_uuid in uuids or copy.table == name
        )
    ]


@dataclass(frozen=True)
class _Deepening:
    """One replication over several tables."""

    context: ReadContext
    tier: ColdTier
    deep: DeepStore
    reader: CopyReader

    def table(self, uuid: str, copies: Sequence[ArchivedSnapshot]) -> Deepened:
        """Replicates one table; collects its errors and those of its snapshots."""
        context, done = self.context, Deepened(copies[-1].table, 0, 0, 0, [])
        waiting = [copy for copy in copies if copy.deep_at is None]
        holder = f"{context.who} cold deepen"
        wait = context.config.limits.lock_wait
        try:
            if not waiting:
                return done
            with context.control.locks.take(f"handoff {uuid}", holder, wait=wait, lease=_LEASE):
                state = ListedColdTables.read(context).of(uuid, [copies[-1].table])
                for copy in waiting:
                    self._snapshot(state, copy, done)
        except (MeltlineError, FileNotFoundError) as error:
            done.errors.append(_message(error))
        return done

    def _snapshot(
        self, state: TableMetadata | None, copy: ArchivedSnapshot, done: Deepened
    ) -> None:
        try:
            if state is None or copy.snapshot_id not in state.snapshots:
                raise _damaged(copy, "the cold catalog has it no more")
            sizes = load_concurrently(self._hold, self._files(state, copy))
            sizes.append(self._hold(state.metadata_location))
        except (MeltlineError, FileNotFoundError) as error:
            done.errors.append(f"snapshot {copy.snapshot_id}: {_message(error)}")
            return
        new, now = sum(sizes), self.context.clock.now()
        self.context.control.archived.save(
            [replace(copy, deep_at=now, deep_bytes=copy.deep_bytes + new)]
        )
        done.snapshots += 1
        done.files += sum(1 for size in sizes if size)
        done.bytes += new

    def _files(self, state: TableMetadata, copy: ArchivedSnapshot) -> list[str]:
        """Returns the snapshot's files except metadata, if its copy in cold is complete.

        Raises:
            StoreRefused: A file of cold is damaged or missing.
        """
        snapshot = state.snapshots[copy.snapshot_id]
        manifests = manifests_of(self.context, self.tier, [snapshot])
        listed = [
            ListedCopy(manifest.path, manifest.bytes, manifest.added_snapshot_id)
            for manifest in manifests.values()
        ]
        for audited in self.reader.audit(listed, self.tier.warehouse):
            if audited.problems:
                raise _damaged(copy, audited.problems[0])
        files = live_files(self.context, self.tier, manifests.values())
        return sorted(files | manifests.keys() | own_files(state, [copy.snapshot_id]))

    def _hold(self, path: str) -> int:
        size = self.tier.store.size(path)
        if size is None:
            raise FileNotFoundError(path)
        return self.deep.hold(path, size)


def missing_in_deep(deep: DeepStore, tier: ColdTier, files: Sequence[str]) -> list[str]:
    """Returns files of cold that the permanent store does not have at the same length."""

    def is_held(path: str) -> bool:
        size = tier.store.size(path)
        return size is not None and deep.size(path) == size

    return [
        path
        for path, held in zip(files, load_concurrently(is_held, files), strict=True)
        if not held
    ]


def _damaged(copy: ArchivedSnapshot, problem: str) -> StoreRefused:
    return StoreRefused(
        f"the copy of snapshot {copy.snapshot_id} of {copy.table} is not whole: {problem}",
        object=str(copy.table),
        expected="a copy that `meltline cold verify` finds whole",
        found=problem,
        next="look at it: nothing of it goes to the permanent store like this",
    )


def _message(error: Exception) -> str:
    return error.message if isinstance(error, MeltlineError) else f"{error} is not there"


@dataclass
class Recalled:
    """Result of restoring one table's files.

    Attributes:
        table: The hot table's name.
        files: Restored files that cold had lost; `bytes` their sizes.
        errors: Why others are missing.
    """

    table: TableName
    files: int = 0
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


def recall(context: ReadContext, name: TableName) -> list[Recalled]:
    """Restores files that are gone in cold; existing files are not changed.

    Args:
        context: Has cold and the permanent store.
        name: The table, by its name in hot.

    Raises:
        ColdMissing: No cold tier, or no permanent store, is configured.
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
    """One restore over several tables."""

    context: ReadContext
    tier: ColdTier
    deep: DeepStore

    def table(self, uuid: str, copies: list[ArchivedSnapshot]) -> Recalled:
        """Restores one table, from its metadata down; collects its snapshots' errors."""
        context, done = self.context, Recalled(copies[-1].table)
        wait, holder = context.config.limits.lock_wait, f"{context.who} cold recall"
        try:
            with context.control.locks.take(f"handoff {uuid}", holder, wait=wait, lease=_LEASE):
                tables = ListedColdTables.read(context)
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
        """Restores its list, then its manifests, then their files: each names the next."""
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
        """Restores these files if cold lacks them. Raises FileNotFoundError if neither has one."""
        asked = sorted(paths)
        sizes = load_concurrently(self.tier.store.size, asked)
        lost = [path for path, size in zip(asked, sizes, strict=True) if size is None]
        for size in load_concurrently(self.deep.give_back, lost):
            done.files += 1
            done.bytes += size
