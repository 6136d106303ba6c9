"""Explains chunks for `explain`: the chunk of a file, what keeps it, and when it is dropped.

The command calls it and appends the sentences to its own. It reads the ledger, and manifests only
to find a file.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from meltline.app.chunks.lookups import ChunkedTable, chunked_tables
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk, Deferral
from meltline.domain.chunks.durability import due_to_drop, is_gated, not_durable
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import counted, format_instant, format_size

_MOST_FILES = 100_000
"""Larger tables' manifests are not read just to find one file."""


def table_sentences(context: ReadContext, name: TableName) -> list[str]:
    """Describes a table's chunks and the next one to drop; nothing if it has none."""
    uuids = [t.table_uuid for t in context.control.chunks.tracked() if t.table == name]
    return [
        sentence
        for table in chunked_tables(context, only=uuids)
        if table.state.name == name
        for sentence in _of_table(context, table)
    ]


def _of_table(context: ReadContext, table: ChunkedTable) -> Iterator[str]:
    chunks = context.control.chunks.of(table.state.uuid)
    resident = sorted((c for c in chunks.values() if c.is_resident and c.files), key=_name)
    size = format_size(sum(chunk.bytes for chunk in resident))
    gone = counted(sum(c.was_dropped for c in chunks.values()), "chunk")
    yield f"chunks: {len(resident)} in hot, {size}; {gone} dropped"
    timed = [chunk for chunk in resident if chunk.end]
    if timed:
        yield _of_chunk(context, table, chunks, timed[0])


def file_sentences(context: ReadContext, path: str, tables: Collection[str]) -> list[str]:
    """Describes the chunk of a live data file of some tables, and when it is dropped."""
    uuids = {t.table_uuid for t in context.control.chunks.tracked() if str(t.table) in tables}
    if not uuids:
        return []
    return [
        sentence
        for table in chunked_tables(context, only=sorted(uuids))
        for sentence in _of_file(context, table, path)
    ]


def _of_file(context: ReadContext, table: ChunkedTable, path: str) -> Iterator[str]:
    head = table.state.current_snapshot
    if head is None or _files_of(head.summary) > _MOST_FILES:
        return
    key, layout = location_key(path), table.tracked.layout
    chunks = context.control.chunks.of(table.state.uuid)
    for file in context.chunk_files.live(head, layout):
        if location_key(file.path) != key:
            continue
        names = layout.names(file.times)
        if names is None or len(names) > 1:
            reached = f"{len(names or chunks)} chunks of {table.state.name}"
            yield f"it reaches into {reached}, none of which is dropped: {Deferral.SPANS_CHUNKS}"
        elif chunk := chunks.get(names[0]):
            yield _of_chunk(context, table, chunks, chunk)


def _of_chunk(
    context: ReadContext, table: ChunkedTable, chunks: Mapping[str, Chunk], chunk: Chunk
) -> str:
    """`chunk 2026-01-05 of lake.air.t is tiered: dropped from 2026-04-06T00:00:00Z on`."""
    words = f"chunk {chunk.name} of {table.state.name} is {chunk.status}"
    policy = table.drop_policy
    if policy is None or policy.drop_after is None:
        return f"{words}: no policy drops it"
    if chunk.end is None:
        return f"{words}: rows without a time are never dropped"
    at = policy.drop_after.reached(chunk.end)
    waits = _waits(context, table, chunks, chunk, at)
    return f"{words}: {policy.sentence}, so from {format_instant(at)} on{waits}"


def _waits(
    context: ReadContext,
    table: ChunkedTable,
    chunks: Mapping[str, Chunk],
    chunk: Chunk,
    at: datetime,
) -> str:
    """Explains why the drop would be deferred at that time, as far as the ledger knows."""
    policy, now = table.drop_policy, context.clock.now()
    assert policy is not None  # the caller has checked it
    if table.observed.held:
        return "; a hold keeps it"
    due = due_to_drop(chunks, policy, max(at, now), context.config.chunks.max_chunks)
    for deferred in due.deferred:
        if deferred.chunk == chunk.name:
            return f"; it waits: {deferred.reason}, {deferred.detail}"
    oldest = context.config.chunks.heartbeat
    if is_gated(table.sync, policy.type):
        waits = not_durable(chunk, table.sync, now, oldest)
        return f"; it waits: {waits.reason} {waits.detail}".rstrip() if waits else ""
    return ""


def _files_of(summary: Mapping[str, str]) -> int:
    text = summary.get("total-data-files", "")
    return int(text) if text.isdecimal() else _MOST_FILES + 1


def _name(chunk: Chunk) -> str:
    return chunk.name
