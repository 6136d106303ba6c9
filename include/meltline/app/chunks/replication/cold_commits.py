"""One commit of cold: what it is asked for, how it is carried out, and how it is proved."""

from collections.abc import Collection
from dataclasses import replace

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.staged_copy import StagedCopy
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.services import RunContext
from meltline.domain.chunks.replication import LeavingFiles
from meltline.domain.chunks.sync import (
    SYNC_DROPPED,
    SYNC_GENERATION,
    SYNC_PLACE,
    SYNC_SNAPSHOT,
    Position,
)
from meltline.domain.errors import CommitConflict, SyncRefused
from meltline.ports import CopyOutcome, CopyRequest

_SHOWN = 3


def copy_request(
    hot: HotTable,
    cold: ColdContent,
    upto: Position,
    leaving: LeavingFiles,
    words: str,
) -> CopyRequest:
    """What a pass asks the engine for.

    Args:
        hot: The table.
        cold: What cold has before.
        upto: The position that cold has then.
        leaving: Files of cold that leave, and the chunks of which it is to have what hot has there.
        words: What cold says then of the chunks that it alone has.
    """
    return CopyRequest(
        hot=hot.state.name,
        cold=cold.synced.state.name,
        cold_base=cold.synced.state.metadata_location,
        layout=cold.tracking.table.layout,
        upto=upto.snapshot_id,
        replaced=leaving.chunks,
        removed=leaving.paths,
        properties={
            SYNC_GENERATION: str(upto.generation),
            SYNC_SNAPSHOT: str(upto.snapshot_id),
            SYNC_PLACE: str(upto.place),
            SYNC_DROPPED: words,
            **ColdOwner.of(cold.context).properties,
        },
    )


def carry_out(context: RunContext, copy: StagedCopy, synced: SyncedTable) -> CopyOutcome:
    """Has the engine copy.

    Raises:
        CommitConflict: Somebody else has committed to cold meanwhile.
        SyncRefused: It cannot be copied, or is not what hot has.
    """
    replicator = context.replicator
    assert replicator is not None  # there is a cold tier
    request = replace(copy.request, cold_base=synced.state.metadata_location)
    outcome = replicator.copy(request, copy.judge)
    if outcome is None:
        raise CommitConflict(
            f"{request.cold} has moved on while rows were copied",
            object=str(request.cold),
            expected=request.cold_base,
            found="another metadata file",
            next="the next pass copies them",
        )
    return outcome


def require_equal(
    context: RunContext, request: CopyRequest, chunks: Collection[str], cold_snapshot: int
) -> None:
    """Holds every chunk's rows against hot's: rows, nulls, checksum. Raises SyncRefused."""
    rows, layout = context.chunk_rows, request.layout
    assert rows is not None  # there is a cold tier
    hot = rows.digests(request.hot, request.upto, layout, chunks)
    cold = rows.digests(request.cold, cold_snapshot, layout, chunks)
    differing = sorted(n for n in {*hot, *cold} if hot.get(n) != cold.get(n))
    if differing:
        raise SyncRefused(
            f"the copy of {request.hot} has other rows than the table",
            object=str(request.hot),
            expected=f"equal rows in {len(chunks)} chunks",
            found=f"{len(differing)} differ: {', '.join(differing[:_SHOWN])}",
            next="the next pass copies them anew; nothing of this copy was published",
        )
