"""What may be set: the ranges of a profile, and when `transient` is still open (TT-8, ML-29)."""

from collections.abc import Mapping, Sequence

from meltline.domain.errors import RetentionOutOfRange, TransientImmutable, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.consumers import LONGEST, SHORTEST, read_keep
from meltline.domain.retention.policy import (
    COLD,
    COLD_RETENTION,
    CONSUMER_KEEP,
    FAILSAFE,
    INFINITE,
    LONGEST_DAYS,
    MIN_RETENTION,
    RETENTION,
    WRITER_KEEP,
    Levels,
    Profile,
    allowed_days,
    is_transient,
    least_failsafe,
    parse_days,
    read_writer_keep,
)
from meltline.domain.retention.profiles import Cadence
from meltline.domain.units import format_duration


def is_in_order(profile: Profile, key: str, setting: str, *, transient: bool) -> bool:
    """Whether a policy's value is one that the profile allows."""
    days = parse_days(setting)
    if key == RETENTION:
        least, most = allowed_days(profile, transient=transient)
        if days == INFINITE:
            return most is None
        return isinstance(days, int) and least <= days <= (LONGEST_DAYS if most is None else most)
    if key == FAILSAFE:
        least = least_failsafe(profile, transient=transient)
        return isinstance(days, int) and least <= days <= LONGEST_DAYS
    if key == COLD:
        return setting.strip().lower() in [str(word) for word in Cadence]
    if key == CONSUMER_KEEP:
        return read_keep(setting) is not None
    if key == WRITER_KEEP:
        return read_writer_keep(setting) is not None
    if key in (MIN_RETENTION, COLD_RETENTION):
        return isinstance(days, int) and 0 <= days <= LONGEST_DAYS
    return setting.strip().lower() in ("true", "false")


def require_allowed(
    profile: Profile, name: ObjectName, changes: Mapping[str, str | None], levels: Levels
) -> None:
    """Refuses what the profile does not allow on that object.

    Args:
        profile: The account's profile.
        name: The object.
        changes: New values by property; None unsets one.
        levels: The properties as they would be then, nearest first.

    Raises:
        RetentionOutOfRange: A number below or above its limits, or no number.
        UsageInvalid: The least retention of an account, on something else.
    """
    if MIN_RETENTION in changes and name.kind is not ObjectKind.ACCOUNT:
        raise UsageInvalid(
            "only the account has a least retention (TT-16)",
            object=str(name),
            expected="--account with --min-retention-days",
            found=str(name.kind),
            next="`meltline policy set --account --min-retention-days N`",
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
    if key == RETENTION:
        least, most = allowed_days(profile, transient=transient)
        above = f"days or {INFINITE}" if most is None else f"to {most} days"
        return f"{least} {above} ({word})"
    least = least_failsafe(profile, transient=transient) if key == FAILSAFE else 0
    return f"{least} to {LONGEST_DAYS} days ({word})"


def require_new(
    name: ObjectName,
    state: TableMetadata | None,
    tables: Sequence[TableName],
    before: str | None,
    after: str | None,
) -> None:
    """Refuses to change `transient` once there is something that it would change (ML-29).

    A table is new until its first commit, a namespace until its first table.

    Raises:
        TransientImmutable: The object is not new any more.
    """
    if before == after:
        return
    if state is not None:
        used = "a table that has been written to" if state.snapshots or state.snapshot_log else ""
    else:
        used = f"{len(tables)} tables in it" if tables else ""
    if not used:
        return
    raise TransientImmutable(
        f"{name} is not new: whether it is transient cannot change any more",
        object=str(name),
        expected="an object without any data yet",
        found=used,
        next="make a new table, transient from the start, and write the rows into it",
    )
