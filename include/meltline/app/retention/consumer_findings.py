"""Doctor's findings about consumers that keep many snapshots, end soon, or are cut off.

`doctor` calls it, and a run's summary for those that end soon. It is apart from
`retention/consumers.py`, which changes consumers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from meltline.app.catalog.tables import ObservedTable, TableRetention
from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.retention.consumers import (
    Consumer,
    consumer_keep,
    consumers_of,
    is_cut_off,
    still_to_read,
)
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.domain.safe_text import quote

_MANY = 10
"""Number of snapshots; a consumer that keeps fewer is not reported."""


def consumer_findings(
    context: ReadContext, retentions: Sequence[TableRetention]
) -> Iterator[Finding]:
    """Finds consumers that need attention.

    Args:
        context: The ports.
        retentions: The tables with their retained snapshots.
    """
    for target in retentions:
        policy = consumer_keep(context.config.account, target.table.levels)
        if policy.warning:
            fix = "set a duration such as 30d, or take the property away"
            name = str(target.table.state.name)
            yield Finding("warning", "policy_out_of_range", name, policy.warning, fix)
        for consumer in consumers_of(target.table.state):
            yield from _about(target, consumer, context.clock.now())


def _about(target: TableRetention, consumer: Consumer, now: datetime) -> Iterator[Finding]:
    state, sentence = target.table.state, consumer.sentence
    words = f"{quote(consumer.table)} {quote(consumer.name)}"
    remove = f"where nobody reads any more: `meltline consumer remove {words}`"
    if is_cut_off(state, consumer):
        yield Finding(
            "warning",
            "consumer_cut_off",
            consumer.table,
            f"{sentence}; no branch leads on from there, so it cannot read on",
            f"`meltline consumer set {words} --reset --snapshot ID` puts it on a branch; {remove}",
        )
    alone, all = _alone(target, consumer), len(state.snapshots)
    if alone >= _MANY and 2 * alone > all:
        yield Finding(
            "warning",
            "consumer_keeps_much",
            consumer.table,
            f"{sentence}; {alone} of {all} snapshots are kept for it that only consumers keep",
            f"let it read on; {remove}",
        )
    if consumer.ends_soon(now):
        yield Finding(
            "warning",
            "consumer_ends_soon",
            consumer.table,
            sentence,
            "a move makes its time begin anew, also one to the same snapshot: "
            f"`meltline consumer set {words} --snapshot {consumer.snapshot_id}`",
        )


def ending_consumers(tables: Sequence[ObservedTable], now: datetime) -> list[Consumer]:
    """Consumers in these tables that end soon."""
    consumers = (consumer for table in tables for consumer in consumers_of(table.state))
    return [consumer for consumer in consumers if consumer.ends_soon(now)]


def _alone(target: TableRetention, consumer: Consumer) -> int:
    """Counts the snapshots that only consumers keep, among those it has not read."""
    keeps = target.keeps
    if consumer.tag in keeps.expired_refs:
        return 0
    unread = still_to_read(target.table.state, [consumer.snapshot_id], keeps.expired_refs)
    return sum(keeps.reasons.get(id) == (KeepReason.CONSUMER,) for id in unread)
