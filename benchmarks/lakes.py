"""Lakes: a folder with a catalog, tables, and Meltline's configuration; and exact twins of it.

Iceberg's files name each other by absolute path. So twins live at one and the same path, each
while it is its turn: the folder is renamed into place and out of it again.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import staging
from benchmarks.engine import same_settings
from meltline.app.doctor.init import init
from meltline.app.safety.arming import SANDBOX_MARK
from meltline.app.services import SweepServices
from meltline.config.load import load_config
from meltline.domain.clock import NOW
from meltline.wiring import Wiring

SPACE = "n"
LEDGER = "meltline"
WINDOW = timedelta(days=1)
FAILSAFE = timedelta(days=1)
TODAY = datetime.now(UTC).replace(microsecond=0) - timedelta(days=5)
"""The first run's logical date: in the past, so that a next day has room before the real clock."""

_CONFIG = """\
control: sqlite:///control.db
hot: {name}
sandbox: true
catalogs:
  {name}:
    type: {type}
    uri: {uri}
    warehouse: {warehouse}
account:
  retention-days: {window}
  failsafe-days: {failsafe}
  reader-grace: 1h
# Nothing of what is measured may be refused or slowed for being large.
limits:
  max-delete-ratio: 1
  max-growth: 1000000000
  approve-above: 1PiB
  full-proof-above: 1PiB
  delete-keys-per-second: 100000000
"""


@dataclass
class SteppedClock:
    """A simulated wall clock that the benchmark moves: failsafe passes without waiting."""

    moment: datetime
    simulated: bool = True

    def now(self) -> datetime:
        """The instant it was moved to."""
        return self.moment


