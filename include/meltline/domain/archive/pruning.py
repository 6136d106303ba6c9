"""Pruning cold: which snapshots go, which files go with them, and what their table then says.

A plan is immutable: its digest covers the table, the snapshots and every file. It is kept in cold,
and named by the table, until its files are gone: so a prune that was killed is finished later.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meltline.domain.archive.archive import ARCHIVED
from meltline.domain.archive.cold_document import with_gaps
from meltline.domain.iceberg.table_metadata import MAIN, STATISTICS

PRUNING = "meltline.pruning."
"""With a digest behind it, a property of a cold table: where the plan lies that is not finished."""

_DIGEST_LETTERS = 16


@dataclass(frozen=True)
class PrunePlan:
    """What leaves cold.

    Attributes:
        table_uuid: Of the hot table whose history it is.
        cold_uuid: Of the cold table.
        snapshots: The ids.
        files: Files that nothing else in cold refers to.
    """

    table_uuid: str
    cold_uuid: str
    snapshots: tuple[int, ...]
    files: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Over everything in it."""
        return f"sha256:{hashlib.sha256(self.written).hexdigest()}"

    @property
    def written(self) -> bytes:
        """As it is kept."""
        facts = [self.table_uuid, self.cold_uuid, list(self.snapshots), list(self.files)]
        return json.dumps(facts, separators=(",", ":")).encode()

    @property
    def key(self) -> str:
        """The property that names it while it is not finished."""
        return PRUNING + self.digest.partition(":")[2][:_DIGEST_LETTERS]

    def place(self, location: str) -> str:
        """Where it is kept, below the cold table's location."""
        return f"{location.rstrip('/')}/metadata/{self.key.removeprefix('meltline.')}.json"


def read_plan(written: bytes) -> PrunePlan:
    """A plan that was kept.

    Raises:
        ValueError: It is none.
    """
    try:
        table_uuid, cold_uuid, snapshots, files = json.loads(written)
        plan = PrunePlan(str(table_uuid), str(cold_uuid), tuple(snapshots), tuple(files))
    except TypeError as error:
        raise ValueError(str(error)) from error
    if plan.written != written:
        raise ValueError("it has been altered")
    return plan


def newest(document: Mapping[str, Any]) -> int:
    """The snapshot that a cold table's main is: it never leaves."""
    return int(document["current-snapshot-id"])


def tags_on(document: Mapping[str, Any], ids: Collection[int]) -> list[str]:
    """Tags of snapshots."""
    refs: Mapping[str, Mapping[str, Any]] = document.get("refs") or {}
    return sorted(n for n, r in refs.items() if n != MAIN and r["snapshot-id"] in ids)


def without_snapshots(
    document: Mapping[str, Any], ids: Collection[int], updates: Mapping[str, str]
) -> dict[str, Any]:
    """A cold table's metadata without some of its snapshots.

    Behind what was current before one of them its entry stays in the log: readers by time are
    refused there, instead of being given what was current before the gap.

    Args:
        document: What it says now.
        ids: The snapshots; its newest is none of them.
        updates: Properties that it says from then on.
    """
    assert newest(document) not in ids
    snapshots = without(document["snapshots"], ids)
    remaining = {snapshot["snapshot-id"] for snapshot in snapshots}
    return {
        **document,
        **{key: without(document[key] or (), ids) for key in STATISTICS if key in document},
        "snapshots": snapshots,
        "refs": {n: r for n, r in document["refs"].items() if r["snapshot-id"] not in ids},
        "snapshot-log": with_gaps(document.get("snapshot-log") or [], remaining),
        "properties": {**_forgotten(document.get("properties") or {}, ids), **updates},
    }


Records = Sequence[Mapping[str, Any]]


def without(records: Records, ids: Collection[int]) -> Records:
    """Snapshots, or what else a document says of them one by one, without those of these ids."""
    return [record for record in records if record["snapshot-id"] not in ids]


def _forgotten(properties: Mapping[str, str], ids: Collection[int]) -> Mapping[str, str]:
    """Properties without those that tell of these copies."""
    removed = {f"{ARCHIVED}{id}" for id in ids}
    return {key: text for key, text in properties.items() if key not in removed}
