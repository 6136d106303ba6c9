"""The limits that every plan is held against, and how long a verdict on one lasts."""

from dataclasses import dataclass
from datetime import timedelta


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
    """How long a gate's verdict or an approval lasts, and how often a full proof is due."""

    ttl: timedelta = timedelta(hours=6)
    full_proof_every: timedelta = timedelta(days=30)
