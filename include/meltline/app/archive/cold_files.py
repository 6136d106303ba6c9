"""Reads which files of cold a snapshot references, from its manifests.

Verification, repair, prune and the permanent store call it.
"""

from collections.abc import Iterable, Mapping, Sequence

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import ListedCopy


def manifests_of(
    context: ReadContext, tier: ColdTier, snapshots: Iterable[Snapshot]
) -> dict[str, ManifestFile]:
    """Returns the manifests that snapshots reference, by path.

    Raises:
        MetadataUnreadable: A manifest list does not follow the spec.
        FileNotFoundError: It does not exist; or StoreRefused.
    """

    def read(snapshot: Snapshot) -> Sequence[ManifestFile]:
        path = snapshot.manifest_list
        if not path:
            return [ManifestFile(manifest, 0) for manifest in snapshot.inline_manifests]
        return context.manifests.read_list(path, tier.store.read(path))

    lists = load_concurrently(read, list(snapshots))
    return {manifest.path: manifest for listed in lists for manifest in listed}


def readable_manifests(lists: Mapping[str, Sequence[ListedCopy] | str]) -> dict[str, ListedCopy]:
    """Returns the manifests of the readable manifest lists, by path."""
    readable = (listed for listed in lists.values() if not isinstance(listed, str))
    return {manifest.path: manifest for listed in readable for manifest in listed}


def live_files(context: ReadContext, tier: ColdTier, manifests: Iterable[ManifestFile]) -> set[str]:
    """Returns the live data and delete files of manifests. Raises as `manifests_of` does."""

    def read(manifest: ManifestFile) -> Sequence[str]:
        return context.manifests.live_paths(manifest, tier.store.read(manifest.path))

    return {path for paths in load_concurrently(read, list(manifests)) for path in paths}


def own_files(state: TableMetadata, snapshots: Iterable[int]) -> set[str]:
    """Returns manifest lists and statistics of snapshots: the files outside all manifests."""
    ids = set(snapshots)
    lists = {state.snapshots[id].manifest_list for id in ids}
    statistics = {file.path for file in state.statistics if file.snapshot_id in ids}
    return {path for path in lists | statistics if path}
