"""Which files of cold a snapshot refers to, read from its manifests."""

from collections.abc import Iterable, Sequence

from meltline.app.metadata import at_once
from meltline.app.services import ColdTier, Ledgers
from meltline.domain.files import ManifestRef
from meltline.domain.table import Snapshot, TableState


def manifests_of(
    ledgers: Ledgers, tier: ColdTier, snapshots: Iterable[Snapshot]
) -> list[ManifestRef]:
    """The manifests that snapshots refer to, each once.

    Raises:
        MetadataUnreadable: A manifest list does not follow the spec.
        FileNotFoundError: It is not there; or StoreRefused.
    """

    def read(snapshot: Snapshot) -> Sequence[ManifestRef]:
        path = snapshot.manifest_list
        if not path:
            return [ManifestRef(one, 0) for one in snapshot.inline_manifests]
        return ledgers.manifests.read_list(path, tier.store.read(path))

    found = at_once(read, list(snapshots))
    return list({one.path: one for listed in found for one in listed}.values())


def live_files(ledgers: Ledgers, tier: ColdTier, manifests: Sequence[ManifestRef]) -> set[str]:
    """The data and delete files that manifests keep alive. Raises as `manifests_of` does."""

    def read(manifest: ManifestRef) -> Sequence[str]:
        return ledgers.manifests.live_paths(manifest, tier.store.read(manifest.path))

    return {path for paths in at_once(read, manifests) for path in paths}


def own_files(state: TableState, snapshots: Iterable[int]) -> set[str]:
    """Manifest lists and statistics of snapshots: what no manifest names."""
    ids = set(snapshots)
    lists = {state.snapshots[id].manifest_list for id in ids}
    statistics = {file.path for file in state.statistics if file.snapshot_id in ids}
    return {path for path in lists | statistics if path}
