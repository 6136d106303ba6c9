"""The file ledger read by PyIceberg: before `init`, and where a part of it is gone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from meltline.adapters.iceberg.ledger_reader import IcebergLedgerReader
from meltline.adapters.object_store import ObjectStores
from meltline.config import CatalogConfig
from meltline.domain.errors import SetupMissing
from meltline.domain.locations import OwnerIndex
from meltline.ports import Holdings, Weighing

NOTHING = Weighing(datetime(2026, 1, 1, tzinfo=UTC), OwnerIndex([]), {}, [])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    found = SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/lake")
    found.create_namespace("meltline")
    return found


def reader(folder: Path) -> IcebergLedgerReader:
    uri, lake = f"sqlite:///{folder}/catalog.db", f"file://{folder}/lake"
    config = CatalogConfig("lake", "sql", uri, lake, "lake", False, {})
    return IcebergLedgerReader(config, ObjectStores({}), "meltline")


def test_before_init_everything_is_empty(catalog: SqlCatalog, tmp_path: Path) -> None:
    assert catalog.list_tables("meltline") == []
    empty = reader(tmp_path)
    assert empty.weigh(NOTHING) == Holdings()
    assert not empty.snapshots() and not empty.side_files() and not empty.departures()
    assert list(empty.files()) == [] and empty.items("p-1") == []


def test_a_ledger_of_which_a_table_is_gone_does_not_say_that_nothing_is_stored(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    number = NestedField(1, "manifest_id", LongType(), required=False)
    for name in ("manifests", "departures"):
        catalog.create_table(("meltline", name), Schema(number))
    with pytest.raises(SetupMissing, match="entries"):
        reader(tmp_path).weigh(NOTHING)
