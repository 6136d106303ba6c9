"""Union read over hot and cold: decides which part of each is read, so every row appears once.

Queries over `_all` and the Python API call it. It only plans the read; the engine carries it out
(LT-33).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.metadata import load_document
from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.lookups import HotTable, require_tracked
from meltline.app.chunks.replication.cold_rows import ColdCount, Compared, compared_rows
from meltline.app.chunks.replication.refusals import diverged, unknown_drops
from meltline.app.chunks.replication.synced_table import SyncedTable, require_own
from meltline.app.chunks.tracking import changes_of
from meltline.app.observe.own_drops import UnrecordedDrops
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.sides import Sides
from meltline.domain.chunks.complete import (
    ColdPart,
    CompleteRead,
    PinnedTable,
    late_copies,
)
from meltline.domain.chunks.layout import chunks_of
from meltline.domain.chunks.main_history import MainLine, drops_of, on_line
from meltline.domain.chunks.sync import (
    SYNC_OF,
    TableSync,
    TrackedTable,
    read_dropped,
)
from meltline.domain.errors import CommitConflict, SyncRefused, TableNotFound
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.domain.units import counted

_TRIES = 8
_SHOWN = 3


@dataclass(frozen=True)
class CompleteRows:
    """All rows of a table.

    Attributes:
        read: The parts of hot and cold to read.
        notice: Rows that a reader might miss; empty if there are none.
    """

    read: CompleteRead
    notice: str = ""


def complete_rows(context: ReadContext, name: TableName) -> CompleteRows:
    """Plans a read of all current rows of a table that is split into chunks.

    The order of reads makes this correct while drops and passes run. Hot is first: rows that it has
    dropped by then were completely in cold before, and cold keeps them, so a later read of cold
    finds them. In the other order, rows of a drop in between would be in neither. Late rows in cold
    count as copies only up to bases in the ledger. It records these before such copies are visible,
    so the ledger is read after cold. Its chunks may then be ahead of hot's state, so the status of
    a drop follows that state's own history, as recorded with these chunks. Only a rollback would
    make cold delete rows that hot had dropped. Main must therefore still descend from the state
    that was read; otherwise everything is read again.

    Args:
        context: Where both tables and the ledger are.
        name: The table.

    Raises:
        NotChunked: It is not split into chunks.
        SyncRefused: It is unknown which rows of cold are in hot as well.
        CommitConflict: It was rolled back again and again meanwhile.
        MeltlineError: Hot, cold or the ledger cannot be read.
    """
    for _ in range(_TRIES):
        hot = load_table(context, name)
        cold, tracked = _cold(context, hot), require_tracked(context, hot)
        chunks = context.control.chunks.of(hot.uuid)
        is_same = require_tracked(context, hot).walked == tracked.walked  # same as these chunks
        now = load_table(context, name)
        if not (is_same and _goes_on_from(now, hot)):
            continue
        try:
            return _TableScan(context, hot, tracked, cold).rows(chunks)
        except SyncRefused:  # the ledger may be ahead of a state that is not the latest
            if now.metadata_location == hot.metadata_location:
                raise
    raise CommitConflict(
        f"main of {name} went back while it was read, {_TRIES} times in a row",
        object=str(name),
        expected="a main line that goes on",
        found="another one each time",
        next="try again when nobody rolls the table back",
    )


def _goes_on_from(now: TableMetadata, before: TableMetadata) -> bool:
    head, earlier = now.current_snapshot_id, before.current_snapshot_id
    if now.uuid != before.uuid or (head is None) != (earlier is None):
        return False
    return head == earlier or now.descends_from(head or 0, earlier or 0)


def _cold(context: ReadContext, hot: TableMetadata) -> tuple[TableSync, SyncedTable] | None:
    """Loads the replication and the current synced table; None if nothing was ever copied.

    Raises:
        ColdMissing: No cold tier is configured.
        TableNotFound: It is gone.
        SyncRefused: Another table has its name.
        LedgerOutOfStep: Another installation writes it.
    """
    syncs: Sequence[TableSync] = context.control.syncs.all([hot.uuid])
    if not syncs:
        return None
    (sync,) = syncs
    tier = require_cold(context)
    try:
        location = tier.catalog.location(sync.cold)
    except TableNotFound:
        chunks = context.control.chunks.of(hot.uuid).values()
        if sync.committed is None and not any(c.only_copy_base for c in chunks):
            return None
        location = tier.catalog.location(sync.cold)  # created since the first read, or gone
    synced = SyncedTable(*load_document(tier.store, sync.cold, location))
    if synced.state.properties.get(SYNC_OF) != hot.uuid:
        raise diverged(hot.name, f"{sync.cold} is another table")
    require_own(context, synced)
    return sync, synced


@dataclass(frozen=True)
class _TableScan:
    """One state of a table, and a state of cold that was read after it."""

    context: ReadContext
    hot: TableMetadata
    tracked: TrackedTable
    cold: tuple[TableSync, SyncedTable] | None

    def rows(self, chunks: Mapping[str, Chunk]) -> CompleteRows:
        """Plans the read, by the ledger as it was read after both."""
        read = CompleteRead(_pinned(self.hot))
        if self.cold is None:
            return CompleteRows(read, self._notice(chunks))
        sync, synced = self.cold
        sides = self._sides(chunks, *_told_by(synced))
        dropped = [chunk for chunk in chunks.values() if chunk.was_dropped]
        if not (sides.bases or dropped):
            return CompleteRows(read)
        cold = ColdCount.of(self.context.cold_chunk_files, synced, self.tracked.layout)
        notice = _uncompared(sync, compared_rows(sync, cold, dropped))
        if not sides.bases or synced.state.current_snapshot is None:
            return CompleteRows(read, notice)
        return CompleteRows(replace(read, cold=self._cold_part(cold, sides)), notice)

    def _notice(self, chunks: Mapping[str, Chunk]) -> str:
        gone = [chunk for chunk in chunks.values() if chunk.was_dropped]
        if not gone:
            return ""
        return (
            f"{len(gone)} chunks of {self.hot.name} were dropped and never copied to cold: their"
            " rows are nowhere, and what is read is what hot has"
        )

    def _sides(
        self, chunks: Mapping[str, Chunk], told: Mapping[str, int], late: LateFiles
    ) -> Sides:
        line = MainLine.of(self.hot, self.tracked.judged, drops_of(chunks.values()))
        context, tracked = self.context, self.tracked
        news = UnrecordedDrops(context.chunk_files, context.control.plans, tracked, chunks)
        since = {chunk.name: chunk.drops[-1] for chunk in news.on(self.hot, line)}
        stood = [on_line(chunk, line, since.get(name)) for name, chunk in chunks.items()]
        self._require_told([chunk.name for chunk in stood if not chunk.is_told])
        sides = Sides.of(self.tracked.layout, stood, told, late)
        for name in sorted(told.keys() - sides.bases.keys()):
            chunk = chunks.get(name)
            if chunk is None or chunk.cold_base is None:
                raise diverged(
                    self.hot.name,
                    f"cold says that chunk {name} was dropped from hot, and this ledger does not"
                    " know of it",
                )
        return sides

    def _require_told(self, unknown: Collection[str]) -> None:
        """Requires known drops; if hot has no rows of an unknown one, cold alone is read.

        Raises:
            SyncRefused: Hot has rows of a chunk, and it is unknown whether its drop is in force.
        """
        resident = self._resident() if unknown else ()
        doubled = [name for name in unknown if resident is None or name in resident]
        if doubled:
            raise unknown_drops(self.hot.name, doubled)

    def _resident(self) -> frozenset[str] | None:
        """The chunks with rows in hot; None means any."""
        head, layout = self.hot.current_snapshot, self.tracked.layout
        live = self.context.chunk_files.live(head, layout) if head else ()
        return chunks_of(layout, (file for file in live if file.kind is FileKind.DATA))

    def _cold_part(self, cold: ColdCount, sides: Sides) -> ColdPart:
        """The part of cold to read; chunks with mixed late rows are read from cold alone."""
        files = [file for file in cold.files if file.kind is FileKind.DATA]
        lost = sides.lost(files)
        if lost:
            self._require_caught_up(cold.synced, lost)
        copies = late_copies(sides.all_in_cold(lost), files)
        pinned, chunks = _pinned(cold.synced.state), frozenset(sides.bases)
        return ColdPart(pinned, sides.layout, chunks, copies, lost)

    def _require_caught_up(self, cold: SyncedTable, mixed: Collection[str]) -> None:
        """Allows cold alone to serve chunks whose rows a compaction of cold has mixed.

        Cold has their dropped rows, and the late rows that hot had at its position.

        Raises:
            SyncRefused: Hot has other rows of them by now, or main does not have cold's position.
        """
        position = cold.position
        hot = HotTable(self.hot, self.context.store)
        since = hot.since(position.snapshot_id) if position else None
        written: Collection[str] = mixed
        if position and since is not None:
            changes = changes_of(self.context.chunk_files, self.tracked.layout, since, 0)
            touched = [change.touched(self.tracked.layout) for change in changes]
            written = {n for n in mixed if any(t is None or n in t for t in touched)}
        if written:
            raise SyncRefused(
                f"a compaction of cold has mixed late rows of {self.hot.name} with dropped ones",
                object=str(self.hot.name),
                expected="chunks that nobody has written since the last pass of replication",
                found=f"chunks {', '.join(sorted(written)[:_SHOWN])}",
                next=f"`meltline chunks replicate --tables {quote(self.hot.name)}` separates them",
            )


def _uncompared(sync: TableSync, compared: Compared) -> str:
    """Warns of changes by others in cold: a reader only counts rows, a pass compares them."""
    if not compared.counted:
        return ""
    return (
        f"others have rewritten {counted(len(compared.counted), 'dropped chunk')} of {sync.table}"
        " in cold: their rows were counted, and the next pass of replication compares them"
    )


def _told_by(cold: SyncedTable) -> tuple[Mapping[str, int], LateFiles]:
    """Reads from cold the list of its only copies, and its files with their late rows.

    Raises:
        SyncRefused: It cannot be read.
    """
    properties = cold.state.properties
    try:
        return read_dropped(properties), LateFiles.read(properties)
    except ValueError as error:
        raise diverged(cold.state.name, str(error)) from error


def _pinned(state: TableMetadata) -> PinnedTable:
    return PinnedTable(state.name, state.metadata_location, state.current_snapshot_id)
