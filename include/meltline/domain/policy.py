"""How long the past lives: profiles, limits, and what a table's policy comes to.

Requirements ML-26 to ML-30, TT-5 to TT-25, C-3 to C-5; design section 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

RETENTION = "meltline.retention-days"
FAILSAFE = "meltline.failsafe-days"
TRANSIENT = "meltline.transient"
ENABLED = "meltline.enabled"
HOLD = "meltline.hold"
COLD = "meltline.cold"
GUARD = "meltline.guard"
INFINITE = "infinite"
_FOREVER = 365_000  # days; a longer window would leave the calendar

SHARE_TAG = "share__"
HOLD_TAG = "hold__"


@dataclass(frozen=True)
class Profile:
    """The limits of a plan or product people know. Days are 24 hours; None is no limit."""

    name: str
    default_days: int | None
    min_days: int
    max_days: int | None
    failsafe_days: int
    transient_default_days: int | None
    transient_max_days: int | None
    transient_failsafe_days: int


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


@dataclass(frozen=True)
class AccountPolicy:
    """The account's own settings; None means the profile decides."""

    profile: Profile
    retention_days: int | str | None = None
    min_retention_days: int = 0
    failsafe_days: int | None = None
    transient_failsafe_days: int | None = None
    reader_grace: timedelta = timedelta(hours=6)


@dataclass(frozen=True)
class Retention:
    """What a table's policy comes to.

    Attributes:
        window: How long a superseded snapshot stays readable; None is for ever.
        failsafe: How long a departed file waits before it may be purged.
        source: The object whose setting won: a table, a namespace, `account` or `profile`.
        warnings: Settings that were out of range and what was applied instead.
    """

    window: timedelta | None
    failsafe: timedelta
    source: str
    warnings: tuple[str, ...] = ()


def effective_retention(
    account: AccountPolicy, levels: Sequence[tuple[str, Mapping[str, str]]]
) -> Retention:
    """Resolves the policy of a table.

    Args:
        account: The account level.
        levels: Properties of the objects around the table, nearest first: the table itself, then
            its namespaces from the innermost outwards, each with the name to show.
    """
    warnings: list[str] = []
    transient = _flag(levels, TRANSIENT)
    days, source = _retention_days(account, levels, transient, warnings)
    if days is not None:
        days = max(days, account.min_retention_days)
        if days > _FOREVER:
            days = None
        elif days == 0 and source != "profile" and not warnings:
            warnings.append(f"{source}: {RETENTION}=0, what is overwritten cannot be read again")
    failsafe = _failsafe(account, levels, transient, warnings)
    return Retention(
        window=None if days is None else timedelta(hours=24 * days),
        # ML-14, C-5: where failsafe is zero, readers still get their grace.
        failsafe=max(failsafe, account.reader_grace),
        source=source,
        warnings=tuple(warnings),
    )


def is_enabled(levels: Sequence[tuple[str, Mapping[str, str]]]) -> bool:
    """Whether Meltline may change the table: no level says `meltline.enabled=false`.

    Anything but a plain `true` counts as an opt-out: an odd word keeps the files.
    """
    return all(
        properties[ENABLED].strip().lower() == "true"
        for _, properties in levels
        if ENABLED in properties
    )


def _flag(levels: Sequence[tuple[str, Mapping[str, str]]], key: str) -> bool:
    for _, properties in levels:
        if key in properties:
            return properties[key].strip().lower() == "true"
    return False


def _retention_days(
    account: AccountPolicy,
    levels: Sequence[tuple[str, Mapping[str, str]]],
    transient: bool,
    warnings: list[str],
) -> tuple[int | None, str]:
    profile = account.profile
    default = profile.transient_default_days if transient else profile.default_days
    maximum = profile.transient_max_days if transient else profile.max_days
    settings: list[tuple[str, str]] = [
        (name, properties[RETENTION]) for name, properties in levels if RETENTION in properties
    ]
    if account.retention_days is not None:
        settings.append(("account", str(account.retention_days)))
    if not settings:
        return default, "profile"
    source, raw = settings[0]
    days = _parse_days(raw)
    if days == INFINITE:
        if maximum is None:
            return None, source
        found = "infinite"
    elif isinstance(days, int) and profile.min_days <= days <= (
        maximum if maximum is not None else days
    ):
        return days, source
    else:
        found = raw
    # Out of range: the longest of what is known applies, and it is said (design section 3).
    longest = _longest([default, *(_known(_parse_days(other)) for _, other in settings)], maximum)
    warnings.append(
        f"{source}: {RETENTION}={found} is outside {profile.min_days} to "
        f"{'no maximum' if maximum is None else maximum} of profile {profile.name}; "
        f"{'infinite' if longest is None else f'{longest} days'} applied"
    )
    return longest, source


def _longest(days: Sequence[int | None], maximum: int | None) -> int | None:
    """None among the days is for ever: the longest that the profile allows."""
    known = [day for day in days if day is not None]
    if len(known) < len(days):
        return maximum
    top = max(known)
    return top if maximum is None else min(top, maximum)


def _known(days: int | str | None) -> int | None:
    """A number of days; None for `infinite`, and for a wish that cannot be read: keep."""
    return days if isinstance(days, int) else None


def _parse_days(raw: str) -> int | str | None:
    raw = raw.strip().lower()
    if raw == INFINITE:
        return INFINITE
    negative = raw.startswith("-") and raw[1:].isdecimal()
    return 0 - int(raw[1:]) if negative else int(raw) if raw.isdecimal() else None


def _failsafe(
    account: AccountPolicy,
    levels: Sequence[tuple[str, Mapping[str, str]]],
    transient: bool,
    warnings: list[str],
) -> timedelta:
    profile = account.profile
    own = account.transient_failsafe_days if transient else account.failsafe_days
    default = profile.transient_failsafe_days if transient else profile.failsafe_days
    days = default if own is None else own
    for name, properties in levels:
        if FAILSAFE in properties:
            asked = _parse_days(properties[FAILSAFE])
            if isinstance(asked, int) and asked >= (default if transient else 0):
                days = asked
            else:
                days = max(days, default)
                warnings.append(f"{name}: {FAILSAFE}={properties[FAILSAFE]} is out of range")
            break
    return timedelta(hours=24 * min(days, _FOREVER))
