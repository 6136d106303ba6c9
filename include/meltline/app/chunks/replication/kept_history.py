"""What hot keeps until replication has read it."""

from datetime import datetime

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.declare import CONSUMER
from meltline.app.retention.consumers import set_consumer
from meltline.app.services import ReadContext
from meltline.domain.retention.consumers import Consumer, consumers_of


def keep_from(context: ReadContext, hot: HotTable, snapshot_id: int) -> None:
    """Has hot keep a snapshot and all that come later.

    Asked by each pass, also by one that copied nothing: an earlier one may have died before it
    came to this, and a table that lies idle for months must not lose what it keeps. It commits only
    where the consumer stands elsewhere, or half of its time is over.

    Args:
        context: Where the table is.
        hot: The table as the pass has loaded it.
        snapshot_id: Up to where cold has everything.

    Raises:
        MeltlineError: As `set_consumer`.
    """
    own = next((c for c in consumers_of(hot.state) if c.name == CONSUMER), None)
    if own is None or own.snapshot_id != snapshot_id or _is_old(own, context.clock.now()):
        set_consumer(context, hot.state.name, CONSUMER, snapshot_id, reset=True)


def _is_old(consumer: Consumer, now: datetime) -> bool:
    if consumer.ends_at is None:
        return False
    moved_at = consumer.moved_at
    return moved_at is None or now - moved_at > (consumer.ends_at - moved_at) / 2
