"""Collects the data of the storage page: recorded days, the current state, and coming deletions.

The page's route and `meltline storage` call it; `storage_picture` draws it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, timedelta
from functools import partial

from meltline.app.chunks.rollups.status import RollupLine, rollup_lines
from meltline.app.run_history.run_log import RunFilter, find_runs
from meltline.app.services import ReadContext
from meltline.app.storage.report import StorageTotals, StoredBytes, storage_rows
from meltline.domain.chunks.buckets import common, without
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.iceberg.names import selected
from meltline.pages.chunk_strip import ChunkPicture, ChunkStrip
from meltline.pages.rollup_row import RollupRow
from meltline.pages.storage_picture import DayOfStorage, RunFacts, StoragePicture
from meltline.ports import ControlLedger
from meltline.ports import StorageHistory as RecordedStorage

DAYS = 90
COMING_DAYS = 14
_RUNS = 30
_MOST_STRIPS = 12
_MOST_ROLLUPS = 3
"""The maximum drawn over one table; the others are counted."""
NEXT_STEPS = (
    ("meltline storage", "gives these numbers as of now"),
    ("meltline explain TABLE", "says why each snapshot is kept"),
    ("meltline show plan last --items", "lists what the last plan was about"),
)


def lake_picture(context: ReadContext, tables: tuple[str, ...] = ()) -> StoragePicture:
    """Returns the data of the storage page.

    Args:
        context: The ledgers and the catalogs.
        tables: Globs; none selects all.

    Raises:
        CatalogUnlistable: A catalog cannot be listed.
    """
    history = StoredBytes(context)
    totals = history.at(None, coming=timedelta(days=COMING_DAYS))
    today = totals.at.date()
    unread = [table for table in history.unread if selected(table.table, tables)]
    unknown = {table.uuid for table in unread}  # their figures are unknown: none is shown
    known = (row for row in storage_rows(totals) if row.table_uuid not in unknown)
    rows = [
        *_recorded(context.control.storage, today),
        *(DayOfStorage.of(today, row) for row in known),
    ]
    names = sorted({str(name) for name in totals.names.values() if selected(name, tables)})
    shown = frozenset(names)
    return StoragePicture(
        days=[row for row in rows if row.table in shown],
        tables=names,
        runs=_runs(context.control, today),
        coming=_coming(totals, shown),
        notes=[table.sentence for table in unread],
        chunks=chunk_picture(context.control, shown, partial(rollup_lines, context)),
    )


def chunk_picture(
    control: ControlLedger,
    tables: Collection[str],
    lines: Callable[[Sequence[Rollup]], Sequence[RollupLine]],
) -> ChunkPicture:
    """Returns the chunks of some tables, from the ledger, and the rollups over them.

    Args:
        control: Contains the chunks.
        tables: By name.
        lines: Returns the status of rollups.
    """
    names = frozenset(tables)
    tracked = [table for table in control.chunks.tracked() if str(table.table) in names]
    strips = []
    for table in tracked[:_MOST_STRIPS]:
        uuid = table.table_uuid
        rollups = sorted(control.rollups.all([uuid]), key=lambda rollup: rollup.name)
        rows = [_rollup_row(line) for line in lines(rollups[:_MOST_ROLLUPS])]
        chunks = list(control.chunks.of(uuid).values())
        strips.append(ChunkStrip(str(table.table), chunks, rows, len(rollups) - len(rows)))
    return ChunkPicture(strips, len(tracked) - len(strips))


def _rollup_row(line: RollupLine) -> RollupRow:
    return RollupRow(
        line.rollup.name,
        line.rollup.buckets,
        refreshed=without(line.buckets, line.frozen),
        frozen=common(line.buckets, line.frozen),
        problem=line.problem,
    )


def _recorded(storage: RecordedStorage, today: date) -> Iterator[DayOfStorage]:
    """Yields the storage that runs recorded in the last days; a day without a run has none."""
    for back in range(DAYS, 0, -1):
        day = today - timedelta(days=back)
        for row in storage.of(day.isoformat()):
            yield DayOfStorage.of(day, row)


def _runs(control: ControlLedger, today: date) -> Sequence[RunFacts]:
    """Returns the newest runs of the drawn days, the oldest first."""
    lines = find_runs(control, RunFilter(limit=_RUNS))
    runs = [RunFacts.of(line.run.as_of, line.totals) for line in reversed(lines)]
    return [run for run in runs if (today - run.as_of.date()).days <= DAYS]


def _coming(totals: StorageTotals, shown: frozenset[str]) -> dict[date, int]:
    """Returns bytes by due day, from today on, including days on which none are due."""
    today = totals.at.date()
    coming = {today + timedelta(days=ahead): 0 for ahead in range(COMING_DAYS)}
    for (uuid, day), size in totals.holdings.due.items():
        name, shown_day = totals.names.get(uuid), max(day, today)
        if name is not None and str(name) in shown and shown_day in coming:
            coming[shown_day] += size
    return coming
