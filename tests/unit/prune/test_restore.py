"""Restoring an archived snapshot: a hot table with files of its own, or nothing at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_reader import StoreCopyReader
from meltline.adapters.archive.retrieval import ColdRetriever
from meltline.adapters.archive.workers import LocalCrew
from meltline.app.restore.restore import Restored, restore, take_in
from meltline.app.services import Retrieval
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.archive.restored import Retrieved
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    NameConflict,
    NamespaceNotFound,
    OutsideRetention,
    SnapshotNotFound,
    StoreRefused,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import NewTable
from meltline.ports.retrieval import Retriever
from tests.lake.lake import DAY, T0, WAREHOUSE, Lake, Table
from tests.unit.archive.test_cold_past import COLD_WAREHOUSE, NAME, handed_over, services

TARGET = "lake.air.back"


def retrieval(lake: Lake, retriever: Retriever | None = None) -> Callable[[], Retrieval]:
    stores = Stores(lake.store, lake.store, "file:///unused")
    reader = StoreCopyReader(lake.store, lake.store)
    return lambda: Retrieval(retriever or ColdRetriever(stores, LocalCrew), reader)


def bring_back(
    lake: Lake, target: str = TARGET, retriever: Retriever | None = None, **point: Any
) -> Restored:
    point = point or {"snapshot_id": lake.control.archived.all()[1].snapshot_id}
    return restore(services(lake), retrieval(lake, retriever), target, NAME, **point)


def started() -> Retrieval:
    raise AssertionError("a JVM was started for nothing")


def hot_files(lake: Lake) -> set[str]:
    return lake.paths(WAREHOUSE)


def names(path: str) -> str:
    return path.rpartition("/")[2]


def test_a_restored_table_has_the_files_of_the_snapshot_as_its_own() -> None:
    lake, table = handed_over()
    cold = {stored.path: stored.bytes for stored in lake.store.list(COLD_WAREHOUSE)}
    second = lake.control.archived.all()[1]
    done = bring_back(lake)
    back = Table(lake, TableName.parse(TARGET))
    assert back.snapshots == [second.snapshot_id] and back.uuid == done.uuid != table.uuid
    needed = set(lake._named_by(lake.catalogs["lake"].location(back.name)))
    assert {names(path) for path in needed if path.endswith(".parquet")} == {"t1.parquet"}
    assert needed and all(path.startswith(f"{done.location}/") for path in needed)
    assert done.location.startswith(WAREHOUSE) and needed <= hot_files(lake)
    assert (done.rows, done.valid_from, done.valid_to) == (second.rows, T0 + DAY, T0 + 2 * DAY)
    assert {stored.path: stored.bytes for stored in lake.store.list(COLD_WAREHOUSE)} == cold
    (entry,) = [e for e in lake.control.audit.entries() if e.action == "restore"]
    assert entry.object == TARGET and str(second.snapshot_id) in entry.detail


def test_a_restore_says_why_in_the_audit() -> None:
    # PX-13
    lake, _ = handed_over()
    bring_back(lake, snapshot_id=lake.control.archived.all()[0].snapshot_id, reason="an audit")
    (entry,) = [e for e in lake.control.audit.entries() if e.action == "restore"]
    assert (entry.who, entry.reason) == ("tester", "an audit")


def test_a_restored_table_is_written_to_and_expired_like_any_other() -> None:
    lake, _ = handed_over()
    bring_back(lake)
    back = Table(lake, TableName.parse(TARGET))
    document = back.document
    assert "gc.enabled" not in document["properties"]
    assert not any(
        k.startswith(("meltline.archived", "meltline.cold")) for k in document["properties"]
    )
    first = back.head
    lake.manifests[back.manifest_list(first)] = ()  # the engine of these tests did not write it
    back.overwrite("new")
    lake.on(13).run(services=services(lake))
    lake.on(40).run(services=services(lake))
    assert first not in back.snapshots


def test_what_was_current_at_a_time_is_restored_and_a_gap_is_refused() -> None:
    lake, _ = handed_over()
    first = lake.control.archived.all()[0]
    assert bring_back(lake, at=T0 + 0.5 * DAY).snapshot_id == first.snapshot_id
    with pytest.raises(OutsideRetention, match="cold does not have"):
        bring_back(lake, "lake.air.other", at=T0 - DAY)


def test_a_dry_run_checks_all_and_starts_and_writes_nothing() -> None:
    lake, _ = handed_over()
    before = hot_files(lake)
    second = lake.control.archived.all()[1]
    done = restore(
        services(lake), started, TARGET, NAME, snapshot_id=second.snapshot_id, dry_run=True
    )
    assert (done.snapshot_id, done.uuid) == (second.snapshot_id, "")
    assert hot_files(lake) == before
    assert "restore" not in {entry.action for entry in lake.control.audit.entries()}


def test_what_cannot_be_is_refused_before_anything_is_started() -> None:
    lake, table = handed_over()
    second = lake.control.archived.all()[1].snapshot_id
    refusals: list[tuple[str, dict[str, Any], type[Exception]]] = [
        (str(NAME), {"snapshot_id": second}, NameConflict),
        ("lake.nowhere.t", {"snapshot_id": second}, NamespaceNotFound),
        ("ice.air.x", {"snapshot_id": second}, CatalogReadOnly),
        (TARGET, {"snapshot_id": table.head}, SnapshotNotFound),
        (TARGET, {"snapshot_id": second, "at": T0}, UsageInvalid),
        (TARGET, {}, UsageInvalid),
    ]
    for target, point, error in refusals:
        with pytest.raises(error):
            restore(services(lake), started, target, NAME, **point)


def test_where_the_hot_warehouse_is_not_known_nothing_is_put_into_cold() -> None:
    lake, _ = handed_over()
    ports = services(lake)
    catalogs = dict(ports.config.catalogs)
    catalogs["lake"] = replace(catalogs["lake"], warehouse="")
    unknown = replace(ports, config=replace(ports.config, catalogs=catalogs))
    second = lake.control.archived.all()[1].snapshot_id
    with pytest.raises(UsageInvalid, match="no place of its own"):
        restore(unknown, started, TARGET, NAME, snapshot_id=second)


def damaged(lake: Lake) -> str:
    """A data file of cold that is needed by the second copy alone."""
    (path,) = [p for p in lake.paths(COLD_WAREHOUSE) if names(p) == "t1.parquet"]
    return path


@pytest.mark.parametrize("harm", ["gone", "longer"])
def test_where_a_file_of_cold_is_not_what_it_was_nothing_is_left(harm: str) -> None:
    lake, _ = handed_over()
    path, before = damaged(lake), hot_files(lake)
    if harm == "gone":
        lake.store.delete([path])
    else:
        lake.store.write(path, lake.store.read(path) + b"!")
    with pytest.raises(StoreRefused, match="cannot be restored"):
        bring_back(lake)
    assert hot_files(lake) == before
    assert TARGET not in {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}


@dataclass
class Careless:
    """Copies, and then loses one of the copies, or another snapshot's list comes out."""

    lake: Lake
    other: int | None = None

    def bring_back(self, cold: TableMetadata, snapshot_id: int, folder: str) -> Retrieved:
        stores = Stores(self.lake.store, self.lake.store, folder)
        done = ColdRetriever(stores, LocalCrew).bring_back(cold, self.other or snapshot_id, folder)
        if self.other is None:
            lost = [p for p in self.lake.paths(folder) if p.endswith(".parquet")]
            self.lake.store.delete(lost)
        return done


