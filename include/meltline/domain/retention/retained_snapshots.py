"""Decides which snapshots of a table are retained, and lists every reason.

A snapshot is kept if its validity interval meets the window, not if it is young: the one that was
current at the window's start may be years old (AR-4, AR-5, C-1). An age equal to the window is kept
(C-2). Unknown times count as later, never as earlier.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, pairwise

from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import log_by_time
from meltline.domain.retention.consumers import still_to_read
from meltline.domain.retention.policy import (
    CONSUMER_TAG,
    FOREVER_MS,
    HOLD_TAG,
    OWN_TAGS,
    SHARE_TAG,
    AccountPolicy,
)
from meltline.domain.retention.writers import WriterMark, marks_on, still_counting, walks


class KeepReason(StrEnum):
    """Why a snapshot is kept."""

    HEAD = "head"
    WINDOW = "window"
    READER_GRACE = "reader grace"
    BRANCH = "branch"
    TAG = "tag"
    NAMED = "named"
    SHARE = "share"
    HOLD = "hold"
    LEASE = "lease"
    CONSUMER = "consumer"
    HANDOFF_PENDING = "handoff pending"
    WRITER = "writer"
    NOT_MANAGED = "not managed"
    TURNED_OFF = "turned off"
    DROPPED = "dropped"
    CATCHING_UP = "catching up"


@dataclass(frozen=True)
class SnapshotObservation:
    """The record of one snapshot from earlier runs.

    Attributes:
        unreferenced_since: The observation that first saw it in no ref's ancestry; None while it is
            in one, or was never observed.
        was_on_branch: Whether an observation saw it on a branch other than main.
    """

    unreferenced_since: datetime | None = None
    was_on_branch: bool = False

    def joined(self, twin: "SnapshotObservation") -> "SnapshotObservation":
        """Merges two observations of a snapshot: it is unreferenced since the later one."""
        mine, theirs = self.unreferenced_since, twin.unreferenced_since
        since = None if mine is None or theirs is None else max(mine, theirs)
        return SnapshotObservation(since, self.was_on_branch or twin.was_on_branch)


@dataclass(frozen=True)
class KeepRequest:
    """All inputs that the retained snapshots of one table depend on.

    Attributes:
        state: The table, from one metadata file.
        as_of: The logical date: it decides retention.
        window: How long superseded snapshots stay; None is for ever.
        sightings: The ledger's snapshot observations, by snapshot id.
        leased: Snapshots that a reader has leased.
        held: Whether a hold is on the table or a namespace of it.
        managed: False for tables that are only read: all their snapshots are kept.
        handoff_pending: Snapshots waiting for their cold copy.
        dropped: Whether the table is dropped: all of it is kept until the drop is finalized.
        let_go: Whether its drop is being finalized: branches, main too, and the window no longer
            keep snapshots; tags, shares and holds on snapshots still do.
        writer_keep: How long a streaming writer's mark counts after the writer fell silent.
        turned_off: Whether the catalog's policy store turns expiry off for the table.
        least_snapshots: The minimum number kept of each branch, beside the table's own settings.
        reader_grace: How long a query may still read a superseded snapshot, whatever the window.
    """

    state: TableMetadata
    as_of: datetime
    window: timedelta | None
    sightings: Mapping[int, SnapshotObservation] = field(default_factory=dict)
    leased: frozenset[int] = frozenset()
    held: bool = False
    managed: bool = True
    handoff_pending: frozenset[int] = frozenset()
    dropped: bool = False
    let_go: bool = False
    writer_keep: timedelta = AccountPolicy.writer_keep
    turned_off: bool = False
    least_snapshots: int = 0
    reader_grace: timedelta = timedelta(0)


@dataclass(frozen=True)
class KeepSet:
    """The retained and expired snapshots and refs of one table.

    Attributes:
        reasons: The reasons of each kept snapshot, by id.
        superseded_at: When each snapshot stopped being readable by time; None while current.
        expired: Ids of snapshots without a reason, sorted.
        expired_refs: Names of refs past their age, sorted.
        marks: Marks of writers that are not silent: each walks to its mark when it restarts.
    """

    reasons: Mapping[int, tuple[KeepReason, ...]]
    superseded_at: Mapping[int, datetime | None]
    expired: tuple[int, ...]
    expired_refs: tuple[str, ...]
    marks: tuple[WriterMark, ...] = ()


def keep_set(request: KeepRequest) -> KeepSet:
    """Decides which snapshots of a table are kept, and why."""
    state, for_all = request.state, _reasons_for_all(request)
    expired_refs = {
        name for name, ref in state.refs.items() if not for_all and _is_over(request, ref)
    }
    refs = [ref for name, ref in state.refs.items() if name not in expired_refs]
    ends = superseded_at(request, refs)
    marks = _marks(request, refs)
    reasons: dict[int, set[KeepReason]] = {}
    for reason, snapshot_ids in (
        *((reason, state.snapshots) for reason in for_all),
        *_kept_by_refs(request, refs, expired_refs),
        (KeepReason.WINDOW, _in_window(request, ends)),
        (KeepReason.READER_GRACE, _in_grace(request, ends)),
        (KeepReason.WRITER, chain.from_iterable(walks(state, marks).values())),
        (KeepReason.LEASE, request.leased),
        (KeepReason.HANDOFF_PENDING, request.handoff_pending),
    ):
        for snapshot_id in filter(state.snapshots.__contains__, snapshot_ids):
            reasons.setdefault(snapshot_id, set()).add(reason)
    return KeepSet(
        reasons={sid: tuple(sorted(why)) for sid, why in sorted(reasons.items())},
        superseded_at=ends,
        expired=tuple(sorted(state.snapshots.keys() - reasons.keys())),
        expired_refs=tuple(sorted(expired_refs)),
        marks=marks,
    )


def _reasons_for_all(request: KeepRequest) -> list[KeepReason]:
    """Returns reasons to keep the whole table: every snapshot, and every ref whatever its age."""
    reasons = {
        KeepReason.HOLD: request.held,
        KeepReason.NOT_MANAGED: not request.managed,
        KeepReason.TURNED_OFF: request.turned_off,
        KeepReason.DROPPED: request.dropped and not request.let_go,
    }
    return [reason for reason, applies in reasons.items() if applies]


def _kept_by_refs(
    request: KeepRequest, refs: Sequence[SnapshotRef], expired_refs: Set[str]
) -> Iterator[tuple[KeepReason, Iterable[int]]]:
    for ref in refs:
        yield _ref_reason(ref), (ref.snapshot_id,)
    yield KeepReason.BRANCH, _kept_by_branches(request, refs)
    read_to = {ref.snapshot_id for ref in refs if _ref_reason(ref) is KeepReason.CONSUMER}
    yield KeepReason.CONSUMER, still_to_read(request.state, read_to, expired_refs)


def _in_window(request: KeepRequest, ends: Mapping[int, datetime | None]) -> Iterator[int]:
    if request.let_go:
        return
    for snapshot_id, end in ends.items():
        if request.window is None or end is None or end >= request.as_of - request.window:
            yield snapshot_id


def _in_grace(request: KeepRequest, ends: Mapping[int, datetime | None]) -> Iterator[int]:
    """Yields snapshots out of the window that were superseded within the reader grace."""
    if request.let_go or request.window is None:
        return
    since = request.as_of - request.reader_grace
    for snapshot_id, end in ends.items():
        if end is not None and since <= end < request.as_of - request.window:
            yield snapshot_id


def _marks(request: KeepRequest, refs: Sequence[SnapshotRef]) -> tuple[WriterMark, ...]:
    """Returns the marks of writers that are not silent, on every branch that stays."""
    heads = {ref.name: ref.snapshot_id for ref in refs if ref.is_branch}
    return still_counting(marks_on(request.state, heads), request.as_of, request.writer_keep)


def _ref_reason(ref: SnapshotRef) -> KeepReason:
    if ref.is_branch:
        return KeepReason.HEAD
    if ref.name.startswith(SHARE_TAG):
        return KeepReason.SHARE
    if ref.name.startswith(HOLD_TAG):
        return KeepReason.HOLD
    if ref.name.startswith(CONSUMER_TAG):
        return KeepReason.CONSUMER
    return KeepReason.NAMED if ref.max_ref_age_ms == FOREVER_MS else KeepReason.TAG


def _is_over(request: KeepRequest, ref: SnapshotRef) -> bool:
    """Whether a ref is past its age, as plain Iceberg counts it: from its snapshot's commit (F-3).

    While a table's drop is being finalized all its branches are, whatever their age.
    """
    if ref.snapshot_id in request.handoff_pending:
        return False
    if request.let_go and ref.is_branch:
        return True
    limit = _age_limit(request.state, ref)
    if ref.name == MAIN or limit is None or ref.snapshot_id in request.leased:
        return False
    return not _is_within(request, request.state.snapshots[ref.snapshot_id], limit)


def _age_limit(state: TableMetadata, ref: SnapshotRef) -> int | None:
    """Returns the limit in milliseconds, or None: a table's default does not end our own tags."""
    if ref.max_ref_age_ms is not None or ref.name.startswith(OWN_TAGS):
        return ref.max_ref_age_ms
    return _number(state, "history.expire.max-ref-age-ms")


