"""The gate's own look at streaming writers: does a plan cut one off from its mark?

The engines' walks once more, told from what they meet on the way and not from what is kept:
nothing of `domain.retention.writers` is used.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata

_Sign = tuple[str, ...]


def cut_off(
    state: TableMetadata, planned: Collection[int], refs: Collection[str], since: datetime
) -> set[int]:
    """Planned snapshots that a writer would miss on its way from a branch's head to its mark.

    Args:
        state: The table as it is now.
        planned: The snapshots that would go.
        refs: The refs that would go: nobody walks from them any more.
        since: Writers whose mark is older are silent.
    """
    missed: set[int] = set()
    for branch, head in state.heads.items():
        line = [] if branch in refs else list(state.ancestry(head))
        if not any(snapshot.snapshot_id in planned for snapshot in line):
            continue
        met: set[_Sign] = set()
        gaps: list[int] = []
        for snapshot in line:
            if snapshot.snapshot_id in planned:
                gaps.append(snapshot.snapshot_id)
            signs = _signs(snapshot)
            if gaps and snapshot.committed_at >= since and not all(_ended(s, met) for s in signs):
                missed.update(gaps)
                gaps.clear()
            met |= signs
    return missed


def _ended(sign: _Sign, met: Collection[_Sign]) -> bool:
    """Whether a writer's walk has ended before: at its own sign, or at one of its whole job."""
    return sign in met or sign[:2] in met


def _signs(snapshot: Snapshot) -> set[_Sign]:
    """What writers stop at: the engine, who it is, and of a Flink job which operator, if told."""
    summary: Mapping[str, str] = dict(snapshot.summary)
    signs = {("kafka", key) for key in summary if key.startswith("kafka.connect.offsets.")}
    signs |= {("spark", summary[key]) for key in summary if key == "spark.sql.streaming.queryId"}
    all_signs: set[_Sign] = set(signs)
    if "flink.max-committed-checkpoint-id" in summary and "flink.job-id" in summary:
        parts = [summary[key] for key in ("flink.job-id", "flink.operator-id") if key in summary]
        all_signs.add(("flink", *parts))
    return all_signs
