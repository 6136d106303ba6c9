"""Explain: why a file or snapshot is kept, and until when.

`meltline explain` calls it. Stages of files come from `storage/file_status.py`, keep reasons from
the retained snapshots; this module joins the two.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.catalog.recovery_hints import archived_copies
from meltline.app.catalog.tables import TableRetention, find_table, keep_sets, read_tables
from meltline.app.observe.held_back import leading_out
from meltline.app.ownership.departed_objects import left_alone
from meltline.app.ownership.path_aliases import OtherNames, needed_by_other_names
from meltline.app.retention.writers import WriterNeeds
from meltline.app.run_history.file_origins import FileDecision, file_decisions
from meltline.app.services import ReadContext
from meltline.app.storage.file_status import FileStanding, FileStatus, standing_now
from meltline.app.storage.guarded_tables import guarded_tables
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.deletion.storage import Stage
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.files import Departure, DepartureState
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.consumers import Consumer, readers
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.domain.safe_text import quote
from meltline.ports import SnapshotKey

_END_BY_THEMSELVES = {
    KeepReason.WINDOW,
    KeepReason.READER_GRACE,
    KeepReason.WRITER,
    KeepReason.CONSUMER,
}


@dataclass(frozen=True)
class Explanation:
    """Why a file or snapshot is kept.

    Attributes:
        path: The file; for a snapshot `table@id`.
        stage: Its stage; empty if only the metadata has it; `cold` for a snapshot that is in the
            archive and no longer in hot.
        keep_reasons: Every reason, for display.
        referenced_by: Snapshots (`table@id`), refs or metadata that reference it.
        since: The time from which it has been in that stage.
        due_at: When it may be purged. For a snapshot that only its window, streaming writers or
            consumers keep, when that ends.
        writers: The streaming writers that need it, in sentences.
        consumers: The consumers that need it, in sentences.
        decisions: For a departed file: the decisions that removed its reference, and that deleted
            it.
        guards: For tables whose owners forbid deletions: what that keeps, and the way out.
    """

    path: str
    stage: str
    keep_reasons: tuple[str, ...]
    referenced_by: tuple[str, ...]
    since: datetime | None
    due_at: datetime | None
    writers: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    decisions: tuple[FileDecision, ...] = ()
    guards: tuple[str, ...] = ()


def explain_path(context: ReadContext, path: str) -> Explanation:
    """Explains why a file is in its stage.

    Raises:
        UsageInvalid: No commit that Meltline has observed ever referenced it.
    """
    standing = standing_now(context, path)
    at = location_key(path)
    departed, file = standing.departures.get(at), _file_of(standing, path)
    if file is None:
        raise UsageInvalid(
            f"{path} is not known",
            object=path,
            expected="a file that some commit, or a table's metadata, has named",
            found="no row of the ledger names it",
            next="`meltline observe` takes in new commits; a writer may yet commit it",
        )
    retentions = _retentions(context)
    reasons, since, due_at = _why_kept(retentions, file), _times(retentions, file.snapshots), None
    decided: Sequence[FileDecision] = ()
    if departed is not None and file.stage in (Stage.FAILSAFE, Stage.DELETED):
        reasons = _why_in_failsafe(context, departed) if file.stage is Stage.FAILSAFE else []
        since, due_at = departed.departed_at, departed.due_at
        decided = file_decisions(context.reader, context.control, departed)
        if departed.state is DepartureState.DELETED:
            since = departed.recorded_at
    foreign = at in standing.foreign
    return Explanation(
        path=file.path,
        stage="foreign" if foreign else str(file.stage),
        keep_reasons=tuple(["foreign", *reasons] if foreign else reasons),
        referenced_by=tuple(_referrers(standing, file.snapshots, file.tables)),
        since=since,
        due_at=due_at,
        writers=_writers(retentions, file.snapshots),
        consumers=_consumers(retentions, file.snapshots),
        decisions=tuple(decided),
        guards=_guards(context, _tables_of(retentions, file.snapshots)),
    )


def _file_of(standing: FileStatus, path: str) -> FileStanding | None:
    at = location_key(path)
    return standing.files.get(at) or standing.foreign.get(at)


def _why_kept(retentions: Mapping[str, Sequence[TableRetention]], file: FileStanding) -> list[str]:
    """Reasons for the references to a file; empty if there are none."""
    if not file.snapshots and file.tables:
        return ["metadata log" if file.stage is Stage.HISTORICAL else "current metadata"]
    return sorted({reason for key in file.snapshots for reason in _reasons(retentions, key)})


def _why_in_failsafe(context: ReadContext, departed: Departure) -> list[str]:
    """Failsafe, and any reason that keeps the file after it."""
    path = departed.path
    changed = [str(Why.NOT_AS_RECORDED) for _ in left_alone(context, [departed])]
    outside = [str(why) for why in leading_out(context, [path]).values()]
    elsewhere = needed_by_other_names(
        OtherNames.now(context), [path], lambda aliases: _needed_now(context, aliases)
    )
    same = [f"{Why.MAYBE_THE_SAME}: {alias}" for alias in elsewhere.values()]
    return ["failsafe", *changed, *outside, *same]


def _needed_now(context: ReadContext, paths: Sequence[str]) -> list[str]:
    stages = ((path, _file_of(standing_now(context, path), path)) for path in paths)
    return [path for path, file in stages if file and (file.snapshots or file.tables)]


def explain_table(
    context: ReadContext, name: TableName, snapshot_id: int | None = None
) -> list[Explanation]:
    """Explains each snapshot of a table, newest first; or one snapshot.

    Raises:
        TableNotFound: There is no such table.
        UsageInvalid: The table has no such snapshot.
    """
    table = find_table(read_tables(context), name)
    (target,) = keep_sets(context, [table], context.clock.now())
    state = table.state
    snapshots = sorted(state.snapshots.values(), key=lambda s: s.committed_at, reverse=True)
    if snapshot_id is not None:
        snapshots = [s for s in snapshots if s.snapshot_id == snapshot_id]
        if not snapshots and (
            copies := archived_copies(context.control.archived, snapshot_id, state.uuid)
        ):
            return [_archived(name, copies[0])]
        if not snapshots:
            raise UsageInvalid(
                f"{name} has no snapshot {snapshot_id}",
                object=str(name),
                expected="one of " + ", ".join(str(s) for s in sorted(state.snapshots)[:8]),
                found=str(snapshot_id),
                next=f"`meltline explain {quote(name)}` lists them",
            )
    reading, needs = readers(state, target.keeps.expired_refs), WriterNeeds(target)
    guards = _guards(context, [state])
    return [
        replace(
            _snapshot(target, s.snapshot_id, needs, reading.get(s.snapshot_id, ())), guards=guards
        )
        for s in snapshots
    ]


def _guards(context: ReadContext, states: Iterable[TableMetadata]) -> tuple[str, ...]:
    return tuple(guard.sentence for guard in guarded_tables(context, states))


def _tables_of(
    retentions: Mapping[str, Sequence[TableRetention]], keys: Iterable[SnapshotKey]
) -> list[TableMetadata]:
    uuids = {key.table_uuid for key in keys}
    return [target.state for uuid in uuids for target in retentions.get(uuid, ())]


def _archived(name: TableName, copy: ArchivedSnapshot) -> Explanation:
    """Explains a snapshot that is in cold and no longer in hot (AR-44)."""
    return Explanation(
        path=f"{name}@{copy.snapshot_id}",
        stage="cold",
        keep_reasons=("archived",),
        referenced_by=(copy.cold_location,),
        since=copy.verified_at,
        due_at=copy.keep_until,
    )


def _snapshot(
    target: TableRetention, snapshot_id: int, needs: WriterNeeds, consumers: Sequence[Consumer]
) -> Explanation:
    state, keeps = target.state, target.keeps
    end = keeps.superseded_at[snapshot_id]
    refs = [name for name, ref in state.refs.items() if ref.snapshot_id == snapshot_id]
    reasons = tuple(_words_of(target, snapshot_id))
    marks = needs.of([snapshot_id])
    return Explanation(
        path=f"{state.name}@{snapshot_id}",
        stage=str(Stage.ACTIVE if end is None else Stage.HISTORICAL) if reasons else "expired",
        keep_reasons=reasons,
        referenced_by=tuple(sorted(refs)),
        since=end or state.snapshots[snapshot_id].committed_at,
        due_at=_end(target, snapshot_id, [*needs.until(marks), *(c.ends_at for c in consumers)]),
        writers=needs.described(marks),
        consumers=tuple(consumer.sentence for consumer in consumers),
    )


def _end(
    target: TableRetention, snapshot_id: int, others: Sequence[datetime | None]
) -> datetime | None:
    """When a snapshot's last keep reason ends; None if one has no end of its own.

    `others` are the ends of the writers and consumers that need it; None for one without an end.
    """
    reasons = target.keeps.reasons.get(snapshot_id, ())
    end, window = target.keeps.superseded_at[snapshot_id], target.retention.window
    grace = target.retention.reader_grace
    ends = [other for other in others if other is not None]
    if not reasons or not _END_BY_THEMSELVES.issuperset(reasons) or len(ends) < len(others):
        return None
    return max([end + max(window, grace), *ends]) if end and window is not None else None


def _writers(
    retentions: Mapping[str, Sequence[TableRetention]], keys: Collection[SnapshotKey]
) -> tuple[str, ...]:
    """Describes the writers that need one of a file's snapshots."""
    lines: list[str] = []
    for uuid in sorted({key.table_uuid for key in keys}):
        snapshots = [key.snapshot_id for key in keys if key.table_uuid == uuid]
        for needs in map(WriterNeeds, retentions.get(uuid, ())):
            lines += needs.described(needs.of(snapshots))
    return tuple(dict.fromkeys(lines))


