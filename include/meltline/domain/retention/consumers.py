"""Consumers: named readers that keep the snapshots they have still to read (decision 031).

A consumer is stored in the table's metadata, as a hold on a snapshot is. A tag is on the snapshot
that it has read up to, and a property beside it records who moved it and when. It ends by the tag's
own age, so it ends for every engine, even without Meltline.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from meltline.domain.iceberg.objects import ACCOUNT
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import (
    CONSUMER_KEEP,
    CONSUMER_TAG,
    LONGEST_DAYS,
    PROFILE,
    AccountPolicy,
    Levels,
    settings,
)
from meltline.domain.units import (
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=LONGEST_DAYS)
NOTICE = timedelta(days=7)
"""How long before its end a consumer is reported, at most; a quarter of its lifetime if shorter."""
_PROPERTY = "meltline.consumer."


@dataclass(frozen=True)
class Consumer:
    """A named reader, as recorded in the table's metadata.

    Attributes:
        name: Its name on this table.
        table: The table, as Spark SQL writes it.
        snapshot_id: The snapshot that it has read up to; this one and all later ones are kept.
        who: The user who moved it last; empty if not recorded.
        moved_at: When; None if not recorded, or if an engine has moved its tag since.
        ends_at: When it stops keeping snapshots; None is never, which only an engine can set.
        keep: How long it stays after a move, if that is its own setting; None for the policy's.
    """

    name: str
    table: str
    snapshot_id: int
    who: str = ""
    moved_at: datetime | None = None
    ends_at: datetime | None = None
    keep: timedelta | None = None

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return CONSUMER_TAG + self.name

    @property
    def key(self) -> str:
        """The name of the property beside the tag."""
        return _PROPERTY + self.name

    @property
    def sentence(self) -> str:
        """Describes the consumer, its snapshot, its last move and its end."""
        moved_at = format_instant(self.moved_at) if self.moved_at else "at an unknown time"
        end = format_instant(self.ends_at) if self.ends_at else "never"
        at = f"{self.table}@{self.snapshot_id}"
        return f"consumer {self.name} has read to {at}, last moved {moved_at}, ends {end}"

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still keeps snapshots; in its last millisecond it does."""
        return self.ends_at is None or now <= self.ends_at

    def ends_soon(self, now: datetime) -> bool:
        """Whether its end is near enough to report it."""
        if self.ends_at is None or not self.is_in_force(now):
            return False
        lasting = NOTICE * 4 if self.moved_at is None else self.ends_at - self.moved_at
        return self.ends_at - now <= min(NOTICE, lasting / 4)

    def written(self) -> str:
        """The property's value."""
        facts: dict[str, object] = {"who": self.who, "snapshot": self.snapshot_id}
        if self.moved_at is not None:
            facts["moved"] = format_instant(self.moved_at)
        if self.keep is not None:
            facts["keep"] = format_duration(self.keep)
        return json.dumps(facts, ensure_ascii=False)


def consumers_of(state: TableMetadata) -> Iterator[Consumer]:
    """The consumers of a table, by name."""
    for tag, ref in sorted(state.refs.items()):
        if not ref.is_branch and tag.startswith(CONSUMER_TAG):
            name = tag.removeprefix(CONSUMER_TAG)
            raw = state.properties.get(_PROPERTY + name, "")
            who, moved_at, keep = _read(raw, ref.snapshot_id)
            ends = state.snapshots[ref.snapshot_id].instant_of_age(ref.max_ref_age_ms)
            yield Consumer(name, str(state.name), ref.snapshot_id, who, moved_at, ends, keep)


def _read(raw: str, snapshot_id: int) -> tuple[str, datetime | None, timedelta | None]:
    """Returns who moved it and when, if it is still at that snapshot, and its own time to stay."""
    try:
        facts: Any = json.loads(raw)
        keep = None if facts.get("keep") is None else parse_duration(facts["keep"])
        if facts.get("snapshot") != snapshot_id:
            return "", None, keep
        moved_at = None if facts.get("moved") is None else parse_instant(facts["moved"])
        return str(facts.get("who", "")), moved_at, keep
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return "", None, None


def still_to_read(
    state: TableMetadata, stands_at: Collection[int], ended: Collection[str] = ()
) -> set[int]:
    """Returns the snapshots that consumers at these snapshots need: these, and all later ones.

    Later ones are those on every branch that descends from one of them, up to the head. It is not
    recorded which branch a consumer reads, and one may be published to another.

    Args:
        state: The table.
        stands_at: Snapshots that consumers have read up to.
        ended: Branches that no longer count.
    """
    unread = set(stands_at) & state.snapshots.keys()
    for name, head in state.heads.items() if unread else ():
        if name not in ended:
            line = [snapshot.snapshot_id for snapshot in state.ancestry(head)]
            places = [place for place, id in enumerate(line) if id in stands_at]
            unread.update(line[: max(places, default=-1) + 1])
    return unread


def readers(state: TableMetadata, ended: Collection[str] = ()) -> Mapping[int, list[Consumer]]:
    """Returns the consumers that keep each snapshot; `ended` are refs that no longer count."""
    readers_of: dict[int, list[Consumer]] = {}
    for consumer in consumers_of(state):
        if consumer.tag not in ended:
            for snapshot_id in still_to_read(state, [consumer.snapshot_id], ended):
                readers_of.setdefault(snapshot_id, []).append(consumer)
    return readers_of


def is_cut_off(state: TableMetadata, consumer: Consumer) -> bool:
    """Whether no branch descends from its snapshot: it has nothing further to read."""
    return not any(state.descends_from(h, consumer.snapshot_id) for h in state.heads.values())


@dataclass(frozen=True)
class ConsumerKeep:
    """How long consumers stay after their last move.

    Attributes:
        span: The duration.
        source: The object whose setting applies: a table, a namespace, `account` or `profile`.
        warning: The setting that is invalid, and what was applied instead.
    """

    span: timedelta
    source: str
    warning: str = ""


def consumer_keep(account: AccountPolicy, levels: Levels) -> ConsumerKeep:
    """Resolves the policy: the most specific setting applies; for an invalid one, the longest."""
    stated = settings(levels, CONSUMER_KEEP)
    if not stated:
        written = account.consumer_keep != AccountPolicy.consumer_keep
        return ConsumerKeep(account.consumer_keep, ACCOUNT if written else PROFILE)
    source, raw = stated[0]
    if (span := read_keep(raw)) is not None:
        return ConsumerKeep(span, source)
    spans = [span for _, text in stated[1:] if (span := read_keep(text)) is not None]
    longest = max([account.consumer_keep, *spans])
    warning = (
        f"{source}: {CONSUMER_KEEP}={raw} is no duration from {format_duration(SHORTEST)} to "
        f"{format_duration(LONGEST)}; {format_duration(longest)} applied"
    )
    return ConsumerKeep(longest, source, warning)


def read_keep(raw: str) -> timedelta | None:
    """Parses a time to stay; None if it is invalid."""
    try:
        span = parse_duration(raw)
    except ValueError:
        return None
    return span if SHORTEST <= span <= LONGEST else None
