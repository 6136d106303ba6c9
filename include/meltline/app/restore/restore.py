"""Restore: creates a new hot table from an archived snapshot, with files of its own.

The CLI calls it. The files are copied below the new table's location and compared with cold by the
gate's own reader; only then is the table registered. Cold is only read. A failure before that
leaves no file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn
from uuid import uuid4

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.metadata import load_document
from meltline.app.catalog.new_names import require_free, require_outer
from meltline.app.catalog.resolve import parse_new_name, require_changeable
from meltline.app.clone.clone import new_identity
from meltline.app.observe.observe import observe
from meltline.app.restore.tiers import cold_pasts, only_answer
from meltline.app.safety.audit import audit
from meltline.app.safety.preconditions import require_datable
from meltline.app.services import ColdTier, ReadContext, Retrieval, RunContext
from meltline.domain.archive.cold_past import ColdPast
from meltline.domain.archive.cold_paths import lies_under, mirrored
from meltline.domain.archive.restored import Retrieved, restored_metadata
from meltline.domain.clone.clones import Identity, Source
from meltline.domain.errors import MeltlineError, SnapshotNotFound, StoreRefused, UsageInvalid
from meltline.domain.iceberg.metadata_editor import NextMetadata
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.safe_text import quote
from meltline.domain.time_travel.timetravel import Resolved
from meltline.ports import (
    NOT_REGISTERED,
    CatalogRegistrar,
    ListedCopy,
    ManifestPair,
    NewTable,
)

RESTORE = "restore"
"""The audit's name of a restore."""


@dataclass(frozen=True)
class Restored:
    """A restored table.

    Attributes:
        table: Its name.
        cold: The cold table.
        valid_from: The proved time since which main was at that snapshot; equal to `valid_to` if
            there is no proof that it ever was.
        uuid: Its own UUID; empty in a dry run. So is `location`, and `files`, `bytes` and `rows`
            are 0.
    """

    table: TableName
    cold: TableName
    snapshot_id: int
    committed_at: datetime
    valid_from: datetime
    valid_to: datetime | None
    uuid: str = ""
    location: str = ""
    files: int = 0
    bytes: int = 0
    rows: int = 0


def restore(
    context: ReadContext,
    retrieval: Callable[[], Retrieval],
    target: str,
    table: TableName,
    *,
    snapshot_id: int | None = None,
    at: datetime | None = None,
    dry_run: bool = False,
    reason: str = "",
) -> Restored:
    """Creates a new hot table from an archived snapshot.

    Args:
        context: The ports, including cold's.
        retrieval: Starts the copying service; called after all other checks have passed.
        target: The new table's name, in full.
        table: The table whose history is in cold: its name in hot, or the cold table's own.
        snapshot_id: The snapshot to restore; or
        at: the instant to restore.
        dry_run: Check everything and change nothing.
        reason: The reason, for the audit.

    Raises:
        UsageInvalid: Not exactly one of the two is given, or the name is invalid.
        ColdMissing: No cold tier is configured.
        SnapshotNotFound: Cold does not have it.
        OutsideRetention: Cold does not have the state at the instant.
        NameConflict: The new name is taken, or cold has several such tables.
        NamespaceNotFound: The namespace of the new name does not exist.
        CatalogReadOnly: No table may be created under the new name.
        StoreRefused: A file could not be copied, or a copy differs from cold; all copies are
            removed.
        CommitConflict: It is unknown whether the table was registered.
    """
    tier = require_cold(context)
    name = parse_new_name(target)
    new = ObjectName(name.catalog, name.namespace, name.name)
    catalog = require_changeable(context, new)
    listing = catalog.listing()
    require_free(new, listing)
    require_outer(new, listing)
    past, resolved = _answer(context, table, snapshot_id, at)
    assert resolved.snapshot_id is not None  # cold answers with snapshots alone
    state, document = load_document(tier.store, past.state.name, past.state.metadata_location)
    own = new_identity(context, name, state, listing)
    _require_own_place(context, tier, own)
    snapshot = state.snapshots[resolved.snapshot_id]
    done = Restored(
        name,
        state.name,
        snapshot.snapshot_id,
        snapshot.committed_at,
        resolved.valid_from,
        resolved.valid_to,
    )
    if dry_run:
        return done
    source = Source(state, document, snapshot.snapshot_id)
    registrar = context.registrars[catalog.name]
    files = _Restoring(context, tier, retrieval(), registrar, source, own).carry_out()
    audit(context, RESTORE, str(name), reason, f"from {state.name}@{snapshot.snapshot_id}")
    return replace(
        done,
        uuid=own.uuid,
        location=own.location,
        files=files.files,
        bytes=files.bytes,
        rows=files.rows,
    )


def take_in(context: RunContext, restored: TableName) -> str:
    """Observes the catalogs, so that reports include a restored table's bytes at once.

    Returns:
        Why that failed; empty if it did not. The table exists in either case.
    """
    try:
        require_datable(context)
        refused = observe(context).skipped.get(restored)
    except MeltlineError as error:
        refused = error
    return refused.message if refused else ""


