"""Whatever the JVM raises while rows are read or rollups refreshed is an error with its table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from meltline.adapters.spark.snapshot_reader import SparkSnapshotReader
from meltline.adapters.spark.sql_engine import SparkSqlEngine
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.rollups.refresh import refresh_rollup
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports import PastView
from tests.spark.rollups.lake_of_rollups import HOURLY, RollupLake
from tests.spark.setups.failing_calls import JvmCalls, java_failures
from tests.spark.setups.warehouse import SPACE

pytestmark = pytest.mark.spark


@dataclass
class RolledLake:
    """A table that is cut into chunks, with a rollup over it, and what reads both."""

    rollups: RollupLake

    def __post_init__(self) -> None:
        lake = self.rollups.lake
        lake.create("t")
        lake.insert("t", 3, 2, 1)
        self.rollups.declare("hourly", HOURLY.format(table="t"))
        self.table = TableName(lake.w.catalog, (SPACE,), "t")
        self.services = self.rollups.services()
        self.view = PastView(self.table, lake.head("t"))

    def refresh(self) -> object:
        """The rollup after a new row."""
        return refresh_rollup(self.services, "hourly")

    def prove(self) -> object:
        """Checksums of all chunks."""
        rows, view = self.services.chunk_rows, self.view
        assert rows is not None and view.snapshot_id is not None
        (chunked,) = chunked_tables(self.services)
        return rows.digests(self.table, view.snapshot_id, chunked.tracked.layout, None)

    def list_files(self) -> object:
        """The files of a chunk."""
        rows, view = self.services.chunk_rows, self.view
        assert rows is not None and view.snapshot_id is not None
        (chunked,) = chunked_tables(self.services)
        return rows.files(self.table, view.snapshot_id, chunked.tracked.layout, ["2026-01-01"])

    def read(self) -> object:
        """The rows of the table as it was."""
        spark, catalogs = self.rollups.lake.w.spark, self.services.config.catalogs
        return SparkSnapshotReader(spark, catalogs).read(self.view, 1)

    def query(self) -> object:
        """A statement over the table as it was."""

        def complete(*_: object) -> object:
            raise AssertionError("the statement asks for no complete table")

        spark = self.rollups.lake.w.spark
        engine = SparkSqlEngine(spark, self.services.config, complete)  # type: ignore[arg-type]
        frame = engine.run("SELECT count(*) FROM then", "statement-1", {"then": self.view})
        return engine.fetch(frame, None)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolledLake]:
    yield RolledLake(RollupLake.empty(tmp_path_factory.mktemp("failing_reads")))


@pytest.mark.slow("five operations meet fifteen Java classes each")
@pytest.mark.parametrize(
    ("work", "named"),
    [
        (RolledLake.refresh, ("_rollup_hourly", ".t")),
        (RolledLake.prove, (".t",)),
        (RolledLake.list_files, (".t",)),
        (RolledLake.read, (".t",)),
        (RolledLake.query, (".t", "SELECT count(*) FROM then", "its rows")),
    ],
)
def test_what_reads_raises_every_failure_of_the_jvm_as_an_error_about_its_table(
    lake: RolledLake, work: Callable[[RolledLake], object], named: tuple[str, ...]
) -> None:
    w = lake.rollups.lake.w
    failures, calls = java_failures(w.spark), JvmCalls()
    lake.rollups.lake.insert("t", 1)
    with calls.of(w.spark):
        work(lake)
    told = 0
    for number, (kind, failure) in enumerate(failures.items()):
        lake.rollups.lake.insert("t", 1)
        failing = JvmCalls(1 + number * (calls.count - 1) // (len(failures) - 1), failure)
        with failing.of(w.spark):
            try:
                work(lake)
            except MeltlineError as error:
                told += 1
                assert error.object.endswith(named), (kind, error.object)
                assert error.found.startswith((kind, "[")), kind  # or Spark's own condition
                assert error.next, kind
    assert told >= len(failures) // 2
    work(lake)  # where nothing fails it still works
