"""What a dropped object says of itself: its name, since when it is dropped, how long it can return.

A dropped table stays registered, under its UUID, in the namespace `meltline_dropped`; a dropped
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
"""A table's status in the control ledger once its registration has gone, by our own doing."""

SOURCE = "drop"
"""Who says what a dropped object's retention is."""


@dataclass(frozen=True)
class Drop:
    """That an object was dropped.

    Attributes:
        object: What it was, by the name it had.
        at: When; of one that left its catalog in another way, the observation that missed it.
        retention_days: How long it can be brought back, frozen at the drop; or `infinite`.
        failsafe_days: How long its files wait in failsafe after that, frozen as well.
        batch: What was dropped by one command has one batch, and returns together (TT-53).
        who: Who dropped it; empty where nobody knows.
        noticed: Whether it left its catalog without `meltline drop`.
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
        """Until when it can be brought back; None is for ever."""
        if not isinstance(self.retention_days, int) or self.retention_days > LONGEST_DAYS:
            return None
        return self.at + self.retention_days * _DAY

    def is_restorable(self, now: datetime) -> bool:
        """Whether it can be brought back; at the very end it can, with no days never (TT-46)."""
        end = self.ends_at
        return end is None or (end > self.at and now <= end)

    def is_over(self, as_of: datetime) -> bool:
        """Whether its retention has ended by a logical date: the chain lets it go (TT-45)."""
        return as_of >= self.at and not self.is_restorable(as_of)

    def retention(self, reader_grace: timedelta) -> Retention:
        """Its frozen policy. `reader_grace` is the least that a file waits (ML-14)."""
        window = None if self.ends_at is None else self.ends_at - self.at
        failsafe = min(self.failsafe_days, LONGEST_DAYS) * _DAY
        return Retention(
            window=window,
            failsafe=max(failsafe, reader_grace),
            source=SOURCE,
            failsafe_source=SOURCE,
        )

    def written(self) -> dict[str, str]:
        """As properties. The name is without its catalog: that may be called otherwise one day."""
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
    """Whether something stands where dropped objects are kept."""
    return namespace[:1] == (DROPPED_NAMESPACE,)


def read_drop(catalog: str, properties: Mapping[str, str]) -> Drop | None:
    """What properties say of a drop; None where they do not, or cannot be understood.

    An object without it that stands among the dropped ones is nobody's to let go.
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
    """An object's own properties, as they were before the drop."""
    return {key: text for key, text in properties.items() if key not in KEYS}


def levels_of(
    name: TableName,
    properties: Mapping[str, str],
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]],
) -> list[tuple[str, Mapping[str, str]]]:
    """The namespaces whose word counts for a dropped table beside those it stands in.

    A hold on the schema that it was dropped from still holds it, also when the schema itself has
    been dropped (and stands among the dropped ones), with it or after it.

    Args:
        name: Where the table stands.
        properties: Its own.
        namespaces: All of its catalog, with their properties.

    Returns:
        Them and what they say; none for a table that is not dropped.
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
