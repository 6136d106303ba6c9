"""Batches of snapshots to archive, and the list and registration of each completed snapshot.

`archive` fills the batches, and `retrieval` completes a snapshot in the other direction with the
same code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meltline.adapters.archive.cold_tables import TablePair
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import ManifestDone, settle
from meltline.adapters.archive.rewriting.manifests import (
    ColdManifest,
    EntryTotals,
    Need,
    NeededFile,
    rewrite_list,
)
from meltline.adapters.archive.workers import Crew
from meltline.adapters.manifests.fastavro_reader import read_manifest_list
from meltline.domain.archive.cold_document import Registration
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.table_metadata import Snapshot, StatisticsFile
from meltline.ports import ChosenSnapshot, HandedOver

ManifestsByPath = dict[str, ColdManifest]
"""Manifests that cold has, by their path there."""


@dataclass(frozen=True)
class BatchLimits:
    """Size at which a batch is processed and committed.

    Attributes:
        snapshots: The number of snapshots.
        entries: The number of entries in all new manifests.
    """

    snapshots: int = 100
    entries: int = 200_000


@dataclass(frozen=True)
class PendingCopy:
    """A snapshot to archive, with its manifest list read.

    Attributes:
        listed: The list's bytes; empty if format 1 names manifests one by one.
        targets: The path of each manifest's copy, by the original's path.
    """

    table: TablePair
    chosen: ChosenSnapshot
    listed: bytes
    manifests: tuple[ManifestFile, ...]
    targets: Mapping[str, str]

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot to archive."""
        return self.chosen.snapshot

    @property
    def statistics(self) -> dict[str, StatisticsFile]:
        """The snapshot's statistics files, by path."""
        return {file.path: file for file in self.table.statistics(self.snapshot.snapshot_id)}

    def require_whole(self, fresh: Mapping[str, ManifestDone]) -> None:
        """Raises StoreRefused if a manifest, or a file in it, could not be copied."""
        for manifest in self.manifests:
            if (done := fresh.get(manifest.path)) and done.error:
                raise _not_whole(manifest.path, done.error)


def read_pending(stores: Stores, table: TablePair, chosen: ChosenSnapshot) -> PendingCopy:
    """Reads a snapshot's manifest list.

    Raises:
        MetadataUnreadable: Its manifest list does not follow the spec.
        FileNotFoundError: The list does not exist.
        StoreRefused: It cannot be read, or has a path that cannot be mirrored.
    """
    if path := chosen.snapshot.manifest_list:
        listed = stores.read(path)
        manifests = read_manifest_list(path, listed)
    else:
        listed = b""
        manifests = tuple(ManifestFile(path, 0) for path in chosen.snapshot.inline_manifests)
    targets = {manifest.path: stores.target(manifest.path) for manifest in manifests}
    return PendingCopy(table, chosen, listed, manifests, targets)


@dataclass
class CopyBatch:
    """Snapshots that are archived together, and the manifests that cold lacks for them."""

    snapshots: list[PendingCopy] = field(default_factory=list)
    manifests: dict[str, ManifestFile] = field(default_factory=dict)
    entries: int = 0

    def add(self, pending: PendingCopy, prior: ManifestsByPath) -> None:
        """Adds a snapshot."""
        self.snapshots.append(pending)
        for manifest in pending.manifests:
            if manifest.path not in self.manifests and pending.targets[manifest.path] not in prior:
                self.manifests[manifest.path] = manifest
                self.entries += manifest.entries

    def is_full(self, limits: BatchLimits) -> bool:
        """Returns whether the batch has reached a limit."""
        return len(self.snapshots) >= limits.snapshots or self.entries >= limits.entries


@dataclass(frozen=True)
class Ready:
    """A snapshot whose files are all in cold: its registration and its result.

    Attributes:
        proof: The proof of its list's copy; None if it has no list.
    """

    chosen: ChosenSnapshot
    registration: Registration
    done: HandedOver
    proof: CopyProof | None = None


def completed(
    stores: Stores,
    crew: Crew,
    pending: PendingCopy,
    prior: ManifestsByPath,
    credit: dict[str, ManifestDone],
) -> Ready:
    """Writes a snapshot's list, once cold has its manifests, and copies its statistics.

    Args:
        stores: The hot and the cold store.
        crew: Copies the statistics.
        pending: The snapshot.
        prior: The manifests that cold has.
        credit: Results of manifests that are not counted with any snapshot yet.

    Raises:
        MetadataUnreadable: The list does not follow the spec.
        FileNotFoundError: A statistics file does not exist.
        StoreRefused: A store refuses, or the copy's path has other content.
    """
    manifests = [prior[target] for target in pending.targets.values()]
    fresh = [credit.pop(path) for path in pending.targets.keys() & credit]
    statistics = pending.statistics
    sizes = [m.bytes for m in manifests] + [file.bytes for file in statistics.values()]
    copied = _statistics_copied(crew, statistics)
    proof = None
    if path := pending.snapshot.manifest_list:
        content = rewrite_list(path, pending.listed, stores.warehouse, prior)
        brought = settle(stores, path, content)
        proof = brought.proof
        sizes.append(proof.bytes)
        copied += [proof.bytes] if brought.is_new else []
    totals = sum((manifest.totals for manifest in manifests), EntryTotals())
    done = HandedOver(
        pending.snapshot.snapshot_id,
        files=totals.files + len(sizes),
        bytes=totals.bytes + sum(sizes),
        rows=totals.rows,
        files_copied=len(copied) + sum(manifest.files_copied for manifest in fresh),
        bytes_copied=sum(copied) + sum(manifest.bytes_copied for manifest in fresh),
    )
    return Ready(pending.chosen, _registration(stores, pending, done), done, proof)


def _statistics_copied(crew: Crew, statistics: Mapping[str, StatisticsFile]) -> list[int]:
    """Returns the lengths of newly copied files. Raises StoreRefused if one has no copy."""
    files = [NeededFile(file.path, file.bytes, Need.COPY) for file in statistics.values()]
    done = crew.prove(files) if files else ()
    for copy in done:
        if copy.error:
            raise _not_whole(copy.path, copy.error)
    return [copy.bytes for copy in done if copy.is_new]


def _not_whole(path: str, error: str) -> StoreRefused:
    return StoreRefused(
        error,
        object=path,
        expected="a file of which everything can be copied",
        found=error,
        next="the snapshot stays hot; the next handoff tries again",
    )


def _registration(stores: Stores, pending: PendingCopy, done: HandedOver) -> Registration:
    snapshot, table = pending.snapshot, pending.table
    before = table.archived.get(snapshot.snapshot_id)
    path = snapshot.manifest_list
    return Registration(
        raw=table.snapshots[snapshot.snapshot_id],
        manifest_list=stores.target(path) if path else "",
        manifests=() if path else tuple(pending.targets.values()),
        statistics={source: stores.target(source) for source in pending.statistics},
        validity=pending.chosen.validity,
        files=done.files,
        bytes=done.bytes,
        rows=done.rows,
        files_copied=done.files_copied + (before.files_copied if before else 0),
        bytes_copied=done.bytes_copied + (before.bytes_copied if before else 0),
    )
