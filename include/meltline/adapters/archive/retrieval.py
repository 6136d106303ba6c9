"""Retrieves an archived snapshot from cold to hot: the archive's copying in the other direction.

Files that were rewritten for cold name other files by their paths there. Mirrored again, below the
new table's folder, those paths name the copies in hot; position deletes and vectors are rewritten
likewise.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from meltline.adapters.archive.batches import PendingCopy, completed, read_pending
from meltline.adapters.archive.cold_tables import TablePair
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.rewriting.manifests import ColdManifest
from meltline.adapters.archive.workers import Crew
from meltline.adapters.manifests.avro_container import AvroFile
from meltline.domain.archive.archive import Validity
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.archive.restored import Retrieved
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import ChosenSnapshot, CopyCache, HandoffRequest


class ColdRetriever:
    """The port `Retriever`, with local or distributed workers.

    Args:
        stores: The cold store as the source of copies, the hot one as their target.
        crew: Creates the workers that rewrite manifests and copy the files in them.
    """

    def __init__(self, stores: Stores, crew: Callable[[Stores, CopyCache], Crew]) -> None:
        self._stores = stores
        self._crew = crew

    def bring_back(self, cold: TableMetadata, snapshot_id: int, folder: str) -> Retrieved:
        stores = replace(self._stores, warehouse=folder)
        pending = _pending(stores, cold, snapshot_id)
        crew = self._crew(stores, _NoBook())
        fresh = crew.rewrite(pending.manifests, lambda: True)
        assert fresh is not None  # it was never told to stop
        pending.require_whole(fresh)
        manifests = {
            stores.target(path): ColdManifest(m.bytes, m.totals) for path, m in fresh.items()
        }
        ready = completed(stores, crew, pending, manifests, dict(fresh))
        registration = ready.registration
        return Retrieved(
            manifest_list=registration.manifest_list,
            manifests=registration.manifests,
            statistics=registration.statistics,
            spec_id=_spec_id(pending.listed),
            files=registration.files,
            bytes=registration.bytes,
            rows=registration.rows,
        )


class _NoBook:
    """A cache without proofs: the table's folder in hot is new, and no other table uses it."""

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        return {}

    def save(self, proofs: Collection[CopyProof]) -> None:
        return


def _pending(stores: Stores, cold: TableMetadata, snapshot_id: int) -> PendingCopy:
    snapshot = cold.snapshots[snapshot_id]
    content = stores.read(cold.metadata_location)
    document = parse_json(cold.name, cold.metadata_location, content)
    assert isinstance(document, dict)  # it was read before
    chosen = ChosenSnapshot(snapshot, Validity(snapshot.committed_at, snapshot.committed_at))
    pair = TablePair(HandoffRequest(cold, cold.name, (chosen,)), document, None)
    return read_pending(stores, pair, chosen)


def _spec_id(listed: bytes) -> int | None:
    """Returns the partition spec id of the newest manifest."""
    rows = list(AvroFile.read(listed).records()) if listed else []
    newest = max(rows, key=lambda row: row.get("sequence_number") or 0, default={})
    return newest.get("partition_spec_id")
