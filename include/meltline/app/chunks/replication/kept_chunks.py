"""What cold keeps of chunks that hot has lost: by our drops, by others, by what a rollback undid.

The ledger notes it before anybody sees the copy; whatever dies in between, nothing leaves cold.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.refusals import deletes_way_out, diverged, refusal
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import (
    UNKNOWN_DROP,
    Chunk,
    ChunkDrop,
    ChunkStatus,
    new_chunk,
)
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.replication import empties_only, rows_removed
from meltline.domain.chunks.sync import LARGE_DELETES, Deletes, TableSync
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.table_metadata import TableMetadata

_SHOWN = 3


@dataclass(frozen=True)
class KeptChunks:
    """Decides for one pass what cold keeps, and has the ledger know it.

    Attributes:
        sync: With what a person has said about large deletes so far.
        deletes: What they say now.
    """

    context: RunContext
    hot: HotTable
    sync: TableSync
    deletes: Deletes | None

    def _diverged(self, detail: str) -> SyncRefused:
        return diverged(self.hot.state.name, detail)

    def kept(self, tracking: Tracking, changes: Sequence[SnapshotChange]) -> set[str]:
        """Chunks of deletes by others that cold keeps by a person's word.

        Raises:
            SyncRefused: One of them was not emptied: what hot has left of it, cold has as well.
        """
        layout, names = tracking.table.layout, set[str]()
        later: set[int] = set()
        for change in reversed(changes):
            if change.snapshot_id not in self.sync.kept_deletes:
                later.add(change.snapshot_id)
                continue
            touched = change.touched(layout)
            if touched is None or not empties_only(change) or self._left(tracking, touched, later):
                raise self._diverged(
                    f"snapshot {change.snapshot_id} leaves some rows of its chunks: cold cannot "
                    "keep the others apart from these; let it mirror them, or roll hot back"
                )
            names |= touched
        return names

    def _left(self, tracking: Tracking, chunks: Collection[str], later: Collection[int]) -> bool:
        """Whether hot has files of chunks that were there before some commits."""
        head, layout = self.hot.state.current_snapshot, tracking.table.layout
        if head is None or not any(tracking.chunks[name].files for name in chunks):
            return False
        live = self.context.chunk_files.live(head, layout)
        return any(
            file.snapshot_id not in later and not set(chunks).isdisjoint(names)
            for file in live
            if (names := layout.names(file.times)) is not None and file.kind is FileKind.DATA
        )

    def emptied(self, cold: ColdContent) -> list[str]:
        """Chunks that others emptied while nobody looked, and that a person has cold keep.

        Raises:
            SyncRefused: They are much of cold, and nobody has decided.
        """
        rows, most = cold.rows_of_nobody_else(), self.context.config.chunks.max_foreign_deletes
        if self.deletes is Deletes.KEEP:
            return sorted(rows)
        if self.deletes is Deletes.MIRROR or sum(rows.values()) <= most * cold.rows:
            return []
        raise refusal(
            LARGE_DELETES,
            f"cold has {sum(rows.values())} of {cold.rows} rows in chunks that hot has nothing of "
            "any more, more than replication takes out of it unasked",
            object=str(self.sync.cold),
            expected=f"at most {most:.0%} of the rows (chunks.max-foreign-deletes)",
            found=f"chunks {', '.join(sorted(rows)[:_SHOWN])}",
            next=deletes_way_out(self.hot.state.name),
        )

    def with_bases(self, tracking: Tracking, newest: int) -> Tracking:
        """Notes what cold has by now as the only copy of dropped chunks, where nobody has yet."""
        chunks = [
            chunk
            for chunk in tracking.chunks.values()
            if chunk.was_dropped and chunk.only_copy_base is None and chunk.drops
        ]
        noted = {chunk.name: chunk.with_base(newest) for chunk in chunks}
        if not all(self.context.control.chunks.move([(c, noted[c.name]) for c in chunks])):
            raise self._diverged("a chunk was written while it was noted what cold has")
        return replace(tracking, chunks={**tracking.chunks, **noted})

    def take_up(self, tracking: Tracking, unknown: Mapping[str, int]) -> Tracking:
        """Has the ledger know what cold alone has, beside rows that came to hot since."""
        layout, uuid = tracking.table.layout, tracking.table.table_uuid
        now, ledger = self.context.clock.now(), self.context.control.chunks
        known = {n: tracking.chunks.get(n) or new_chunk(layout, uuid, n) for n in unknown}
        new = [chunk for name, chunk in known.items() if name not in tracking.chunks]
        ledger.advance(tracking.table, tracking.table, new)
        taken = {name: _dropped_before(chunk, unknown[name], now) for name, chunk in known.items()}
        if not all(ledger.move([(known[name], taken[name]) for name in taken])):
            raise self._diverged("a chunk was written while cold's word about it was read")
        return replace(tracking, chunks={**tracking.chunks, **taken})

    def mark_dropped(self, tracking: Tracking, bases: Mapping[str, int]) -> Tracking:
        """Chunks that others emptied, and that cold keeps, count as dropped."""
        now, marked = self.context.clock.now(), dict[str, Chunk]()
        for name, base in bases.items():
            layout, uuid = tracking.table.layout, tracking.table.table_uuid
            chunk = tracking.chunks.get(name) or new_chunk(layout, uuid, name)
            if chunk.was_dropped:
                continue
            at = self.hot.state.snapshots.get(chunk.last_write_snapshot or 0)
            drop = ChunkDrop(at.snapshot_id, at.sequence_number, base) if at else _unknown(base)
            is_empty = not (chunk.files or chunk.spans)
            marked[name] = replace(
                chunk,
                status=ChunkStatus.DROPPED if is_empty else ChunkStatus.REOPENED,
                dropped_at=now,
                cold_base=base,
                drops=(*chunk.drops, drop),
            )
        new = [
            replace(c, cold_base=None, drops=())
            for n, c in marked.items()
            if n not in tracking.chunks
        ]
        ledger = self.context.control.chunks
        ledger.advance(tracking.table, tracking.table, new)
        before = {**tracking.chunks, **{chunk.name: chunk for chunk in new}}
        if not all(ledger.move([(before[name], marked[name]) for name in marked])):
            raise self._diverged("a chunk was written while it was noted what cold keeps")
        return replace(tracking, chunks={**tracking.chunks, **marked})

    def decided(self, changes: Sequence[SnapshotChange]) -> TableSync:
        """The replication with what a person says about large deletes among some commits.

        Raises:
            SyncRefused: One would take much of cold, and nobody has decided.
        """
        sync = self.sync
        decided = {*self.sync.allowed_deletes, *self.sync.kept_deletes}
        most = self.context.config.chunks.max_foreign_deletes
        for change in changes:
            removed = rows_removed(change)
            rows = _rows_before(self.hot.state, change)
            if change.snapshot_id in decided or not removed or removed <= most * rows:
                continue
            if self.deletes is not None:
                sync = self.deletes.said_of(sync, change.snapshot_id)
                continue
            what = "empties partitions" if empties_only(change) else "deletes rows"
            raise refusal(
                LARGE_DELETES,
                f"snapshot {change.snapshot_id} of {self.hot.state.name} {what}: {removed} of "
                f"{rows} rows, more than replication mirrors unasked",
                object=f"{self.hot.state.name}@{change.snapshot_id}",
                expected=f"at most {most:.0%} of the rows (chunks.max-foreign-deletes)",
                found=f"{removed} of {rows} rows",
                next=deletes_way_out(self.hot.state.name),
            )
        return sync


def _rows_before(hot: TableMetadata, change: SnapshotChange) -> int:
    """The table's rows before a commit, by its parent's totals; none where nobody counted them."""
    snapshot = hot.snapshots[change.snapshot_id]
    parent = hot.snapshots.get(snapshot.parent_id) if snapshot.parent_id else None
    total = parent.summary.get("total-records", "") if parent else ""
    return int(total) if total.isdecimal() else 0


def _dropped_before(chunk: Chunk, base: int, now: datetime) -> Chunk:
    """A chunk that was dropped before this ledger began; nobody knows by which commit."""
    return replace(
        chunk,
        status=ChunkStatus.REOPENED if chunk.files else ChunkStatus.DROPPED,
        tiered_at=None,
        dropped_at=now,
        cold_base=base,
        drops=(*chunk.drops, _unknown(base)),
    )


def _unknown(base: int) -> ChunkDrop:
    return ChunkDrop(UNKNOWN_DROP, 0, base)
