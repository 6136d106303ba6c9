"""Flags or unflags a single chunk on an operator's request.

`chunks tier`, `chunks untier` and their SQL functions call it. Scheduled runs flag by age in `run`;
here age does not count, but the proof is the same (LT-34).
"""

from dataclasses import dataclass, replace

from meltline.app.catalog.resolve import parse_table_name, require_changeable
from meltline.app.chunks.lookups import ChunkedTable, HotTable, chunked_tables, require_tracked
from meltline.app.chunks.proofs import tier
from meltline.app.chunks.tracking import chunk_lock, tracking_of
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.ranges import chunk_address, parse_chunk_address
from meltline.domain.errors import ChunkNotFound, CommitConflict, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.safe_text import quote


@dataclass(frozen=True)
class ChunkFlag:
    """Whether a chunk is now flagged as proved, and if not, why.

    Attributes:
        chunk: Full name, with its table.
        reason: Why it is not proved; None if the obstacle is not a matter of proof.
        why: The obstacle in plain text.
    """

    chunk: str
    is_tiered: bool
    reason: Deferral | None = None
    why: str = ""


def parse_chunk(text: str) -> tuple[TableName, str]:
    """Splits an operator's chunk address into the table and the chunk's own name.

    Raises:
        UsageInvalid: The text is not the name of a chunk.
        TableNotFound: The table's name is incomplete.
    """
    try:
        table, name = parse_chunk_address(text)
    except ValueError as error:
        raise UsageInvalid(
            str(error),
            object="CHUNK",
            expected="a table, @ and the chunk's begin in UTC",
            found=text,
            next="`meltline chunks list TABLE` names a table's chunks",
        ) from error
    return parse_table_name(table), name


def chunked_table(context: ReadContext, name: TableName) -> ChunkedTable:
    """Returns a table that is split into chunks, by name.

    Raises:
        TableNotFound: No table has this name.
        NotChunked: The table is neither synced nor has a policy.
    """
    state = HotTable.load(context, name).state
    require_tracked(context, state)
    for table in chunked_tables(context, only=[state.uuid]):
        return table
    raise CommitConflict(
        f"{name} stands under two names, or was dropped meanwhile",
        object=str(name),
        expected="a table under one name",
        found="none, or several",
        next="`meltline doctor` tells of tables that share an id",
    )


def tier_chunk(context: RunContext, name: TableName, chunk_name: str) -> ChunkFlag:
    """Flags a chunk that is proved to be in cold; any other chunk stays as it is.

    Raises:
        TableNotFound: There is no such table.
        NotChunked: It is not split into chunks.
    """
    require_changeable(context, ObjectName(name.catalog, name.namespace, name.name))
    table, address = chunked_table(context, name), chunk_address(name, chunk_name)
    with chunk_lock(context, table.state.uuid):
        tracking = tracking_of(context, table)
        chunk = tracking.chunks.get(chunk_name)
        if chunk is None or chunk.status is ChunkStatus.DROPPED:
            state = "was dropped" if chunk else "is not known"
            return ChunkFlag(address, is_tiered=False, why=f"the chunk {state}")
        if chunk.status is ChunkStatus.TIERED:
            return ChunkFlag(address, is_tiered=True)
        if chunk.status is ChunkStatus.REOPENED or chunk.end is None:
            late = "cold alone has what was dropped of it" if chunk.end else "its rows have no time"
            return ChunkFlag(address, is_tiered=False, why=late)
        tiered = tier(context, table, tracking, [chunk])
    for deferred in tiered.deferred:
        return ChunkFlag(address, is_tiered=False, reason=deferred.reason, why=deferred.detail)
    audit(context, "chunks tier", address)
    return ChunkFlag(address, is_tiered=True)


def untier_chunk(context: ReadContext, name: TableName, chunk_name: str) -> Chunk:
    """Removes a chunk's flag: it is active again, until the next proof.

    Raises:
        TableNotFound: There is no such table.
        ChunkNotFound: It has no such chunk, or it is not tiered.
        CommitConflict: Another run has changed it meanwhile.
    """
    state, address = HotTable.load(context, name).state, chunk_address(name, chunk_name)
    require_tracked(context, state)
    with chunk_lock(context, state.uuid):
        chunk = context.control.chunks.of(state.uuid).get(chunk_name)
        if chunk is None or chunk.status is not ChunkStatus.TIERED:
            raise ChunkNotFound(
                f"{address} is not tiered",
                object=address,
                expected="a chunk that is flagged as proved",
                found=str(chunk.status) if chunk else "no such chunk",
                next=f"`meltline chunks list {quote(name)}`",
            )
        active = replace(chunk, status=ChunkStatus.ACTIVE, tiered_at=None)
        if not all(context.control.chunks.move([(chunk, active)])):
            raise CommitConflict(
                f"{address} was changed meanwhile",
                object=address,
                expected="a chunk that is tiered",
                found="another one",
                next="look at it, and say it again",
            )
    audit(context, "chunks untier", address)
    return active
