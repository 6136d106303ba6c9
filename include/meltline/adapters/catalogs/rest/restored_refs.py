"""Refs that a REST catalog lost with the snapshots that we had it remove, and how they come back.

No requirement of the protocol says "no ref but these" (decision 048). A tag that comes while an
expiration is made goes with its snapshot; but the metadata file that the server started from is
kept, and says which one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from meltline.domain.iceberg.table_metadata import STATISTICS

Json = Mapping[str, Any]

_KEPT = ("snapshot-id", "timestamp-ms", "manifest-list", "summary", "schema-id", "key-id")
_ROW_LINEAGE = 3  # the format from which rows have ids


def snapshot_ids(metadata: Json) -> frozenset[int]:
    """The snapshots that metadata has."""
    return frozenset(int(s["snapshot-id"]) for s in metadata.get("snapshots") or ())


def by_id(metadata: Json, snapshot_id: int) -> Json:
    """A snapshot of metadata, as it is written."""
    return next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id)


def refs_of(metadata: Json) -> Mapping[str, Json]:
    """The branches and tags, as they are written."""
    refs: Mapping[str, Json] = metadata.get("refs") or {}
    return refs


def lost_refs(before: Json, after: Json, refs_to_go: Collection[str]) -> dict[str, Json]:
    """Refs of a metadata file that its successor has not, or whose snapshots it has not.

    Args:
        before: What the server started from.
        after: What it made of that.
        refs_to_go: Refs that it was rightly asked to remove.
    """
    removed = snapshot_ids(before) - snapshot_ids(after)
    return {
        name: ref
        for name, ref in refs_of(before).items()
        if (ref["snapshot-id"] in removed or name not in refs_of(after)) and name not in refs_to_go
    }


def restoring_updates(before: Json, now: Json, lost: Mapping[str, Json]) -> list[Json]:
    """The updates that give lost refs their snapshots again, and nothing else.

    Args:
        before: What the server started from, which has the snapshots.
        now: The table as it is.
        lost: The refs.
    """
    ids = {int(ref["snapshot-id"]) for ref in lost.values()}
    missing = sorted(ids - snapshot_ids(now))
    return [
        *_snapshots([by_id(before, id) for id in missing], now),
        *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in lost.items()),
        *_statistics(before, frozenset(missing)),
    ]


def _snapshots(snapshots: Sequence[Json], now: Json) -> Iterator[Json]:
    """Snapshots as a server takes them back.

    Their old sequence number is refused: a table's numbers only grow. Data files keep their own,
    which stand in the manifests. A parent that is gone would be refused or lead nowhere.
    """
    last = int(now.get("last-sequence-number") or 0)
    for number, snapshot in enumerate(snapshots, last + 1):
        again: dict[str, Any] = {key: snapshot[key] for key in _KEPT if key in snapshot}
        if now["format-version"] > 1:
            again["sequence-number"] = number
        if now["format-version"] >= _ROW_LINEAGE:  # it adds no rows: theirs have ids already
            again |= {"first-row-id": now.get("next-row-id", 0), "added-rows": 0}
        yield {"action": "add-snapshot", "snapshot": again}


def _statistics(before: Json, ids: frozenset[int]) -> Iterator[Json]:
    for kind in STATISTICS:
        for statistics in before.get(kind) or ():
            if statistics["snapshot-id"] in ids:
                yield {"action": f"set-{kind}", kind: statistics}
