"""What cold has, and what of it nobody else has: that never leaves it (LT-26)."""

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
    """The synced table beside the chunks of hot, before a pass changes it."""

    context: RunContext
    sync: TableSync
    synced: SyncedTable
    tracking: Tracking

    @cached_property
    def sides(self) -> Sides:
        """Which rows of it count. Raises SyncRefused where its own record is damaged."""
        tracking = self.tracking
        return Sides.of(tracking.table.layout, tracking.chunks.values(), self._told, self.late)

    def unknown_drops(self) -> Mapping[str, int]:
        """Chunks that cold says it alone has, and the ledger knows no drop of.

        A ledger that was lost, or an old backup of one, leaves them. Cold's word is enough where
        hot has no rows of them, or exactly those that came to cold after it.
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
        """Those of some chunks of which hot has the rows that cold was given after its word."""
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
        """The files with late rows, as cold names them. Raises SyncRefused where it is damaged."""
        try:
            return LateFiles.read(self.synced.state.properties)
        except ValueError as error:
            raise diverged(self.sync.table, f"{self.sync.cold}: {error}") from error

    @cached_property
    def lost(self) -> frozenset[str]:
        """Chunks of which a compaction of cold has mixed late rows with others."""
        has_late_rows = self.late.may_have(self.sides.bases)
        return self.sides.lost(self._files) if has_late_rows else frozenset()

    def rows_of_nobody_else(self) -> dict[str, int]:
        """Rows of chunks that hot has nothing of, and that no drop took: others emptied them.

        Late rows of dropped chunks are among them. By chunk; a file of several counts for the
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
        """Those of some chunks that hot has no row of, whatever files reach into them."""
        hot = self._rows_of(names)[0] if names else {}
        return frozenset(names) - hot.keys()

    @property
    def rows(self) -> int:
        """How many rows cold has, row deletes of hot not counted."""
        return sum(file.rows for file in self._files)

    def words(self) -> Mapping[str, int]:
        """What cold is to say from now on that it alone has.

        What it says of chunks that this ledger knows nothing of it goes on to say.
        """
        unknown = {name: base for name, base in self._told.items() if not self._is_known(name)}
        known = {name: base for name, base in self.sides.bases.items() if base != EVERYTHING}
        return {**unknown, **known}

    def word(self, chunk: Chunk) -> int | None:
        """Cold's word about a chunk that hot has whole; of others, and without one, as noted."""
        noted = chunk.cold_base
        return noted if chunk.was_dropped else self._told.get(chunk.name, noted)

    def _is_known(self, name: str) -> bool:
        """Whether the ledger has the very word that cold has about a chunk that hot has.

        It may be about an earlier drop than the last one that was prepared.
        """
        chunk = self.tracking.chunks.get(name)
        bases = [chunk.cold_base, *(drop.base for drop in chunk.drops)] if chunk else []
        return self._told[name] in bases

    def leaving(self, replaced: frozenset[str] | None, alone: Collection[str]) -> LeavingFiles:
        """The files that leave where chunks are replaced.

        Args:
            replaced: The chunks; None is every one.
            alone: Dropped chunks of which cold has no late row.

        Raises:
            SyncRefused: Cold says that it alone has a chunk of which the ledger knows no drop.
        """
        head = self.synced.state.current_snapshot
        if head is None:
            return LeavingFiles(chunks=replaced)
        leaving = leaving_files(self.sides.all_in_cold(alone), self._files, replaced)
        self._require_known(leaving.chunks)
        return leaving

    def _require_known(self, replaced: frozenset[str] | None) -> None:
        """Refuses where cold says that it alone has a chunk that is replaced, and the ledger not.

        A drop that was prepared and not made leaves such words, and one that a rollback has undone:
        then the ledger knows the very same word. Without that, of a ledger that was lost, nothing
        may leave cold unless hot has the same rows.
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

    # --- what is read ----------------------------------------------------------------------------

    @cached_property
    def _files(self) -> Sequence[ChunkFile]:
        """Cold's live data files."""
        head = self.synced.state.current_snapshot
        reader, layout = self.context.cold_chunk_files, self.tracking.table.layout
        assert reader is not None  # there is a cold tier
        live = reader.live(head, layout) if head else ()
        return [file for file in live if file.kind is FileKind.DATA]

    def _rows_of(self, names: Collection[str]) -> tuple[Digests, Digests]:
        """What hot and cold have of some chunks."""
        rows, head = self.context.chunk_rows, self.tracking.head
        assert rows is not None  # there is a cold tier
        if head is None:
            return {}, {}
        layout, hot = self.tracking.table.layout, self.tracking.hot.state.name
        return rows.digests(hot, head.snapshot_id, layout, names), self._cold_digests(names)

    def _cold_digests(
        self, names: Collection[str], only_files: Collection[str] | None = None
    ) -> Digests:
        rows, cold = self.context.chunk_rows, self.synced.state.current_snapshot_id
        assert rows is not None  # there is a cold tier
        if cold is None:
            return {}
        layout = self.tracking.table.layout
        digests: Digests = rows.digests(self.sync.cold, cold, layout, names, only_files=only_files)
        return digests
