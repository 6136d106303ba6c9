"""Which new snapshots of a look are known by their changes, and what is alive in each of them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from meltline.domain.iceberg.files import ManifestFile, ManifestOutcome
from meltline.domain.iceberg.linear_history import IndexedHead, SnapshotDelta, main_line, steps_of
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import SnapshotKey


@dataclass(frozen=True)
class TableLine:
    """A table that has moved, as far as its line may go on.

    Attributes:
        tip: The newest snapshot that is known by its changes; None where the line may begin.
        ahead: Main's history from the tip on, or all of it, oldest first.
    """

    state: TableMetadata
    tip: IndexedHead | None
    ahead: Sequence[Snapshot]

    def seen_before(self, indexed: Collection[SnapshotKey]) -> list[tuple[TableMetadata, Snapshot]]:
        """Snapshots whose lists have to be read again for it: the tip, and what was read wholly.

        The latter happens where a list on the way could not be read for a while.
        """
        uuid = self.state.uuid
        return [
            (self.state, snapshot)
            for snapshot in self.ahead
            if SnapshotKey(uuid, snapshot.snapshot_id) in indexed
        ]

    def steps(
        self, listed: Mapping[int, Sequence[ManifestFile]], owners: OwnerIndex
    ) -> Sequence[SnapshotDelta]:
        """The snapshots that go on from the tip, as far as the table wrote their manifests itself.

        What a clone took over is read wholly, once for all tables that have it.
        """
        tip = None if self.tip is None else self.tip.snapshot_id
        own = self.state.uuid
        return list(
            takewhile(
                lambda step: all(owners.owners(m.path) == (own,) for m in step.manifests),
                steps_of(self.ahead, listed, tip),
            )
        )

    def totals(
        self, steps: Sequence[SnapshotDelta], outcomes: Mapping[str, ManifestOutcome]
    ) -> Mapping[int, tuple[int, int]]:
        """Live files of each step's snapshot and their bytes, by what was read of its changes."""
        files, size = (self.tip.live_files, self.tip.live_bytes) if self.tip else (0, 0)
        live_totals: dict[int, tuple[int, int]] = {}
        for step in steps:
            for manifest in step.manifests:
                outcome = outcomes[manifest.path]
                files += outcome.added
                files += outcome.existing if step.is_first else -outcome.deleted
                size += outcome.bytes_added - outcome.bytes_removed
            live_totals[step.snapshot.snapshot_id] = (files, size)
        return live_totals


def lines_that_moved(
    states: Sequence[TableMetadata],
    moved_uuids: Collection[str],
    tips: Mapping[str, IndexedHead],
    indexed: Collection[SnapshotKey],
) -> dict[str, TableLine]:
    """Lines that may begin or go on, by UUID.

    A table that stands under two names has two histories; one that was read wholly so far has
    nothing to go on from.
    """
    names = Counter(state.uuid for state in states)
    read_wholly = {key.table_uuid for key in indexed} - tips.keys()
    unfit = read_wholly | {uuid for uuid, count in names.items() if count > 1}
    lines = (
        TableLine(state, tips.get(state.uuid), _after_tip(main_line(state), tips.get(state.uuid)))
        for state in states
        if state.uuid in moved_uuids and state.uuid not in unfit
    )
    return {line.state.uuid: line for line in lines if line.ahead}


def _after_tip(line: Sequence[Snapshot], tip: IndexedHead | None) -> Sequence[Snapshot]:
    if tip is None:
        return line
    ids = [snapshot.snapshot_id for snapshot in line]
    return line[ids.index(tip.snapshot_id) :] if tip.snapshot_id in ids else ()


def as_far_as_told(
    steps: Sequence[SnapshotDelta], outcomes: Mapping[str, ManifestOutcome]
) -> Sequence[SnapshotDelta]:
    """The steps up to the first whose manifests do not tell its changes in a usable way."""
    return list(
        takewhile(lambda step: not any(outcomes[m.path].ambiguity for m in step.manifests), steps)
    )
