"""The keep set: which snapshots stay, and every reason why.

A snapshot stays when its validity interval meets the window, not when it is young: the one that
was current at the window's start may be years old (AR-4, AR-5, C-1). Age equal to the window is
kept (C-2). Unknown times count as later, never as earlier.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from meltline.domain.iceberg.table_metadata import MAIN, SnapshotRef, TableMetadata
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
    DROPPED = "dropped"


@dataclass(frozen=True)
class SnapshotObservation:
    """What earlier observations remember of one snapshot.

    Attributes:
        unreferenced_since: The observation that first saw it in no ref's ancestry; None while it
            is in one, or was never looked at.
        was_on_branch: Whether an observation saw it on a branch other than main.
    """

    unreferenced_since: datetime | None = None
    was_on_branch: bool = False

    def joined(self, twin: "SnapshotObservation") -> "SnapshotObservation":
        """What both tell of one snapshot: it is unreferenced since the later of the two."""
        mine, theirs = self.unreferenced_since, twin.unreferenced_since
        since = None if mine is None or theirs is None else max(mine, theirs)
        return SnapshotObservation(since, self.was_on_branch or twin.was_on_branch)


@dataclass(frozen=True)
class KeepRequest:
    """Everything the keep set of one table depends on.

    Attributes:
        state: The table, from one metadata file.
        as_of: The logical date: it decides retention.
        window: How long superseded snapshots stay; None is for ever.
        sightings: What the ledger remembers, by snapshot id.
        leased: Snapshots that a reader has leased.
        held: Whether a hold lies on the table or a namespace of it.
        managed: False for tables that are only read: everything of theirs is kept.
        handoff_pending: Snapshots waiting for their cold copy.
        dropped: Whether it is a dropped table: all of it is kept until it is let go.
        let_go: Whether it is one whose time is up: branches, main too, and the window keep nothing
            any more; tags, shares and holds on snapshots still do.
        writer_keep: How long a streaming writer's mark counts after the writer fell silent.
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


@dataclass(frozen=True)
class KeepSet:
    """The verdict on every snapshot and ref of one table.

    Attributes:
        reasons: The reasons of each kept snapshot, by id.
        superseded_at: When each snapshot stopped being readable by time; None while current.
        expired: Ids of snapshots without a reason, sorted.
        expired_refs: Names of refs past their age, sorted.
        marks: Of streaming writers that are not silent: what they walk to when they restart.
    """

    reasons: Mapping[int, tuple[KeepReason, ...]]
    superseded_at: Mapping[int, datetime | None]
    expired: tuple[int, ...]
    expired_refs: tuple[str, ...]
    marks: tuple[WriterMark, ...] = ()


def keep_set(request: KeepRequest) -> KeepSet:
    """Decides which snapshots of a table are kept, and why."""
    state = request.state
    expired_refs = _expired_refs(request)
    refs = [ref for name, ref in state.refs.items() if name not in expired_refs]
    reasons: dict[int, set[KeepReason]] = {}

    def keep(snapshot_id: int, reason: KeepReason) -> None:
        if snapshot_id in state.snapshots:
            reasons.setdefault(snapshot_id, set()).add(reason)

    for ref in refs:
        keep(ref.snapshot_id, _ref_reason(ref))
    for snapshot_id in _kept_by_branches(request, refs):
        keep(snapshot_id, KeepReason.BRANCH)
    read_to = [ref.snapshot_id for ref in refs if _ref_reason(ref) is KeepReason.CONSUMER]
    for snapshot_id in still_to_read(state, read_to, expired_refs):
        keep(snapshot_id, KeepReason.CONSUMER)
    ends = superseded_at(request, refs)
    for snapshot_id in () if request.let_go else _in_window(request, ends):
        keep(snapshot_id, KeepReason.WINDOW)
    marks = _marks(request, refs)
    for walk in walks(state, marks).values():
        for snapshot_id in walk:
            keep(snapshot_id, KeepReason.WRITER)
    for snapshot_id in request.leased:
        keep(snapshot_id, KeepReason.LEASE)
    for snapshot_id in request.handoff_pending:
        keep(snapshot_id, KeepReason.HANDOFF_PENDING)
    for snapshot_id in state.snapshots:
        if request.held:
            keep(snapshot_id, KeepReason.HOLD)
        if not request.managed:
            keep(snapshot_id, KeepReason.NOT_MANAGED)
        if request.dropped and not request.let_go:
            keep(snapshot_id, KeepReason.DROPPED)
    return KeepSet(
        reasons={sid: tuple(sorted(why)) for sid, why in sorted(reasons.items())},
        superseded_at=ends,
        expired=tuple(sorted(state.snapshots.keys() - reasons.keys())),
        expired_refs=tuple(sorted(expired_refs)),
        marks=marks,
    )


def _in_window(request: KeepRequest, ends: Mapping[int, datetime | None]) -> Iterator[int]:
    for snapshot_id, end in ends.items():
        if request.window is None or end is None or end >= request.as_of - request.window:
            yield snapshot_id


def _marks(request: KeepRequest, refs: Sequence[SnapshotRef]) -> tuple[WriterMark, ...]:
    """Of writers that are not silent, on every branch that stays."""
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


