"""Reading manifests: for the planner, and once more, apart from it, for the gate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.files import ManifestRef
from meltline.ports.file_ledger import SnapshotKey


class ManifestReader(Protocol):
    """Reads manifest lists and manifests for the planner."""

    def read_list(self, path: str, content: bytes) -> tuple[ManifestRef, ...]:
        """The manifests a manifest list names. Raises MetadataUnreadable."""
        ...

    def live_paths(self, manifest: ManifestRef, content: bytes) -> Sequence[str]:
        """The files a manifest keeps alive, its counts held against its list entry.

        Raises:
            MetadataUnreadable: It does not follow the spec, or is not what its list says.
        """
        ...


@dataclass(frozen=True)
class ProofSnapshot:
    """A snapshot whose files a gate reads afresh."""

    table_uuid: str
    snapshot_id: int
    manifest_list: str
    inline_manifests: tuple[str, ...] = ()

    @property
    def key(self) -> SnapshotKey:
        """Which snapshot it is."""
        return SnapshotKey(self.table_uuid, self.snapshot_id)


@dataclass(frozen=True)
class ProofResult:
    """What manifest lists and manifests were seen to hold, from the files themselves.

    Attributes:
        manifests: The manifests of each snapshot, by path.
        live_files: Live entries per manifest, and `live_bytes` their size.
        sizes: The length in bytes of each manifest, and of each manifest list.
        hits: Wanted paths that a manifest keeps alive, by manifest.
        errors: Why a list or manifest could not be read, per table UUID.
        read: How many manifests were read from the files for this result; the others' entries are
            those of the index, which an earlier reading of the files has covered.
    """

    manifests: Mapping[SnapshotKey, tuple[str, ...]]
    live_files: Mapping[str, int]
    live_bytes: Mapping[str, int]
    sizes: Mapping[str, int]
    hits: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, tuple[str, ...]]
    read: int


class ProofReader(Protocol):
    """Reads manifest lists and manifests afresh, sharing nothing with the index's reader."""

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        wanted: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        """Looks for the wanted paths in everything the snapshots refer to.

        What was read from the files since then, and is in the index row for row, is not read
        again: such files never change. None reads everything: a full proof.
        """
        ...

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> int:
        """Bytes of the distinct live files of snapshots, read from the files."""
        ...
