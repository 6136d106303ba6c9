"""Records of dropped objects: the name, the time of the drop, and how long it is restorable.

A dropped table stays registered, under its UUID, in the namespace `meltline_dropped`. A dropped
schema or database leaves a namespace in there. Both carry the facts as properties, so that an
undrop needs the catalog alone. The retention is frozen at the drop (TT-22, TT-24, TT-40).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.iceberg.names import TableName, quote_part, split_name
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectKind, ObjectName
from meltline.domain.retention.policy import INFINITE, LONGEST_DAYS, Retention, parse_days
from meltline.domain.units import format_instant, parse_instant

_PREFIX = "meltline.dropped."
_NAME = f"{_PREFIX}name"
_KIND = f"{_PREFIX}kind"
_AT = f"{_PREFIX}at"
_RETENTION = f"{_PREFIX}retention-days"
_FAILSAFE = f"{_PREFIX}failsafe-days"
_BATCH = f"{_PREFIX}batch"
_WHO = f"{_PREFIX}who"
_HOW = f"{_PREFIX}how"
KEYS = (_NAME, _KIND, _AT, _RETENTION, _FAILSAFE, _BATCH, _WHO, _HOW)
_COMMAND, _NOTICED = "command", "noticed"
_DAY = timedelta(hours=24)
LET_GO = "let go"
"""A table's status in the control ledger after its drop is finalized and deregistered by us."""

SOURCE = "drop"
"""The source of a dropped object's retention."""


@dataclass(frozen=True)
class Drop:
    """The record of one drop.

    Attributes:
        object: The object, by the name it had.
        at: When; for an external drop, the observation that missed it.
        retention_days: How long it can be restored, frozen at the drop; or `infinite`.
        failsafe_days: How long its files wait in failsafe after that, frozen as well.
        batch: Objects dropped by one command have one batch, and are restored together (TT-53).
        who: The user who dropped it; empty if unknown.
        noticed: Whether it is an external drop, made without `meltline drop`.
    """

    object: ObjectName
    at: datetime
    retention_days: int | str
    failsafe_days: int
    batch: str
    who: str = ""
    noticed: bool = False

    @property
    def ends_at(self) -> datetime | None:
        """When it stops being restorable; None is never."""
        if not isinstance(self.retention_days, int) or self.retention_days > LONGEST_DAYS:
            return None
        return self.at + self.retention_days * _DAY

    def is_restorable(self, now: datetime) -> bool:
        """Whether it is restorable; at the very end it is, with no days never (TT-46)."""
        end = self.ends_at
        return end is None or (end > self.at and now <= end)

    def is_over(self, as_of: datetime) -> bool:
        """Whether its retention has ended by a logical date, so that a run finalizes it (TT-45)."""
        return as_of >= self.at and not self.is_restorable(as_of)

    def retention(self, reader_grace: timedelta) -> Retention:
        """Returns its frozen policy. `reader_grace` is the minimum that a file waits (ML-14)."""
        window = None if self.ends_at is None else self.ends_at - self.at
        failsafe = min(self.failsafe_days, LONGEST_DAYS) * _DAY
        return Retention(
            window=window,
            failsafe=max(failsafe, reader_grace),
            source=SOURCE,
            failsafe_source=SOURCE,
        )

    def written(self) -> dict[str, str]:
        """Serializes it as properties. The name is without its catalog, which may be renamed."""
        name = self.object
        levels = (*name.namespace, name.table) if name.table else name.namespace
        return {
            _NAME: ".".join(map(quote_part, levels)),
            _KIND: name.kind,
            _AT: format_instant(self.at),
            _RETENTION: str(self.retention_days),
            _FAILSAFE: str(self.failsafe_days),
            _BATCH: self.batch,
            _WHO: self.who,
            _HOW: _NOTICED if self.noticed else _COMMAND,
        }


def is_dropped_name(namespace: tuple[str, ...]) -> bool:
    """Whether a namespace is where dropped objects are kept."""
    return namespace[:1] == (DROPPED_NAMESPACE,)


def read_drop(catalog: str, properties: Mapping[str, str]) -> Drop | None:
    """Reads a drop from properties; None if they have none, or are invalid.

    A dropped object without a valid record is never finalized.
    """
    try:
        days, failsafe = parse_days(properties[_RETENTION]), int(properties[_FAILSAFE])
        parts = split_name(properties[_NAME])
        is_table = properties[_KIND] == ObjectKind.TABLE
        is_readable = days == INFINITE or (isinstance(days, int) and days >= 0)
        if days is None or not is_readable or failsafe < 0 or (is_table and len(parts) < 2):
            return None
        name = (
            ObjectName(catalog, parts[:-1], parts[-1]) if is_table else ObjectName(catalog, parts)
        )
        return Drop(
            object=name,
            at=parse_instant(properties[_AT]),
            retention_days=days,
            failsafe_days=failsafe,
            batch=properties[_BATCH],
            who=properties.get(_WHO, ""),
            noticed=properties.get(_HOW) == _NOTICED,
        )
    except (KeyError, ValueError, OverflowError):
        return None


def without_drop(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns an object's own properties, as they were before the drop."""
    return {key: text for key, text in properties.items() if key not in KEYS}


def levels_of(
    name: TableName,
    properties: Mapping[str, str],
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]],
) -> list[tuple[str, Mapping[str, str]]]:
    """Returns the namespaces whose settings apply to a dropped table beside its current ones.

    A hold on the schema that it was dropped from still applies. That is so even if the schema
    itself was dropped, with it or after it.

    Args:
        name: The table's name among the dropped ones.
        properties: Its own.
        namespaces: All of its catalog, with their properties.

    Returns:
        The namespaces with their properties; none for a table that is not dropped.
    """
    catalog = name.catalog
    drop = read_drop(catalog, properties) if is_dropped_name(name.namespace) else None
    if drop is None:
        return []
    old = drop.object.namespace
    levels = [old[:depth] for depth in range(len(old), 0, -1)]
    settings = [(str(ObjectName(catalog, level)), namespaces.get(level, {})) for level in levels]
    for stands, marks in namespaces.items():
        later = read_drop(catalog, marks) if is_dropped_name(stands) else None
        if later is not None and later.object.namespace in levels and later.at >= drop.at:
            settings.append((str(ObjectName(catalog, stands)), marks))
    return settings