def _is_within(request: KeepRequest, snapshot: Snapshot, limit: int) -> bool:
    """Whether a snapshot's age is at most a number of milliseconds."""
    age = request.as_of - snapshot.committed_at
    return age // timedelta(milliseconds=1) <= limit


def _kept_by_branches(request: KeepRequest, refs: Sequence[SnapshotRef]) -> Iterator[int]:
    """Yields ancestors that plain Iceberg keeps: the newest few of each branch, and young ones.

    `max-snapshot-age-ms` counts only if a user set it. Iceberg's default of five days is not a
    user's choice (C-3), and a short age never shortens a window.
    """
    state = request.state
    default_count = _least_snapshots(state)
    default_age = _number(state, "history.expire.max-snapshot-age-ms")
    for ref in _branches(refs):
        count = max(ref.min_snapshots_to_keep or default_count or 1, request.least_snapshots)
        age = default_age if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
        for position, snapshot in enumerate(state.ancestry(ref.snapshot_id)):
            is_young = age is not None and _is_within(request, snapshot, age)
            if position >= count and not is_young:
                break
            if position:  # the head itself is kept as a head
                yield snapshot.snapshot_id


def _least_snapshots(state: TableMetadata) -> int:
    """Returns the count for branches without their own; an unreadable one keeps all snapshots."""
    raw = state.properties.get("history.expire.min-snapshots-to-keep", "1")
    return int(raw) if raw.isdecimal() else len(state.snapshots)


