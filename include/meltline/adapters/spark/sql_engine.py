"""Runs SQL in a Spark session, with the statement's id in the summary of every new snapshot.

`app/sql` calls it for `meltline sql` and for sessions of the caller.
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from meltline.adapters.spark.jvm import ENGINE_FAILURES
from meltline.adapters.spark.past import past_frame
from meltline.adapters.spark.session import spark_catalog
from meltline.adapters.spark.snapshot_reader import collected, refusing
from meltline.config.load import CatalogConfig, Config
from meltline.domain.chunks.complete import CompleteRead
from meltline.domain.iceberg.names import quoted, split_name
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.time_travel.timetravel import STATEMENT_ID
from meltline.ports import ReadRows, TableView

CompleteFrame = Callable[[SparkSession, Mapping[str, CatalogConfig], CompleteRead], DataFrame]
"""Builds a frame of all rows of a table."""


class SparkSqlEngine:
    """Implements `SqlEngine` in one session. See the port."""

    def __init__(self, spark: SparkSession, config: Config, complete: CompleteFrame) -> None:
        self._spark = spark
        self._catalogs = config.catalogs
        self._complete = complete

    def stand(self, standing: ObjectName) -> None:
        """Makes a catalog, and a namespace in it, the current ones."""
        catalog = spark_catalog(self._catalogs[standing.catalog])
        self._run(f"USE {'.'.join(map(quoted, (catalog, *standing.namespace)))}")

    @property
    def standing(self) -> ObjectName:
        """The session's current catalog and namespace."""
        current = self._spark.catalog.currentCatalog()
        names = {spark_catalog(catalog): name for name, catalog in self._catalogs.items()}
        namespace = self._spark.catalog.currentDatabase()
        return ObjectName(names.get(current, current), split_name(namespace) if namespace else ())

    def run(self, text: str, statement_id: str, views: Mapping[str, TableView]) -> DataFrame:
        frames: list[DataFrame] = []
        failed: list[Exception] = []

        def carry_out() -> None:
            try:
                frames.append(self._spark.sql(text))
            except ENGINE_FAILURES as error:  # crossing the JVM would lose its class
                failed.append(error)

        with refusing(_shown(text)):
            try:
                for name, view in views.items():
                    self.rows(view).createOrReplaceTempView(name)
                self._marked(carry_out, statement_id)
            finally:
                for name in views:  # a plan built on it does not need it any more
                    self._spark.catalog.dropTempView(name)
            if failed:
                raise failed[0]
        return frames[0]

    def rows(self, view: TableView) -> DataFrame:
        if isinstance(view, CompleteRead):
            return self._complete(self._spark, self._catalogs, view)
        return past_frame(self._spark, self._catalogs, view)

    def knows(self, name: Sequence[str]) -> bool:
        table = ".".join(map(quoted, name))
        with refusing(table):
            return self._spark.catalog.tableExists(table)

    def fetch(self, frame: object, limit: int | None) -> ReadRows:
        assert isinstance(frame, DataFrame)
        with refusing("its rows"):
            return collected(frame, limit)

    def frame(self, read: ReadRows) -> DataFrame:
        """Converts rows that did not come from Spark to a DataFrame."""
        schema = T.StructType(
            [T.StructField(c.name, T._parse_datatype_string(c.type)) for c in read.columns]
        )
        return self._spark.createDataFrame(list(read.rows), schema)

    def _run(self, text: str) -> None:
        with refusing(_shown(text)):
            self._spark.sql(text)

    def _marked(self, work: Callable[[], None], statement_id: str) -> None:
        """Runs work with the id in the summaries of all commits of this thread.

        The session's setting `snapshot-property` would omit it from deletes of whole files.
        """
        gateway, jvm = self._spark.sparkContext._gateway, self._spark._jvm
        assert jvm is not None and gateway is not None  # a session of this process
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        properties = jvm.java.util.Collections.singletonMap(STATEMENT_ID, statement_id)
        nothing = jvm.java.lang.Class.forName("java.lang.RuntimeException")
        commits = jvm.org.apache.iceberg.spark.CommitMetadata
        commits.withCommitProperties(properties, _Callable(work), nothing)


class _Callable:
    """A Python callable that the JVM can call."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def call(self) -> None:
        """Implements `java.util.concurrent.Callable`."""
        self._work()

    class Java:
        """Declares the Java interface for py4j."""

        implements = ["java.util.concurrent.Callable"]  # noqa: RUF012 - py4j wants a list


def _shown(text: str) -> str:
    """Returns the beginning of a statement."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"
