"""The limits of plans, how long a verdict on one lasts, and what all work on stores may cost."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Limits:
    """How much a plan may do (docs/gates.md).

    Attributes:
        max_head_loss: Files of any head that a plan may hold; nobody can approve more.
        max_delete_ratio: Planned bytes / (planned + still referenced bytes), per table and plan.
        max_growth: Planned bytes against the median of the table's last ten plans.
        approve_above: Bytes above which a person must approve a purge.
        full_proof_above: Bytes above which a gate proves from the files alone.
        delete_keys_per_second: Keys sent for deletion per second, over all executors.
        lock_wait: How long a run waits for a group's lock before it skips the table.
    """

    max_head_loss: int = 0
    max_delete_ratio: float = 0.95
    max_growth: float = 5.0
    approve_above: int = 1024**4
    full_proof_above: int = 1024**4
    delete_keys_per_second: int = 3000
    lock_wait: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class GateSettings:
    """How long a gate's verdict or an approval lasts, and how often a full proof is due.

    Attributes:
        approval_wait: How long a person is asked about a purge above the limit.
    """

    ttl: timedelta = timedelta(hours=6)
    full_proof_every: timedelta = timedelta(days=30)
    approval_wait: timedelta = timedelta(days=3)


@dataclass(frozen=True)
class ChunkSettings:
    """What replication and drops of chunks may do.

    Attributes:
        heartbeat: How long ago replication may have looked last, for a chunk to be proved.
        max_chunks: So many are dropped in one run, the oldest first.
        max_drop_share: Of a table's bytes, in one plan.
        max_foreign_deletes: Of a table's rows, by deletes of others that are mirrored unasked;
            those within `foreign_deletes_window` count together.
        all_suffix: Behind a table's name it means all rows, of hot and of cold; empty: never.
    """

    heartbeat: timedelta = timedelta(hours=2)
    max_chunks: int = 1000
    max_drop_share: float = 0.8
    max_foreign_deletes: float = 0.2
    foreign_deletes_window: timedelta = timedelta(days=7)
    all_suffix: str = "_all"


USED_IN_PERCENT = 20
"""How much of the stores' configured requests per second Meltline may use (AR-37)."""

MOST_PARALLEL = 1000


@dataclass(frozen=True)
class IoSettings:
    """What work on the stores may cost, and when it may begin.

    Attributes:
        store_iops: Requests per second that the stores can serve; 0 where nobody says.
        quiet_from: Minutes after midnight UTC from which on work may begin; None: at any time.
        quiet_until: Minutes after midnight UTC from which on none begins any more.
        parallelism: So many small pieces of work wait for a store at a time, in one process.
    """

    store_iops: int = 0
    quiet_from: int | None = None
    quiet_until: int | None = None
    parallelism: int = 16

    @property
    def requests_per_second(self) -> int:
        """What all processes of a step together may ask of the stores; 0 is no limit."""
        return max(1, self.store_iops * USED_IN_PERCENT // 100) if self.store_iops else 0

    def may_begin(self, now: datetime) -> bool:
        """Whether work may begin now: inside the quiet window, which may span midnight."""
        if self.quiet_from is None or self.quiet_until is None:
            return True
        at = now.astimezone(UTC)
        minute = at.hour * 60 + at.minute
        if self.quiet_from <= self.quiet_until:
            return self.quiet_from <= minute < self.quiet_until
        return minute >= self.quiet_from or minute < self.quiet_until
