"""Findings of `doctor --deep`: heads whose metadata files are missing or too short.

Only `--deep` calls it, because it checks the files of every table.
"""

from collections.abc import Iterable

from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.tables import is_ledger
from meltline.app.observe.losses.torn_heads import HeadFiles, torn_heads
from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext


def deep_findings(context: ReadContext) -> Iterable[Finding]:
    """Checks the files of every head of every table, without a JVM."""
    if not context.control.database.is_prepared():
        return
    entries = list_catalogs(context.catalogs.values()).entries
    tables = [pointer for pointer in entries if not is_ledger(context, pointer.name)]
    states = metadata_of(load_tables(context, tables).values())
    lengths = {row.key: row.manifest_list_bytes for row in context.reader.snapshots()}
    for head in torn_heads(HeadFiles(context.store, context.manifests, lengths), states):
        yield Finding("error", "head_torn", head.object, head.message, head.next)