@pytest.mark.parametrize("other", [False, True], ids=["lost a file", "took another snapshot"])
def test_nothing_is_registered_that_does_not_agree_with_cold(other: bool) -> None:
    lake, _ = handed_over()
    third = lake.control.archived.all()[2].snapshot_id
    before = hot_files(lake)
    with pytest.raises(StoreRefused, match="cannot be restored"):
        bring_back(lake, retriever=Careless(lake, third if other else None))
    assert hot_files(lake) == before


def test_where_nobody_knows_whether_it_was_registered_its_files_stay() -> None:
    lake, _ = handed_over()
    before = hot_files(lake)
    catalog = lake.catalogs["lake"]
    create = catalog.create

    class Silent:
        """Registers, and does not say so."""

        def __getattr__(self, name: str) -> Any:
            return getattr(catalog, name)

        def create(self, tables: list[NewTable]) -> Mapping[TableName, str]:
            create(tables)
            raise CommitConflict("nobody knows")

    ports = services(lake, catalogs={**lake.catalogs, "lake": Silent()})
    second = lake.control.archived.all()[1].snapshot_id
    with pytest.raises(CommitConflict):
        restore(ports, retrieval(lake), TARGET, NAME, snapshot_id=second)
    assert hot_files(lake) > before
    lake.check_nothing_is_missing()


def test_a_restored_table_is_in_the_storage_report_at_once() -> None:
    # I-3
    lake, _ = handed_over()
    done = bring_back(lake)
    assert take_in(services(lake), done.table) == ""
    (row,) = [r for r in storage_rows(totals_now(services(lake))) if r.table == done.table]
    on_disk = sum(stored.bytes for stored in lake.store.list(done.location))
    assert row.active_bytes == on_disk and not row.historical_bytes


def test_a_restore_stands_where_the_ledger_cannot_take_it_in() -> None:
    lake, _ = handed_over()
    done = bring_back(lake)
    lake.spoil(Table(lake, done.table).metadata_location)
    assert take_in(services(lake), done.table)
