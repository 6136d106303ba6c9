"""Holds: an operator's order that no file of an object may be expired or purged.

Holds are stored in the catalog, so that they outlive the ledger. A hold on a table or namespace is
a property. A hold on a snapshot is a tag, and a property beside it records who and why. The plain
property `meltline.hold`, which any user can set with SQL, holds until it is removed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from meltline.domain.retention.policy import HOLD, HOLD_TAG
from meltline.domain.units import format_instant, parse_instant

_OBJECT = f"{HOLD}."
_SNAPSHOT = "meltline.snapshot-hold."
NOTICE = timedelta(days=7)
"""How long before its end a hold is reported."""


@dataclass(frozen=True)
class Hold:
    """A hold, as recorded in its property.

    Attributes:
        id: Its identity; for the plain property the object's name.
        object: The table or namespace, as Spark SQL writes it.
        reason: The operator's reason; for the plain property, its whole value.
        who: The operator; empty if not recorded.
        since: When it begins; None if not recorded.
        until: When it ends automatically, by the wall clock; None is never.
        snapshot_id: The one snapshot that it keeps; None for the whole object.
    """

    id: str
    object: str
    reason: str
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None
    snapshot_id: int | None = None

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still holds; in its last millisecond it does."""
        return self.until is None or now <= self.until

    def ends_soon(self, now: datetime) -> bool:
        """Whether its end is near enough to report it."""
        return self.until is not None and self.is_in_force(now) and self.until - now <= NOTICE

    @property
    def subject(self) -> str:
        """The object that it keeps, or `table@snapshot`."""
        return self.object if self.snapshot_id is None else f"{self.object}@{self.snapshot_id}"

    @property
    def notice(self) -> str:
        """The message that reports its end."""
        end = format_instant(self.until) if self.until else "never"
        return f"hold {self.id} on {self.subject} ends: {end}"

    @property
    def key(self) -> str:
        """The name of the property that records it."""
        if self.id == self.object:
            return HOLD
        return (_OBJECT if self.snapshot_id is None else _SNAPSHOT) + self.id

    @property
    def tag(self) -> str:
        """The tag of a hold on a snapshot."""
        return HOLD_TAG + self.id

    def written(self) -> str:
        """The property's value."""
        facts: dict[str, object] = {"reason": self.reason, "who": self.who}
        for word, moment in (("since", self.since), ("until", self.until)):
            if moment is not None:
                facts[word] = format_instant(moment)
        if self.snapshot_id is not None:
            facts["snapshot"] = self.snapshot_id
        return json.dumps(facts, ensure_ascii=False)


def object_holds(object: str, properties: Mapping[str, str]) -> Iterator[Hold]:
    """Yields the holds on a whole table or namespace. An unreadable one holds for ever."""
    for key, text in sorted(properties.items()):
        if key == HOLD and text.strip():
            yield Hold(object, object, text.strip())
        elif key.startswith(_OBJECT):
            yield _read(key.removeprefix(_OBJECT), object, text)


def snapshot_holds(
    object: str, properties: Mapping[str, str], tags: Mapping[str, int]
) -> Iterator[Hold]:
    """Yields the holds on single snapshots of a table: its tags, with their properties."""
    for tag, snapshot_id in sorted(tags.items()):
        if tag.startswith(HOLD_TAG):
            id = tag.removeprefix(HOLD_TAG)
            raw = properties.get(_SNAPSHOT + id, "")
            yield _read(id, object, raw, snapshot_id)


def is_held(properties: Mapping[str, str], now: datetime) -> bool:
    """Whether a hold on the whole object is in force."""
    return any(hold.is_in_force(now) for hold in object_holds("", properties))


def _read(id: str, object: str, raw: str, snapshot_id: int | None = None) -> Hold:
    try:
        facts: Any = json.loads(raw)
        since, until = facts.get("since"), facts.get("until")
        return Hold(
            id=id,
            object=object,
            reason=str(facts.get("reason", "")),
            who=str(facts.get("who", "")),
            since=None if since is None else parse_instant(since),
            until=None if until is None else parse_instant(until),
            snapshot_id=snapshot_id,
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return Hold(id, object, raw, snapshot_id=snapshot_id)
