"""Verifying copies: cold alone, every manifest opened and every file looked for (AR-35)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.app.archive.cold_status import cold_list
from meltline.app.archive.cold_tables import ColdTables, no_cold, require_cold
from meltline.app.archive.copy_proofs import ContentCheck
from meltline.app.archive.foreign_metadata import foreign_commits
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.errors import SnapshotNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import StatisticsFile, TableMetadata
from meltline.ports import CopiedManifest, CopyReader, ListedCopy

_SHOWN = 5
_PORTION = 100  # manifests whose files are in memory at a time

CountRows = Callable[[TableName, int], int | str]
"""Reads every row of a snapshot: how many there are, or why they cannot be read."""


@dataclass(frozen=True)
class Verified:
    """What was found of one copy.

    Attributes:
        files: Its data and delete files, its manifests and its manifest list, and its statistics.
        rows: Of its data files, as its manifests count them.
        rows_read: How many rows came when all were read, deletes applied; None where none was.
        unread: Of its files, how many nobody has a digest of; their bytes were not looked at.
        alone: Of its files, how many were read now without their originals: that they were not
            damaged before nobody can tell any more.
        problems: What is wrong; none where all is there.
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
    """Opens every manifest of a table's copies, and looks for every file that they name.

    Each file's size, time and version are held against what was recorded when it was verified.
    What has changed, and what a store shows without a version, is read. Copies that are whole are
    noted as verified now.

    Args:
        context: Where they are.
        name: The table, by its name in hot.
        snapshot_id: One of them; None is all.
        count_rows: Reads every row as well, where it is given.
        content: Read every file, and compare its digest.

    Raises:
        ColdMissing: There is no cold tier.
        TableNotFound: Cold has nothing of the table.
        SnapshotNotFound: It has no copy of that snapshot.
        CatalogUnlistable: The cold catalog cannot be listed.
    """
    tier = require_cold(context)
    if context.copies is None:
        raise no_cold(context)
    copies = _copies_of(context, name, snapshot_id)
    tables, results = ColdTables(tier), list[Verified]()
    for uuid in dict.fromkeys(copy.table_uuid for copy in copies):
        own = [copy for copy in copies if copy.table_uuid == uuid]
        state = tables.of(uuid, [name])
        check = ContentCheck(context.control, tier.store, content)
        verified = _Audit.of(tier, context.copies, state, own, check).verify(own, count_rows)
        now, whole = context.clock.now(), {v.snapshot_id for v in verified if not v.problems}
        again = [replace(c, verified_at=now) for c in own if c.snapshot_id in whole]
        context.control.archived.save(again)
        results += verified
    return results


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
    """A manifest of cold, and what came of the bytes of its files.

    Attributes:
        damaged: Why some of the files are not what they were: a few.
        unread: How many files nobody has a digest of.
        alone: How many were read now without their originals.
    """

    manifest: CopiedManifest
    damaged: tuple[str, ...]
    unread: int
    alone: int

    @classmethod
    def of(cls, manifest: CopiedManifest, check: ContentCheck) -> "_Opened":
        paths = {file.path for file in manifest.shown}
        damaged = tuple(check.problems[path] for path in sorted(paths & check.problems.keys()))
        unread, alone = len(paths & check.unread), len(paths & check.alone)
        return cls(replace(manifest, shown=()), damaged[:_SHOWN], unread, alone)


def _statistics(state: TableMetadata | None, snapshot_id: int) -> list[StatisticsFile]:
    """The statistics files of a snapshot of cold: no manifest names them."""
    return [f for f in (state.statistics if state else ()) if f.snapshot_id == snapshot_id]


