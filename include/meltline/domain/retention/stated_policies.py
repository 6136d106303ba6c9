"""Combines the policies of a catalog's own policy store with Meltline's properties.

A valid property of ours, on the table or around it, takes precedence over the store's policy, and
that over the account. The store's policy can lengthen a window or be one. If it is invalid, or
could not be read, everything is kept (decision 050).
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.objects import ACCOUNT
from meltline.domain.retention.policy import (
    LONGEST_DAYS,
    RETENTION,
    AccountPolicy,
    Levels,
    Retention,
    allowed_days,
    settings,
)
from meltline.domain.retention.policy_rules import is_in_order


@dataclass(frozen=True)
class StatedPolicy:
    """One policy of a store that applies to a table.

    Attributes:
        source: A name by which people find the policy.
        enabled: Whether the operation of this policy is enabled at all.
        days: An age in days, of snapshots that may expire or of orphans that may be removed; None
            if it sets none.
        least_snapshots: The minimum number kept of each branch, however old.
        problem: Why it cannot be applied; then everything is kept. Empty if it can.
    """

    source: str
    enabled: bool = True
    days: int | None = None
    least_snapshots: int = 0
    problem: str = ""

    @property
    def keeps_all(self) -> bool:
        """Whether it keeps everything."""
        return bool(self.problem) or not self.enabled


@dataclass(frozen=True)
class TablePolicies:
    """The policies of a store for a table; None if it has none."""

    expiry: StatedPolicy | None = None
    removal: StatedPolicy | None = None


Stated = TablePolicies | MeltlineError
"""The policies of a store for a table, or the error that prevented reading them."""


def with_stated(
    account: AccountPolicy, levels: Levels, retention: Retention, stated: Stated | None
) -> Retention:
    """Returns a table's policy combined with the store's policy for its snapshots.

    Args:
        account: The account level.
        levels: The properties on and around the table, most specific first.
        retention: The policy resolved from these alone.
        stated: The store's policies; None without a store.
    """
    if isinstance(stated, MeltlineError):
        unread = f"{stated.object}: {stated.message} ({stated.found}); nothing expires until then"
        return _keeping_all(retention, "policies that could not be read", unread)
    expiry = stated.expiry if stated else None
    if expiry is None:
        return retention
    own = [word for name, word in settings(levels, RETENTION) if name != ACCOUNT][:1]
    if own and is_in_order(account.profile, RETENTION, own[0], transient=retention.transient):
        return retention
    if expiry.keeps_all:
        why = f"{expiry.source}: {expiry.problem}; nothing expires" if expiry.problem else ""
        return _keeping_all(retention, expiry.source, why)
    return _by_age(account, replace(retention, least_snapshots=expiry.least_snapshots), expiry, own)


def _keeping_all(retention: Retention, source: str, why: str) -> Retention:
    warnings = (*retention.warnings, why) if why else retention.warnings
    return replace(retention, window=None, expires=False, source=source, warnings=warnings)


def _by_age(
    account: AccountPolicy, retention: Retention, expiry: StatedPolicy, own: list[str]
) -> Retention:
    """Applies the policy's days, raised to the account's minimum or another setting's."""
    days = expiry.days
    if days is None:
        return retention
    window = None if days > LONGEST_DAYS else timedelta(days=days)
    least, _ = allowed_days(account.profile, transient=retention.transient)
    if days < least or own:  # one of the two settings is invalid: the longer one applies
        longer = None if None in (window, retention.window) else max(window, retention.window)  # type: ignore[type-var]
        said = (
            f"{expiry.source}: {days} days beside a value out of order; the longer of both applied"
        )
        source = retention.source if longer == retention.window else expiry.source
        warnings = (*retention.warnings, said)
        return replace(retention, window=longer, source=source, warnings=warnings)
    if window is not None and window < timedelta(days=retention.min_days):
        lifted = timedelta(days=retention.min_days)
        return replace(retention, window=lifted, source=retention.min_source)
    return replace(retention, window=window, source=expiry.source)


def removal_refusal(stated: Stated | None) -> str:
    """Returns why no file of a table may be treated as an orphan; empty if files may."""
    if isinstance(stated, MeltlineError):
        return f"{stated.message} ({stated.found})"
    removal = stated.removal if stated else None
    if removal is None or not removal.keeps_all:
        return ""
    return f"{removal.source} {removal.problem or 'turns the removal of orphans off'}"


def removal_age(stated: Stated | None) -> timedelta:
    """Returns the store's minimum age of a table's orphans; zero if it sets none."""
    removal = stated.removal if isinstance(stated, TablePolicies) else None
    days = removal.days if removal is not None and removal.days is not None else 0
    return timedelta(days=min(days, LONGEST_DAYS))
