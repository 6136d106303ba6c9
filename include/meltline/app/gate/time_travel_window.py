"""The gate's own look at the window: what answered for some instant of it, from the log alone."""

from collections.abc import Collection
from datetime import datetime
from itertools import pairwise

from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata


def promised_since(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Snapshots that answered for an instant from `start` on.

    Args:
        state: The table as it is now.
        refs: The refs that would go.
        start: Where the window begins.
    """
    log = state.snapshot_log
    ends = [log_entry.at for log_entry in log[1:]] + [None]
    promised = {
        log_entry.snapshot_id
        for log_entry, end in zip(log, ends, strict=False)
        if end is None or end >= start
    }
    promised |= {sid for sid, snapshot in state.snapshots.items() if snapshot.committed_at >= start}
    return promised | _replaced_late(state, refs, start)


def _replaced_late(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Snapshots of side branches whose successor came inside the window."""
    late: set[int] = set()
    for name, head in state.heads.items():
        if name == MAIN or name in refs:
            continue
        line = list(state.ancestry(head))
        for child, parent in pairwise(line):
            if child.committed_at >= start:
                late.add(parent.snapshot_id)
    return late
