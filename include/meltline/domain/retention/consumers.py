"""Consumers: named readers that keep what they have still to read (decision 031).

One lives in the table's metadata, as a hold on a snapshot does: a tag on the snapshot up to which
it has read, and a property beside it that says who and since when. Its end is the tag's own age,
so it ends for every engine, whatever becomes of Meltline.
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
"""How long before a consumer ends people are told, at most: a quarter of its time, where that is
less."""
_PROPERTY = "meltline.consumer."


@dataclass(frozen=True)
class Consumer:
    """A named reader, as the table's metadata has it.

    Attributes:
        name: What it is called, on this table.
        table: The table, as Spark SQL writes it.
        snapshot_id: Up to which it has read; this one and all later ones are kept.
        who: Who moved it last; empty where nobody said.
        moved_at: When; None where nobody said, or an engine has moved its tag since.
        ends_at: From when it keeps nothing any more; None is never, which only an engine can say.
        keep: How long it stays after a move, where that is its own; None for the policy's time.
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
        """The tag that it is."""
        return CONSUMER_TAG + self.name

    @property
    def key(self) -> str:
        """The property beside the tag."""
        return _PROPERTY + self.name

    @property
    def sentence(self) -> str:
        """The consumer, its snapshot, its last move and its end, for people."""
        moved_at = format_instant(self.moved_at) if self.moved_at else "at an unknown time"
        end = format_instant(self.ends_at) if self.ends_at else "never"
        at = f"{self.table}@{self.snapshot_id}"
        return f"consumer {self.name} has read to {at}, last moved {moved_at}, ends {end}"

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still keeps something; in its last millisecond it does."""
        return self.ends_at is None or now <= self.ends_at

    def ends_soon(self, now: datetime) -> bool:
        """Whether it is time to tell people that it ends."""
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
    """Who moved it and when, as long as it still stands there, and its own time to stay."""
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
    """What consumers that stand at these snapshots need: these, and the way on from there.

    That is, on every branch that leads on from one of them, all up to the head. Nobody says which
    branch a consumer reads, and one may be published to another.

    Args:
        state: The table.
        stands_at: Snapshots up to which somebody has read.
        ended: Branches that do not count any more.
    """
    unread = set(stands_at) & state.snapshots.keys()
    for name, head in state.heads.items() if unread else ():
        if name not in ended:
            line = [snapshot.snapshot_id for snapshot in state.ancestry(head)]
            places = [place for place, id in enumerate(line) if id in stands_at]
            unread.update(line[: max(places, default=-1) + 1])
    return unread


def readers(state: TableMetadata, ended: Collection[str] = ()) -> Mapping[int, list[Consumer]]:
    """Which consumers keep each snapshot; `ended` are refs that do not count any more."""
    readers_of: dict[int, list[Consumer]] = {}
    for consumer in consumers_of(state):
        if consumer.tag not in ended:
            for snapshot_id in still_to_read(state, [consumer.snapshot_id], ended):
                readers_of.setdefault(snapshot_id, []).append(consumer)
    return readers_of


def is_cut_off(state: TableMetadata, consumer: Consumer) -> bool:
    """Whether no branch leads on from where it stands: it cannot read on."""
    return not any(state.descends_from(h, consumer.snapshot_id) for h in state.heads.values())


@dataclass(frozen=True)
class ConsumerKeep:
    """How long consumers stay after their last move.

    Attributes:
        span: So long.
        source: The object whose setting won: a table, a namespace, `account` or `profile`.
        warning: What is out of order, and what was applied instead.
    """

    span: timedelta
    source: str
    warning: str = ""


def consumer_keep(account: AccountPolicy, levels: Levels) -> ConsumerKeep:
    """Resolves the policy; the nearest word counts, and one out of order the longer way.

    Args:
        account: The account level, as `meltline.yaml` has it.
        levels: The table's level and those around it, nearest first.
    """
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
    """A time to stay; None for what is none."""
    try:
        span = parse_duration(raw)
    except ValueError:
        return None
    return span if SHORTEST <= span <= LONGEST else None
