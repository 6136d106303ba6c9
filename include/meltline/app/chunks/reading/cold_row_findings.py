"""Findings of doctor about rows of dropped chunks that others have changed in cold.

The command `doctor` asks here: the package of the doctor does not know of chunks.
"""

from collections.abc import Iterator

from meltline.app.catalog.metadata import load_document
from meltline.app.chunks.replication.cold_rows import require_recorded_rows
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.ground.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.errors import MeltlineError, SyncRefused


def cold_row_findings(context: ReadContext) -> Iterator[Finding]:
    """Yields the synced tables in which others have changed rows of dropped chunks."""
    if context.cold is None or not context.control.database.is_prepared():
        return
    for sync in context.control.syncs.all():
        chunks = context.control.chunks.of(sync.table_uuid).values()
        try:
            location = context.cold.catalog.location(sync.cold)
            synced = SyncedTable(*load_document(context.cold.store, sync.cold, location))
            require_recorded_rows(context, sync, synced, chunks)
        except SyncRefused as changed:
            yield Finding(
                "error",
                "chunks_cold_changed",
                str(sync.table),
                f"{changed.message}: {changed.found}",
                changed.next,
            )
        except MeltlineError:
            continue  # other findings tell what of cold cannot be read
