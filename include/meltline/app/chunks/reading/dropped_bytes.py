"""Splits bytes of dropped chunks into freed ones and those that are still on disk.

`chunks status` asks. A drop only takes files out of main: history, clones and failsafe keep them,
and the file ledger alone tells which of them a purge has deleted since.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.iceberg.locations import location_key
from meltline.ports import DropSum, LedgerReader


@dataclass(frozen=True)
class DroppedBytes:
    """Bytes of a table's dropped chunks.

    Attributes:
        freed: Their files were deleted.
        on_disk: They were not, as far as anybody can tell.
        due: When the last of these may be deleted; None where something still refers to one, and
            where nothing is on disk.
    """

    freed: int = 0
    on_disk: int = 0
    due: datetime | None = None


def dropped_bytes(reader: LedgerReader, drops: Sequence[DropSum]) -> Mapping[str, DroppedBytes]:
    """Tells by table, from the files that its drops took out of main.

    Where the file ledger cannot be read, or does not have a drop's files, all is on disk.
    """
    items: Mapping[str, Sequence[PlannedFile]] = {}
    departures: Iterable[Departure] = ()
    plans = sorted({drop.plan for drop in drops if drop.plan})
    with suppress(MeltlineError):
        items = reader.items(*plans) if plans else {}
        paths = [file.path for files in items.values() for file in files]
        departures = reader.departures((), *paths) if paths else ()
    departed = {location_key(departure.path): departure for departure in departures}
    by_table: dict[str, DroppedBytes] = {}
    for drop in drops:
        of_drop = _of_drop(drop.bytes, items.get(drop.plan, ()), departed)
        by_table[drop.table_uuid] = _added(by_table.get(drop.table_uuid, DroppedBytes()), of_drop)
    return by_table


def _of_drop(
    size: int, files: Sequence[PlannedFile], departed: Mapping[str, Departure]
) -> DroppedBytes:
    """A plan may name files of chunks that a rollback has brought back: these count as on disk."""
    states = [(file, departed.get(location_key(file.path))) for file in files]
    undeleted = [
        (file, departure)
        for file, departure in states
        if departure is None or departure.state is not DepartureState.DELETED
    ]
    planned = sum(file.bytes for file in files)
    freed = max(0, min(size, planned) - sum(file.bytes for file, _ in undeleted))
    due = [d.due_at for _, d in undeleted if d and d.state is DepartureState.FAILSAFE]
    is_waiting = bool(undeleted) and len(due) == len(undeleted)
    return DroppedBytes(freed, size - freed, max(due) if is_waiting and freed < size else None)


def _added(former: DroppedBytes, more: DroppedBytes) -> DroppedBytes:
    due = None
    with_bytes = [part for part in (former, more) if part.on_disk]
    if all(part.due for part in with_bytes):
        due = max((part.due for part in with_bytes if part.due), default=None)
    return DroppedBytes(former.freed + more.freed, former.on_disk + more.on_disk, due)
