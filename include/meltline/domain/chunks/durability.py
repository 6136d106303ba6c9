"""Durability of chunks by position, and the chunks that are due for a policy.

Planner, gate and status use it. Proof by rows needs an engine and is in `app/chunks/proofs` (LT-11,
LT-19).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.chunks.sync import SyncState, TableSync
from meltline.domain.units import counted

UNKNOWN_WORDS = "nobody can tell whether hot's rows are those that were dropped before"


@dataclass(frozen=True)
class Deferred:
    """A chunk whose flag or drop is deferred, and why."""

    chunk: str
    reason: Deferral
    detail: str = ""


def is_gated(sync: TableSync | None, policy: PolicyType) -> bool:
    """Whether a chunk must be durable before it is dropped (LT-19, LT-20)."""
    return sync is not None or policy is not PolicyType.RETENTION


def not_durable(
    chunk: Chunk, sync: TableSync | None, now: datetime, oldest: timedelta
) -> Deferred | None:
    """Returns why a chunk is not proved to be in cold by position; None if it is.

    The chunk's own last write is compared, never the table's head (LT-13); equality passes (LT-12).

    Args:
        chunk: Stamped up to main's head.
        sync: The table's replication; None without one.
        now: Wall clock.
        oldest: Maximum age of replication's heartbeat.
    """
    if sync is None or sync.state is SyncState.STOPPED:
        return Deferred(chunk.name, Deferral.NOT_SYNCED, "the table is not replicated to cold")
    if sync.state is SyncState.FAILED and sync.reason == Deferral.DIVERGED:
        return Deferred(chunk.name, Deferral.DIVERGED, sync.detail)
    if sync.state is not SyncState.STREAMING:
        return Deferred(chunk.name, Deferral.NOT_STREAMING, sync.detail or sync.state)
    if (
        sync.heartbeat is None
        or not timedelta(0) <= now - sync.heartbeat + _AHEAD <= oldest + _AHEAD
    ):
        return Deferred(chunk.name, Deferral.STALE_HEARTBEAT, f"last heard {sync.heartbeat}")
    if chunk.last_write is None:
        return Deferred(chunk.name, Deferral.NO_WRITE_POSITION)
    if sync.committed is None:
        return Deferred(chunk.name, Deferral.NOT_STREAMING, "nothing is verified in cold")
    if not chunk.generation == sync.generation == sync.committed.generation:
        return Deferred(chunk.name, Deferral.OTHER_GENERATION, f"of sync {chunk.generation}")
    if chunk.last_write > sync.committed.place:
        places = f"cold has {sync.committed.place}, the chunk needs {chunk.last_write}"
        return Deferred(chunk.name, Deferral.BEHIND, places)
    return None


_AHEAD = timedelta(minutes=5)  # largest allowed difference of two clocks


@dataclass(frozen=True)
class DueChunks:
    """Chunks that are old enough, oldest first, and those that are deferred all the same."""

    due: Sequence[Chunk]
    deferred: Sequence[Deferred]


def old_enough(chunks: Mapping[str, Chunk], cutoff: datetime) -> list[Chunk]:
    """Resident chunks whose whole range is before the cutoff, oldest first (LT-32)."""
    resident = [c for c in chunks.values() if c.is_resident and c.end and c.end <= cutoff]
    return sorted(resident, key=lambda chunk: chunk.name)


def due_to_drop(
    chunks: Mapping[str, Chunk], policy: ChunkPolicy, as_of: datetime, most: int | None = None
) -> DueChunks:
    """Returns the chunks that a policy makes due, up to a number, and the deferred ones.

    Args:
        chunks: All of a table, by name.
        policy: One that drops.
        as_of: The logical date.
        most: Maximum number, the oldest first; None is all.
    """
    assert policy.drop_after is not None  # callers have a policy that drops
    cutoff = policy.drop_after.before(as_of)
    latest = latest_begun(chunks, policy.keep_latest, as_of)
    deferred = [*_straddling(chunks, cutoff)]
    due: list[Chunk] = []
    for chunk in old_enough(chunks, cutoff):
        if chunk.name in latest:
            kept = f"the latest {policy.keep_latest} are kept"
            deferred.append(Deferred(chunk.name, Deferral.LATEST_KEPT, kept))
        elif chunk.status is ChunkStatus.UNKNOWN:
            deferred.append(Deferred(chunk.name, Deferral.UNKNOWN_DROP, UNKNOWN_WORDS))
        elif chunk.spans:
            spans = f"{chunk.spans} data files reach into other chunks"
            deferred.append(Deferred(chunk.name, Deferral.SPANS_CHUNKS, spans))
        elif chunk.files:
            due.append(chunk)
    return DueChunks(due[:most], deferred)


@dataclass(frozen=True)
class DurabilityBacklog:
    """Chunks past an age of their table's policies that are neither flagged nor dropped yet.

    Attributes:
        since: When the oldest of them reached its age; None if there is none.
    """

    chunks: int = 0
    bytes: int = 0
    since: datetime | None = None


def backlog(
    resident: Mapping[str, Chunk], policies: Iterable[ChunkPolicy], now: datetime
) -> DurabilityBacklog:
    """Counts chunks that are past their age, whatever defers them.

    Args:
        resident: A table's chunks with rows in hot, by name.
        policies: The table's policies.
        now: Wall clock.
    """
    since: dict[str, datetime] = {}
    for policy in policies:
        latest = latest_begun(resident, policy.keep_latest, now)
        for age in filter(None, (policy.tier_after, policy.drop_after)):
            for chunk in old_enough(resident, age.before(now)):
                if age is policy.drop_after:
                    is_pending = _has_files(chunk) and chunk.name not in latest
                else:
                    is_pending = chunk.status is ChunkStatus.ACTIVE
                if is_pending and chunk.end:
                    due = age.reached(chunk.end)
                    since[chunk.name] = min(due, since.get(chunk.name, due))
    size = sum(resident[name].bytes for name in since)
    return DurabilityBacklog(len(since), size, min(since.values(), default=None))


@dataclass(frozen=True)
class Portion:
    """The part of a backlog that one plan drops, oldest first.

    Attributes:
        chunks: The chunks; at least one, even if it exceeds the share: the gate then reports it.
        due: How many chunks the whole backlog has.
        runs: How many runs it takes to drop all, or all older than `too_large`.
        too_large: The first chunk that by then exceeds the share of the table: the gate refuses it.
            None if all can be dropped.
    """

    chunks: Sequence[Chunk]
    due: int
    runs: int
    too_large: Chunk | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left for later runs."""
        return len(self.chunks) == self.due and self.too_large is None

    @property
    def sentence(self) -> str:
        """Number of runs until the backlog is dropped, as text."""
        oldest = f"the {len(self.chunks)} oldest of {counted(self.due, 'chunk')} go first"
        runs = f"dropped in {counted(self.runs, 'run')}"
        if self.too_large is None:
            return f"{oldest}: all are {runs}"
        over = f"{self.too_large.name}, by then more of the table than chunks.max-drop-share"
        return f"{oldest}: all before {over}, are {runs}" if self.runs else f"all wait for {over}"


