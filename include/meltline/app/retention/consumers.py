"""Consumers: moves, resets, removes and lists named readers with progress (decision 031).

The CLI and the API call it. A consumer is a tag and a property in the table's metadata, which
`domain/retention/consumers.py` defines.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.catalog.commit import commit, pin, require_readable_name, unpin
from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.catalog.tables import levels_around, look_everywhere
from meltline.app.safety.audit import audit
from meltline.app.safety.purge_vetoes import snapshot_unclaimed
from meltline.app.services import ReadContext
from meltline.domain.errors import (
    ConsumerAhead,
    ConsumerNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import require_snapshot
from meltline.domain.retention.consumers import (
    LONGEST,
    SHORTEST,
    Consumer,
    consumer_keep,
    consumers_of,
)
from meltline.domain.retention.policy import CONSUMER_TAG
from meltline.domain.units import format_duration


@dataclass(frozen=True)
class Consumers:
    """Every consumer that was found, and the tables that could not be read."""

    consumers: Sequence[Consumer]
    unreadable: Sequence[str]


def set_consumer(
    context: ReadContext,
    table: TableName,
    name: str,
    snapshot_id: int,
    *,
    expires_after: timedelta | None = None,
    reset: bool = False,
    dry_run: bool = False,
) -> Consumer:
    """Records up to which snapshot a reader has read: this one and all later ones are kept.

    A move forward only releases snapshots, so it takes no lock. A new or reset consumer waits for
    the run that works on the table.

    Args:
        context: The ports.
        table: The table.
        name: The consumer, new or known.
        snapshot_id: The last snapshot read. The same as before only renews the consumer.
        expires_after: Its lifetime after this and each later move; None for its previous
            value, otherwise the policy's.
        reset: Whether it may move to a snapshot that does not descend from its current one.
        dry_run: Check everything and change nothing.

    Raises:
        SnapshotNotFound: The table has no such snapshot, or has it no more.
        ConsumerAhead: Its current snapshot is later or on another branch, and `reset` is false.
        NameConflict: Engines could not read the name.
        UsageInvalid: `expires_after` is too short or too long.
        CatalogReadOnly: The catalog is only observed.
        FilesClaimed: A purge has begun to delete files of the snapshot; nothing was changed.
        LockHeld: The consumer is new or reset, and a run works on the table.
    """
    require_changeable(context, _object(table))
    _require_keep(expires_after)
    seen = load_table(context, table)
    require_readable_name(seen, name, CONSUMER_TAG)
    before = _standing(seen, name)
    consumer = _placed(context, seen, name, snapshot_id, expires_after)
    _require_after(seen, consumer, reset=reset)
    if dry_run:
        return consumer
    ref = _tag(seen, consumer)

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        _require_after(state, consumer, reset=reset)
        pin(document, ref, {consumer.key: consumer.written()})

    forward = before is not None and seen.descends_from(snapshot_id, before.snapshot_id)
    purpose = f"consumer {name} of {table}@{snapshot_id}"
    snapshot = seen.snapshots[snapshot_id]
    with nullcontext() if forward else snapshot_unclaimed(context, seen.uuid, snapshot, purpose):
        commit(context, seen, edit)
    _audit(context, "consumer set" if forward or before is None else "consumer reset", consumer)
    return consumer


def remove_consumer(
    context: ReadContext, table: TableName, name: str, *, dry_run: bool = False
) -> Consumer:
    """Removes a consumer; the ordinary rules apply to snapshots that it alone kept.

    Raises:
        ConsumerNotFound: The table has no such consumer.
        CatalogReadOnly: The catalog is only observed.
    """
    require_changeable(context, _object(table), dropped_too=True)
    seen = load_table(context, table)
    consumer = _standing(seen, name)
    if consumer is None:
        names = [standing.name for standing in consumers_of(seen)]
        raise ConsumerNotFound(
            f"{table} has no consumer {name}",
            object=str(table),
            expected=", ".join(names[:8]) or "a consumer; the table has none",
            found=name,
            next="`meltline consumer list` shows every consumer; one that has ended may be gone",
        )
    if not dry_run:
        commit(context, seen, lambda document, _: unpin(document, consumer.tag, consumer.key))
        _audit(context, "consumer remove", consumer)
    return consumer


def find_consumers(context: ReadContext, table: TableName | None = None) -> Consumers:
    """Lists the consumers of a table, or of every readable table, by table and name.

    Raises:
        TableNotFound: There is no such table.
        MetadataUnreadable: It cannot be read.
    """
    if table is not None:
        return Consumers(list(consumers_of(load_table(context, table))), ())
    seen = look_everywhere(context)
    consumers = [consumer for state in seen.states for consumer in consumers_of(state)]
    return Consumers(sorted(consumers, key=lambda c: (c.table, c.name)), seen.unreadable)


def _standing(state: TableMetadata, name: str) -> Consumer | None:
    return next((consumer for consumer in consumers_of(state) if consumer.name == name), None)


def _placed(
    context: ReadContext,
    state: TableMetadata,
    name: str,
    snapshot_id: int,
    expires_after: timedelta | None,
) -> Consumer:
    """The consumer after the change: its end counts from now."""
    before, now = _standing(state, name), context.clock.now()
    own = expires_after or (None if before is None else before.keep)
    keep = own or _policy(context, state)
    return Consumer(name, str(state.name), snapshot_id, context.who, now, now + keep, own)


def _policy(context: ReadContext, state: TableMetadata) -> timedelta:
    name = state.name
    listing = context.catalogs[name.catalog].listing()
    around = levels_around(context, ObjectName(name.catalog, name.namespace), listing)
    levels = [(str(name), state.properties), *around]
    return consumer_keep(context.config.account, levels).span


def _tag(state: TableMetadata, consumer: Consumer) -> SnapshotRef:
    assert consumer.ends_at is not None  # only an engine can set one without an end
    age = state.snapshots[consumer.snapshot_id].age_at(consumer.ends_at)
    return SnapshotRef(consumer.tag, consumer.snapshot_id, is_branch=False, max_ref_age_ms=age)


def _require_after(state: TableMetadata, consumer: Consumer, *, reset: bool) -> None:
    """Checks the newest metadata again, so that of two concurrent moves none goes backwards."""
    require_snapshot(state, consumer.snapshot_id)
    now = _standing(state, consumer.name)
    if now is None or reset or state.descends_from(consumer.snapshot_id, now.snapshot_id):
        return
    raise ConsumerAhead(
        f"consumer {now.name} of {state.name} does not go from {now.snapshot_id} to "
        f"{consumer.snapshot_id}",
        object=f"{state.name} consumer {now.name}",
        expected=f"{now.snapshot_id} or a snapshot that comes after it",
        found=f"{consumer.snapshot_id}: before it, or on another line",
        next="--reset sets it there all the same: it reads again from there, or leaves out what "
        "lies between",
    )


def _require_keep(span: timedelta | None) -> None:
    if span is None or SHORTEST <= span <= LONGEST:
        return
    raise UsageInvalid(
        "a consumer cannot stay so long" if span > LONGEST else "a consumer must stay a while",
        object="--expires-after",
        expected=f"{format_duration(SHORTEST)} to {format_duration(LONGEST)}",
        found=format_duration(span),
        next="give a time in which it surely moves; what is to stay for ever is a tag or a hold",
    )


def _object(table: TableName) -> ObjectName:
    return ObjectName(table.catalog, table.namespace, table.name)


def _audit(context: ReadContext, action: str, consumer: Consumer) -> None:
    audit(context, action, f"{consumer.table}@{consumer.snapshot_id}", detail=consumer.sentence)
