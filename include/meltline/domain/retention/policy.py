"""Resolves a table's retention policy from its properties, the account and the profile's limits.

Requirements ML-26 to ML-30, TT-5 to TT-25, C-3 to C-5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from meltline.domain.iceberg.objects import ACCOUNT
from meltline.domain.retention.profiles import PROFILES as PROFILES  # noqa: PLC0414 - known from here
from meltline.domain.retention.profiles import Profile as Profile  # noqa: PLC0414
from meltline.domain.units import format_duration, parse_duration

RETENTION = "meltline.retention-days"
FAILSAFE = "meltline.failsafe-days"
MIN_RETENTION = "meltline.min-retention-days"
TRANSIENT = "meltline.transient"
ENABLED = "meltline.enabled"
DROP_AFTER = "meltline.drop-after"
MAX_LATENESS = "meltline.max-lateness"
WRITER_KEEP = "meltline.writer-keep"
HOLD = "meltline.hold"
COLD = "meltline.cold"
COLD_RETENTION = "meltline.cold-retention-days"
DEEP = "meltline.deep"
CONSUMER_KEEP = "meltline.consumer-keep"
INFINITE = "infinite"
LONGEST_DAYS = 365_000
"""Days; a longer window would leave the calendar."""
_LONGEST = timedelta(days=LONGEST_DAYS)

SHARE_TAG = "share__"
HOLD_TAG = "hold__"
CONSUMER_TAG = "consumer__"
FENCE_TAG = "fence__"
"""A tag that prevents a commit over REST from being repeated; it ends after a day."""
OWN_TAGS = (SHARE_TAG, HOLD_TAG, CONSUMER_TAG, FENCE_TAG)
"""Tags that Meltline creates; a table's default for ref ages does not end them."""
FOREVER_MS = 2**63 - 1
"""A ref's age without end, set explicitly: a table's default for ref ages does not apply."""

PROFILE = "profile"
Levels = Sequence[tuple[str, Mapping[str, str]]]
"""Properties of the table and the objects around it, most specific first, with display names."""


@dataclass(frozen=True)
class AccountPolicy:
    """The account's own settings; None means the profile decides. `cold` is a `Cadence`."""

    profile: Profile
    retention_days: int | str | None = None
    min_retention_days: int = 0
    failsafe_days: int | None = None
    transient_failsafe_days: int | None = None
    reader_grace: timedelta = timedelta(hours=6)
    cold: str = "none"
    cold_retention_days: int = 2557
    deep: bool = False
    writer_keep: timedelta = timedelta(days=30)
    consumer_keep: timedelta = timedelta(days=30)


@dataclass(frozen=True)
class Remembered:
    """Earlier policy values around one table, from the ledger.

    Attributes:
        values: The newest valid value of each property, by level name.
        transient: Whether the table was transient when it was first seen; None while unseen.
    """

    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    transient: bool | None = None

    def days(self, level: str, key: str) -> int | str | None:
        """Returns an earlier value in days; None if there is none."""
        raw = self.values.get(level, {}).get(key)
        return None if raw is None else parse_days(raw)


NOTHING_KNOWN = Remembered()


@dataclass(frozen=True)
class Retention:
    """A table's resolved policy.

    Attributes:
        window: How long a superseded snapshot stays readable; None is for ever.
        failsafe: How long a tombstoned file waits before it may be purged.
        source: The object whose setting applies: a table, a namespace, `account` or `profile`.
        warnings: Settings that are risky or invalid, and what was applied instead.
        failsafe_source: The object whose setting of failsafe applies.
        transient: Whether the limits for transient objects apply.
        transient_source: The object whose setting of `transient` applies.
        min_days: The minimum of every window of the account.
        min_source: The object whose minimum applies.
        writer_keep: How long a silent streaming writer's mark still counts.
        writer_source: The object whose `writer-keep` applies.
        expires: Whether snapshots and refs expire at all.
        least_snapshots: The minimum number kept of each branch, however old; the table may set
            more.
        reader_grace: How long a query may still read a superseded snapshot.
    """

    window: timedelta | None
    failsafe: timedelta
    source: str
    warnings: tuple[str, ...] = ()
    failsafe_source: str = PROFILE
    transient: bool = False
    transient_source: str = PROFILE
    min_days: int = 0
    min_source: str = PROFILE
    writer_keep: timedelta = AccountPolicy.writer_keep
    writer_source: str = PROFILE
    expires: bool = True
    least_snapshots: int = 0
    reader_grace: timedelta = AccountPolicy.reader_grace

    @property
    def days(self) -> int | str:
        """The window in whole days, or `infinite`."""
        return INFINITE if self.window is None else self.window // timedelta(hours=24)


