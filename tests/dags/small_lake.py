"""A warehouse of two tiny tables with a staged past, made by Spark in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from demo.staging import local_path, read_head, stage_commit_times
from meltline.domain.units import from_millis
from tests.dags.airflow_home import ROOT

TABLES = ("t", "it's u")
COMMITS = 6
SECRET = "a-key-that-nobody-may-see"

# Nothing to wait for after the retention: what departs is purged the same night.
_CONFIG = """
control: {control}
hot: lake
sandbox: true
catalogs:
  lake:
    type: sql
    uri: sqlite:///catalog.db
    warehouse: {warehouse}
    s3.secret-access-key: {secret}
{archive}account:
  profile: lakehouse
  retention-days: {retention_days}
  failsafe-days: 0
  reader-grace: 0s
{cold}limits: {{max-delete-ratio: 1, max-growth: 1000, approve-above: {approve_above}}}
batches: {{files-per-app: {files_per_app}}}
"""


def today() -> datetime:
    """The midnight that the last interval ended at."""
    return datetime.combine(datetime.now(UTC).date(), time(), UTC)


def built_on(config: Path) -> datetime:
    """The midnight before which a lake's commits lie, also when another has come since."""
    head: dict[str, Any] = read_head(config.parent / "catalog.db", "lake", "air", TABLES[0])
    return from_millis(max(s["timestamp-ms"] for s in head["snapshots"])) + _LAST_BEFORE


_LAST_BEFORE = timedelta(days=5, hours=-1)
"""How long before that midnight the last commit was made; there is one a day."""
_ARCHIVE = """\
  archive:
    type: sql
    uri: sqlite:///archive.db
    warehouse: archive
"""


def small_lake(
    folder: Path,
    *,
    files_per_app: int = 1_000_000,
    retention_days: int = 1,
    cold: bool = False,
    approve_above: str = "1TiB",
    control: str = "sqlite:///control.db",
) -> Path:
    """Builds the warehouse in an empty folder and returns the path of its meltline.yaml.

    Each commit overwrites all rows of its table: every snapshot but the last is history.

    Args:
        files_per_app: One makes each table a batch of its own.
        cold: Whether all history goes to an archive before it expires.
        approve_above: Above how much a person must approve a purge.
        control: Where the control ledger is.
    """
    folder.mkdir(parents=True)
    warehouse = folder / "ware house"
    warehouse.mkdir()
    config = folder / "meltline.yaml"
    written = {"warehouse": f"file://{warehouse}", "secret": SECRET}
    settings = {
        "files_per_app": files_per_app,
        "retention_days": retention_days,
        "approve_above": approve_above,
        "control": control,
    }
    archive = {"archive": _ARCHIVE, "cold": "  cold: all\ncold: archive\n"} if cold else {}
    nothing = {"archive": "", "cold": ""}
    config.write_text(_CONFIG.format(**{**written, **settings, **nothing, **archive}))
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.dags.small_lake", str(config)],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,  # Spark leaves a folder where it runs
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return config


@dataclass(frozen=True)
class LakeState:
    """What is left of a lake, comparable with another lake's.

    Attributes:
        snapshots: The sequence numbers of each table's snapshots.
        data_files: How many data files lie in each table's folder.
    """

    snapshots: dict[str, list[int]]
    data_files: dict[str, int]

    @classmethod
    def of(cls, config: Path) -> "LakeState":
        """Looks at the catalog and the disk."""
        snapshots, files = {}, {}
        for table in TABLES:
            head: dict[str, Any] = read_head(config.parent / "catalog.db", "lake", "air", table)
            snapshots[table] = sorted(s["sequence-number"] for s in head["snapshots"])
            folder = local_path(head["location"])
            files[table] = sum(1 for _ in folder.glob("data/*.parquet"))
        return cls(snapshots, files)


def _build(config_path: Path) -> None:
    from pyspark.sql import SparkSession

    from meltline.app.doctor.init import init
    from meltline.config.load import load_config
    from meltline.wiring import Wiring

    config = load_config(config_path, os.environ, config_path.parent)
    init(Wiring(config).services("small lake"), sandbox=True)
    spark = SparkSession.builder.getOrCreate()
    spark.sql("CREATE NAMESPACE lake.air")
    last = today() - _LAST_BEFORE
    for table in TABLES:
        name = f"lake.air.`{table}`"
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
        for number in range(1, COMMITS + 1):
            spark.sql(f"INSERT OVERWRITE {name} SELECT {number} + id FROM range(0, 4, 1, 1)")
        database = config_path.parent / "catalog.db"
        head = read_head(database, "lake", "air", table)
        times = {
            s["snapshot-id"]: last - timedelta(days=COMMITS - s["sequence-number"])
            for s in head["snapshots"]
        }
        stage_commit_times(database, "lake", "air", table, times)
    print(json.dumps({"built": str(config_path)}))


if __name__ == "__main__":
    _build(Path(sys.argv[1]))