def _branches(refs: Iterable[SnapshotRef]) -> list[SnapshotRef]:
    return [ref for ref in refs if ref.is_branch]


def superseded_at(request: KeepRequest, refs: Sequence[SnapshotRef]) -> dict[int, datetime | None]:
    """Returns when each snapshot stopped being the current one; None for heads of branches.

    It is the earliest time that is proved: the next entry of the snapshot log; else the commit of
    its child on a branch that contains it; else the oldest log entry; else the observation that
    first saw it on no branch; else `as_of`. If several linear histories contain a snapshot, the
    latest end counts.
    """
    state, branches = request.state, _branches(refs)
    on_branch = {s.snapshot_id for ref in branches for s in state.ancestry(ref.snapshot_id)}
    going = list(_ends_of_going(request, refs, on_branch))
    held = on_branch.union(snapshot_id for snapshot_id, _ in going)
    ends: dict[int, list[datetime]] = {}
    for snapshot_id, end in chain(
        _ends_in_log(request),
        _ends_on_branches(state, branches),
        going,
        _ends_on_main(state, held),
    ):
        ends.setdefault(snapshot_id, []).append(end)
    for snapshot_id in state.snapshots.keys() - held:
        unproved = _end_off_branches(request, snapshot_id, proved=snapshot_id in ends)
        ends.setdefault(snapshot_id, []).extend(unproved)
    heads = {ref.snapshot_id for ref in branches}
    return {
        # No end is proved on any branch: unknown means later.
        each: None if each in heads else max(ends.get(each) or [request.as_of])
        for each in state.snapshots
    }


