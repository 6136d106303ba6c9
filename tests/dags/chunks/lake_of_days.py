"""A warehouse with one synced table of days, made by Spark in a process of its own."""

import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue

from tests.dags.airflow_home import ROOT

TABLE = "lake.air.days"
OLD, YOUNG = (12, 11, 10), (1, 0)
"""Days before the lake's own today: past the drop age of six days, and not."""
_CONFIG = """
control: sqlite:///control.db
hot: lake
cold: cold
sandbox: true
catalogs:
  lake: {type: sql, uri: "sqlite:///catalog.db", warehouse: hot}
  cold: {type: sql, uri: "sqlite:///cold.db", warehouse: cold}
chunks: {max-drop-share: 1.0}
"""


def lake_of_days(folder: Path, today: date) -> Path:
    """Builds it in an empty folder, with two rows a day; returns the path of its meltline.yaml."""
    folder.mkdir(parents=True)
    config = folder / "meltline.yaml"
    config.write_text(_CONFIG)
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.dags.chunks.lake_of_days", str(config), str(today)],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,  # Spark leaves a folder where it runs
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return config


def day(today: date, ago: int) -> str:
    """A day as its chunk is called."""
    return str(today - timedelta(days=ago))


def days_of(config: Path, catalog: str, *name: str) -> list[str]:
    """The days of which a table has rows, one for each row, as any engine reads them."""
    database = {"lake": "catalog.db", "cold": "cold.db"}[catalog]
    opened = SqlCatalog(catalog, uri=f"sqlite:///{config.parent / database}")
    try:
        rows = opened.load_table(name).scan(AlwaysTrue(), ("ts",)).to_arrow()
        return sorted(f"{moment:%Y-%m-%d}" for moment in rows["ts"].to_pylist())
    finally:
        opened.close()


def _build(config_path: Path, today: date) -> None:
    from pyspark.sql import SparkSession

    from meltline.app.chunks.policies import PolicyWish, add_policy
    from meltline.app.chunks.replication.declare import start_sync
    from meltline.app.doctor.init import init
    from meltline.config.load import load_config
    from meltline.domain.chunks.policies import PolicyType
    from meltline.domain.iceberg.names import TableName
    from meltline.wiring import Wiring

    services = Wiring(load_config(config_path, os.environ, config_path.parent)).services("days")
    init(services, sandbox=True)
    spark = SparkSession.builder.getOrCreate()
    spark.sql("CREATE NAMESPACE lake.air")
    spark.sql(
        f"CREATE TABLE {TABLE} (id BIGINT, ts TIMESTAMP) USING iceberg PARTITIONED BY (days(ts))"
    )
    rows = [
        f"({ago}, TIMESTAMP '{day(today, ago)} 0{hour}:00:00')"
        for ago in OLD + YOUNG
        for hour in "12"
    ]
    spark.sql(f"INSERT INTO {TABLE} VALUES {', '.join(rows)}")
    name = TableName.parse(TABLE)
    start_sync(services, name)
    wish = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="3d", drop_after="6d")
    add_policy(services, name, wish)


if __name__ == "__main__":
    _build(Path(sys.argv[1]), date.fromisoformat(sys.argv[2]))