def effective_retention(
    account: AccountPolicy, levels: Levels, remembered: Remembered = NOTHING_KNOWN
) -> Retention:
    """Resolves the policy of a table, or the policy that a namespace passes on.

    Args:
        account: The account level, as `meltline.yaml` has it.
        levels: The table itself, then its namespaces from the innermost outwards, then the
            account's properties under the name `account`.
        remembered: The earlier valid settings. An invalid value gives the longest of old, new and
            default; a `transient` that was changed, the longer of both.
    """
    transient, transient_source = _flag(levels, TRANSIENT)
    retention = _retention(account, levels, transient, remembered)
    retention = replace(retention, transient=transient, transient_source=transient_source)
    if remembered.transient in (None, transient):
        return retention
    before = _retention(account, levels, not transient, remembered)
    changed = (
        f"{transient_source}: {TRANSIENT} was {str(not transient).lower()} when the table was "
        "new and cannot change; the longer of both policies applied"
    )
    return replace(
        retention,
        window=_longer(retention.window, before.window),
        failsafe=max(retention.failsafe, before.failsafe),
        warnings=(*retention.warnings, changed),
    )


def _retention(
    account: AccountPolicy, levels: Levels, transient: bool, remembered: Remembered
) -> Retention:
    warnings: list[str] = []
    days, source = _retention_days(account, levels, transient, remembered, warnings)
    least, least_source = _min_days(account, levels, remembered, warnings)
    if days is not None:
        if days < least:
            days, source = least, least_source
        if days > LONGEST_DAYS:
            days = None
        elif days == 0 and source != PROFILE and not warnings:
            warnings.append(f"{source}: {RETENTION}=0, what is overwritten cannot be read again")
    failsafe, failsafe_source = _failsafe(account, levels, transient, remembered, warnings)
    writer_keep, writer_source = _writer_keep(account, levels, remembered, warnings)
    return Retention(
        window=None if days is None else timedelta(hours=24 * days),
        # ML-14, C-5: where failsafe is zero, readers still get their grace.
        failsafe=max(failsafe, account.reader_grace),
        source=source,
        warnings=(*warnings, *_horizons(levels)),
        failsafe_source=failsafe_source,
        min_days=least,
        min_source=least_source,
        writer_keep=writer_keep,
        writer_source=writer_source,
        reader_grace=account.reader_grace,
    )


def _longer(window: timedelta | None, former: timedelta | None) -> timedelta | None:
    return None if window is None or former is None else max(window, former)


def is_enabled(levels: Levels, *, default: bool = True) -> bool:
    """Whether Meltline may change the table: no level says `meltline.enabled=false`.

    Any value but a plain `true` counts as an opt-out: an invalid one keeps the files. `default` is
    the profile's, for a table without the setting on any level (ML-34).
    """
    words = [word.strip().lower() for _, word in settings(levels, ENABLED)]
    return all(word == "true" for word in words) if words else default


def allowed_days(profile: Profile, *, transient: bool) -> tuple[int, int | None]:
    """Returns the minimum and maximum days of retention that a profile allows; None is no limit."""
    return profile.min_days, profile.transient_max_days if transient else profile.max_days


def most_least_days(profile: Profile) -> int:
    """Returns the highest minimum retention that an account may set (TT-16)."""
    return LONGEST_DAYS if profile.max_days is None else profile.max_days


def least_failsafe(profile: Profile, *, transient: bool) -> int:
    """Returns the minimum days of failsafe that may be set (ML-30)."""
    return profile.transient_failsafe_days if transient else 0


def is_transient(levels: Levels) -> bool:
    """Whether the most specific setting says transient."""
    return _flag(levels, TRANSIENT)[0]


def _flag(levels: Levels, key: str) -> tuple[bool, str]:
    for name, word in settings(levels, key):
        return word.strip().lower() == "true", name
    return False, PROFILE


def settings(levels: Levels, key: str) -> list[tuple[str, str]]:
    """Returns the values of a property, most specific level first, each with its level."""
    return [(name, properties[key]) for name, properties in levels if key in properties]


def _retention_days(
    account: AccountPolicy,
    levels: Levels,
    transient: bool,
    remembered: Remembered,
    warnings: list[str],
) -> tuple[int | None, str]:
    profile = account.profile
    default = profile.transient_default_days if transient else profile.default_days
    least, maximum = allowed_days(profile, transient=transient)
    stated = settings(levels, RETENTION)
    if account.retention_days is not None:
        stated.append((ACCOUNT, str(account.retention_days)))
    if not stated:
        return default, PROFILE
    source, raw = stated[0]
    days = parse_days(raw)
    if _is_between(days, least, maximum):
        return _finite_days(days), source
    # Out of range: apply the longest of all known values, and warn.
    former = remembered.days(source, RETENTION)
    stated_days = [*(parse_days(text) for _, text in stated), *([] if former is None else [former])]
    longest = _longest([default, *map(_finite_days, stated_days)], maximum)
    warnings.append(
        f"{source}: {RETENTION}={INFINITE if days == INFINITE else raw} is outside {least} to "
        f"{'no maximum' if maximum is None else maximum} of profile {profile.name}; "
        f"{INFINITE if longest is None else f'{longest} days'} applied"
    )
    return longest, source


def _is_between(days: int | str | None, least: int, maximum: int | None) -> bool:
    """Whether days are in range; `infinite` only without a maximum, an unreadable value never."""
    if days == INFINITE:
        return maximum is None
    return isinstance(days, int) and least <= days <= (days if maximum is None else maximum)


