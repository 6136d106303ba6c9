"""Policies that flag and drop chunks by age, and the checks that they are compatible.

`app/chunks/policies` stores them, and runs apply them (LT-5, LT-24, LT-35).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from meltline.domain.chunks.ranges import Horizon
from meltline.domain.errors import InvalidHorizons, PolicyExists
from meltline.domain.safe_text import quote


class PolicyType(StrEnum):
    """The three policy types of LakeTS."""

    TIERING = "tiering"
    RETENTION = "retention"
    TIERED_RETENTION = "tiered_retention"


@dataclass(frozen=True)
class ChunkPolicy:
    """A policy by age for a table's chunks.

    Attributes:
        id: Identifies it in answers only.
        table_uuid: The table's registration: a copy of the table does not have the policy.
        tier_after: Age at which chunks are offered for proof; None for never.
        drop_after: Age at which they leave hot; None for never.
        max_lateness: Declared lateness of rows; None if not declared.
        keep_latest: Number of newest chunks that are never dropped.
        created_at: On its first scheduled day a policy that drops only plans.
    """

    id: int
    table_uuid: str
    type: PolicyType
    tier_after: Horizon | None
    drop_after: Horizon | None
    created_at: datetime
    who: str = ""
    max_lateness: timedelta | None = None
    keep_latest: int = 0

    @property
    def sentence(self) -> str:
        """Describes its effect for users."""
        parts = []
        if self.tier_after:
            parts.append(f"tier after {self.tier_after}")
        if self.drop_after:
            parts.append(f"drop after {self.drop_after}")
        if self.keep_latest:
            parts.append(f"keep the latest {self.keep_latest}")
        return ", ".join(parts)


def require_fits(table: str, policy: ChunkPolicy, others: Iterable[ChunkPolicy]) -> None:
    """Rejects a policy that a table already has, or whose ages contradict its other policies.

    Raises:
        PolicyExists: The table has a policy of the same type, or an equivalent one (H8).
        InvalidHorizons: Chunks would be dropped before they are tiered, or at once (LT-24, LT-35).
    """
    standing = list(others)
    for other in standing:
        both_drop = bool(policy.drop_after and other.drop_after)
        both_tier = bool(policy.tier_after and other.tier_after)
        if other.type is policy.type or both_drop or both_tier:
            raise PolicyExists(
                f"{table} has a policy already: {other.sentence}",
                object=table,
                expected=f"no {policy.type} policy, and none that says the same thing",
                found=f"{other.type}: {other.sentence}",
                next=f"`meltline chunks forget-policy {quote(table)} {quote(other.type)}`, then "
                "add the new one",
            )
    together = [policy, *standing]
    tier = next((p.tier_after for p in together if p.tier_after), None)
    drop = next((p.drop_after for p in together if p.drop_after), None)
    if tier and drop and not tier.is_shorter_than(drop):
        raise InvalidHorizons(
            f"chunks of {table} would be dropped before they are tiered, or on the same day",
            object=table,
            expected="a tier age that is shorter than the drop age, on every day of the calendar",
            found=f"tier after {tier}, drop after {drop}",
            next="choose a shorter age for the one, or a longer one for the other",
        )


def warnings_of(policy: ChunkPolicy, unit_length: timedelta) -> Sequence[str]:
    """Lists the risks of a valid policy."""
    drop, warnings = policy.drop_after, []
    if drop and policy.max_lateness is not None and drop.rough <= policy.max_lateness:
        warnings.append(
            f"drop after {drop} is not longer than the lateness: late rows will be rejected (LT-31)"
        )
    for age in (policy.tier_after, drop):
        if age and age.rough < timedelta(days=1):
            warnings.append(f"{age} is shorter than a day, and the DAG runs once a day")
    if drop and drop.rough < 2 * unit_length:
        warnings.append(f"drop after {drop} leaves fewer than two chunks in hot")
    return warnings
