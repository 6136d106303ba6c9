"""Linear history: snapshots whose changes alone determine what they reference.

It is a part of main's history. Each snapshot is the child of the one before, with a larger sequence
number. Its manifests contain what its parent's did, plus what it added, minus what it removed. By
the spec a removed file has an entry with status DELETED, written by the snapshot that removed it.
The counts in the manifest lists show whether an engine followed that. Such a snapshot is read
incrementally; any other needs a full read (decision 020).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise

from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata


@dataclass(frozen=True, slots=True)
class IndexedHead:
    """The newest snapshot of a table's linear history, with its live files and their bytes."""

    snapshot_id: int
    sequence_number: int
    live_files: int
    live_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotDelta:
    """A snapshot in its table's linear history.

    Attributes:
        is_first: Whether the linear history begins here: then all its live files count as added.
        manifests: The manifests with its changes; for the first snapshot all.
    """

    snapshot: Snapshot
    is_first: bool
    manifests: tuple[ManifestFile, ...]


def main_line(state: TableMetadata) -> list[Snapshot]:
    """Returns main's history, oldest first, as far as the metadata has it; empty in format 1."""
    if state.format_version == 1 or MAIN not in state.refs:
        return []
    return list(state.ancestry(state.refs[MAIN].snapshot_id))[::-1]


def steps_of(
    line: Sequence[Snapshot], listed: Mapping[int, Sequence[ManifestFile]], tip: int | None
) -> list[SnapshotDelta]:
    """Returns the snapshots after the indexed head, as far as each follows from the one before.

    Args:
        line: Main's history, oldest first.
        listed: The manifests of its snapshots, by snapshot id, as far as their lists were read.
        tip: The indexed head; None begins with the oldest snapshot.
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
    """Returns the oldest snapshot with all its live files; none if they are not counted."""
    first = listed.get(line[0].snapshot_id) if line else None
    if first is None or not all(_is_counted(manifest) for manifest in first):
        return []
    return [SnapshotDelta(line[0], is_first=True, manifests=tuple(first))]


def _follows(
    parent: Snapshot, before: Sequence[ManifestFile], child: Snapshot, after: Sequence[ManifestFile]
) -> bool:
    """Whether a child references what its parent did, except for its own changes."""
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
