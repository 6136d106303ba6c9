"""A dropped table whose time is up, on real Iceberg: its commits, its files, its registration."""

from datetime import UTC, datetime, timedelta

import pytest

import meltline
from meltline.app.drop.drop import drop
from meltline.app.drop.finalize import process_drops
from meltline.app.drop.recover import recover
from meltline.app.drop.undrop import undrop
from meltline.app.observe.observe import observe
from meltline.domain.errors import OutsideRetention, RecoveryImpossible
from meltline.domain.units import format_instant
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

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


def test_with_no_retention_what_sql_dropped_comes_back_as_it_was_while_its_files_stand(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lake = Warehouse.empty(tmp_path_factory.mktemp("nothing"), "nothing")
    for table in ("ours", "plain"):
        lake.create(table, "meltline.retention-days=0")
        lake.overwrite(table, 0, 10)
    lake.create("stays")
    now = datetime.now(UTC)  # SQL goes by the machine's clock, and that may not be behind
    lake.init(now)
    assert lake.run(now).exit_code == 0
    before = {table: lake.contents(table)[lake.snapshots(table)[-1]] for table in lake.tables()[:2]}
    dropping = f"DROP TABLE nothing.{SPACE}.ours"
    ((said,),) = meltline.sql(lake.spark, dropping, config=lake.yaml).collect()
    assert "no undrop brings it back" in said and f"meltline recover nothing.{SPACE}.ours" in said
    lake.sql("DROP TABLE {plain}")
    services = lake.services(now + timedelta(hours=2))
    with pytest.raises(RecoveryImpossible, match="nobody knows the last state"):
        recover(services, f"nothing.{SPACE}.plain", f"nothing.{SPACE}.early", reason="needed")
    process_drops(services, observe(services), services.clock.now())
    for table, rows in before.items():
        name = f"nothing.{SPACE}.{table}"
        with pytest.raises(OutsideRetention, match="any more") as refused:
            undrop(services, name)
        assert f"`meltline recover {name}@" in refused.value.next
        done = recover(services, name, f"{name}_back", reason="needed")
        assert done.missing == ()
        (back,) = lake.contents(f"{table}_back").values()
        assert back == rows and len(rows) == 4
    lake.create("other", "meltline.retention-days=0")
    lake.overwrite("other", 0)
    for days in (1, 2, 9, 10):
        assert lake.run(now + days * DAY).exit_code == 0
        if days == 1:
            drop(lake.services(now + days * DAY), f"nothing.{SPACE}.other")
        if days == 2:  # its expiration is recorded: its list says until when
            with pytest.raises(OutsideRetention) as refused:
                undrop(lake.services(now + days * DAY), f"nothing.{SPACE}.other")
            until = format_instant(now + (days + 7) * DAY)
            assert refused.value.next.endswith(f"until {until} at least")
    for table, rows in before.items():
        assert lake.contents(f"{table}_back")[lake.snapshots(f"{table}_back")[0]] == rows
