"""Policies of chunks: adds them with a preview of their effect, lists and removes them.

The commands, SQL and the Python API call it. The rules of one policy are in `domain/chunks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.catalog.resolve import require_changeable
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.declare import LayoutWish, tracked_or_new
from meltline.app.chunks.tracking import chunk_lock, track
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.durability import due_to_drop, first_portion, old_enough
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType, require_fits, warnings_of
from meltline.domain.chunks.ranges import EPOCH, Horizon
from meltline.domain.errors import InvalidHorizons, NotChunked
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName

TIME_TO_REGRET = timedelta(days=1)
"""Grace period in which scheduled runs only report what a new policy would drop."""


@dataclass(frozen=True)
class PolicyWish:
    """A policy as a user requests it.

    Attributes:
        tier_after: An age such as `7d` or `3 months`; empty for none. Likewise `drop_after`.
        max_lateness: How late rows may arrive.
        keep_latest: Number of newest chunks that are never dropped.
    """

    type: PolicyType
    tier_after: str = ""
    drop_after: str = ""
    max_lateness: timedelta | None = None
    keep_latest: int = 0


@dataclass(frozen=True)
class AddedPolicy:
    """A policy in force, and its effect at the next run.

    Attributes:
        notices: Risks of the policy, or obstacles to its taking effect.
        first: The oldest chunk in hot, which is the first to be dropped; empty without one.
        first_at: When it is old enough for its next step; it may be in the past.
        acts_after: Scheduled runs drop nothing by it before; None if it drops nothing.
        tiers: How many chunks would be offered for proof; `drops` how many would leave hot.
        bytes: Bytes of the chunks that would leave hot.
    """

    policy: ChunkPolicy
    notices: Sequence[str]
    first: str = ""
    first_at: datetime | None = None
    acts_after: datetime | None = None
    tiers: int = 0
    drops: int = 0
    bytes: int = 0


def add_policy(
    context: ReadContext, table: TableName, wish: PolicyWish, layout: LayoutWish | None = None
) -> AddedPolicy:
    """Adds a policy, and stamps every chunk with main's head, whatever policies exist (H4, H5).

    Raises:
        NotChunked: The table has no chunks of time.
        InvalidHorizons: An age is zero, or contradicts another one (LT-24, LT-35).
        PolicyExists: The table has such a policy.
        CatalogReadOnly: The table is not in a catalog that Meltline may change.
    """
    require_changeable(context, ObjectName(table.catalog, table.namespace, table.name))
    hot = HotTable.load(context, table)
    uuid = hot.state.uuid
    ledger = context.control.chunk_policies
    policy = _policy(context, table, uuid, wish)
    require_fits(str(table), policy, ledger.all([uuid]))
    with chunk_lock(context, uuid):
        tracked = tracked_or_new(context, hot, layout or LayoutWish())
        sync = next(iter(context.control.syncs.all([uuid])), None)
        tracking = track(context, hot, tracked, sync)
        require_fits(str(table), policy, ledger.all([uuid]))
        stored = ledger.add(policy)
    audit(context, f"chunks {wish.type}", str(table), detail=stored.sentence)
    length = tracked.layout.unit.after(EPOCH) - EPOCH
    notices = [*warnings_of(stored, length), *_waits(stored, sync is not None)]
    return _preview(context, stored, list(tracking.chunks.values()), notices)


def _policy(context: ReadContext, table: TableName, uuid: str, wish: PolicyWish) -> ChunkPolicy:
    return ChunkPolicy(
        id=0,
        table_uuid=uuid,
        type=wish.type,
        tier_after=_horizon(table, wish.tier_after),
        drop_after=_horizon(table, wish.drop_after),
        created_at=context.clock.now(),
        who=context.who,
        max_lateness=wish.max_lateness,
        keep_latest=wish.keep_latest,
    )


def _horizon(table: TableName, text: str) -> Horizon | None:
    if not text:
        return None
    try:
        return Horizon.parse(text)
    except ValueError as error:
        raise InvalidHorizons(
            str(error),
            object=str(table),
            expected="an age such as 36h, 7d, 2 weeks, 3 months or 1y",
            found=text,
            next="say it again",
        ) from error


def _waits(policy: ChunkPolicy, is_synced: bool) -> list[str]:
    """Explains why a policy has no effect yet (LT-9, LT-20)."""
    if policy.type is PolicyType.RETENTION or is_synced:
        return []
    return [
        "the table is not synced: no chunk is flagged or dropped until "
        "`meltline chunks sync` has copied it to cold"
    ]


def _preview(
    context: ReadContext, policy: ChunkPolicy, chunks: Sequence[Chunk], notices: Sequence[str]
) -> AddedPolicy:
    by_name, now = {chunk.name: chunk for chunk in chunks}, context.clock.now()
    tiers = old_enough(by_name, policy.tier_after.before(now)) if policy.tier_after else []
    drops = due_to_drop(by_name, policy, now).due if policy.drop_after else []
    settings, size = context.config.chunks, sum(chunk.bytes for chunk in chunks)
    portion = first_portion(drops, size, settings.max_drop_share, settings.max_chunks)
    oldest = min((c for c in chunks if c.is_resident and c.files and c.end), default=None, key=_end)
    age = policy.tier_after or policy.drop_after
    return AddedPolicy(
        policy,
        [*notices, *([] if portion.is_all else [portion.sentence])],
        oldest.name if oldest else "",
        age.reached(_end(oldest)) if oldest and age else None,
        policy.created_at + TIME_TO_REGRET if policy.drop_after else None,
        len(tiers),
        len(drops),
        sum(chunk.bytes for chunk in drops),
    )


def _end(chunk: Chunk) -> datetime:
    assert chunk.end is not None  # callers pass only chunks with a time
    return chunk.end


@dataclass(frozen=True)
class ChunkPolicyLine:
    """A row of `policies`: a policy with its table.

    Attributes:
        id: Names it in answers; `type` is the name by which it is removed.
        sentence: Its effect in one sentence.
    """

    id: int
    table: str
    type: PolicyType
    tier_after: str
    drop_after: str
    max_lateness: timedelta | None
    keep_latest: int
    created_at: datetime
    who: str
    sentence: str


def policy_lines(context: ReadContext, table: TableName | None = None) -> list[ChunkPolicyLine]:
    """Returns the policies of a table, or of all tables, by table.

    Raises:
        TableNotFound: There is no such table.
    """
    uuids = None if table is None else [HotTable.load(context, table).state.uuid]
    names = {t.table_uuid: str(t.table) for t in context.control.chunks.tracked(uuids)}
    lines = [
        ChunkPolicyLine(
            id=policy.id,
            table=names.get(policy.table_uuid, policy.table_uuid),
            type=policy.type,
            tier_after=str(policy.tier_after or ""),
            drop_after=str(policy.drop_after or ""),
            max_lateness=policy.max_lateness,
            keep_latest=policy.keep_latest,
            created_at=policy.created_at,
            who=policy.who,
            sentence=policy.sentence,
        )
        for policy in context.control.chunk_policies.all(uuids)
    ]
    return sorted(lines, key=lambda line: (line.table, line.id))


def forget_policy(context: ReadContext, table: TableName, type: PolicyType) -> None:
    """Removes a policy. Flagged chunks stay flagged, and dropped chunks stay in cold.

    Raises:
        NotChunked: The table has no such policy.
    """
    hot = HotTable.load(context, table)
    if not context.control.chunk_policies.remove(hot.state.uuid, type):
        standing = context.control.chunk_policies.all([hot.state.uuid])
        raise NotChunked(
            f"{table} has no {type} policy",
            object=str(table),
            expected=", ".join(policy.type for policy in standing) or "a policy; it has none",
            found=type,
            next="`meltline chunks policies` lists them",
        )
    audit(context, "chunks forget-policy", str(table), detail=type)
