"""Doctor findings about dropped chunks' rows that others changed, or may have changed, in cold.

The command `doctor` calls it. It is not in the doctor's package, which does not depend on chunks.
"""

from collections.abc import Collection, Iterator

from meltline.app.catalog.metadata import load_document
from meltline.app.chunks.replication.cold_rows import require_recorded_rows, uncompared
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.chunks.sync import TableSync
from meltline.domain.errors import MeltlineError, SyncRefused
from meltline.domain.safe_text import quote
from meltline.domain.units import counted


def cold_row_findings(context: ReadContext) -> Iterator[Finding]:
    """Yields the synced tables in which others have changed rows of dropped chunks."""
    if context.cold is None or not context.control.database.is_prepared():
        return
    for sync in context.control.syncs.all():
        chunks = context.control.chunks.of(sync.table_uuid).values()
        try:
            location = context.cold.catalog.location(sync.cold)
            synced = SyncedTable(*load_document(context.cold.store, sync.cold, location))
            compared = require_recorded_rows(context, sync, synced, chunks)
            yield from _counted_only(sync, compared.counted, uncompared(synced, chunks))
        except SyncRefused as changed:
            yield Finding(
                "error",
                "chunks_cold_changed",
                str(sync.table),
                f"{changed.message}: {changed.found}",
                changed.next,
            )
        except MeltlineError:
            continue  # other findings report what cannot be read


def _counted_only(
    sync: TableSync, by_others: Collection[str], unread: Collection[str]
) -> Iterator[Finding]:
    """Yields the chunks whose rows are only counted: doctor has no engine that reads rows."""
    reasons = (
        (by_others, "others have rewritten them in cold since they were compared last"),
        (unread, "no checksum is recorded that compares with the columns of now"),
    )
    for chunks, why in reasons:
        if chunks:
            yield Finding(
                "info",
                "chunks_counted_only",
                str(sync.table),
                f"rows of {counted(len(chunks), 'dropped chunk')} are only counted: {why}",
                f"`meltline chunks replicate --tables {quote(sync.table)}` reads them",
            )
