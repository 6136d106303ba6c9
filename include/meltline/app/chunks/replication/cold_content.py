"""Cold's content before a pass, with the rows that it alone has and never deletes.

Replication passes call it to decide which files may leave cold. It is apart from `one_pass`, which
changes cold (LT-26).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from meltline.app.chunks.replication.refusals import diverged
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.sides import EVERYTHING, Sides
from meltline.domain.chunks.layout import ChunkFile
from meltline.domain.chunks.replication import LeavingFiles, leaving_files
from meltline.domain.chunks.sync import SYNC_DROPPED, RowDigest, TableSync, read_dropped
from meltline.domain.iceberg.files import FileKind
from meltline.domain.safe_text import quote

Digests = Mapping[str, RowDigest]


@dataclass(frozen=True)
class ColdContent:
    """The synced table and the chunks of hot, before a pass changes cold."""

    context: RunContext
    sync: TableSync
    synced: SyncedTable
    tracking: Tracking

    @cached_property
    def sides(self) -> Sides:
        """Which of its rows count. Raises SyncRefused if its own record is damaged."""
        tracking = self.tracking
        return Sides.of(tracking.table.layout, tracking.chunks.values(), self._told, self.late)

    def unknown_drops(self) -> Mapping[str, int]:
        """Returns chunks that cold records as only copies although the ledger has no drop of them.

        They remain after a lost ledger, or an old backup of one. Cold's record is sufficient if hot
        has no rows of them, or exactly those that cold received after it.
        """
        found: dict[str, int] = {}
        resident: dict[str, int] = {}
        for name, base in self._told.items():
            chunk = self.tracking.chunks.get(name)
            if chunk is None:
                found[name] = base
            elif not (chunk.was_dropped or self._is_known(name)):
                (resident if chunk.files else found)[name] = base
        return found | self._with_late_rows_alone(resident)

    def _with_late_rows_alone(self, told: Mapping[str, int]) -> dict[str, int]:
        """Filters chunks for which hot has exactly the rows that cold received after its record."""
        sides = replace(self.sides, bases=told)
        late = []
        for file in self._files if told else ():
            names = sides.layout.names(file.times)
            if names and sides.late_chunks(file) == set(names):
                late.append(file.path)
        if not late:
            return {}
        hot, cold_rows = self._rows_of(told)
        late_rows = self._cold_digests(told, only_files=late)
        return {
            name: base
            for name, base in told.items()
            if name in hot and hot[name] == late_rows.get(name) != cold_rows.get(name)
        }

    @cached_property
    def _told(self) -> Mapping[str, int]:
        try:
            return read_dropped(self.synced.state.properties)
        except ValueError as error:
            raise diverged(
                self.sync.table, f"{SYNC_DROPPED} of {self.sync.cold}: {error}"
            ) from error

    @cached_property
    def late(self) -> LateFiles:
        """The files with late rows, as cold records them. Raises SyncRefused if it is damaged."""
        try:
            return LateFiles.read(self.synced.state.properties)
        except ValueError as error:
            raise diverged(self.sync.table, f"{self.sync.cold}: {error}") from error

    @cached_property
    def lost(self) -> frozenset[str]:
        """Chunks whose late rows a compaction of cold has mixed with others."""
        has_late_rows = self.late.may_have(self.sides.bases)
        return self.sides.lost(self._files) if has_late_rows else frozenset()

    def rows_of_nobody_else(self) -> dict[str, int]:
        """Counts rows of chunks that others emptied: hot has none of them, and no drop took them.

        Late rows of dropped chunks are included. By chunk; a file that spans several counts for the
        first.
        """
        sides, rows = self.sides, Counter[str]()
        here = {n for n, chunk in self.tracking.chunks.items() if chunk.files or chunk.spans}
        for file in self._files:
            names = sides.layout.names(file.times) or ()
            late, bases = sides.late_chunks(file), sides.bases
            is_left = here.isdisjoint(names) and all(
                name in late or (name in self.lost and file.sequence_number > bases[name])
                for name in bases.keys() & set(names)
            )
            if names and is_left:
                rows[next(iter(names))] += file.rows
        return dict(rows)

    def gone_from_hot(self, names: Collection[str]) -> frozenset[str]:
        """Filters chunks without a row in hot, whatever files reach into them."""
        hot = self._rows_of(names)[0] if names else {}
        return frozenset(names) - hot.keys()

    @property
    def rows(self) -> int:
        """How many rows cold has, row deletes of hot not counted."""
        return sum(file.rows for file in self._files)

    def words(self) -> Mapping[str, int]:
        """Returns the list of only copies that cold is to record from now on.

        Entries about chunks that this ledger does not know are kept.
        """
        unknown = {name: base for name, base in self._told.items() if not self._is_known(name)}
        known = {name: base for name, base in self.sides.bases.items() if base != EVERYTHING}
        return {**unknown, **known}

    def word(self, chunk: Chunk) -> int | None:
        """Cold's recorded base of a chunk that hot has completely; else the ledger's base."""
        noted = chunk.cold_base
        return noted if chunk.was_dropped else self._told.get(chunk.name, noted)

    def _is_known(self, name: str) -> bool:
        """Whether the ledger has the same base that cold records for a chunk in hot.

        It may belong to an earlier drop than the last one that was prepared.
        """
        chunk = self.tracking.chunks.get(name)
        bases = [chunk.cold_base, *(drop.base for drop in chunk.drops)] if chunk else []
        return self._told[name] in bases

    def leaving(self, replaced: frozenset[str] | None, alone: Collection[str]) -> LeavingFiles:
        """Returns the files that leave when chunks are replaced.

        Args:
            replaced: The chunks; None is every one.
            alone: Dropped chunks without late rows in cold.

        Raises:
            SyncRefused: Cold records an only copy of a chunk for which the ledger has no drop.
        """
        head = self.synced.state.current_snapshot
        if head is None:
            return LeavingFiles(chunks=replaced)
        leaving = leaving_files(self.sides.all_in_cold(alone), self._files, replaced)
        self._require_known(leaving.chunks)
        return leaving

    def _require_known(self, replaced: frozenset[str] | None) -> None:
        """Rejects replacing a chunk that cold, but not the ledger, records as its only copy.

        A prepared drop that was never committed leaves such a record, and so does one that a
        rollback has undone; the ledger then has the same record. Without it, the ledger may have
        been lost, and nothing may leave cold unless hot has the same rows.
        """
        unknown = {
            name
            for name in self._told.keys() - self.sides.bases.keys()
            if not self._is_known(name) and (replaced is None or name in replaced)
        }
        if not unknown:
            return
        hot, cold = self._rows_of(unknown)
        for name in sorted(unknown):
            if name not in hot or hot[name] != cold.get(name):
                raise diverged(
                    self.sync.table,
                    f"chunk {name} was dropped from hot, and this ledger does not know of it; hot "
                    "has no rows of it, or others than cold",
                    f"take the rows of {name} out of hot into another table, say "
                    f"`meltline chunks sync {quote(self.sync.table)}`, replicate, and put them "
                    "back: "
                    "they are late rows then, and cold keeps what it has",
                )

    # --- reads
    # -------------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> Sequence[ChunkFile]:
        """Cold's live data files."""
        head = self.synced.state.current_snapshot
        reader, layout = self.context.cold_chunk_files, self.tracking.table.layout
        assert reader is not None  # a cold tier is configured
        live = reader.live(head, layout) if head else ()
        return [file for file in live if file.kind is FileKind.DATA]

    def _rows_of(self, names: Collection[str]) -> tuple[Digests, Digests]:
        """Digests the rows of some chunks in hot and in cold."""
        rows, head = self.context.chunk_rows, self.tracking.head
        assert rows is not None  # a cold tier is configured
        if head is None:
            return {}, {}
        layout, hot = self.tracking.table.layout, self.tracking.hot.state.name
        return rows.digests(hot, head.snapshot_id, layout, names), self._cold_digests(names)

    def _cold_digests(
        self, names: Collection[str], only_files: Collection[str] | None = None
    ) -> Digests:
        rows, cold = self.context.chunk_rows, self.synced.state.current_snapshot_id
        assert rows is not None  # a cold tier is configured
        if cold is None:
            return {}
        layout = self.tracking.table.layout
        digests: Digests = rows.digests(self.sync.cold, cold, layout, names, only_files=only_files)
        return digests
