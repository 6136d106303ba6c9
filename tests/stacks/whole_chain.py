"""One whole life of a table on a catalog that is not SQL: written by Spark, expired, purged.

Time stands still nowhere here: commits are made now, and runs are told that it is days later.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.spark.session import open_session, session_settings
from meltline.app.doctor.init import init
from meltline.app.retention.holds import find_holds
from meltline.app.run.lifecycle import run_chain
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import SANDBOX_MARK
from meltline.app.services import RunContext
from meltline.cli.main import run
from meltline.config.load import Config, load_config
from meltline.domain.clock import NOW
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.wiring import Wiring
from tests.lives.kills import Killed, Process, told_ports

TODAY = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
TABLE = TableName("lake", ("n",), "t")


@dataclass(frozen=True)
class Stack:
    """A lake behind some catalog, and the commands for it."""

    folder: Path
    spark: SparkSession

    def wiring(self, days: float) -> Wiring:
        """Meltline, so many days from now."""
        environ = self.environ(days)
        config = load_config(self.folder / "meltline.yaml", environ, self.folder)
        return Wiring(config, environ, lambda line: None)

    def environ(self, days: float) -> dict[str, str]:
        at = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        return {**os.environ, NOW: at, "MELTLINE_USER": "tester"}

    def services(self, days: float) -> RunContext:
        return self.wiring(days).services("stacks")

    def chain(self, services: RunContext, run_id: str) -> Summary:
        """`meltline run`."""
        now = services.clock.now()
        return run_chain(services, RunRequest(f"{run_id}-{now.isoformat()}", now))

    def killed(self, services: RunContext, step: str, *, after: bool) -> bool:
        """A run that dies before or after a call of that name; whether it came so far."""
        process = Process(dies_at=1, about=step, after=after)
        try:
            ports = told_ports(services, process)
            present = {name: port for name, port in ports.items() if getattr(services, name)}
            self.chain(replace(services, **present), f"killed-{step}")
        except Killed:
            return True
        return False

    def command(self, *words: str, days: float = 0) -> int:
        """`meltline WORDS`."""
        before = dict(os.environ)
        os.environ.update(self.environ(days), MELTLINE_CONFIG=str(self.folder / "meltline.yaml"))
        try:
            return run([*words])
        finally:
            os.environ.clear()
            os.environ.update(before)

    def count(self, table: str = "lake.n.t") -> int:
        return self.spark.table(table).count()

    def metadata(self, days: float = 0) -> Mapping[str, Any]:
        """The table's snapshots and refs, as Meltline's own catalog leads to them."""
        from meltline.app.catalog.metadata import load_state

        services = self.wiring(days).ledgers()
        at = services.catalogs["lake"].location(TABLE)
        state = load_state(services.store, TABLE, at)
        return {"snapshots": set(state.snapshots), "refs": set(state.refs), "of": state.properties}


@contextmanager
def stack(
    folder: Path, catalog: str, further: str = "", control: str = "sqlite:///control.db"
) -> Iterator[Stack]:
    """A lake whose catalog is that section of `meltline.yaml`, with one table of four commits.

    Args:
        folder: Where its files go that are no tables.
        catalog: The section's lines.
        further: Lines of the account, and what follows it.
        control: Where the control ledger is.
    """
    (folder / "meltline.yaml").write_text(
        f"control: {control}\nhot: lake\nsandbox: true\n"
        f"catalogs:\n  lake:\n{catalog}account: {{profile: business, retention-days: 1}}\n{further}"
    )
    config: Config = load_config(folder / "meltline.yaml", os.environ, folder)
    spark = open_session(config, "stacks")
    for key, value in session_settings(config).items():
        if key.startswith("spark.sql.catalog."):
            spark.conf.set(key, value)
    lake_stack = Stack(folder, spark)
    lake = config.catalogs["lake"]
    ObjectStores(dict(lake.properties)).write(f"{lake.warehouse.rstrip('/')}/{SANDBOX_MARK}", b"")
    init(lake_stack.services(0))
    spark.sql("CREATE NAMESPACE lake.n")
    spark.sql(
        "CREATE TABLE lake.n.t (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2')"
    )
    for start in range(0, 40, 10):
        spark.sql(f"INSERT OVERWRITE lake.n.t SELECT id FROM range({start}, {start + 4})")
    try:
        yield lake_stack
    finally:  # a session keeps the catalogs that it has opened, and the next lake's has this name
        spark.stop()


def lives_through_kills(lake: Stack) -> None:
    """Each step of the chain is killed once; the next run loses nothing and finishes the work."""
    old = lake.metadata()["snapshots"]
    for step in ("catalog.", "files.", "control.plans", "gate.judge", "committer.expire"):
        assert lake.killed(lake.services(40), step, after=False), step
    assert lake.killed(lake.services(40), "committer.expire", after=True)
    lake.chain(lake.services(40), "expire")
    kept = lake.metadata()["snapshots"]
    assert len(kept) < len(old) == 4
    for after in (False, True):
        assert lake.killed(lake.services(80), "deleter.", after=after)
    summary = lake.chain(lake.services(80), "purge")
    assert not [line for line in summary.as_json()["tables"] if line.get("error")]
    assert lake.count() == 4
    files = lake.spark.sql("SELECT file_path FROM lake.n.t.files").collect()
    wiring = lake.wiring(80)
    wiring.ledgers().catalogs["lake"].location(TABLE)  # which takes in the keys, where it has any
    store = wiring.store
    present = (location_key(o.path) for o in store.list(f"{_location(lake)}/data"))
    data_files = {
        path for path in present if path.endswith(".parquet")
    }  # Hadoop writes sums beside them
    assert data_files == {
        location_key(row[0]) for row in files
    }  # what no snapshot needs has gone, and nothing else


def _location(lake: Stack) -> str:
    rows = lake.spark.sql("DESCRIBE EXTENDED lake.n.t").collect()
    return next(str(row[1]) for row in rows if row[0] == "Location")


def obeys_every_command(lake: Stack) -> None:
    """What edits a table does, through the command."""
    log = "SELECT snapshot_id FROM lake.n.t.history ORDER BY made_current_at DESC"
    first = lake.spark.sql(log).first()["snapshot_id"]
    lake.spark.sql("INSERT INTO lake.n.t SELECT 100L")
    assert lake.command("hold", "add", "lake.n.t", "--reason", "court", days=81) == 0
    assert first in lake.metadata()["snapshots"]
    assert any("hold" in key for key in lake.metadata(81)["of"])
    assert lake.command("tag", "lake.n.t", "eoy", "--retention-days", "forever", days=81) == 0
    assert "eoy" in lake.metadata(81)["refs"]
    assert lake.command("policy", "set", "lake.n.t", "--retention-days", "3", days=81) == 0
    assert lake.command("clone", "lake.n.t", "lake.n.c", days=81) == 0
    assert lake.count("lake.n.c") == 5
    (held,) = find_holds(lake.wiring(81).ledgers()).holds
    assert lake.command("hold", "remove", held.hold.id, "--reason", "over", days=81) == 0
    assert lake.command("rollback", "lake.n.t", "--to", str(first), days=81) == 0
    assert lake.count() == 4
    assert lake.command("drop", "lake.n.t", days=81) == 0
    assert lake.command("undrop", "lake.n.t", days=81) == 0
    assert lake.count() == 4
