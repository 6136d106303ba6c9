"""Staged copy in cold, before it is published: proves its rows, and records its late files.

A pass gives it to the engine, which calls it between write and publication.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.metadata import load_document
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.domain.chunks.layout import ChunkFile
from meltline.domain.chunks.sync import SYNC_DROPPED, SYNC_LATE
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.ports import CopyRequest, MixedRows

_SHOWN = 3


@dataclass(frozen=True)
class StagedCopy:
    """One copy, and cold before it.

    Attributes:
        request: The copy request.
        cold: Cold's content without it.
        prove: Proves other chunks.
    """

    request: CopyRequest
    cold: ColdContent
    prove: Callable[[int], None] | None = None

    def judge(self, snapshot_id: int) -> Mapping[str, str]:
        """Proves the copy and returns the record of late files that is published with it.

        Raises:
            SyncRefused: It does not have the rows that it must have.
        """
        if self.prove is not None:
            self.prove(snapshot_id)
        if self.request.mixed is not None:
            self._require_told_apart(self.request.mixed, snapshot_id)
        bases = self.cold.sides.bases
        added = self._late_files(snapshot_id) if bases else ()
        resolved = {name: bases[name] for name in self.cold.lost}  # it has replaced these
        record = self.cold.late.after(self.request.removed, resolved, added)
        return {SYNC_LATE: record.written()}

    def _late_files(self, snapshot_id: int) -> Iterator[tuple[str, ChunkFile]]:
        """Returns new files with rows of dropped chunks, except those with rows of cold alone."""
        context, layout = self.cold.context, self.request.layout
        tier, reader = require_cold(context), context.cold_chunk_files
        assert reader is not None  # a cold tier is configured
        location = tier.catalog.location(self.request.cold)
        state, _ = load_document(tier.store, self.request.cold, location)
        before = self.cold.synced.state.snapshots
        line = state.ancestry(snapshot_id)
        for snapshot in takewhile(lambda s: s.snapshot_id not in before, line):
            if SYNC_DROPPED in snapshot.summary:
                continue
            for file in reader.change(snapshot, layout, 0).added:
                if file.kind is FileKind.DATA:
                    for name in layout.reached(file.times, self.cold.sides.bases):
                        yield name, file

    def _require_told_apart(self, mixed: MixedRows, snapshot_id: int) -> None:
        """Proves that no row of cold alone was lost, and none doubled.

        Raises:
            SyncRefused: Cold lacks rows that hot had at its position, or has others.
        """
        request, rows = self.request, self.cold.context.chunk_rows
        before = self.cold.synced.state.current_snapshot_id
        assert rows is not None and before is not None  # it has mixed files
        parts = [
            (1, request.cold, before, mixed.chunks),
            (-1, request.cold, snapshot_id, mixed.chunks),
            (1, request.hot, request.upto, mixed.chunks),
            *((-1, request.hot, at, names) for at, names in mixed.late.items()),
        ]
        sums = Counter[tuple[str, str]]()
        for sign, table, at, names in parts:
            for name, digest in rows.digests(table, at, request.layout, names).items():
                sums[name, "rows"] += sign * digest.rows
                sums[name, "checksum"] += sign * digest.checksum
        if differing := sorted({name for (name, _), amount in sums.items() if amount}):
            raise SyncRefused(
                f"{request.cold} lacks rows that replication wrote, or has others",
                object=str(request.cold),
                expected="what was dropped, and the late rows up to its position",
                found=f"other rows in chunks {', '.join(differing[:_SHOWN])}",
                next="find out who changes rows there, and roll it back to before that",
            )
