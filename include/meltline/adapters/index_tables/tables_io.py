"""Creates, reads and appends to the ledger's Iceberg tables.

The parts of the file index, ingestion, orphan scans and the proof cache share it. A read uses this
process if possible (`parquet_scan.py`), else Spark (`spark_scan.py`).
"""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from meltline.adapters.index_tables.file_parts import NotPlain, TableFiles
from meltline.adapters.index_tables.hash_prints import footer_prints
from meltline.adapters.index_tables.parquet_scan import LedgerFiles
from meltline.adapters.index_tables.scan_query import Condition, Question
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.spark_scan import answer_by_spark
from meltline.adapters.index_tables.table_now import TableNow
from meltline.adapters.spark.first_tables import preparing
from meltline.adapters.spark.jvm import JavaClasses
from meltline.domain.errors import SetupMissing
from meltline.domain.iceberg.names import quote_part

_WRITERS = 2  # files that are made at a time; each is kept in memory
_GROUP_ROWS = 100_000  # of a row group: a scan for some manifests skips the others' rows
_PRINTED_FROM = 30_000  # rows; a smaller file is read completely

Derived = TypeVar("Derived")


class LedgerTables:
    """Reads and appends rows of the ledger's tables.

    Attributes:
        place: The ledger's catalog and its namespace there, as Spark's SQL spells them.
        namespace: Both of them, joined.
        file_rows: The most rows of a data file that is written here.
    """

    file_rows = 1_000_000

    def __init__(
        self, spark: SparkSession, store: TableFiles, catalog: str, namespace: str
    ) -> None:
        self.spark = spark
        self._store = store
        self.place = (quote_part(catalog), quote_part(namespace))
        self.namespace = ".".join(self.place)
        self._kept: dict[str, tuple[tuple[Hashable, ...], Any]] = {}
        self._files = LedgerFiles(store)
        self._classes = JavaClasses(spark)

    def prepare(self) -> Sequence[str]:
        """Creates the namespace and the tables if they are missing.

        Returns:
            The tables' names.

        Raises:
            SetupMissing: One could not be made.
        """
        with preparing(self.place[0]):
            self._make_all()
        return tuple(TABLES)

    def _make_all(self) -> None:
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.namespace}")
        for name, schema in TABLES.items():
            columns = ", ".join(
                f"{f.name} {from_arrow_type(f.type).simpleString()}" for f in schema
            )
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.namespace}.{name} ({columns}) USING iceberg "
                "TBLPROPERTIES ('format-version'='2', 'gc.enabled'='true', "
                "'write.parquet.compression-codec'='zstd', "
                # Small row groups: a scan for some manifests skips the others' rows.
                "'write.parquet.row-group-size-bytes'='8388608', "
                # Rows that another run appends during a delete stay: that is no conflict.
                "'write.delete.isolation-level'='snapshot', "
                "'write.metadata.delete-after-commit.enabled'='true', "
                "'write.metadata.previous-versions-max'='20')"
            )
            self._require_made(name, schema.names)

    def _require_made(self, name: str, columns: Collection[str]) -> None:
        """Refuses a table, new or existing, that lacks some of its columns.

        Raises:
            SetupMissing: The catalog acknowledged a create that is not visible, or it is another
                table.
        """
        try:
            made = self.spark.table(f"{self.namespace}.{name}").columns
        except AnalysisException as absent:
            raise SetupMissing(
                f"the catalog did not make {self.namespace}.{name}, though it reported success",
                object=f"{self.namespace}.{name}",
                expected="a table that can be read",
                found=str(absent.getCondition()),
                next="look at the catalog's own log, and run `meltline init` again",
            ) from absent
        self._require_columns(name, columns, made)

    def _require_columns(
        self, table: str, needed: Collection[str], present: Collection[str]
    ) -> None:
        if missing := set(needed) - set(present):
            raise SetupMissing(
                f"the file ledger's table {self.namespace}.{table} lacks columns",
                object=f"{self.namespace}.{table}",
                expected=f"the columns {', '.join(sorted(missing))}",
                found="a table without them",
                next="restore the table, or `meltline init --adopt`, which starts without its past",
            )

    def look(
        self,
        table: str,
        columns: Sequence[str],
        where: Sequence[Condition] = (),
        among: tuple[str, pa.Array | Collection[int]] | None = None,
        *,
        of_any_size: bool = False,
    ) -> pa.Table:
        """Returns rows of a table as it is now: these columns, in the types of `TABLES`.

        Read in this process if the files are few and plain, else by Spark: the same rows, in any
        order.

        Args:
            table: Its name in `TABLES`.
            columns: The columns of the answer.
            where: Conditions that all hold. Null is never equal, less or more.
            among: A column, and the numbers (however many) that its value may have.
            of_any_size: Whether it is read here however large the files are, for callers that keep
                the complete answer in this process. Spark does not hand over more than a gigabyte.

        Raises:
            SetupMissing: The table does not exist, or lacks a column.
        """
        local = self.look_here(table, columns, where, among, of_any_size=of_any_size)
        if local is not None:
            return local
        question, frame = Question.of(TABLES[table], columns, where, among), self.read(table)
        self._require_columns(table, {*question.columns, *question.tested}, frame.columns)
        return answer_by_spark(question, frame, self.ids)

    def look_here(
        self,
        table: str,
        columns: Sequence[str],
        where: Sequence[Condition] = (),
        among: tuple[str, pa.Array | Collection[int]] | None = None,
        *,
        of_any_size: bool = False,
    ) -> pa.Table | None:
        """Answers like `look`; returns None if Spark is needed, so that a caller can ask less."""
        question = Question.of(TABLES[table], columns, where, among)
        loaded = self.loaded(table)
        current = loaded.currentSnapshot()
        if current is None or question.never:
            return question.answer.empty_table()
        schema = self._java("SchemaParser").toJson(loaded.schema())
        try:
            now = TableNow.of(schema, self._java("SnapshotParser").toJson(current))
            return self._files.answer(table, now, question, of_any_size=of_any_size)
        except NotPlain:
            return None

    def read(self, table: str) -> DataFrame:
        """Returns all of a table as it is now. Raises SetupMissing if it does not exist."""
        try:
            return self.spark.table(f"{self.namespace}.{table}")
        except AnalysisException as missing:
            raise self._missing(table, missing) from missing

    def _missing(self, table: str, missing: AnalysisException) -> SetupMissing:
        return SetupMissing(
            f"the file ledger's table {self.namespace}.{table} cannot be opened",
            object=f"{self.namespace}.{table}",
            expected="the tables that `meltline init` creates",
            found=missing.getCondition() or "an error of Spark's",
            next="restore the table, or `meltline init --adopt`, which starts without its past",
        )

    def append(self, table: str, rows: Sequence[Mapping[str, Any]], marker: str) -> None:
        """Appends rows; without rows there is no commit."""
        if not rows:
            return
        self.append_arrow(table, pa.Table.from_pylist(list(rows), schema=TABLES[table]), marker)

    def append_columns(self, table: str, columns: Mapping[str, list[Any]], marker: str) -> None:
        """Appends rows that are given as columns."""
        rows = pa.table(dict(columns), schema=TABLES[table])
        self.append_arrow(table, rows, marker)

    def append_arrow(self, table: str, rows: pa.Table, marker: str) -> None:
        """Writes data files in this process, and appends them in one commit.

        A Spark job takes longer to start. Also, all rows of this process would have to pass through
        the JVM. That takes six times as long as to write them, and much more memory.
        """
        if not rows.num_rows:
            return
        loaded = self.loaded(table)
        rows = rows.cast(self._identified(table, loaded, rows.schema))
        places = loaded.locationProvider()
        starts = range(0, rows.num_rows, self.file_rows)
        paths = [places.newDataLocation(f"{uuid4()}.parquet") for _ in starts]
        parts = [rows.slice(start, self.file_rows) for start in starts]
        with ThreadPoolExecutor(_WRITERS) as pool:
            sizes = list(pool.map(self._store_file, paths, parts))
        append = loaded.newAppend().set("meltline.marker", marker)
        for path, size in zip(paths, sizes, strict=True):
            append.appendFile(self._data_file(loaded, path, size))
        append.commit()

    def _store_file(self, path: str, rows: pa.Table) -> int:
        content = _parquet(rows)
        self._store.write(path, content)
        self._files.keep(path, content)  # a new file is often read next
        return len(content)

    def _data_file(self, loaded: Any, path: str, size: int) -> Any:
        metrics = self._java("parquet.ParquetUtil").fileMetrics(
            loaded.io().newInputFile(path), self._java("MetricsConfig").forTable(loaded)
        )
        file = self._java("DataFiles").builder(loaded.spec()).withPath(path).withFormat("parquet")
        return file.withFileSizeInBytes(size).withMetrics(metrics).build()

    def write(self, table: str, frame: DataFrame, marker: str) -> None:
        """Appends by Spark. Columns that only the table has are null."""
        schema = self.read(table).schema
        self._require_columns(table, frame.columns, schema.names)
        absent = [field for field in schema if field.name not in frame.columns]
        nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in absent]
        writer = frame.select("*", *nulls).writeTo(f"{self.namespace}.{table}")
        writer.option("snapshot-property.meltline.marker", marker).append()

    def _identified(self, table: str, loaded: Any, columns: pa.Schema) -> pa.Schema:
        """Adds Iceberg's ids to the columns; its readers find the columns by them."""
        schema = json.loads(self._java("SchemaParser").toJson(loaded.schema()))
        ids = {field["name"]: field for field in schema["fields"]}
        self._require_columns(table, columns.names, ids)
        return pa.schema([_identified(column, ids[column.name]) for column in columns])

    def once(
        self, tables: str, name: str, derive: Callable[[], Derived], inputs: Hashable = None
    ) -> Derived:
        """Derives a result from tables, and caches it until one of them gets a new snapshot.

        Other `inputs` replace it as well.
        """
        now = (inputs, *(self.current(table) for table in tables.split()))
        then, before = self._kept.get(name, ((), None))
        if name in self._kept and then == now:
            return cast(Derived, before)
        if isinstance(before, DataFrame):
            before.unpersist()
        derived = derive()
        self._kept[name] = (now, derived)
        return derived

    def delete(self, rows: str, where: str, values: Mapping[str, object]) -> None:
        """Deletes rows of a table; `rows` is its full name and its alias in the condition."""
        self.spark.sql(f"DELETE FROM {rows} WHERE {where}", args=dict(values))

    def current(self, table: str) -> int | None:
        """Returns the current snapshot of one of the ledger's tables; None while it has none."""
        loaded = self.loaded(table)
        current = loaded.currentSnapshot()
        return None if current is None else int(current.snapshotId())

    def loaded(self, table: str) -> Any:
        """Loads one of the ledger's tables with Iceberg's own library."""
        name = f"{self.namespace}.{table}"
        try:
            util = self._java("spark.Spark3Util")
            return util.loadIcebergTable(self.spark._jsparkSession, name)
        except AnalysisException as missing:
            raise self._missing(table, missing) from missing

    def _java(self, name: str) -> Any:
        """A class of Iceberg's."""
        return self._classes(f"org.apache.iceberg.{name}")

    def values(self, table: str, column: str, texts: Sequence[str]) -> set[str]:
        """Selects texts that occur in a column."""
        if not texts:
            return set()
        rows = self.look(table, [column], [(column, "in", texts)])
        return set(rows.column(column).to_pylist())

    def ids(self, column: str, ids: Collection[int] | pa.Array) -> DataFrame:
        """Returns numbers as a table that is broadcast to every executor, to be joined."""
        values = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.int64())
        return F.broadcast(self.spark.createDataFrame(pa.table({column: values})))


def _identified(column: pa.Field, spec: Mapping[str, Any]) -> pa.Field:
    if pa.types.is_list(column.type):
        number = _with_id(column.type.value_field.with_name("element"), spec["type"]["element-id"])
        column = column.with_type(pa.list_(number))
    return _with_id(column, spec["id"])


def _with_id(column: pa.Field, number: int) -> pa.Field:
    return column.with_metadata({"PARQUET:field_id": str(number)})


def _parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # A hash is in one row or two: a dictionary would turn its eight bytes into ten.
    listed = [_leaf(column) for column in rows.schema if column.name != "key_hash"]
    with pq.ParquetWriter(sink, rows.schema, compression="zstd", use_dictionary=listed) as file:
        file.write_table(rows, row_group_size=_GROUP_ROWS)
        if rows.num_rows >= _PRINTED_FROM:
            file.add_key_value_metadata(footer_prints(rows, _GROUP_ROWS))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _leaf(column: pa.Field) -> str:
    """Parquet's name for the values of a column."""
    return f"{column.name}.list.element" if pa.types.is_list(column.type) else str(column.name)