def _answer(
    context: ReadContext, table: TableName, snapshot_id: int | None, at: datetime | None
) -> tuple[ColdPast, Resolved]:
    if (snapshot_id is None) == (at is None):
        raise UsageInvalid(
            "either a snapshot or a time",
            object="--snapshot, --at",
            expected="one of the two",
            found="neither" if at is None else "both",
            next=f"`meltline cold list {quote(table)}` shows what is there",
        )
    pasts = cold_pasts(context, table)

    def ask(past: ColdPast) -> Resolved:
        if at is not None:
            return past.at(at)
        resolved = past.of(snapshot_id or 0)
        if resolved is None:
            raise _not_there(table, snapshot_id)
        return resolved

    if not pasts:
        raise _not_there(table, snapshot_id)
    return only_answer(table, pasts, ask)


def _not_there(table: TableName, snapshot_id: int | None) -> SnapshotNotFound:
    subject = f"no snapshot {snapshot_id}" if snapshot_id is not None else "nothing"
    return SnapshotNotFound(
        f"cold has {subject} of {table}",
        object=str(table),
        expected="an archived snapshot",
        found="none",
        next=f"`meltline cold list {quote(table)}` shows what is there",
    )


def _require_own_place(context: ReadContext, tier: ColdTier, own: Identity) -> None:
    """Refuses a location in cold, or one that has files."""
    is_cold = lies_under(own.location, tier.warehouse)
    if is_cold or next(iter(context.store.list(own.location)), None) is not None:
        raise UsageInvalid(
            f"{own.name} has no place of its own to be restored to",
            object=own.location,
            expected="an empty folder in the hot warehouse",
            found="a folder of cold" if is_cold else "files",
            next="set `warehouse` of its catalog, or `location` of its namespace",
        )


@dataclass(frozen=True)
class _Restoring:
    """A restore in progress."""

    context: ReadContext
    tier: ColdTier
    retrieval: Retrieval
    registrar: CatalogRegistrar
    source: Source
    own: Identity

    @property
    def snapshot(self) -> Snapshot:
        assert self.source.snapshot_id is not None
        return self.source.state.snapshots[self.source.snapshot_id]

    @property
    def cold(self) -> TableMetadata:
        return self.source.state

    @property
    def folder(self) -> str:
        """The folder of the copies, separate from the files that engines will write."""
        return f"{self.own.location}/restored"

    def carry_out(self) -> Retrieved:
        """Copies, verifies and registers; on failure it removes every copy."""
        name = self.own.name
        self.context.progress(f"copying snapshot {self.snapshot.snapshot_id} of {self.cold.name}")
        try:
            files = self._copied()
        except BaseException:
            self._take_away()
            raise
        try:
            self.registrar.create([NewTable(name, lambda now: self._first(files, now))])
        except NOT_REGISTERED:
            self._take_away()
            raise
        return files

    def _copied(self) -> Retrieved:
        try:
            copied = self.retrieval.retriever.bring_back(
                self.cold, self.snapshot.snapshot_id, self.folder
            )
            differences = self._differences(copied)
        except (MeltlineError, FileNotFoundError) as failed:
            reason = failed.message if isinstance(failed, MeltlineError) else f"{failed} is gone"
            self._refuse(reason, failed)
        if differences:
            self._refuse("; ".join(differences))
        return copied

    def _refuse(self, reason: str, cause: Exception | None = None) -> NoReturn:
        raise StoreRefused(
            f"{self.own.name} cannot be restored from {self.cold.name}: {reason}",
            object=str(self.own.name),
            expected="copies that agree with cold, file by file",
            found=reason,
            next=f"`meltline cold verify {quote(self.cold.name)}` tells what is wrong there; "
            "nothing was "
            "registered, and what was copied has been taken away again",
        ) from cause

    def _differences(self, files: Retrieved) -> Sequence[str]:
        """Differences between the copies and cold, found by another reader than the copying one."""
        reader, folder = self.retrieval.reader, self.folder
        theirs = self._manifests(self.snapshot.manifest_list, self.snapshot.inline_manifests, False)
        ours = self._manifests(files.manifest_list, files.manifests, True)
        if isinstance(theirs, str):
            return [theirs]
        if isinstance(ours, str):
            return [ours]
        paths = [manifest.path for manifest in ours]
        if paths != [mirrored(manifest.path, folder) for manifest in theirs]:
            return ["the copy of its manifest list names other manifests"]
        pairs = list(map(ManifestPair, theirs, ours))
        audited = reader.audit(ours, folder)
        problems = [problem for manifest in audited for problem in manifest.problems]
        counted = sum(manifest.rows for manifest in audited)
        if counted != files.rows:
            problems.append(f"{counted} rows instead of {files.rows}")
        return [*reader.differences(pairs, folder), *problems]

    def _manifests(
        self, listed: str, inline: Sequence[str], of_copies: bool
    ) -> tuple[ListedCopy, ...] | str:
        if not listed:
            return tuple(ListedCopy(path, 0, None) for path in inline)
        return self.retrieval.reader.lists([listed], of_copies=of_copies)[listed]

    def _first(self, files: Retrieved, now: datetime) -> NextMetadata:
        return restored_metadata(self.source, files, self.own, now, str(uuid4()))

    def _take_away(self) -> None:
        """Deletes the copies: they are in a new folder that no catalog ever referenced."""
        paths = [stored.path for stored in self.context.store.list(self.own.location)]
        if paths:
            self.context.remover.delete(paths)
