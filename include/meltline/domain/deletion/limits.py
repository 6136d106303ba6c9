"""Limits of plans, lifetimes of verdicts and approvals, and limits of I/O on the stores.

The configuration creates them; steps and gates read them.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Limits:
    """How much a plan may do (docs/gates.md).

    Attributes:
        max_head_loss: The maximum number of files of a branch head in a plan; no approval raises
            it.
        max_delete_ratio: Planned bytes / (planned + still referenced bytes), per table and plan.
        max_growth: Planned bytes relative to the median of the table's last ten plans.
        approve_above: Bytes above which an operator must approve a purge.
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
    """How long a gate's verdict or an approval is valid, and how often a full proof is due.

    Attributes:
        approval_wait: How long a purge above the limit waits for an operator's answer.
    """

    ttl: timedelta = timedelta(hours=6)
    full_proof_every: timedelta = timedelta(days=30)
    approval_wait: timedelta = timedelta(days=3)


@dataclass(frozen=True)
class ChunkSettings:
    """Limits of replication and of chunk drops.

    Attributes:
        heartbeat: The maximum age of the last replication, for a chunk to be proved.
        max_chunks: The maximum number dropped in one run, the oldest first.
        max_drop_share: The maximum share of a table's bytes in one plan.
        max_foreign_deletes: The maximum share of a table's rows in others' deletes that are
            mirrored without an approval; those within `foreign_deletes_window` count together.
        all_suffix: The suffix of a table's name that means all rows, of hot and of cold; empty:
            none.
    """

    heartbeat: timedelta = timedelta(hours=2)
    max_chunks: int = 1000
    max_drop_share: float = 0.8
    max_foreign_deletes: float = 0.2
    foreign_deletes_window: timedelta = timedelta(days=7)
    all_suffix: str = "_all"


USED_IN_PERCENT = 20
"""The share of the stores' configured requests per second that Meltline may use (AR-37)."""

MOST_PARALLEL = 1000


@dataclass(frozen=True)
class IoSettings:
    """Limits of I/O on the stores, and the hours in which it may begin.

    Attributes:
        store_iops: Requests per second that the stores can serve; 0 if not configured.
        quiet_from: Minutes after midnight UTC at which the window opens; None: always open.
        quiet_until: Minutes after midnight UTC at which the window closes.
        parallelism: The maximum number of parallel requests to a store in one process.
    """

    store_iops: int = 0
    quiet_from: int | None = None
    quiet_until: int | None = None
    parallelism: int = 16

    @property
    def requests_per_second(self) -> int:
        """The maximum requests per second of all processes of a step together; 0 is no limit."""
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
