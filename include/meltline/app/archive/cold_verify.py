"""Verifies copies from cold alone: opens every manifest and checks every file (AR-35).

The command `cold verify` calls it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from meltline.app.archive.cold_files import readable_manifests
from meltline.app.archive.cold_status import cold_list
from meltline.app.archive.cold_tables import ListedColdTables, no_cold, require_cold
from meltline.app.archive.copy_proofs import ContentCheck
from meltline.app.archive.foreign_metadata import foreign_commits
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.errors import SnapshotNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CopiedManifest, CopyReader, ListedCopy

_SHOWN = 5
_NO_TABLE = "the cold catalog has it no more"
_PORTION = 100  # manifests whose files are in memory at a time

CountRows = Callable[[TableName, int], int | str]
"""Reads every row of a snapshot; returns their number, or the error."""


@dataclass(frozen=True)
class Verified:
    """Result of verifying one copy.

    Attributes:
        files: Its data and delete files, manifests, manifest list and statistics.
        rows: Rows of its data files, by its manifests.
        rows_read: Rows with deletes applied, if all were read; otherwise None.
        unread: Number of its files without a digest; their content was not checked.
        alone: Number of its files whose first digest was taken now, without the originals. Earlier
            damage to them cannot be detected.
        problems: The defects; empty if it is complete.
    """

    snapshot_id: int
    files: int = 0
    rows: int = 0
    rows_read: int | None = None
    unread: int = 0
    alone: int = 0
    problems: tuple[str, ...] = ()


def cold_verify(
    context: ReadContext,
    name: TableName,
    snapshot_id: int | None = None,
    count_rows: CountRows | None = None,
    *,
    content: bool = False,
) -> list[Verified]:
    """Opens every manifest of a table's copies, and checks every file in them.

    Each file's size, time and version are compared with the record of its verification. A file that
    has changed is read, and so is one whose store shows no version. Complete copies are recorded as
    verified now.

    Args:
        context: Has cold and the ledger.
        name: The table, by its name in hot.
        snapshot_id: One of its copies; None for all.
        count_rows: Reads every row as well, if given.
        content: Read every file, and compare its digest.

    Raises:
        ColdMissing: No cold tier is configured.
        TableNotFound: Cold has nothing of the table.
        SnapshotNotFound: Cold has no copy of the snapshot.
        CatalogUnlistable: The cold catalog cannot be listed.
    """
    tier = require_cold(context)
    if context.copies is None:
        raise no_cold(context.config)
    copies = _copies_of(context, name, snapshot_id)
    tables, results = ListedColdTables.read(context), list[Verified]()
    for uuid in dict.fromkeys(copy.table_uuid for copy in copies):
        own = [copy for copy in copies if copy.table_uuid == uuid]
        check = ContentCheck(context.control, tier.store, content)
        verified = _verified(tier, context.copies, tables.of(uuid, [name]), own, check, count_rows)
        now, whole = context.clock.now(), {v.snapshot_id for v in verified if not v.problems}
        again = [replace(c, verified_at=now) for c in own if c.snapshot_id in whole]
        context.control.archived.save(again)
        results += verified
    return results


def _verified(
    tier: ColdTier,
    copies: CopyReader,
    state: TableMetadata | None,
    archived: Sequence[ArchivedSnapshot],
    check: ContentCheck,
    count_rows: CountRows | None,
) -> list[Verified]:
    if state is None:
        return [Verified(copy.snapshot_id, problems=(_NO_TABLE,)) for copy in archived]
    audit = _Audit.of(tier, copies, state, [copy.snapshot_id for copy in archived], check)
    verified = [audit.files(copy) for copy in archived]
    return [audit.rows(v, count_rows) for v in verified] if count_rows else verified


def _copies_of(
    context: ReadContext, name: TableName, snapshot_id: int | None
) -> list[ArchivedSnapshot]:
    copies = cold_list(context, name)
    matching = [copy for copy in copies if snapshot_id in (None, copy.snapshot_id)]
    if matching:
        return matching
    raise SnapshotNotFound(
        f"cold has no snapshot {snapshot_id} of {name}",
        object=str(name),
        expected="one of " + ", ".join(str(copy.snapshot_id) for copy in copies[:_SHOWN]),
        found=str(snapshot_id),
        next="`meltline cold list` shows what it has",
    )


@dataclass(frozen=True)
class _Opened:
    """A manifest of cold, and the result of checking its files' content.

    Attributes:
        problems: Its defects, and those of a few of its files.
        unread: Number of files without a digest.
        alone: Number of files that were read now without their originals.
    """

    manifest: CopiedManifest
    problems: tuple[str, ...]
    unread: int
    alone: int

    @classmethod
    def of(cls, manifest: CopiedManifest, check: ContentCheck) -> "_Opened":
        paths = {file.path for file in manifest.shown}
        damaged = [check.problems[path] for path in sorted(paths & check.problems.keys())]
        problems = (*manifest.problems, *damaged[:_SHOWN])
        unread, alone = len(paths & check.unread), len(paths & check.alone)
        return cls(replace(manifest, shown=()), problems, unread, alone)


def _statistics(state: TableMetadata, snapshot_id: int) -> list[str]:
    """Returns the statistics files of a cold snapshot, which are in no manifest."""
    return [file.path for file in state.statistics if file.snapshot_id == snapshot_id]


@dataclass(frozen=True)
class _Audit:
    """The copies of one table, and the results of checking their files.

    Attributes:
        state: The cold table.
        lists: The manifests of each manifest list, or its error.
        manifests: The checked manifests, by path.
        check: The result of checking content.
        missing: Lists, manifests and statistics that do not exist.
        foreign: Commits to the table by others.
    """

    tier: ColdTier
    state: TableMetadata
    lists: Mapping[str, tuple[ListedCopy, ...] | str]
    manifests: Mapping[str, "_Opened"]
    check: ContentCheck
    missing: frozenset[str]
    foreign: tuple[str, ...]

    @classmethod
    def of(
        cls,
        tier: ColdTier,
        copies: CopyReader,
        state: TableMetadata,
        ids: Sequence[int],
        check: ContentCheck,
    ) -> "_Audit":
        paths = [state.snapshots[id].manifest_list for id in ids if id in state.snapshots]
        lists = copies.lists(paths, of_copies=True)
        manifests = readable_manifests(lists)
        opened, listed = dict[str, _Opened](), list(manifests.values())
        for start in range(0, len(listed), _PORTION):
            for manifest in copies.audit(listed[start : start + _PORTION], tier.warehouse):
                check.look(manifest.shown)
                opened[manifest.path] = _Opened.of(manifest, check)
        described = chain.from_iterable(_statistics(state, id) for id in ids)
        stats = tier.store.stats([*paths, *manifests, *described])
        check.look([stat.file for stat in stats if stat.file])
        missing = frozenset(stat.path for stat in stats if not stat.file)
        return cls(tier, state, lists, opened, check, missing, foreign_commits(tier.store, state))

    def files(self, copy: ArchivedSnapshot) -> Verified:
        """Returns the result for a copy's files."""
        snapshot = self.state.snapshots.get(copy.snapshot_id)
        if snapshot is None:
            return Verified(copy.snapshot_id, problems=(_NO_TABLE,))
        listed = self.lists[snapshot.manifest_list]
        if isinstance(listed, str):
            return Verified(copy.snapshot_id, problems=(listed,))
        return self._judged(copy, snapshot.manifest_list, [manifest.path for manifest in listed])

    def _judged(
        self, copy: ArchivedSnapshot, manifest_list: str, manifests: Sequence[str]
    ) -> Verified:
        opened = [self.manifests[path] for path in manifests]
        own = [manifest_list, *manifests]
        described = _statistics(self.state, copy.snapshot_id)
        problems = list(chain.from_iterable(audit.problems for audit in opened))
        problems += self._problems(own, described)
        rows = sum(audit.manifest.rows for audit in opened)
        if rows != copy.rows:
            problems.append(f"{rows} rows by its manifests, {copy.rows} when it was archived")
        around = {*own, *described}
        return Verified(
            copy.snapshot_id,
            len(own) + len(described) + sum(audit.manifest.files for audit in opened),
            rows,
            unread=sum(audit.unread for audit in opened) + len(self.check.unread & around),
            alone=sum(audit.alone for audit in opened) + len(self.check.alone & around),
            problems=tuple(problems[:_SHOWN]),
        )

    def _problems(self, own: Sequence[str], described: Sequence[str]) -> list[str]:
        """Returns defects of a snapshot's list, manifests and statistics, and of its table."""
        warehouse, damaged = self.tier.warehouse, self.check.problems
        return [
            *(f"{p} is not below {warehouse}" for p in own if not lies_under(p, warehouse)),
            *(f"{p} is missing" for p in described if p in self.missing),
            *(damaged[p] for p in (*own, *described) if p in damaged),
            *self.foreign,
        ]

    def rows(self, verified: Verified, count_rows: CountRows) -> Verified:
        """Adds the result of reading all rows of a copy, unless it already has defects."""
        if verified.problems:
            return verified
        counted = count_rows(self.state.name, verified.snapshot_id)
        if isinstance(counted, str):
            return replace(verified, problems=(counted,))
        if counted > verified.rows:
            problem = f"{counted} rows were read, {verified.rows} are in its files"
            return replace(verified, rows_read=counted, problems=(problem,))
        return replace(verified, rows_read=counted)
