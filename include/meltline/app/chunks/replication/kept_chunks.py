"""Decides which chunks cold keeps after hot lost them to own drops, to others or to a rollback.

Replication passes call it. It is apart from the copy because the ledger records the decision before
the copy is visible: after a crash in between, nothing leaves cold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.refusals import deletes_way_out, diverged, refusal
from meltline.app.chunks.replication.unseen_changes import UnseenChanges
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import (
    UNKNOWN_DROP,
    Chunk,
    ChunkDrop,
    ChunkStatus,
    new_chunk,
)
from meltline.domain.chunks.kept_deletes import KeptDelete, counts_before, emptying, kept_together
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.sync import LARGE_DELETES, MIXED_FILES, Deletes, Position, TableSync
from meltline.domain.errors import SyncRefused
from meltline.domain.safe_text import quote
from meltline.domain.units import counted

_SHOWN = 3


@dataclass(frozen=True)
class KeptChunks:
    """Decides for one pass what cold keeps, and records it in the ledger.

    Attributes:
        sync: The sync, with the operator's decisions about large deletes so far.
        deletes: The operator's current decision.
    """

    context: RunContext
    hot: HotTable
    sync: TableSync
    deletes: Deletes | None

    def _diverged(self, detail: str) -> SyncRefused:
        return diverged(self.hot.state.name, detail)

    def kept(self, tracking: Tracking, changes: Sequence[SnapshotChange]) -> list[KeptDelete]:
        """Returns deletes by others that an operator had cold keep, oldest first.

        Args:
            tracking: The chunks as they are after the commits.
            changes: Main's changes, including own drops.

        Raises:
            SyncRefused: One of them left rows in its chunks: cold has no way to tell them apart.
        """
        layout, said = tracking.table.layout, self.sync.kept_deletes
        emptied = emptying(layout, changes, files_of(tracking), in_parts=True)
        kept = {c.snapshot_id for c in changes} & {*said}
        for id in sorted(kept - emptied.keys()):
            raise refusal(
                LARGE_DELETES,  # an operator may still have cold mirror it
                f"snapshot {id} of {self.hot.state.name} leaves some rows of its chunks: cold "
                "cannot keep the others apart from these",
                object=f"{self.hot.state.name}@{id}",
                expected="deletes that empty their chunks",
                found="chunks with rows in hot",
                next=f"`meltline chunks replicate --tables {quote(self.hot.state.name)} --deletes "
                "mirror` has cold delete them too; or roll hot back to before the delete",
            )
        return kept_together(layout, changes, kept)

    def seen_emptying(
        self, tracking: Tracking, changes: Sequence[SnapshotChange], cold: ColdContent
    ) -> list[KeptDelete]:
        """Returns deletes still in hot's history whose chunks only cold has rows of."""
        if self.deletes is not Deletes.KEEP:
            return []
        layout, lost = tracking.table.layout, cold.rows_of_nobody_else().keys()
        emptied = emptying(layout, changes, files_of(tracking), in_parts=False)
        kept = {id for id, names in emptied.items() if names & lost}
        return kept_together(layout, changes, kept)

    def emptied(self, cold: ColdContent, unseen: UnseenChanges) -> dict[str, None]:
        """Returns chunks that others emptied unobserved, and that an operator has cold keep.

        Raises:
            SyncRefused: They are a large share of cold and undecided; or they are to be kept, and
                history no longer shows what hot had of them before the delete.
        """
        rows, most = cold.rows_of_nobody_else(), self.context.config.chunks.max_foreign_deletes
        accepted = self.accepted(cold)
        if self.deletes is Deletes.KEEP:
            layout = cold.tracking.table.layout
            untold = rows.keys() - accepted
            if doubtful := sorted(n for n in untold if not unseen.is_before(layout, n)):
                raise self._untold(doubtful)
            return dict.fromkeys(sorted(rows.keys() | cold.gone_from_hot(accepted)))
        if accepted and self.deletes is Deletes.MIRROR:
            return dict.fromkeys(sorted(cold.gone_from_hot(accepted)))
        if self.deletes is Deletes.MIRROR or sum(rows.values()) <= most * cold.rows:
            return {}
        raise refusal(
            LARGE_DELETES,
            f"cold has {sum(rows.values())} of {cold.rows} rows in chunks that hot has nothing of "
            "any more, more than replication takes out of it unasked",
            object=str(self.sync.cold),
            expected=f"at most {most:.0%} of the rows (chunks.max-foreign-deletes)",
            found=f"chunks {', '.join(sorted(rows)[:_SHOWN])}",
            next=deletes_way_out(self.hot.state.name),
        )

    def accepted(self, cold: ColdContent) -> frozenset[str]:
        """Chunks whose late rows in cold are reported to the operator as indistinguishable.

        To keep these means to keep cold's rows, whatever hot had before the delete. Once hot has no
        row of them they are also kept if the operator has cold mirror the deletes of others.
        """
        return cold.lost if self.sync.reason == MIXED_FILES else frozenset()

    def _untold(self, chunks: Sequence[str]) -> SyncRefused:
        is_told = self.sync.reason == MIXED_FILES  # the report of mixed rows remains in force
        return refusal(
            MIXED_FILES if is_told else LARGE_DELETES,
            f"hot was written after {self.sync.cold} had its rows, and then lost "
            f"{counted(len(chunks), 'chunk')}: the history that showed what they had before the "
            "delete has expired",
            object=str(self.hot.state.name),
            expected="history of hot from before the delete",
            found=f"chunks {', '.join(chunks[:_SHOWN])}{' …' if chunks[_SHOWN:] else ''}",
            next="copy what cold has of them into a table of its own; then "
            f"`meltline chunks replicate --tables {quote(self.hot.state.name)} --deletes mirror` "
            f"has cold delete them{', and keep all that it has of mixed ones' if is_told else ''}",
        )

    def without_base(self, tracking: Tracking) -> list[Chunk]:
        """Dropped chunks without a recorded base, up to which cold has the only copy."""
        dropped = [chunk for chunk in tracking.chunks.values() if chunk.was_dropped]
        return [chunk for chunk in dropped if chunk.only_copy_base is None and chunk.drops]

    def with_bases(self, tracking: Tracking, newest: int) -> Tracking:
        """Records cold's current rows as the only copy of dropped chunks that lack a base."""
        chunks = self.without_base(tracking)
        noted = {chunk.name: chunk.with_base(newest) for chunk in chunks}
        if not all(self.context.control.chunks.move([(c, noted[c.name]) for c in chunks])):
            raise self._diverged("a chunk was written while it was noted what cold has")
        return replace(tracking, chunks={**tracking.chunks, **noted})

    def forget_undone(self, cold: ColdContent) -> None:
        """Forgets the bases of undone drops: cold is about to receive all of hot's rows.

        Not earlier: until then cold keeps its rows, and main may be set to such a drop again. If
        the pass fails before the copy, cold's record still belongs to such a drop.
        """
        chunks = [c for c in cold.tracking.chunks.values() if c.without_undone_bases != c]
        moves = [(c, replace(c.without_undone_bases, cold_base=cold.word(c))) for c in chunks]
        if not all(self.context.control.chunks.move(moves)):
            raise self._diverged("a chunk was written while cold got all of hot's rows")

    def take_up(self, tracking: Tracking, unknown: Mapping[str, int]) -> Tracking:
        """Records cold's only copies in the ledger, beside rows that hot received since."""
        layout, uuid = tracking.table.layout, tracking.table.table_uuid
        now, ledger = self.context.clock.now(), self.context.control.chunks
        known = {n: tracking.chunks.get(n) or new_chunk(layout, uuid, n) for n in unknown}
        new = [chunk for name, chunk in known.items() if name not in tracking.chunks]
        ledger.advance(tracking.table, tracking.table, new)
        taken = {name: _dropped_before(chunk, unknown[name], now) for name, chunk in known.items()}
        if not all(ledger.move([(known[name], taken[name]) for name in taken])):
            raise self._diverged("a chunk was written while cold's word about it was read")
        return replace(tracking, chunks={**tracking.chunks, **taken})

    def mark_dropped(
        self, tracking: Tracking, base: int, chunks: Mapping[str, int | None]
    ) -> Tracking:
        """Marks chunks that others emptied, and that cold keeps, as dropped.

        A chunk that was dropped before keeps that drop: from then on, late rows that the delete
        removed are in cold alone as well.

        Args:
            tracking: The chunks as they are.
            base: Cold's newest sequence number: up to it cold has the only copy.
            chunks: The emptied chunks, by the commit that emptied them; None if no history shows
                it.
        """
        layout, uuid = tracking.table.layout, tracking.table.table_uuid
        now, ledger = self.context.clock.now(), self.context.control.chunks
        known = {n: tracking.chunks.get(n) or new_chunk(layout, uuid, n) for n in chunks}
        new = [chunk for name, chunk in known.items() if name not in tracking.chunks]
        ledger.advance(tracking.table, tracking.table, new)
        marked = {}
        for name, snapshot_id in chunks.items():
            chunk, at = known[name], self.hot.state.snapshots.get(snapshot_id or 0)
            drop = ChunkDrop(at.snapshot_id, at.sequence_number, base) if at else _unknown(base)
            earlier = (d for d in chunk.drops if at is None or d.snapshot_id != at.snapshot_id)
            is_empty = not (chunk.files or chunk.spans)
            marked[name] = replace(
                chunk,
                status=ChunkStatus.DROPPED if is_empty else ChunkStatus.REOPENED,
                tiered_at=None,
                dropped_at=now,
                cold_base=base,
                drops=(*earlier, drop),
            )
        if not all(ledger.move([(known[name], marked[name]) for name in marked])):
            raise self._diverged("a chunk was written while it was noted what cold keeps")
        return replace(tracking, chunks={**tracking.chunks, **marked})


def files_of(tracking: Tracking) -> dict[str, int]:
    """Counts each chunk's data files in hot, including those that reach into others."""
    return {name: chunk.files + chunk.spans for name, chunk in tracking.chunks.items()}


def _dropped_before(chunk: Chunk, base: int, now: datetime) -> Chunk:
    """Marks a chunk as dropped before this ledger began, by an unknown commit."""
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


def as_of(tracking: Tracking, upto: Position, later: Sequence[SnapshotChange]) -> Tracking:
    """Returns the chunks with the files that they had before some commits."""
    chunks = tracking.chunks
    if later:
        files = counts_before(tracking.table.layout, files_of(tracking), later)
        chunks = {name: replace(chunk, files=files[name]) for name, chunk in chunks.items()}
    return replace(tracking, table=replace(tracking.table, walked=upto), chunks=chunks)