End = tuple[int, datetime]
"""A snapshot, and when a linear history that contains it shows another one."""


def _logged(state: TableMetadata) -> set[int]:
    return {log_entry.snapshot_id for log_entry in state.snapshot_log}


def _ends_in_log(request: KeepRequest) -> Iterator[End]:
    """Yields ends by the log's order, and by its times: engines read by times if clocks differ."""
    for log in (request.state.snapshot_log, log_by_time(request.state)):
        for log_entry, following in pairwise(log):
            yield log_entry.snapshot_id, following.at
        if log:  # if the log's last entry is not main's head, its end is unknown
            yield log[-1].snapshot_id, request.as_of


def _ends_on_branches(state: TableMetadata, branches: Sequence[SnapshotRef]) -> Iterator[End]:
    logged = _logged(state)
    for ref in branches:
        for child, parent in pairwise(state.ancestry(ref.snapshot_id)):
            if ref.name != MAIN or parent.snapshot_id not in logged:
                yield parent.snapshot_id, child.committed_at


def _ends_of_going(
    request: KeepRequest, refs: Sequence[SnapshotRef], on_branch: Set[int]
) -> Iterator[End]:
    """Yields ends on branches that expire today: they were readable until today (PX-8)."""
    state = request.state
    staying = {ref.name for ref in refs}
    for ref in _branches(ref for ref in state.refs.values() if ref.name not in staying):
        end = request.as_of
        for snapshot in state.ancestry(ref.snapshot_id):
            if snapshot.snapshot_id in on_branch:
                break
            yield snapshot.snapshot_id, end
            end = snapshot.committed_at


def _ends_on_main(state: TableMetadata, held: Set[int]) -> list[End]:
    """Returns the ends on main of snapshots that its log, cut or cleared, no longer names.

    A child on some branch does not end that: main may have been replaced, or the child published,
    long after the child's commit.
    """
    unlogged, log = held - _logged(state), state.snapshot_log
    if log:
        first = log[0].at
        return [(each, first) for each in unlogged if state.snapshots[each].committed_at < first]
    return [] if MAIN in state.refs else [(each, state.last_updated) for each in unlogged]


def _end_off_branches(request: KeepRequest, snapshot_id: int, *, proved: bool) -> list[datetime]:
    sighting = request.sightings.get(snapshot_id, SnapshotObservation())
    snapshot = request.state.snapshots[snapshot_id]
    log, seen = request.state.snapshot_log, sighting.unreferenced_since
    if seen is not None and (replaced := _replaced_at(request.state)) is not None:
        # Main may have been rolled back to it after that observation, and its log cleared since.
        seen = max(seen, replaced)
    if sighting.was_on_branch:
        # A deleted branch's snapshots count from the observation that missed it.
        return [seen or request.as_of]
    if proved:
        return []
    if seen is not None:
        # Recorded once; the log, which our own commits cut, must not prove it earlier (I-7).
        return [seen]
    return [log[0].at if log and snapshot.committed_at < log[0].at else request.as_of]


def _replaced_at(state: TableMetadata) -> datetime | None:
    """Returns when a table was replaced: its log then begins with a root snapshot."""
    if not state.snapshot_log:
        return None
    first = state.snapshots.get(state.snapshot_log[0].snapshot_id)
    is_root = first is not None and first.parent_id is None
    return state.snapshot_log[0].at if is_root else None


def _number(state: TableMetadata, key: str) -> int | None:
    raw = state.properties.get(key)
    if raw is None:
        return None
    try:
        return int(raw)
    except ValueError:
        return None
