"""The contract of catalogs on a Hive metastore, with locks and without."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes as hive

from meltline.adapters.catalogs.catalogs import open_catalog
from meltline.adapters.catalogs.metastores.hive import HiveRows
from meltline.adapters.catalogs.metastores.hive_databases import HiveConnections
from meltline.adapters.catalogs.metastores.rows import LOCATION
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import CatalogReadOnly, CatalogUnlistable, TableNotFound
from meltline.ports import Catalog
from tests.contract.catalogs import test_catalog, test_registrations
from tests.contract.catalogs.test_catalog import NAME, START, Shop, store
from tests.doubles.store import MemoryStore
from tests.stacks.hive.metastore import metastore
from tests.stacks.suites import contract_of

__all__ = ["store"]

globals().update(contract_of(test_catalog, test_registrations))

LOCKS = "hadoop.iceberg.engine.hive.lock-enabled"


@pytest.fixture(scope="module", params=[True, False], ids=["locks", "no locks"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, bool]]:
    with metastore(tmp_path_factory.mktemp("hive"), locks=request.param) as uri:
        yield uri, request.param


def config_of(server: tuple[str, bool], observe_only: bool = False) -> CatalogConfig:
    uri, locks = server
    properties = {LOCKS: str(locks).lower()}
    return CatalogConfig("lake", "hive", uri, "", "", observe_only, properties)


@pytest.fixture
def shop(server: tuple[str, bool], store: MemoryStore, tmp_path: Path) -> Iterator[Shop]:
    def open_handle(observe_only: bool) -> Catalog:
        config = replace(config_of(server, observe_only), warehouse=f"file://{tmp_path}")
        return open_catalog(config, store)

    connections = HiveConnections({"uri": server[0]})
    with connections.open() as client:
        place = f"file://{tmp_path}/air.db"
        client.create_database(hive.Database(name="air", locationUri=place, parameters={}))
    handle = open_handle(False)
    assert isinstance(handle, MetastoreTables)
    handle.register(NAME, START)
    yield Shop(open_handle, store)
    with connections.open() as client:
        for database in client.get_all_databases():
            for table in client.get_all_tables(database):
                client.drop_table(database, table, False)
            if database != "default":
                client.drop_database(database, False, False)


def entity(server: tuple[str, bool]) -> Any:
    with HiveConnections({"uri": server[0]}).open() as client:
        return client.get_table("air", "t")


def test_what_others_wrote_into_the_row_stays_and_what_it_repeats_follows(
    shop: Shop, server: tuple[str, bool]
) -> None:
    with HiveConnections({"uri": server[0]}).open() as client:
        table = client.get_table("air", "t")
        table.parameters |= {"theirs": "x", "owner": "me", "snapshot-count": "9"}
        client.alter_table("air", "t", table)
    shop.catalog.set_table_properties(NAME, {"owner": "you", "k": "v"})
    parameters = entity(server).parameters
    assert (parameters["theirs"], parameters["owner"]) == ("x", "you")
    assert parameters["snapshot-count"] == "1" and "k" not in parameters
    assert parameters["previous_metadata_location"] == START


def test_a_row_that_changed_after_it_was_read_is_not_overwritten(
    shop: Shop, server: tuple[str, bool]
) -> None:
    rows = HiveRows("lake", HiveConnections({"uri": server[0]}), locks=server[1])
    row = rows.row("air", "t")
    assert row is not None
    shop.set("theirs")
    assert not rows.replace(row, {**row.parameters, "metadata_location": "file:///w/mine.json"})
    assert shop.document()["properties"]["theirs"] == "v"


def test_who_wants_locks_where_there_are_none_manages_nothing_and_is_told(
    shop: Shop, server: tuple[str, bool], store: MemoryStore
) -> None:
    config = replace(config_of(server), properties={})
    catalog = open_catalog(config, store)
    if server[1]:
        assert catalog.hindrance == ""
        return
    assert LOCKS in catalog.hindrance
    with pytest.raises(CatalogReadOnly, match="safely"):
        catalog.set_table_properties(NAME, {"k": "v"})


def test_a_table_under_somebody_elses_lock_is_not_changed(
    shop: Shop, server: tuple[str, bool]
) -> None:
    if not server[1]:
        return
    connections = HiveConnections({"uri": server[0]})
    rows = HiveRows("lake", connections, lock_wait=0.3)
    row = rows.row("air", "t")
    assert row is not None
    lock = hive.LockComponent(
        type=hive.LockType.EXCLUSIVE, level=hive.LockLevel.TABLE, dbname="air", tablename="t"
    )
    lock.operationType = hive.DataOperationType.NO_TXN
    with HiveConnections({"uri": server[0]}).open() as client:
        held = client.lock(hive.LockRequest([lock], user="spark", hostname="h"))
        assert not rows.replace(row, {**row.parameters, "metadata_location": "mine"})
        client.unlock(hive.UnlockRequest(lockid=held.lockid))
    shop.catalog.set_table_properties(NAME, {"k": "v"})
    assert shop.document()["properties"]["k"] == "v"


def put(
    server: tuple[str, bool],
    name: str,
    kind: str,
    parameters: Mapping[str, str],
    folder: str | None = None,
    path: str | None = None,
) -> None:
    """A row that others made: a view, or a table of another format."""
    serde = hive.SerDeInfo(parameters={"path": path} if path else {})
    row = hive.Table(
        tableName=name,
        dbName="air",
        owner="ann",
        tableType=kind,
        parameters=dict(parameters),
        partitionKeys=[],
        sd=hive.StorageDescriptor([], folder, serdeInfo=serde),
    )
    if kind == "VIRTUAL_VIEW":
        row.viewOriginalText = row.viewExpandedText = "SELECT 1"
    with HiveConnections({"uri": server[0]}).open() as client:
        client.create_table(row)


def test_views_and_tables_of_other_formats_are_named_with_the_folders_that_they_own(
    shop: Shop, server: tuple[str, bool], tmp_path: Path
) -> None:
    folder, provider = f"file:{tmp_path}", "spark.sql.sources.provider"  # as it answers
    put(server, "logs", "EXTERNAL_TABLE", {}, f"{folder}/logs")
    put(server, "delta", "EXTERNAL_TABLE", {provider: "delta"}, f"{folder}/-__PLACEHOLDER__",
        path=f"{folder}/delta")  # fmt: skip
    put(server, "v", "VIRTUAL_VIEW", {})
    put(server, "iv", "VIRTUAL_VIEW", {"table_type": "ICEBERG-VIEW", LOCATION: f"{folder}/iv.json"})
    owners = {owner.name.name: owner for owner in shop.catalog.other_owners()}
    assert {name: (o.kind, o.location, o.metadata_location) for name, o in owners.items()} == {
        "logs": ("table", f"{folder}/logs", ""),
        "delta": ("delta", f"{folder}/delta", ""),
        "v": ("view", "", ""),
        "iv": ("view", "", f"{folder}/iv.json"),
    }
    assert [entry.name for entry in shop.catalog.listing().entries] == [NAME]


def test_the_hidden_table_of_a_materialized_view_is_observed_and_never_changed(
    shop: Shop, server: tuple[str, bool]
) -> None:
    view, trino = replace(NAME, name="mv"), {"comment": "Presto Materialized View"}
    put(server, "mv", "VIRTUAL_VIEW", {**trino, LOCATION: START})
    put(server, "old", "VIRTUAL_VIEW", {**trino, "storage_schema": "air", "storage_table": "t"})
    listing = shop.catalog.listing()
    assert [entry.name for entry in listing.entries] == [view, NAME]
    assert listing.hidden == {view} and shop.catalog.location(view) == START
    (owner,) = shop.catalog.other_owners()
    assert (owner.name.name, owner.kind) == ("old", "materialized view")
    with pytest.raises(TableNotFound, match="is a view"):
        shop.catalog.set_table_properties(view, {"k": "v"})  # type: ignore[attr-defined]


def test_a_metastore_that_is_away_is_named(store: MemoryStore) -> None:
    config = CatalogConfig("lake", "hive", "thrift://127.0.0.1:1", "", "", False, {})
    with pytest.raises(CatalogUnlistable) as refused:
        open_catalog(config, store).listing()
    assert "nobody answers" in refused.value.found and "start it" in refused.value.next
