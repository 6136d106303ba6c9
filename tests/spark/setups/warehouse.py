"""Warehouses for tests, all in one Spark session: a catalog each, filled by stock Spark SQL."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from demo.staging import stage_commit_times
from meltline.app.doctor.init import init
from meltline.app.run.lifecycle import run_chain
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import SANDBOX_MARK
from meltline.app.services import RunContext
from meltline.config.load import load_config
from meltline.domain.clock import NOW
from meltline.domain.deletion.storage import StorageRow
from meltline.jars.jar_paths import jar_paths, java_options
from meltline.wiring import Wiring
from tests.spark.setups import walk

SPACE = "n"
LEDGER = "meltline"
DAY = timedelta(days=1)
Contents = dict[str, dict[int, list[str]]]  # table → snapshot → rows as JSON
TODAY = datetime.now(UTC).replace(microsecond=0)


def stock_session() -> SparkSession:
    """Spark with Iceberg as anybody would start it; the tests of one process share it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.jars", ",".join(jar_paths(os.environ)))
        .config("spark.driver.extraJavaOptions", java_options())
        .config("spark.sql.extensions", extensions)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def quoted(*parts: str) -> str:
    """A table's name in Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


@dataclass(frozen=True)
class Warehouse:
    """A catalog of its own, with tables in one namespace, and Meltline's configuration for it."""

    root: Path
    catalog: str
    spark: SparkSession

    @classmethod
    def empty(
        cls, root: Path, catalog: str, config: str = "", schema_version: str = "V1"
    ) -> "Warehouse":
        """A new warehouse. `config` is added to `meltline.yaml`; the catalog's name must be new."""
        spark = stock_session()
        prefix = f"spark.sql.catalog.{catalog}"
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            ".uri": f"jdbc:sqlite:{root}/catalog.db",
            ".warehouse": f"file://{root}/warehouse",
            ".jdbc.schema-version": schema_version,
            ".cache-enabled": "false",
        }.items():
            spark.conf.set(prefix + key, value)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        made = cls(root, catalog, spark)
        made.folder.mkdir(parents=True)
        (made.folder / SANDBOX_MARK).touch()  # a person's decision, made by hand
        made.yaml.write_text(
            f"control: sqlite:///control.db\nhot: {catalog}\nsandbox: true\n"
            f"catalogs:\n  {catalog}:\n    type: sql\n    uri: sqlite:///catalog.db\n"
            f"    warehouse: warehouse\n{config}"
        )
        spark.sql(f"CREATE NAMESPACE {catalog}.{SPACE}")
        return made

    # --- where things are ------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The catalog's warehouse folder."""
        return self.root / "warehouse"

    @property
    def db(self) -> Path:
        """The catalog's database."""
        return self.root / "catalog.db"

    @property
    def control(self) -> Path:
        """The control ledger."""
        return self.root / "control.db"

    @property
    def yaml(self) -> Path:
        """Meltline's configuration."""
        return self.root / "meltline.yaml"

    # --- as stock Spark sees it ------------------------------------------------------------------

    def name(self, table: str) -> str:
        """A table in Spark SQL."""
        return quoted(self.catalog, SPACE, table)

    def sql(self, *statements: str) -> list[Row]:
        """Runs statements in which `{table}` is a table's name and `CALL x(...)` a procedure."""
        found: list[Row] = []
        for statement in statements:
            text = statement.replace("CALL ", f"CALL {self.catalog}.system.")
            while "{" in text:
                before, _, rest = text.partition("{")
                table, _, after = rest.partition("}")
                text = before + self.name(table) + after
            found = self.spark.sql(text).collect()
        return found

    def create(self, table: str, *properties: str, version: int = 2, more: str = "") -> None:
        """An empty table of two columns; properties as `key=value`."""
        pairs = [p.partition("=") for p in (f"format-version={version}", *properties)]
        words = ", ".join(f"'{key}'='{value}'" for key, _, value in pairs)
        self.sql(
            f"CREATE TABLE {{{table}}} (id BIGINT, part INT) USING iceberg {more}"
            f" TBLPROPERTIES ({words})"
        )

    def append(self, table: str, *starts: int) -> None:
        """A commit for each start: four rows from it on, in one file per partition."""
        for start in starts:
            self.sql(f"INSERT INTO {{{table}}} {rows_from(start)}")

    def overwrite(self, table: str, *starts: int) -> None:
        """A commit for each start that replaces all rows."""
        for start in starts:
            self.sql(f"INSERT OVERWRITE {{{table}}} {rows_from(start)}")

    def document(self, table: str) -> walk.Document:
        """A table's current metadata."""
        return walk.document(self.location(table))

    def location(self, table: str) -> str:
        """Where a table's current metadata lies."""
        return self.rows()[f"{SPACE}.{table}"]

    def rows(self) -> dict[str, str]:
        """The catalog's rows."""
        return walk.rows(self.db, self.catalog)

    def snapshots(self, table: str) -> list[int]:
        """Ids of a table's snapshots, oldest first."""
        found = self.document(table).get("snapshots", [])
        return [s["snapshot-id"] for s in sorted(found, key=lambda s: s["timestamp-ms"])]

    def heads(self) -> dict[str, dict[str, int]]:
        """Each table's refs with their snapshots."""
        return {
            table: {name: ref["snapshot-id"] for name, ref in self.document(table)["refs"].items()}
            for table in self.tables()
        }

    def tables(self) -> list[str]:
        """The tables, without the ledger's."""
        names = (name.split(".", 1) for name in self.rows())
        return sorted(table for namespace, table in names if namespace == SPACE)

    def contents(self, table: str) -> dict[int, list[str]]:
        """The rows of every snapshot in a table's metadata, as stock Spark reads them."""
        ids = self.snapshots(table)
        if not ids:
            return {}
        query = " UNION ALL ".join(
            f"SELECT {id}L, to_json(struct(*)) FROM {self.name(table)} VERSION AS OF {id}"
            for id in ids
        )
        found: dict[int, list[str]] = {id: [] for id in ids}
        for id, row in self.spark.sql(query).collect():
            found[id].append(row)
        return {id: sorted(rows) for id, rows in found.items()}

    def all_contents(self) -> Contents:
        """The rows of every snapshot of every table."""
        return {table: self.contents(table) for table in self.tables()}

    def stage(self, table: str, oldest: timedelta, newest: timedelta, first: int = 0) -> None:
        """Spreads the commits of a table from the `first` on over the days before today."""
        ids = self.snapshots(table)[first:]
        step = (oldest - newest) / max(1, len(ids) - 1)
        times = {id: TODAY - oldest + step * at for at, id in enumerate(ids)}
        stage_commit_times(self.db, self.catalog, SPACE, table, times)

    # --- what is there ---------------------------------------------------------------------------

    def reachable(self) -> set[str]:
        """Every file that some table refers to, by the walk; the ledger's own left out."""
        found = walk.reachable(self.db, self.catalog, without=LEDGER)
        return set().union(*found.values())

    def disk(self) -> dict[str, int]:
        """Every file in the warehouse and its size, without the ledger's and the marks."""
        ledger = f"{self.folder}/{LEDGER}/"
        found = walk.disk(self.folder).items()
        return {path: size for path, size in found if not path.startswith(ledger)}

    # --- with Meltline ---------------------------------------------------------------------------

    def services(self, now: datetime, **instead: Any) -> RunContext:
        """Meltline at a simulated time; `instead` replaces ports by name."""
        made = self.wiring(now).services("tests")
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        return replace(made, **instead)

    def wiring(self, now: datetime) -> Wiring:
        """What builds that."""
        environ = {**os.environ, NOW: now.isoformat(), "MELTLINE_USER": "tester"}
        return Wiring(load_config(self.yaml, environ, self.root), environ, lambda line: None)

    def init(self, now: datetime = TODAY, *, adopt: bool = False) -> None:
        """`meltline init`."""
        init(self.services(now), adopt=adopt)

    def run(self, now: datetime = TODAY, run_id: str = "run", **instead: Any) -> Summary:
        """`meltline run` at a simulated time."""
        return self.run_with(self.services(now, **instead), run_id)

    def run_with(self, services: RunContext, run_id: str = "run") -> Summary:
        """`meltline run` with ports chosen by the test."""
        now = services.clock.now()
        return run_chain(services, RunRequest(f"{run_id}-{now.isoformat()}", now))

    def standing(self, now: datetime) -> Sequence[StorageRow]:
        """`meltline storage`."""
        from meltline.app.storage.report import storage_rows, totals_now

        return storage_rows(totals_now(self.services(now)))


def rows_from(start: int) -> str:
    """A query of four rows, one file per partition."""
    return f"SELECT /*+ COALESCE(1) */ id, CAST(id % 2 AS INT) FROM range({start}, {start + 4})"


def tables_of(summary: Summary) -> Mapping[str, dict[str, Any]]:
    """A run's lines, by the table's bare name."""
    lines = summary.as_json()["tables"]
    return {line["table"].split(".", 2)[2].strip("`"): line for line in lines}


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """A session setting, for a while."""
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)