def _consumers(
    retentions: Mapping[str, Sequence[TableRetention]], keys: Iterable[SnapshotKey]
) -> tuple[str, ...]:
    """Describes the consumers that need one of a file's snapshots."""
    ids: dict[str, set[int]] = {}
    for key in keys:
        ids.setdefault(key.table_uuid, set()).add(key.snapshot_id)
    sentences: set[str] = set()
    for uuid, needed_ids in ids.items():
        for target in retentions.get(uuid, ()):
            reading = readers(target.state, target.keeps.expired_refs)
            sentences |= {c.sentence for id in needed_ids & reading.keys() for c in reading[id]}
    return tuple(sorted(sentences))


def _retentions(context: ReadContext) -> Mapping[str, Sequence[TableRetention]]:
    by_uuid: dict[str, list[TableRetention]] = {}
    for target in keep_sets(context, read_tables(context), context.clock.now()):
        by_uuid.setdefault(target.state.uuid, []).append(target)
    return by_uuid


def _reasons(retentions: Mapping[str, Sequence[TableRetention]], key: SnapshotKey) -> set[str]:
    targets = retentions.get(key.table_uuid, ())
    return {words for target in targets for words in _words_of(target, key.snapshot_id)}


def _words_of(target: TableRetention, snapshot_id: int) -> Iterator[str]:
    """Reasons why a table keeps a snapshot, with the source of a policy that is not ours."""
    for reason in target.keeps.reasons.get(snapshot_id, ()):
        if reason is KeepReason.TURNED_OFF:
            yield f"{reason} by {target.retention.source}"
        elif reason is KeepReason.NOT_MANAGED and target.table.owner_guard:
            yield f"{reason}: its owner set {target.table.owner_guard}=false"
        else:
            yield str(reason)


def _times(
    retentions: Mapping[str, Sequence[TableRetention]], keys: set[SnapshotKey]
) -> datetime | None:
    """Since the first commit with it, if a head has it; otherwise since the last snapshot's end."""
    ends: list[datetime] = []
    starts: list[datetime] = []
    current = False
    for key in keys:
        for target in retentions.get(key.table_uuid, ()):
            if key.snapshot_id in target.keeps.superseded_at:
                end = target.keeps.superseded_at[key.snapshot_id]
                current = current or end is None
                ends += [end] if end else []
                starts.append(target.state.snapshots[key.snapshot_id].committed_at)
    if current:
        return min(starts)
    return max(ends, default=None)


def _referrers(standing: FileStatus, keys: set[SnapshotKey], uuids: set[str]) -> list[str]:
    if keys:
        return sorted(
            f"{standing.names.get(key.table_uuid, key.table_uuid)}@{key.snapshot_id}"
            for key in keys
        )
    return sorted(str(standing.names.get(uuid, uuid)) for uuid in uuids)
