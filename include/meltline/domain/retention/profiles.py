"""Profiles: the limits of well-known plans and products (ML-27, ML-28, TT-6, C-18).

`policy` applies them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Cadence(StrEnum):
    """Which expired snapshots are kept in cold."""

    NONE = "none"
    MONTHLY = "monthly"
    WEEKLY = "weekly"
    DAILY = "daily"
    ALL = "all"


@dataclass(frozen=True)
class Profile:
    """The limits of a well-known plan or product. Days are 24 hours; None is no limit."""

    name: str
    default_days: int | None
    min_days: int
    max_days: int | None
    failsafe_days: int
    transient_default_days: int | None
    transient_max_days: int | None
    transient_failsafe_days: int

    @property
    def has_named_snapshots(self) -> bool:
        """Whether tags without an end are part of the plan (ML-24)."""
        return not self.name.startswith("lite")

    @property
    def has_clones(self) -> bool:
        """Whether zero-copy clones are part of the product (ML-32, C-24)."""
        return not self.name.startswith("ducklake")

    @property
    def auto_maintenance(self) -> bool:
        """Whether tables are managed if no level says whether they are (ML-34)."""
        return self.name != "ducklake_byob"


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("business", 7, 0, 90, 7, 1, 90, 1),
        Profile("lite_paid", 1, 1, 1, 7, 1, 1, 1),
        Profile("lite_free", 0, 0, 0, 7, 0, 0, 1),
        Profile("snowflake_standard", 1, 0, 1, 7, 1, 1, 0),
        Profile("snowflake_enterprise", 1, 0, 90, 7, 1, 1, 0),
        Profile("ducklake_managed", None, 0, None, 7, None, None, 7),
        Profile("ducklake_byob", None, 0, None, 7, None, None, 7),
        Profile("lakehouse", 7, 0, None, 7, 7, None, 1),
    )
}
