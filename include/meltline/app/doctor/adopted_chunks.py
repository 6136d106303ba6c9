"""What an adopted ledger may not know of chunks: drops, and policies that were forgotten since."""

from dataclasses import replace

from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.sync import SyncState
from meltline.ports import ControlLedger

_DETAIL = (
    "the ledger was adopted: it may not know of drops, so that nobody can tell which rows cold "
    "alone has until everything is copied and verified anew"
)


def forget_chunk_words(control: ControlLedger) -> tuple[str, ...]:
    """Has every synced table wait for a person, and removes what lets chunks go.

    What cold alone has stands in cold (`meltline.sync-dropped`). A word of this ledger about the
    same chunk counts only as long as it has seen all that happened, which it has not.

    Returns:
        The policies that have to be added anew, in words.
    """
    for sync in control.syncs.all():
        waiting = replace(
            sync, state=SyncState.FAILED, reason=str(Deferral.DIVERGED), detail=_DETAIL
        )
        control.syncs.save(sync, waiting)
    names = {table.table_uuid: str(table.table) for table in control.chunks.tracked()}
    for uuid in names:
        chunks = [c for c in control.chunks.of(uuid).values() if c.cold_base and not c.was_dropped]
        control.chunks.move([(chunk, replace(chunk, cold_base=None)) for chunk in chunks])
    forgotten = []
    for policy in control.chunk_policies.all():
        if policy.drop_after and control.chunk_policies.remove(policy.table_uuid, policy.type):
            forgotten.append(
                f"{names.get(policy.table_uuid, policy.table_uuid)}: {policy.sentence}"
            )
    return tuple(forgotten)