def _longest(days: Sequence[int | None], maximum: int | None) -> int | None:
    """Returns the longest; None is for ever, which means the profile's maximum."""
    finite = [day for day in days if day is not None]
    if len(finite) < len(days):
        return maximum
    top = max(finite)
    return top if maximum is None else min(top, maximum)


def _finite_days(days: int | str | None) -> int | None:
    """Returns a number of days; None for `infinite`, and for an unreadable value: keep."""
    return days if isinstance(days, int) else None


def parse_days(raw: str) -> int | str | None:
    """Parses a number of days or `infinite`; None if it is neither. Digits are 0 to 9 alone."""
    raw = raw.strip().lower()
    if raw == INFINITE:
        return INFINITE
    digits = raw.removeprefix("-")
    return int(raw) if digits.isascii() and digits.isdecimal() else None


def _min_days(
    account: AccountPolicy, levels: Levels, remembered: Remembered, warnings: list[str]
) -> tuple[int, str]:
    """Resolves the minimum of every window (TT-16): the account's property, else `meltline.yaml`.

    It does not exceed the profile's maximum.
    """
    written, most = account.min_retention_days, most_least_days(account.profile)
    stated = dict(levels).get(ACCOUNT, {}).get(MIN_RETENTION)
    raw = str(written) if stated is None else stated
    days = parse_days(raw)
    if isinstance(days, int) and 0 <= days <= most:
        return days, ACCOUNT if days or stated is not None else PROFILE
    known = (written, days, remembered.days(ACCOUNT, MIN_RETENTION))
    longest = min(max(day for day in known if isinstance(day, int)), most)
    warnings.append(
        f"{ACCOUNT}: {MIN_RETENTION}={raw} is outside 0 to {most} of profile "
        f"{account.profile.name}; {longest} days applied"
    )
    return longest, ACCOUNT


def _failsafe(
    account: AccountPolicy,
    levels: Levels,
    transient: bool,
    remembered: Remembered,
    warnings: list[str],
) -> tuple[timedelta, str]:
    profile = account.profile
    own = account.transient_failsafe_days if transient else account.failsafe_days
    default = profile.transient_failsafe_days if transient else profile.failsafe_days
    days, source = (default, PROFILE) if own is None else (own, ACCOUNT)
    for source, raw in settings(levels, FAILSAFE)[:1]:
        parsed = parse_days(raw)
        if isinstance(parsed, int) and parsed >= least_failsafe(profile, transient=transient):
            days = parsed
        else:
            old = remembered.days(source, FAILSAFE)
            days = max(days, default, old if isinstance(old, int) else 0)
            warnings.append(f"{source}: {FAILSAFE}={raw} is out of range; {days} days applied")
    if days == 0 and source != PROFILE:
        grace = format_duration(account.reader_grace)
        warnings.append(f"{source}: {FAILSAFE}=0, files wait for the reader grace of {grace} alone")
    return timedelta(hours=24 * min(days, LONGEST_DAYS)), source


def _writer_keep(
    account: AccountPolicy, levels: Levels, remembered: Remembered, warnings: list[str]
) -> tuple[timedelta, str]:
    """Resolves how long silent writers count; an invalid value gives the longest known one."""
    default, own = AccountPolicy.writer_keep, min(account.writer_keep, _LONGEST)
    stated = settings(levels, WRITER_KEEP)
    if not stated:
        return own, PROFILE if own == default else ACCOUNT
    source, raw = stated[0]
    if (span := read_writer_keep(raw)) is not None:
        return span, source
    words = [
        remembered.values.get(source, {}).get(WRITER_KEEP, ""),
        *(word for _, word in stated),
    ]
    spans = [span for word in words if (span := read_writer_keep(word)) is not None]
    longest = max([own, default, *spans])
    warnings.append(
        f"{source}: {WRITER_KEEP}={raw} is no duration of at most {LONGEST_DAYS}d; "
        f"{format_duration(longest)} applied"
    )
    return longest, source


def read_writer_keep(raw: str) -> timedelta | None:
    """Parses how long a silent writer's mark counts; None if it is invalid."""
    try:
        span = parse_duration(raw)
    except ValueError:
        return None
    return span if span <= _LONGEST else None


def _horizons(levels: Levels) -> list[str]:
    """Warns if rows would be dropped before the latest of them can have arrived (LT-31)."""
    horizons: dict[str, tuple[str, timedelta]] = {}
    for name, properties in reversed(list(levels)):
        for key in (DROP_AFTER, MAX_LATENESS):
            try:
                horizons[key] = name, parse_duration(properties[key])
            except (KeyError, ValueError):
                continue
    if len(horizons) < 2 or horizons[DROP_AFTER][1] > horizons[MAX_LATENESS][1]:
        return []
    return [
        f"{horizons[DROP_AFTER][0]}: {DROP_AFTER} is not longer than {MAX_LATENESS}; rows "
        "that come late would find their partition gone"
    ]
