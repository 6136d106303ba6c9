"""Lines: where what a snapshot changed tells all that it refers to.

A table's line is a part of main's history in which each snapshot is the child of the one before,
with a larger sequence number, and its manifests hold what its parent's held, plus what it added,
minus what it removed. By the spec a file that leaves has an entry with status DELETED, written by
the snapshot that removed it; the counts in the manifest lists show whether an engine kept to that.
Such a snapshot is known by its changes; any other is read wholly (decision 020).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise

from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata


@dataclass(frozen=True, slots=True)
class IndexedHead:
    """The newest snapshot of a table's line, and what is alive in it: files, and their bytes."""

    snapshot_id: int
    sequence_number: int
    live_files: int
    live_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotDelta:
    """A snapshot on its table's line.

    Attributes:
        is_first: Whether the line begins here: then all that is alive in it counts as added.
        manifests: Those that hold its changes; of the first one all.
    """

    snapshot: Snapshot
    is_first: bool
    manifests: tuple[ManifestFile, ...]


def main_line(state: TableMetadata) -> list[Snapshot]:
    """Main's history, oldest first, as far as the metadata knows it; empty in format 1."""
    if state.format_version == 1 or MAIN not in state.refs:
        return []
    return list(state.ancestry(state.refs[MAIN].snapshot_id))[::-1]


def steps_of(
    line: Sequence[Snapshot], listed: Mapping[int, Sequence[ManifestFile]], tip: int | None
) -> list[SnapshotDelta]:
    """The snapshots that go on from the tip, as far as each follows from the one before.

    Args:
        line: Main's history, oldest first.
        listed: The manifests of its snapshots, by snapshot id, as far as their lists were read.
        tip: The newest snapshot that is known by its changes; None begins with the oldest one.
    """
    if tip is None:
        steps = _first_step(line, listed)
        line = line if steps else []
    else:
        steps = []
        line = list(dropwhile(lambda snapshot: snapshot.snapshot_id != tip, line))
    for parent, child in pairwise(line):
        before, after = listed.get(parent.snapshot_id), listed.get(child.snapshot_id)
        if before is None or after is None or not _follows(parent, before, child, after):
            break
        steps.append(SnapshotDelta(child, is_first=False, manifests=_new(before, after)))
    return steps


def _first_step(
    line: Sequence[Snapshot], listed: Mapping[int, Sequence[ManifestFile]]
) -> list[SnapshotDelta]:
    """The oldest snapshot with all that is alive in it; none where nobody has counted that."""
    first = listed.get(line[0].snapshot_id) if line else None
    if first is None or not all(_is_counted(manifest) for manifest in first):
        return []
    return [SnapshotDelta(line[0], is_first=True, manifests=tuple(first))]


def _follows(
    parent: Snapshot, before: Sequence[ManifestFile], child: Snapshot, after: Sequence[ManifestFile]
) -> bool:
    """Whether what a child refers to is what its parent did, but for its own changes."""
    new = _new(before, after)
    own = all(
        manifest.added_snapshot_id == child.snapshot_id
        and manifest.sequence_number == child.sequence_number
        for manifest in new
    )
    if not own or child.sequence_number <= parent.sequence_number:
        return False
    if not all(_is_counted(manifest) for manifest in (*before, *after)):
        return False
    return all(
        _live(after, deletes=deletes)
        == _live(before, deletes=deletes) + _change(new, deletes=deletes)
        for deletes in (False, True)
    )


def _new(before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
    earlier_paths = {manifest.path for manifest in before}
    return tuple(manifest for manifest in after if manifest.path not in earlier_paths)


def _is_counted(manifest: ManifestFile) -> bool:
    return None not in (manifest.added_files, manifest.existing_files, manifest.deleted_files)


def _live(manifests: Sequence[ManifestFile], *, deletes: bool) -> int:
    return sum(
        (m.added_files or 0) + (m.existing_files or 0) for m in manifests if m.is_deletes is deletes
    )


def _change(manifests: Sequence[ManifestFile], *, deletes: bool) -> int:
    return sum(
        (m.added_files or 0) - (m.deleted_files or 0) for m in manifests if m.is_deletes is deletes
    )