def first_portion(due: Sequence[Chunk], resident_bytes: int, share: float, most: int) -> Portion:
    """Splits a backlog: a plan may drop only a share of the table's bytes in hot.

    Args:
        due: Chunks to drop, oldest first.
        resident_bytes: Bytes of the whole table in hot.
        share: The largest share of it that one plan may drop.
        most: The largest number of chunks that it may drop.
    """

    def is_over(size: int) -> bool:
        # Same arithmetic as the gate's fact `share_allowed`: it must not refuse by rounding.
        return bool(resident_bytes) and share - size / resident_bytes < 0

    portions: list[list[Chunk]] = []
    size = 0
    for chunk in due:
        if not portions or len(portions[-1]) == most or is_over(size + chunk.bytes):
            resident_bytes -= size
            if is_over(chunk.bytes):
                first = portions[0] if portions else [chunk]
                return Portion(first, len(due), len(portions), too_large=chunk)
            size = 0
            portions.append([])
        portions[-1].append(chunk)
        size += chunk.bytes
    return Portion(portions[0] if portions else (), len(due), len(portions))


def latest_begun(chunks: Mapping[str, Chunk], count: int, as_of: datetime) -> Sequence[str]:
    """Returns the newest chunks with files in hot that have begun by then, at most `count`.

    A row with a time in a future year does not make yesterday's chunk an old one.
    """
    begun = (c.name for c in chunks.values() if c.start and c.start <= as_of and _has_files(c))
    return sorted(begun, reverse=True)[:count]


def _straddling(chunks: Mapping[str, Chunk], cutoff: datetime) -> Iterator[Deferred]:
    """Yields chunks that are only partly old enough, and the unbounded one, which has no age."""
    for chunk in chunks.values():
        if chunk.start and chunk.end and chunk.start < cutoff < chunk.end and _has_files(chunk):
            ends = f"it ends {chunk.end:%Y-%m-%dT%H:%MZ}"
            yield Deferred(chunk.name, Deferral.STRADDLES, ends)
    if (unbounded := chunks.get(UNBOUNDED)) and unbounded.files:
        detail = f"{unbounded.rows} rows without a time are never dropped"
        yield Deferred(UNBOUNDED, Deferral.STRADDLES, detail)


def _has_files(chunk: Chunk) -> bool:
    return chunk.is_resident and bool(chunk.files or chunk.spans)
