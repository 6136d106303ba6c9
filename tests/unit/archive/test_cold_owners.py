"""A table in cold belongs to one installation: a copied lake is refused there, its original not."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.workers import LocalCrew
from meltline.app.archive.cold_adoption import adopt_cold
from meltline.app.archive.cold_status import remember_copies
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.proofs import ColdSide
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.restore.tiers import locate_anywhere
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.safety.epochs import raise_epoch
from meltline.app.safety.switches import arm
from meltline.domain.archive.cold_owner import INSTALLATION
from meltline.domain.errors import LedgerOutOfStep, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import Moment, PointSide, TravelPoint
from meltline.ports import HandedOver, HandoffRequest
from tests.chunks.chunk_tables import day_name, reading
from tests.chunks.chunked_lake import ChunkedLake
from tests.doubles.chunks import complete_rows_of
from tests.lake.lake import COLD_WAREHOUSE, DAY, T0, Lake, Table
from tests.lives.restored_ledgers import backup_of, restore
from tests.lives.second_lakes import lose_ledger, second_lake, see_cold_of, with_ledger_of
from tests.unit.chunks.tiers import DAYS, Tiers

ROWS = [*range(2 * DAYS)]
REFUSED = "belongs to another installation"


def tiers_of(lake: ChunkedLake) -> Tiers:
    """A synced lake that was made elsewhere."""
    tiers = object.__new__(Tiers)
    tiers.lake = lake
    return tiers


def copied(first: Tiers) -> Tiers:
    """A second lake from a copy of the first, whose new ledger somebody has adopted."""
    lake = second_lake(first.lake)
    lake.uuid = first.lake.uuid
    init(lake.services(), adopt=True)
    return tiers_of(lake)


def copied_whole(first: Tiers) -> Tiers:
    """A second lake from a copy of the first and of its ledger."""
    lake = with_ledger_of(second_lake(first.lake), first.lake)
    lake.uuid = first.lake.uuid
    return tiers_of(lake)


def installation(tiers: Tiers) -> str:
    return ColdOwner.of(tiers.lake.services()).installation.id


def viewed(tiers: Tiers) -> list[int]:
    """The ids of all rows of hot and cold, as a reader finds them."""
    read = complete_rows(tiers.lake.services(), tiers.hot.name).read
    rows = complete_rows_of(read, tiers.lake.store)
    return sorted(Counter(dict(row)[1] for row in rows).elements())


def unmark(tiers: Tiers) -> None:
    """Cold as whoever has removed the mark leaves it."""
    (entry,) = tiers.lake.cold.listing().entries
    tiers.lake.cold.set_table_properties(entry.name, {}, [INSTALLATION])


def mark(tiers: Tiers) -> str:
    (entry,) = tiers.lake.cold.listing().entries
    document = json.loads(tiers.lake.store.read(entry.metadata_location))
    return str(document["properties"].get(INSTALLATION, ""))


# --- synced tables: scenario S1 ---


def test_a_second_lake_cannot_sync_into_the_cold_of_the_first() -> None:
    first = Tiers()
    second = copied(first)
    first.add_policy()
    assert first.run("drops")[day_name(0)] == "dropped"
    see_cold_of(second.lake, first.lake)
    with pytest.raises(LedgerOutOfStep, match=REFUSED) as refused:
        start_sync(second.lake.services(), second.hot.name)
    assert installation(first) in refused.value.found
    assert installation(second) in refused.value.expected
    assert f"cold adopt --installation {installation(first)}" in refused.value.next
    see_cold_of(first.lake, second.lake)
    assert viewed(first) == ROWS == first.ids()
    assert first.replicate().error is None


def test_passes_views_and_drops_of_an_adopted_copy_are_refused() -> None:
    first = Tiers()
    first.add_policy()
    ledger = backup_of(first.lake)
    arm(first.lake.services(), "lake", "after the dump of the ledger")
    second = tiers_of(second_lake(first.lake))
    second.lake.uuid = first.lake.uuid
    restore(second.lake, ledger)
    assert init(second.lake.services(), adopt=True).adopted
    assert second.replicate().error is not None
    with pytest.raises(LedgerOutOfStep, match=REFUSED) as refused:
        start_sync(second.lake.services(), second.hot.name)
    assert installation(first) in refused.value.found
    assert installation(second) in refused.value.expected
    with pytest.raises(LedgerOutOfStep, match=REFUSED):
        viewed(second)
    (table,) = chunked_tables(second.lake.services())
    assert table.sync is not None
    with pytest.raises(LedgerOutOfStep, match=REFUSED):
        ColdSide.read(second.lake.services(), table.sync, None)


def test_a_copy_with_its_ledger_is_refused_once_its_original_has_dropped() -> None:
    first = Tiers()
    first.add_policy()
    second = copied_whole(first)
    first.run("drops")
    see_cold_of(second.lake, first.lake)
    second.hot.append_rows(reading(90, 5))
    refused = second.replicate().error
    assert isinstance(refused, LedgerOutOfStep) and "a copy of this" in refused.message
    see_cold_of(first.lake, second.lake)
    assert first.replicate().error is None and viewed(first) == ROWS


def test_a_copy_with_its_ledger_is_refused_once_its_original_has_copied_in_a_later_epoch() -> None:
    first = Tiers()
    second = copied_whole(first)
    raise_epoch(first.lake.services(), "a decision")
    first.hot.append_rows(reading(90, 5))
    assert first.replicate().error is None
    see_cold_of(second.lake, first.lake)
    second.hot.append_rows(reading(91, 5))
    refused = second.replicate().error
    assert isinstance(refused, LedgerOutOfStep) and "a copy of this" in refused.message


def test_a_second_lake_may_sync_to_a_name_of_its_own() -> None:
    first = Tiers()
    second = copied(first)
    start_sync(second.lake.services(), second.hot.name, "rows.of_the_copy")
    assert second.replicate().error is None
    assert viewed(second) == ROWS


def test_a_lake_that_lost_its_ledger_takes_its_cold_over_by_a_persons_word() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("drops")
    former = installation(tiers)
    lose_ledger(tiers.lake)
    init(tiers.lake.services(), adopt=True)
    with pytest.raises(LedgerOutOfStep, match=REFUSED) as refused:
        start_sync(tiers.lake.services(), tiers.hot.name)
    assert former in refused.value.found
    adopt_cold(tiers.lake.services(), former, "the ledger's disk is gone")
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate().error is None
    assert viewed(tiers) == ROWS == tiers.ids()


def test_an_installation_whose_cold_was_taken_over_is_refused() -> None:
    first = Tiers()
    second = copied(first)
    adopt_cold(second.lake.services(), installation(first), "moved")
    see_cold_of(first.lake, second.lake)
    refused = first.replicate().error
    assert isinstance(refused, LedgerOutOfStep) and installation(second) in refused.found


@pytest.mark.parametrize(("id", "reason"), [("0123abcd", "moved"), ("", "moved"), (None, " ")])
def test_cold_is_not_taken_over_without_the_right_id_and_a_reason(
    id: str | None, reason: str
) -> None:
    first = Tiers()
    second = copied(first)
    before = mark(second)
    with pytest.raises(UsageInvalid):
        adopt_cold(second.lake.services(), installation(first) if id is None else id, reason)
    assert mark(second) == before


# --- tables without a mark ---


def test_a_table_without_a_mark_is_refused_until_a_person_adopts_it() -> None:
    tiers = Tiers()
    unmark(tiers)
    with pytest.raises(LedgerOutOfStep, match=REFUSED):
        start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate().error is not None
    adopt_cold(tiers.lake.services(), "unknown", "an engine has removed the mark")
    assert mark(tiers).startswith(installation(tiers))
    assert tiers.replicate().error is None
    assert viewed(tiers) == ROWS


# --- archives: scenario S2 ---


def history(days: int = 12) -> Lake:
    """A table that is overwritten each day, all of whose history is wanted in cold."""
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    overwritten(lake, table, range(days))
    return lake


def overwritten(lake: Lake, table: Table, days: range) -> None:
    for day in days:
        lake.on(day)
        table.overwrite(f"t{day}")
    lake.on(days.stop)


def of(lake: Lake) -> Table:
    return Table(lake, TableName.parse("lake.air.t"))


def staged(first: Lake) -> Lake:
    """A second lake from a copy of the first; its ledger is adopted, its catalog armed."""
    lake = second_lake(first)
    init(lake.services(), adopt=True)
    lake._arm()
    return lake


def answers(lake: Lake, days: int) -> list[int | None]:
    """The snapshots with which time travel answers for each day."""
    points = [TravelPoint(PointSide.AT, Moment(T0 + day * DAY)) for day in range(days)]
    services, name = lake.services(), of(lake).name
    located = [locate_anywhere(services, name, point, allow_cold=True) for point in points]
    return [answer.resolved.snapshot_id for answer in located]


def test_the_archive_of_a_lake_takes_no_history_of_a_second_one() -> None:
    first = history()
    written = list(of(first).snapshots)
    second = staged(first)
    assert first.run().exit_code == 0
    see_cold_of(second, first)
    overwritten(second, of(second), range(12, 20))
    before = set(of(second).snapshots)
    (line,) = [t for t in second.run().as_json()["tables"] if t["table"] == "lake.air.t"]
    assert REFUSED in line["skipped"] and "cold adopt --installation" in line["skipped"]
    assert set(of(second).snapshots) == before
    see_cold_of(first, second)
    assert answers(first, 4) == written[:4]
    assert any(f.code == "cold_of_another_installation" for f in examine(second.services()))


def test_an_archive_that_a_second_lake_has_begun_answers_nothing_for_the_first() -> None:
    first = history()
    second = staged(first)
    assert second.run().exit_code == 0
    before = set(of(first).snapshots)
    see_cold_of(first, second)
    first.run()
    assert set(of(first).snapshots) == before
    overwritten(first, of(first), range(12, 20))
    with pytest.raises(LedgerOutOfStep, match=REFUSED):
        locate_anywhere(
            first.services(),
            of(first).name,
            TravelPoint(PointSide.AT, Moment(T0 - DAY)),
            allow_cold=True,
        )


class Overtaken(ColdArchive):
    """An archive of which another installation marks every table before ours writes it."""

    def __init__(self, lake: Lake) -> None:
        stores = Stores(lake.store, lake.store, COLD_WAREHOUSE)
        super().__init__(stores, lake.cold, LocalCrew, lake.control.copies, lake.clock)
        self.lake = lake

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        for entry in self.lake.cold.listing().entries:
            stated = "0123abcd 9 0123abcdef 2026-01-01T00:00:00Z somebody: a run"
            self.lake.cold.set_table_properties(entry.name, {INSTALLATION: stated})
        yield from super().hand_off(requests, may_go_on)


def test_nothing_is_written_to_an_archive_that_another_installation_has_taken_meanwhile() -> None:
    lake = history()
    lake.run()
    overwritten(lake, of(lake), range(12, 20))
    before = set(of(lake).snapshots)
    lake.run(services=lake.services(archive=Overtaken(lake)))
    assert set(of(lake).snapshots) == before


def test_an_archive_without_a_mark_goes_on_once_a_person_adopts_it() -> None:
    lake = history()
    lake.run()
    (entry,) = lake.cold.listing().entries
    lake.cold.set_table_properties(entry.name, {}, [INSTALLATION])
    overwritten(lake, of(lake), range(12, 20))
    before = set(of(lake).snapshots)
    lake.run()
    assert set(of(lake).snapshots) == before
    adopt_cold(lake.services(), "unknown", "an engine has removed the mark")
    assert lake.run().exit_code == 0
    (entry,) = lake.cold.listing().entries
    stated = lake.document(entry.metadata_location)["properties"][INSTALLATION]
    assert stated.startswith(ColdOwner.of(lake.services()).installation.id)


def test_a_lake_that_lost_its_ledger_takes_its_archive_over_by_a_persons_word() -> None:
    lake = history()
    written = list(of(lake).snapshots)
    lake.run()
    former = ColdOwner.of(lake.services()).installation.id
    lose_ledger(lake)
    init(lake.services(), adopt=True)
    lake._arm()
    assert remember_copies(lake.services()) == 0 and lake.control.archived.all() == []
    adopt_cold(lake.services(), former, "the ledger's disk is gone")
    assert len(lake.control.archived.all()) == len(written) - len(of(lake).snapshots)
    overwritten(lake, of(lake), range(12, 20))
    assert lake.run().exit_code == 0
    assert answers(lake, 12) == written
    assert not [f for f in examine(lake.services()) if f.code.startswith("cold")]
