"""What cold has, and what of it nobody else has: that never leaves it (LT-26)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from meltline.app.chunks.replication.refusals import diverged
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import RunContext
from meltline.domain.chunks.replication import ColdFile, LeavingFiles, leaving_files
from meltline.domain.chunks.sync import SYNC_COMMIT, SYNC_DROPPED, TableSync, read_dropped
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.table_metadata import TableMetadata

EVERYTHING = 1 << 62
"""A sequence number for chunks of which all that cold has is the only copy."""
_SHOWN = 3


@dataclass(frozen=True)
class ColdContent:
    """The synced table beside the chunks of hot, before a pass changes it."""

    context: RunContext
    sync: TableSync
    synced: SyncedTable
    tracking: Tracking

    @property
    def dropped(self) -> dict[str, int]:
        """Chunks that cold alone has, with the newest sequence number of what was dropped."""
        told = self._told
        return {
            chunk.name: told.get(chunk.name, EVERYTHING)
            if chunk.only_copy_base is None
            else chunk.only_copy_base
            for chunk in self.tracking.chunks.values()
            if chunk.was_dropped
        }

    def unknown_drops(self) -> Mapping[str, int]:
        """Chunks that cold says it alone has, hot has no rows of, and the ledger knows no drop of.

        A ledger that was lost, or an old backup of one, leaves them: cold's word is enough.
        """
        chunks = self.tracking.chunks
        return {
            name: base
            for name, base in self._told.items()
            if name not in chunks or not (chunks[name].files or chunks[name].was_dropped)
        }

    @cached_property
    def _told(self) -> Mapping[str, int]:
        try:
            return read_dropped(self.synced.state.properties)
        except ValueError as error:
            raise diverged(
                self.sync.table, f"{SYNC_DROPPED} of {self.sync.cold}: {error}"
            ) from error

    def words(self, dropped: Mapping[str, int]) -> Mapping[str, int]:
        """What cold is to say from now on that it alone has.

        What it says of chunks that this ledger knows nothing of it goes on to say.
        """
        unknown = {name: base for name, base in self._told.items() if not self._is_known(name)}
        known = {name: base for name, base in dropped.items() if base != EVERYTHING}
        return {**unknown, **known}

    def _is_known(self, name: str) -> bool:
        """Whether the ledger has the very word that cold has about a chunk that hot has."""
        chunk = self.tracking.chunks.get(name)
        return chunk is not None and bool(chunk.files) and chunk.cold_base == self._told[name]

    def leaving(self, replaced: frozenset[str] | None, dropped: Mapping[str, int]) -> LeavingFiles:
        """The files that leave where chunks are replaced; None is every chunk.

        Raises:
            SyncRefused: Some hold what was dropped and late rows together, or cold says that it
                alone has a chunk of which the ledger knows no drop.
        """
        head = self.synced.state.current_snapshot
        if head is None:
            return LeavingFiles((), replaced or frozenset(), ())
        reader, layout = self.context.cold_chunk_files, self.tracking.table.layout
        assert reader is not None  # there is a cold tier
        files = [
            ColdFile(file, _is_ours(self.synced.state, file.snapshot_id))
            for file in reader.live(head, layout)
            if file.kind is FileKind.DATA
        ]
        resident = {chunk.name for chunk in self.tracking.chunks.values() if chunk.files}
        leaving = leaving_files(layout, files, replaced, dropped, resident)
        if leaving.mixed:
            raise diverged(
                self.sync.table,
                f"{len(leaving.mixed)} files of {self.sync.cold} hold dropped and late rows "
                f"together, such as {', '.join(leaving.mixed[:_SHOWN])}: it was compacted",
            )
        self._require_known(None if replaced is None else leaving.chunks, dropped)
        return leaving

    def _require_known(self, replaced: frozenset[str] | None, dropped: Mapping[str, int]) -> None:
        """Refuses where cold says that it alone has a chunk that is replaced, and the ledger not.

        A drop that was prepared and not made leaves such words, and one that a rollback has undone:
        then the ledger knows the very same word. Without that, of a ledger that was lost, nothing
        may leave cold unless hot has the same rows.
        """
        for name in sorted(self._told.keys() - dropped.keys()):
            if self._is_known(name) or (replaced is not None and name not in replaced):
                continue
            chunk = self.tracking.chunks.get(name)
            if chunk is None or not chunk.files or self._has_other_rows(name):
                raise diverged(
                    self.sync.table,
                    f"chunk {name} was dropped from hot, and this ledger does not know of it; hot "
                    "has no rows of it, or others than cold",
                )

    def _has_other_rows(self, name: str) -> bool:
        """Whether hot and cold have other rows of a chunk."""
        rows, layout = self.context.chunk_rows, self.tracking.table.layout
        head, cold = self.tracking.head, self.synced.state.current_snapshot_id
        assert rows is not None  # there is a cold tier
        if head is None or cold is None:
            return True
        hot_table = self.tracking.hot.state.name
        hot_rows = rows.digests(hot_table, head.snapshot_id, layout, {name})
        cold_rows = rows.digests(self.sync.cold, cold, layout, {name})
        return hot_rows.get(name) != cold_rows.get(name)


def _is_ours(cold: TableMetadata, snapshot_id: int) -> bool:
    snapshot = cold.snapshots.get(snapshot_id)
    return snapshot is not None and SYNC_COMMIT in snapshot.summary