@dataclass
class Lake:
    """One of the twins.

    Attributes:
        folder: What the twins have in common: the place they take turns at.
        name: The catalog's name, in Spark and in Meltline.
        labels: How commits are called that were made in each twin on its own, by their UUIDs.
        server: Where the REST server answers that its catalog is behind; empty where nothing is.
    """

    folder: Path
    name: str
    spark: SparkSession
    window: timedelta = WINDOW
    labels: dict[str, str] = field(default_factory=dict)
    clock: SteppedClock = field(default_factory=lambda: SteppedClock(TODAY))
    server: str = ""

    @property
    def root(self) -> Path:
        """Catalog, configuration, control ledger, and the parked lake."""
        return self.folder / self.name

    @property
    def place(self) -> Path:
        """Where the lake lies while it is this twin's turn."""
        return self.folder / "lake"

    @property
    def db(self) -> Path:
        """The catalog's SQLite file."""
        return self.root / "catalog.db"

    def table(self, name: str) -> str:
        """A table's name in Spark SQL."""
        return f"{self.name}.{SPACE}.{name}"

    def data(self, table: str) -> Path:
        """Where a table's data files lie, while it is this twin's turn."""
        return self.place / SPACE / table / "data"

    # --- building --------------------------------------------------------------------------------

    def create(self) -> "Lake":
        """Makes it, empty."""
        parked = self.root / "lake"
        parked.mkdir(parents=True)
        (parked / SANDBOX_MARK).touch()
        self._configure()
        self.spark.sql(f"CREATE NAMESPACE {self.name}.{SPACE}")
        return self

    def _configure(self) -> None:
        prefix = f"spark.sql.catalog.{self.name}"
        sql = {
            ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            ".uri": f"jdbc:sqlite:{self.db}",
            ".jdbc.schema-version": "V1",
            ".jdbc.busy_timeout": "30000",
        }
        rest = {".catalog-impl": "org.apache.iceberg.rest.RESTCatalog", ".uri": self.server}
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            **(rest if self.server else sql),
            ".warehouse": f"file://{self.place}",
            ".cache-enabled": "false",
        }.items():
            self.spark.conf.set(prefix + key, value)
        config = _CONFIG.format(
            name=self.name,
            type="rest" if self.server else "sql",
            uri=self.server or "sqlite:///catalog.db",
            warehouse=self.place,
            window=self.window.days,
            failsafe=FAILSAFE.days,
        )
        (self.root / "meltline.yaml").write_text(config, encoding="utf-8")

    def serve(self, server: str, catalog: str) -> None:
        """Puts its catalog behind a REST server, which knows the rows of `catalog` alone."""
        staging.rename_catalog(self.db, catalog)
        self.server = server
        self._configure()

    def twin(self, name: str, write_data: Callable[[Path], None] | None = None) -> "Lake":
        """An exact copy under another name, to be made while neither is in place.

        Args:
            name: The other name.
            write_data: Writes the data files anew into a lake, which is quicker than copying
                them; None copies them.
        """
        other = Lake(self.folder, name, self.spark, self.window, dict(self.labels))
        other.root.mkdir()
        if write_data is None:
            _copy(self.root / "lake", other.root / "lake")
        else:
            for metadata in (self.root / "lake" / SPACE).glob("*/metadata"):
                inside = metadata.relative_to(self.root)
                (other.root / inside.parent).mkdir(parents=True)
                _copy(metadata, other.root / inside)
            (other.root / "lake" / SANDBOX_MARK).touch()
            write_data(other.root / "lake")
        shutil.copy(self.db, other.db)
        staging.rename_catalog(other.db, name)
        other._configure()
        return other

    def leave_at_default(self, limit: str) -> int:
        """Takes a limit out of the configuration, and returns what Meltline sets by itself."""
        path = self.root / "meltline.yaml"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.strip().startswith(f"{limit}:")]
        assert len(kept) == len(lines) - 1, f"{limit} is not set once in {path}"
        path.write_text("".join(kept), encoding="utf-8")
        limits = load_config(path, {}, self.root).limits
        value: int = getattr(limits, limit.replace("-", "_"))
        return value

    @contextmanager
    def in_place(self) -> Iterator["Lake"]:
        """For as long, this twin's lake lies at the place that its files name."""
        assert not self.place.exists(), f"another twin is at {self.place}"
        (self.root / "lake").rename(self.place)
        try:
            yield self
        finally:
            self.place.rename(self.root / "lake")

    def remove(self) -> None:
        """Deletes it."""
        shutil.rmtree(self.root)

    # --- working with it -------------------------------------------------------------------------

    def wiring(self, progress: Callable[[str], None]) -> Wiring:
        """Meltline's parts, at the time of the lake's own clock."""
        environ = {**os.environ, NOW: self.clock.now().isoformat(), "MELTLINE_USER": "benchmark"}
        config = load_config(self.root / "meltline.yaml", environ, self.root)
        wiring = Wiring(config, environ, progress)
        wiring.clock = self.clock
        return wiring

    def services(self, progress: Callable[[str], None]) -> SweepServices:
        """Meltline."""
        services = self.wiring(progress).services("benchmarks")
        same_settings(self.spark)
        return services

    def init(self) -> None:
        """`meltline init`."""
        init(self.services(lambda line: None))

    def stage(self, table: str, when: Callable[[int], datetime]) -> None:
        """Gives the commits of a table their times, by sequence number."""
        staging.stage(self.db, f"{SPACE}.{table}", when)

    def remember_commits(self) -> None:
        """Notes how the commits are to be called that this twin has now."""
        for name, location in staging.rows(self.db).items():
            if name.startswith(f"{SPACE}."):
                self.labels |= staging.commit_labels(staging.read_document(location))

    def metadata_folders(self) -> list[Path]:
        """Where metadata is read from: each table's, and the ledger's own tables as a whole."""
        return [*self.place.glob(f"{SPACE}/*/metadata"), self.place / LEDGER]


def _copy(old: Path, new: Path) -> None:
    subprocess.run(["cp", "-a", str(old), str(new)], check=True)
