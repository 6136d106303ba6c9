"""Consumers on real tables: stock Spark reads on from where one stands, whatever has expired."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from meltline.app.retention.consumers import find_consumers, set_consumer
from meltline.domain.iceberg.names import TableName
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

ACCOUNT = """
account: {profile: lakehouse, retention-days: 1, failsafe-days: 0, reader-grace: 0s}
limits: {max-delete-ratio: 1, max-growth: 1000}
"""
STARTS = tuple(range(0, 1000, 100))


def read_on(w: Warehouse, table: str, after: int, to: int | None = None) -> set[int]:
    """What was appended since a snapshot, as Iceberg's incremental read tells it."""
    reader = w.spark.read.format("iceberg").option("start-snapshot-id", after)
    if to is not None:
        reader = reader.option("end-snapshot-id", to)
    frame: DataFrame = reader.load(f"{w.catalog}.{SPACE}.{table}")
    return {row["id"] for row in frame.collect()}


def rows(*starts: int) -> set[int]:
    return {start + number for start in starts for number in range(4)}


def stand(w: Warehouse, table: str, snapshot: int, now: timedelta, keep: timedelta) -> None:
    name = TableName(w.catalog, (SPACE,), table)
    set_consumer(w.services(TODAY + now), name, "billing", snapshot, expires_after=keep)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.slow("a streaming reader over many commits")
def test_spark_reads_on_from_where_a_consumer_stands_whatever_has_expired(
    tmp_path: Path, version: int
) -> None:
    w = Warehouse.empty(tmp_path, f"reading{version}", ACCOUNT)
    w.init()
    for table in ("followed", "nobodys"):
        w.create(table, version=version)
        w.append(table, *STARTS)
        w.stage(table, 40 * DAY, 10 * DAY)
    every, others = w.snapshots("followed"), w.snapshots("nobodys")
    stand(w, "followed", every[3], timedelta(0), 5 * DAY)

    assert w.run().exit_code == 0
    assert w.snapshots("followed") == every[3:]
    assert read_on(w, "followed", every[3]) == rows(*STARTS[4:])
    assert read_on(w, "followed", every[3], every[5]) == rows(*STARTS[4:6])
    with pytest.raises(Exception, match=str(others[3])):
        read_on(w, "nobodys", others[3])

    stand(w, "followed", every[5], DAY, 5 * DAY)
    w.append("followed", 5000)
    assert w.run(TODAY + DAY).exit_code == 0
    assert w.snapshots("followed")[:-1] == every[5:]
    assert read_on(w, "followed", every[5]) == rows(*STARTS[6:], 5000)

    assert w.run(TODAY + 7 * DAY).exit_code == 0
    assert not find_consumers(w.services(TODAY + 7 * DAY)).consumers
    assert every[5] not in w.snapshots("followed") and w.document("followed")["refs"].keys() == {
        "main"
    }
    assert not w.reachable() - w.disk().keys()


def test_stock_iceberg_sees_a_consumers_tag_and_lets_it_go_at_its_end(tmp_path: Path) -> None:
    """Its own expiration spares the snapshot while the consumer lasts, and no longer."""
    w = Warehouse.empty(tmp_path, "stock", ACCOUNT)
    w.init()
    w.create("followed")
    w.append("followed", *STARTS)
    w.stage("followed", 40 * DAY, 10 * DAY)
    every = w.snapshots("followed")
    stand(w, "followed", every[3], timedelta(0), 5 * DAY)
    refs = w.spark.sql(f"SELECT * FROM {w.name('followed')}.refs WHERE type = 'TAG'")
    (tag,) = refs.collect()
    assert (tag["name"], tag["snapshot_id"]) == ("consumer__billing", every[3])
    expire = "CALL expire_snapshots(table => 'n.followed', older_than => now(), retain_last => 1)"
    w.sql(expire)
    assert w.snapshots("followed") == [every[3], every[-1]]
    stand(w, "followed", every[3], -6 * DAY, DAY)  # as if it had moved six days ago
    w.sql(expire)
    assert w.snapshots("followed") == [every[-1]]
