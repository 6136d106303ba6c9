"""Bytes of dropped chunks: on disk until the file ledger says that a purge has deleted them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from meltline.app.chunks.policies import PolicyWish
from meltline.app.chunks.reading.status import DroppedBytes, dropped_bytes, tiering_status
from meltline.domain.errors import CatalogUnlistable
from meltline.domain.iceberg.files import Departure, FileKind, PlannedFile
from meltline.ports import DropSum
from tests.doubles.files import MemoryLedgerReader
from tests.unit.chunks.status.lake_of_days import DROPS, LakeOfDays

FAILSAFE_ENDS = datetime(2026, 1, 26, tzinfo=UTC)
OLDEST_THREE = replace(DROPS, keep_latest=3)


@dataclass
class DroppedDays(LakeOfDays):
    """Three days are dropped on day 10, and no other ever is."""

    wish: PolicyWish = OLDEST_THREE

    def __post_init__(self) -> None:
        super().__post_init__()
        self.night(10)

    @property
    def size(self) -> int:
        chunks = self.lake.control.chunks.of(self.table.uuid).values()
        return sum(chunk.dropped_bytes for chunk in chunks)

    @property
    def sums(self) -> list[DropSum]:
        return list(self.lake.control.chunks.drop_sums())

    def told(self, sums: list[DropSum] | None = None) -> DroppedBytes:
        given = self.sums if sums is None else sums
        return dropped_bytes(self.lake.services().reader, given)[self.table.uuid]


def test_dropped_bytes_are_freed_by_the_purge_and_not_before() -> None:
    days = DroppedDays()
    assert days.size > 0 and days.told() == DroppedBytes(0, days.size)  # time travel reads them
    days.night(18)
    assert days.told() == DroppedBytes(0, days.size, FAILSAFE_ENDS)
    days.night(24.9)
    assert days.told() == DroppedBytes(0, days.size, FAILSAFE_ENDS)
    days.night(25.1)
    assert days.told() == DroppedBytes(days.size, 0)
    line = days.status()
    assert (line.reclaimed_bytes, line.on_disk_bytes, line.on_disk_until) == (days.size, 0, None)


def test_bytes_that_a_tag_keeps_are_on_disk_however_much_time_is_over() -> None:
    days = LakeOfDays(wish=OLDEST_THREE)
    days.table.tag("q1", days.table.head)
    days.night(10)
    for day in (18, 26, 34, 42):
        days.night(day)
    line = days.status()
    assert line.reclaimed_bytes == 0 and line.on_disk_bytes > 0 and line.on_disk_until is None


def test_bytes_of_a_drop_that_no_stored_plan_has_are_on_disk() -> None:
    days = DroppedDays()
    for day in (18, 26.1):
        days.night(day)
    nameless = [replace(drop, plan="") for drop in days.sums]
    assert days.told(nameless) == DroppedBytes(0, days.size)
    lost = [replace(drop, plan="d-lost") for drop in days.sums]
    assert days.told(lost) == DroppedBytes(0, days.size)
    assert days.told([*days.sums, *lost]) == DroppedBytes(days.size, days.size)


class OneIsLeft(MemoryLedgerReader):
    """A file ledger in which one file of a drop has not departed."""

    def departures(
        self, kinds: Collection[FileKind] | None = None, *paths: str
    ) -> Sequence[Departure]:
        return [d for d in super().departures(kinds, *paths) if d.path != max(paths)]


def test_files_that_were_deleted_for_another_chunk_of_the_plan_make_no_bytes_free() -> None:
    """A plan names files of all its chunks, and a rollback may bring back one of these."""
    days = DroppedDays()
    days.night(18)
    reader = OneIsLeft(days.lake.file_tables)
    in_history = DroppedBytes(0, days.size)  # the one has no date
    assert dropped_bytes(reader, days.sums)[days.table.uuid] == in_history
    days.night(26)
    third = [replace(drop, bytes=days.size // 3) for drop in days.sums]
    assert dropped_bytes(reader, third)[days.table.uuid] == DroppedBytes(0, days.size // 3)
    whole = DroppedBytes(days.size * 2 // 3, days.size // 3)
    assert dropped_bytes(reader, days.sums)[days.table.uuid] == whole


class SilentReader(MemoryLedgerReader):
    """A file ledger whose catalog does not answer."""

    def items(self, *plan_ids: str) -> Mapping[str, Sequence[PlannedFile]]:
        raise CatalogUnlistable(
            "the catalog is down", object="lake", expected="it", found="no", next=""
        )


def test_where_the_file_ledger_cannot_be_read_all_is_on_disk() -> None:
    days = DroppedDays()
    for day in (18, 26.1):
        days.night(day)
    services = replace(days.lake.services(), reader=SilentReader(days.lake.file_tables))
    (line,) = tiering_status(services)
    assert (line.reclaimed_bytes, line.on_disk_bytes) == (0, days.size)
