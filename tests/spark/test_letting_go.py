"""A dropped table whose time is up, on real Iceberg: its commits, its files, its registration."""

from datetime import timedelta

import pytest

from meltline.app.drop import drop
from meltline.app.undrop import undrop
from tests.spark.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

CATALOG = "letting"


def test_a_dropped_table_is_kept_then_let_go_to_the_last_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    config = "limits:\n  max-delete-ratio: 1.0\n"
    warehouse = Warehouse.empty(tmp_path_factory.mktemp("letting"), CATALOG, config)
    for table, version in (("t", 3), ("plain", 2), ("stays", 2)):
        warehouse.create(table, version=version)
        warehouse.overwrite(table, 0, 10)
    warehouse.init()
    assert warehouse.run(TODAY + timedelta(hours=1)).exit_code == 0
    at = TODAY + timedelta(hours=2)
    drop(warehouse.services(at), f"{CATALOG}.{SPACE}.t")
    warehouse.sql("DROP TABLE {plain}")
    gone = {path for path in warehouse.disk() if f"/{SPACE}/stays/" not in path}
    assert warehouse.run(at).exit_code == 0
    assert warehouse.run(at + 7 * DAY).exit_code == 0
    assert gone <= warehouse.disk().keys()
    done = undrop(warehouse.services(at + 7 * DAY), f"{CATALOG}.{SPACE}.plain")
    assert done.drop.noticed and done.tables[0].missing == ()
    assert len(warehouse.contents("plain")) == 2

    start = at + 7 * DAY + timedelta(hours=1)
    for days in (0, 8, 9, 17):
        assert warehouse.run(start + days * DAY).exit_code == 0
    assert warehouse.tables() == ["plain", "stays"]
    assert [path for path in warehouse.disk() if f"/{SPACE}/t/" in path] == []
    assert warehouse.reachable() <= warehouse.disk().keys()
    assert warehouse.sql("SELECT count(*) FROM {stays}")[0][0] == 4