def _expired_refs(request: KeepRequest) -> set[str]:
    """Refs past their age, as plain Iceberg counts it: from the snapshot's commit time (F-3).

    A dropped table keeps all of them until it is let go; then its branches go, whatever their age.
    """
    if not request.managed or request.held or (request.dropped and not request.let_go):
        return set()
    state = request.state
    default = _number(state, "history.expire.max-ref-age-ms")
    expired = set()
    for ref in state.refs.values():
        if request.let_go and ref.is_branch:
            if ref.snapshot_id not in request.handoff_pending:
                expired.add(ref.name)
            continue
        limit = default if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if ref.name == MAIN or limit is None:
            continue
        if ref.name.startswith(OWN_TAGS) and ref.max_ref_age_ms is None:
            continue  # ours, and held until somebody lets go; a table default does not end it
        if ref.snapshot_id in request.leased or ref.snapshot_id in request.handoff_pending:
            continue
        age = request.as_of - state.snapshots[ref.snapshot_id].committed_at
        if age // timedelta(milliseconds=1) > limit:
            expired.add(ref.name)
    return expired


def _kept_by_branches(request: KeepRequest, refs: Sequence[SnapshotRef]) -> set[int]:
    """Ancestors that plain Iceberg keeps: the newest few of each branch, and those young enough.

    `max-snapshot-age-ms` counts only where somebody set it; Iceberg's default of five days is
    nobody's wish (C-3), and a short one never shortens a window.
    """
    state = request.state
    raw_count = state.properties.get("history.expire.min-snapshots-to-keep", "1")
    # A count that cannot be read keeps the branch whole.
    default_count = int(raw_count) if raw_count.isdecimal() else len(state.snapshots)
    default_age = _number(state, "history.expire.max-snapshot-age-ms")
    retained: set[int] = set()
    for ref in (ref for ref in refs if ref.is_branch):
        count = ref.min_snapshots_to_keep or default_count or 1
        age = ref.max_snapshot_age_ms if ref.max_snapshot_age_ms is not None else default_age
        for position, snapshot in enumerate(state.ancestry(ref.snapshot_id)):
            span = (request.as_of - snapshot.committed_at) // timedelta(milliseconds=1)
            if position >= count and (age is None or span > age):
                break
            if position:  # the head itself is kept as a head
                retained.add(snapshot.snapshot_id)
    return retained


def superseded_at(request: KeepRequest, refs: Sequence[SnapshotRef]) -> dict[int, datetime | None]:
    """When each snapshot stopped being what somebody reads; None for heads of branches.

    The earliest time that is proved: the next entry of the snapshot log; else the commit of its
    child on a branch that holds it; else the oldest log entry; else the observation that first
    saw it on no branch; else `as_of`. Where several lines of history hold a snapshot, the latest
    end counts.
    """
    state = request.state
    ends: dict[int, list[datetime]] = {}
    for log_entry, following in zip(state.snapshot_log, state.snapshot_log[1:], strict=False):
        ends.setdefault(log_entry.snapshot_id, []).append(following.at)
    log = state.snapshot_log
    logged = {log_entry.snapshot_id for log_entry in log}
    if log:  # where the log's last entry is not main's head, nobody knows when it ended
        ends.setdefault(log[-1].snapshot_id, []).append(request.as_of)
    on_branch: set[int] = set()
    going: set[int] = set()
    for ref in (ref for ref in refs if ref.is_branch):
        child = None
        for snapshot in state.ancestry(ref.snapshot_id):
            on_branch.add(snapshot.snapshot_id)
            if child and not (ref.name == MAIN and snapshot.snapshot_id in logged):
                ends.setdefault(snapshot.snapshot_id, []).append(child.committed_at)
            child = snapshot
    for ref in (ref for ref in state.refs.values() if ref.is_branch and ref not in refs):
        # A branch that goes today was readable until today, by its own line (PX-8).
        end = request.as_of
        for snapshot in state.ancestry(ref.snapshot_id):
            if snapshot.snapshot_id in on_branch:
                break
            going.add(snapshot.snapshot_id)
            ends.setdefault(snapshot.snapshot_id, []).append(end)
            end = snapshot.committed_at
    heads = {ref.snapshot_id for ref in refs if ref.is_branch}
    latest: dict[int, datetime | None] = {}
    for snapshot_id in state.snapshots:
        if snapshot_id in heads:
            latest[snapshot_id] = None
            continue
        if snapshot_id not in on_branch and snapshot_id not in going:
            unproved = _end_off_branches(request, snapshot_id, proved=snapshot_id in ends)
            ends.setdefault(snapshot_id, []).extend(unproved)
        elif snapshot_id not in logged:
            ends.setdefault(snapshot_id, []).extend(_end_on_main(state, snapshot_id))
        # Nothing proved on any line: unknown means later.
        latest[snapshot_id] = max(ends.get(snapshot_id) or [request.as_of])
    return latest


def _end_on_main(state: TableMetadata, snapshot_id: int) -> list[datetime]:
    """Until when main may have held a snapshot that its log, cut or cleared, no longer names.

    A child on some branch does not end that: main may have been replaced, or the child published,
    long after the child's commit.
    """
    log = state.snapshot_log
    if log:
        return [log[0].at] if state.snapshots[snapshot_id].committed_at < log[0].at else []
    return [] if MAIN in state.refs else [state.last_updated]


def _end_off_branches(request: KeepRequest, snapshot_id: int, *, proved: bool) -> list[datetime]:
    sighting = request.sightings.get(snapshot_id, SnapshotObservation())
    snapshot = request.state.snapshots[snapshot_id]
    log, seen = request.state.snapshot_log, sighting.unreferenced_since
    if seen is not None and (replaced := _replaced_at(request.state)) is not None:
        # Main may have been put back on it after that look, and the log of it was cleared since.
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
    """When a table was replaced, as far as its log tells: it then begins with a root snapshot."""
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
