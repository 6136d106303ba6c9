"""Checks that a snapshot was read completely: its manifests against its totals or its parent.

Ingestion calls it for each snapshot: files of an incompletely read one could look unreferenced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meltline.domain.iceberg.files import ManifestFile, ManifestOutcome
from meltline.domain.iceberg.table_metadata import Snapshot

_DATA_TOTAL = "total-data-files"
_DELETE_TOTAL = "total-delete-files"


@dataclass(frozen=True)
class Totals:
    """Live files that a snapshot's manifests count; None if one of them has no counts.

    Attributes:
        data_files: Live data files; `deletes` are live delete files.
        own: By snapshot, the files that its own manifests add, and those they remove.
    """

    data_files: int | None
    deletes: int | None
    own: Mapping[int, tuple[int, int]]

    @classmethod
    def of(
        cls, manifests: Iterable[ManifestFile], outcomes: Mapping[str, ManifestOutcome]
    ) -> "Totals":
        """Counts from the manifest list, or from the manifests read if it has no counts."""
        data_files = deletes = 0
        own: dict[int, tuple[int, int]] = {}
        for manifest in manifests:
            counts = _counts(manifest, outcomes.get(manifest.path))
            if counts is None:
                return cls(None, None, {})
            added, existing, removed = counts
            if manifest.is_deletes:
                deletes += added + existing
            else:
                data_files += added + existing
            if manifest.added_snapshot_id is not None:
                before = own.get(manifest.added_snapshot_id, (0, 0))
                own[manifest.added_snapshot_id] = (before[0] + added, before[1] + removed)
        return cls(data_files, deletes, own)


def _counts(manifest: ManifestFile, outcome: ManifestOutcome | None) -> tuple[int, int, int] | None:
    listed = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    added, existing, removed = listed
    if added is not None and existing is not None and removed is not None:
        return added, existing, removed
    if outcome is not None and not outcome.error:
        return outcome.added, outcome.existing, outcome.deleted
    return None


@dataclass(frozen=True)
class Verdict:
    """`problem` is empty if nothing contradicts; `checked` is false if nothing was comparable."""

    checked: bool
    problem: str = ""


def check_totals(snapshot: Snapshot, totals: Totals, parent: Totals | None) -> Verdict:
    """Compares a snapshot's manifests with its summary's totals, or with its parent."""
    if totals.data_files is None or totals.deletes is None:
        return Verdict(checked=False)
    checked = 0
    for key, count in ((_DATA_TOTAL, totals.data_files), (_DELETE_TOTAL, totals.deletes)):
        raw = snapshot.summary.get(key)
        if raw is None or not raw.isdecimal():
            continue
        checked += 1
        if int(raw) != count:
            problem = f"its manifests hold {count} live files, its summary says {key}={raw}"
            return Verdict(checked=True, problem=problem)
    if checked == 2:
        return Verdict(checked=True)
    return _check_parent(snapshot, totals, parent)


def _check_parent(snapshot: Snapshot, totals: Totals, parent: Totals | None) -> Verdict:
    if parent is None or parent.data_files is None or parent.deletes is None:
        return Verdict(checked=False)
    added, removed = totals.own.get(snapshot.snapshot_id, (0, 0))
    expected = parent.data_files + parent.deletes + added - removed
    actual = (totals.data_files or 0) + (totals.deletes or 0)
    if expected != actual:
        problem = f"its manifests hold {actual} live files, its parent and changes give {expected}"
        return Verdict(checked=True, problem=problem)
    return Verdict(checked=True)
