"""A hot catalog and a cold one, with Meltline for both, and what the work on them takes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.engine import same_settings
from benchmarks.sides import Run, Stopwatch
from benchmarks.watch import watching
from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.doctor.init import init
from meltline.app.safety.arming import SANDBOX_MARK
from meltline.app.services import SweepServices
from meltline.config.load import load_config
from meltline.domain.iceberg.names import TableName
from meltline.wiring import Wiring

_CONFIG = """\
control: sqlite:///control.db
hot: {hot}
cold: {cold}
sandbox: true
catalogs:
  {hot}:
    type: sql
    uri: sqlite:///hot.db
    warehouse: hot
  {cold}:
    type: sql
    uri: sqlite:///cold.db
    warehouse: cold
chunks:
  max-chunks: {most}
  max-drop-share: 1
"""


@dataclass(frozen=True)
class Tiers:
    """A hot catalog, a cold one, and Meltline for both."""

    bench: Bench
    root: Path
    hot: str
    services: SweepServices

    @classmethod
    def create(cls, bench: Bench, name: str, most: int = 1000) -> "Tiers":
        root, hot = bench.place(name), name.replace("-", "_")
        (root / "hot").mkdir()
        (root / "hot" / SANDBOX_MARK).touch()
        yaml = root / "meltline.yaml"
        yaml.write_text(_CONFIG.format(hot=hot, cold=f"{hot}_cold", most=most), encoding="utf-8")
        config = load_config(yaml, {}, root)
        services = Wiring(config, {}, bench.detail).services("benchmarks", "bench")
        init(services)
        same_settings(bench.spark)
        bench.spark.sql(f"CREATE NAMESPACE {hot}.n")
        return cls(bench, root, hot, services)

    def name(self, table: str = "t") -> TableName:
        return parse_table_name(f"{self.hot}.n.{table}")

    def cold(self, table: str = "t") -> str:
        return f"{self.hot}_cold.meltline_synced.n.{table}"

    def replicate(self) -> None:
        for done in replicate(self.services, chunked_tables(self.services)):
            assert done.error is None, (done.error, done.error and done.error.found)

    def timed(self, side: str, work: Callable[[], object], did: str) -> Run:
        """What a piece of work takes, and what of the tables it opens."""
        self.bench.settle()
        watch = Stopwatch()
        folders = [*self.root.glob("*/n/*/metadata"), *self.root.glob("cold/*/*/*/metadata")]
        with watching([*folders, self.root / "hot" / "meltline"]) as watched, watch.timing(side):
            work()
        self.bench.say(f"  {side}: {watch.seconds:.2f} s")
        return Run(side, watch.seconds, watch.parts, watched.seen, did)
