"""Prune plans: which snapshots and files leave cold, and the table's metadata afterwards.

A plan is immutable: its digest covers the table, the snapshots and every file. It is stored in
cold, and named by the table, until its files are deleted. So an interrupted prune is finished
later.
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
"""Followed by a digest, the property of a cold table that locates an unfinished plan."""

_DIGEST_LETTERS = 16


@dataclass(frozen=True)
class PrunePlan:
    """The snapshots and files that leave cold.

    Attributes:
        table_uuid: The UUID of the hot table whose history it is.
        cold_uuid: The UUID of the cold table.
        snapshots: The ids.
        files: Files that nothing else in cold references.
    """

    table_uuid: str
    cold_uuid: str
    snapshots: tuple[int, ...]
    files: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest over all its content."""
        return f"sha256:{hashlib.sha256(self.written).hexdigest()}"

    @property
    def written(self) -> bytes:
        """Its serialized form."""
        facts = [self.table_uuid, self.cold_uuid, list(self.snapshots), list(self.files)]
        return json.dumps(facts, separators=(",", ":")).encode()

    @property
    def key(self) -> str:
        """The property that names it while it is unfinished."""
        return PRUNING + self.digest.partition(":")[2][:_DIGEST_LETTERS]

    def place(self, location: str) -> str:
        """Returns the path of the stored plan, below the cold table's location."""
        return f"{location.rstrip('/')}/metadata/{self.key.removeprefix('meltline.')}.json"


def read_plan(written: bytes) -> PrunePlan:
    """Parses a stored plan.

    Raises:
        ValueError: It is invalid.
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
    """Returns the snapshot of a cold table's main: it is never removed."""
    return int(document["current-snapshot-id"])


def tags_on(document: Mapping[str, Any], ids: Collection[int]) -> list[str]:
    """Returns the tags on some snapshots."""
    refs: Mapping[str, Mapping[str, Any]] = document.get("refs") or {}
    return sorted(n for n, r in refs.items() if n != MAIN and r["snapshot-id"] in ids)


def without_snapshots(
    document: Mapping[str, Any], ids: Collection[int], updates: Mapping[str, str]
) -> dict[str, Any]:
    """Builds a cold table's metadata without some of its snapshots.

    If a removed snapshot replaced an archived one, its log entry stays. A query for a time in the
    gap then fails, instead of returning the snapshot from before the gap.

    Args:
        document: Its current metadata.
        ids: The snapshots; not its newest one.
        updates: Properties to set.
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
    """Returns snapshots, or other records by snapshot id, without some ids."""
    return [record for record in records if record["snapshot-id"] not in ids]


def _forgotten(properties: Mapping[str, str], ids: Collection[int]) -> Mapping[str, str]:
    """Returns properties without the records of some copies."""
    removed = {f"{ARCHIVED}{id}" for id in ids}
    return {key: text for key, text in properties.items() if key not in removed}