@dataclass(frozen=True)
class _Audit:
    """The copies of one table, and what was found when their files were opened.

    Attributes:
        state: The cold table; None where there is none.
        lists: The manifests of each manifest list, or why it cannot be read.
        manifests: What each manifest keeps alive, by path.
        check: What came of the bytes.
        missing: Lists, manifests and statistics that are not there.
        foreign: What somebody else has committed to the table.
    """

    tier: ColdTier
    state: TableMetadata | None
    lists: Mapping[str, tuple[ListedCopy, ...] | str]
    manifests: Mapping[str, "_Opened"]
    check: ContentCheck
    missing: frozenset[str] = frozenset()
    foreign: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tier: ColdTier,
        copies: CopyReader,
        state: TableMetadata | None,
        archived: Sequence[ArchivedSnapshot],
        check: ContentCheck,
    ) -> "_Audit":
        snapshots = state.snapshots if state else {}
        paths = [
            snapshots[c.snapshot_id].manifest_list for c in archived if c.snapshot_id in snapshots
        ]
        lists = copies.lists(paths, of_copies=True)
        manifests = {
            m.path: m
            for manifest_list in lists.values()
            if not isinstance(manifest_list, str)
            for m in manifest_list
        }
        audited, listed = dict[str, _Opened](), list(manifests.values())
        for start in range(0, len(listed), _PORTION):
            for manifest in copies.audit(listed[start : start + _PORTION], tier.warehouse):
                check.look(manifest.shown)
                audited[manifest.path] = _Opened.of(manifest, check)
        described = [
            file.path for copy in archived for file in _statistics(state, copy.snapshot_id)
        ]
        stats = tier.store.stats([*paths, *manifests, *described])
        check.look([stat.file for stat in stats if stat.file])
        missing = frozenset(stat.path for stat in stats if not stat.file)
        foreign = () if state is None else foreign_commits(tier.store, state)
        return cls(tier, state, lists, audited, check, missing, foreign)

    def verify(
        self, archived: Sequence[ArchivedSnapshot], count_rows: CountRows | None
    ) -> list[Verified]:
        return [self._rows(self._files(copy), count_rows) for copy in archived]

    def _files(self, copy: ArchivedSnapshot) -> Verified:
        sid = copy.snapshot_id
        if self.state is None or sid not in self.state.snapshots:
            return Verified(sid, problems=("the cold catalog has it no more",))
        path = self.state.snapshots[sid].manifest_list
        listed = self.lists[path]
        if isinstance(listed, str):
            return Verified(sid, problems=(listed,))
        opened = [self.manifests[manifest.path] for manifest in listed]
        manifests = [audit.manifest for audit in opened]
        problems = [
            problem for audit in opened for problem in (*audit.manifest.problems, *audit.damaged)
        ]
        own_paths = (path, *(manifest.path for manifest in manifests))
        problems += [
            f"{p} is not below {self.tier.warehouse}"
            for p in own_paths
            if not lies_under(p, self.tier.warehouse)
        ]
        described = [file.path for file in _statistics(self.state, sid)]
        problems += [f"{p} is missing" for p in described if p in self.missing]
        problems += [
            self.check.problems[p] for p in (*own_paths, *described) if p in self.check.problems
        ]
        problems += self.foreign
        rows = sum(manifest.rows for manifest in manifests)
        if rows != copy.rows:
            problems.append(f"{rows} rows by its manifests, {copy.rows} when it was archived")
        files = len(own_paths) + len(described) + sum(manifest.files for manifest in manifests)
        own = {*own_paths, *described}
        unread = sum(audit.unread for audit in opened) + len(self.check.unread & own)
        alone = sum(audit.alone for audit in opened) + len(self.check.alone & own)
        shown = tuple(problems[:_SHOWN])
        return Verified(sid, files, rows, unread=unread, alone=alone, problems=shown)

    def _rows(self, verified: Verified, count_rows: CountRows | None) -> Verified:
        if count_rows is None or self.state is None or verified.problems:
            return verified
        counted = count_rows(self.state.name, verified.snapshot_id)
        if isinstance(counted, str):
            return replace(verified, problems=(counted,))
        if counted > verified.rows:
            problem = f"{counted} rows were read, {verified.rows} are in its files"
            return replace(verified, rows_read=counted, problems=(problem,))
        return replace(verified, rows_read=counted)
