"""Validates policy changes: the profile's ranges, and whether `transient` may still change.

Commands and SQL check a change with it before they store it (TT-8, ML-29).
"""

from collections.abc import Mapping, Sequence

from meltline.domain.errors import (
    AutoMaintenanceDisabled,
    RetentionOutOfRange,
    TransientImmutable,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.consumers import LONGEST, SHORTEST, read_keep
from meltline.domain.retention.policy import (
    COLD,
    COLD_RETENTION,
    CONSUMER_KEEP,
    ENABLED,
    FAILSAFE,
    INFINITE,
    LONGEST_DAYS,
    MIN_RETENTION,
    RETENTION,
    WRITER_KEEP,
    Levels,
    Profile,
    allowed_days,
    is_enabled,
    is_transient,
    least_failsafe,
    most_least_days,
    parse_days,
    read_writer_keep,
)
from meltline.domain.retention.profiles import Cadence
from meltline.domain.units import format_duration

_IN_DAYS = (RETENTION, FAILSAFE, MIN_RETENTION, COLD_RETENTION)


def normal(key: str, setting: str) -> str:
    """Normalizes a setting for storage: days without leading zeros."""
    days = parse_days(setting) if key in _IN_DAYS else None
    return setting if days is None else str(days)


def is_in_order(profile: Profile, key: str, setting: str, *, transient: bool) -> bool:
    """Whether the profile allows a policy's value."""
    if key in _IN_DAYS:
        return _is_in_range(parse_days(setting), *_day_limits(profile, key, transient=transient))
    if key == CONSUMER_KEEP:
        return read_keep(setting) is not None
    if key == WRITER_KEEP:
        return read_writer_keep(setting) is not None
    return setting.strip().lower() in (list(Cadence) if key == COLD else ("true", "false"))


def _is_in_range(days: int | str | None, least: int, most: int | None) -> bool:
    if days == INFINITE:
        return most is None
    return isinstance(days, int) and least <= days <= (LONGEST_DAYS if most is None else most)


def _day_limits(profile: Profile, key: str, *, transient: bool) -> tuple[int, int | None]:
    """Returns the minimum and maximum days; without a maximum, `infinite` is allowed too."""
    if key == RETENTION:
        return allowed_days(profile, transient=transient)
    if key == MIN_RETENTION:
        return 0, most_least_days(profile)
    return least_failsafe(profile, transient=transient) if key == FAILSAFE else 0, LONGEST_DAYS


def require_allowed(
    profile: Profile, name: ObjectName, changes: Mapping[str, str | None], levels: Levels
) -> None:
    """Fails for changes that the profile does not allow on that object.

    Args:
        profile: The account's profile.
        name: The object.
        changes: New values by property; None unsets one.
        levels: The properties after the change, most specific first.

    Raises:
        RetentionOutOfRange: A number is out of range, or is no number.
        UsageInvalid: The minimum retention of an account is set on another object.
        AutoMaintenanceDisabled: The profile manages no table by default, and no level enables it.
    """
    if MIN_RETENTION in changes and name.kind is not ObjectKind.ACCOUNT:
        raise UsageInvalid(
            "only the account has a least retention (TT-16)",
            object=str(name),
            expected="--account with --min-retention-days",
            found=str(name.kind),
            next="`meltline policy set --account --min-retention-days N`",
        )
    is_managed = profile.auto_maintenance or is_enabled(levels, default=False)
    if changes.get(RETENTION) is not None and not is_managed:
        raise AutoMaintenanceDisabled(
            f"auto maintenance of {name} is off, so no retention can be set (ML-34)",
            object=str(name),
            expected=f"{ENABLED}=true on it or around it, with profile {profile.name}",
            found="nobody has enabled it",
            next="in SQL: `ALTER DATABASE NAME SET AUTO_MAINTENANCE = TRUE`, then this again",
        )
    transient = is_transient(levels)
    for key, setting in changes.items():
        if setting is None or is_in_order(profile, key, setting, transient=transient):
            continue
        raise RetentionOutOfRange(
            f"{key} of {name} cannot be {setting}",
            object=str(name),
            expected=_range(profile, key, transient=transient),
            found=setting,
            next="give a value in that range, or choose another profile in meltline.yaml",
        )


def _range(profile: Profile, key: str, *, transient: bool) -> str:
    if key == COLD:
        return ", ".join(Cadence)
    if key == CONSUMER_KEEP:
        return f"{format_duration(SHORTEST)} to {format_duration(LONGEST)}"
    if key == WRITER_KEEP:
        return f"0d to {LONGEST_DAYS}d"
    word = f"profile {profile.name}{' for transient objects' if transient else ''}"
    least, most = _day_limits(profile, key, transient=transient)
    above = f"days or {INFINITE}" if most is None else f"to {most} days"
    return f"{least} {above} ({word})"


def require_new(
    name: ObjectName,
    state: TableMetadata | None,
    tables: Sequence[TableName],
    before: str | None,
    after: str | None,
) -> None:
    """Refuses to change `transient` once the change would affect existing data (ML-29)."""
    if before == after:
        return
    used = f"{len(tables)} tables in it" if tables else ""
    if state is not None:
        used = "a table that has been written to" if state.snapshots or state.snapshot_log else ""
    if not used:
        return
    raise TransientImmutable(
        f"{name} is not new: whether it is transient cannot change any more",
        object=str(name),
        expected="an object without any data yet",
        found=used,
        next="make a new table, transient from the start, and write the rows into it",
    )
