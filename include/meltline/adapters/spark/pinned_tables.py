"""Tables pinned to a snapshot: main is set to it in a copy of the metadata, which is never written.

Time travel and chunks read through it. Stock `VERSION AS OF` reads a snapshot with its own schema,
and its partition specs under current names: a filter on a partition column that was renamed since
fails (Iceberg 1.12). Here rows, files and partitions are all read under the same columns, matched
by field id, whatever schema the snapshot was written with.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.spark.jvm import JavaClasses
from meltline.adapters.spark.session import spark_catalog, spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.iceberg.names import TableName

_WAP = "write.wap.enabled"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
Field = Mapping[str, Any]


class PinnedTables:
    """Loads Iceberg tables, and reads and appends through frames of them."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and the configuration of its catalogs."""
        self.java = JavaClasses(spark)
        self.spark = spark
        self._catalogs = catalogs

    def load(self, name: TableName) -> Any:
        """Returns Iceberg's table with its current metadata in the catalog."""
        return self.java("org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            self.spark._jsparkSession, spark_identifier(self._catalogs, name)
        )

    def at(self, io: Any, location: str) -> Any:
        """Returns a table from one of its metadata files, whatever its catalog has now.

        Args:
            io: An Iceberg `FileIO` that can read the file.
            location: The file.
        """
        metadata = self.java("org.apache.iceberg.TableMetadataParser").read(io, location)
        places = self.java("org.apache.iceberg.LocationProviders").locationsFor(
            metadata.location(), metadata.properties()
        )
        static = self.java("org.apache.iceberg.StaticTableOperations")(metadata, io, places)
        return self.java("org.apache.iceberg.BaseTable")(static, location)

    def file_io(self, name: str, settings: Mapping[str, str]) -> Any:
        """Returns an Iceberg `FileIO` by class name, with a catalog's settings."""
        hadoop = self.spark._jsparkSession.sessionState().newHadoopConf()
        catalogs = self.java("org.apache.iceberg.CatalogUtil")
        return catalogs.loadFileIO(name, self._map(settings), hadoop)

    def pinned(self, table: Any, snapshot_id: int, columns: Any = None) -> Any:
        """Returns a table with main at a snapshot.

        Args:
            table: The loaded table.
            snapshot_id: A snapshot in the metadata.
            columns: Another schema to read it under, by field id: an Iceberg schema, or the id of
                one of the table's; None is the current one.
        """
        current = table.operations().current()
        builder = self.java("org.apache.iceberg.TableMetadata").buildFrom(current)
        builder = builder.setBranchSnapshot(snapshot_id, "main")
        # A session that stages its writes for an audit would read the rows of its branch.
        builder = builder.removeProperties(self.java("java.util.Set").of(_WAP))
        if columns is not None:
            # The columns by which new rows are partitioned and sorted may not be among these.
            spec = self.java("org.apache.iceberg.PartitionSpec").unpartitioned()
            builder = builder.setDefaultPartitionSpec(spec)
            order = self.java("org.apache.iceberg.SortOrder").unsorted()
            builder = builder.setDefaultSortOrder(order)
            builder = _under(builder, columns, int(current.lastColumnId()))
        operations = self.java("org.apache.iceberg.StaticTableOperations")(
            builder.discardChanges().build(), table.io(), table.locationProvider()
        )
        return self.java("org.apache.iceberg.BaseTable")(operations, table.name())

    def rows(self, table: Any, options: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
        """Returns the rows of a pinned table; columns are named `c` and their field id."""
        names = [column_of(field) for field in fields_of(self.schema(table))]
        return self.frame(table, options).toDF(*names)

    def frame(self, table: Any, options: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
        """Returns a frame of any Iceberg table, also of metadata tables."""
        source = self.java("org.apache.iceberg.spark.source.SparkTable")(table)
        none = self.java("scala.Option").empty()
        relation = self.java(_RELATION).create(source, none, none, self._options(options), none)
        return DataFrame(self._dataset(relation), self.spark)

    def append(
        self, name: TableName, table: Any, branch: str, rows: DataFrame, options: Mapping[str, str]
    ) -> None:
        """Appends rows to a branch of a table, matching columns by their order.

        A missing branch is created at main's head. The plan itself names the branch, because with
        an option for it Spark (Iceberg 1.12) writes to main as often as not.

        Args:
            name: The table's name.
            table: The loaded table.
            branch: The branch's name.
            rows: Rows with the table's columns.
            options: Iceberg's write options.
        """
        source = self.java("org.apache.iceberg.spark.source.SparkTable")(table)
        some = self.java("scala.Option").apply
        catalog = spark_catalog(self._catalogs[name.catalog])
        session: Any = self.spark._jsparkSession
        relation = self.java(_RELATION).create(
            source.copyWithBranch(branch),
            some(session.sessionState().catalogManager().catalog(catalog)),
            some(
                self.java("org.apache.spark.sql.connector.catalog.Identifier").of(
                    self._texts(name.namespace), name.name
                )
            ),
            self._options(options),
            self.java("scala.Option").empty(),
        )
        words = self.java("org.apache.spark.api.python.PythonUtils").toScalaMap(self._map(options))
        logical = "org.apache.spark.sql.catalyst.plans.logical.AppendData"
        frame: Any = rows._jdf
        plan = self.java(logical).byPosition(relation, frame.logicalPlan(), words)
        self._dataset(plan).queryExecution().assertCommandExecuted()

    def _dataset(self, plan: Any) -> Any:
        dataset = self.java("org.apache.spark.sql.classic.Dataset")
        return dataset.ofRows(self.spark._jsparkSession, plan)

    def _options(self, options: Mapping[str, str]) -> Any:
        return self.java("org.apache.spark.sql.util.CaseInsensitiveStringMap")(self._map(options))

    def _map(self, words: Mapping[str, str]) -> Any:
        made = self.java("java.util.HashMap")()
        for key, text in words.items():
            made.put(key, text)
        return made

    def _texts(self, texts: Sequence[str]) -> Any:
        gateway: Any = self.spark.sparkContext._gateway
        array = gateway.new_array(self.java("java.lang.String"), len(texts))
        for at, text in enumerate(texts):
            array[at] = text
        return array

    def schema(self, table: Any) -> Field:
        """Returns a table's current columns, from its metadata."""
        schema: Field = json.loads(
            self.java("org.apache.iceberg.SchemaParser").toJson(table.schema())
        )
        return schema


def _under(builder: Any, columns: Any, last_column: int) -> Any:
    if isinstance(columns, int):
        return builder.setCurrentSchema(columns)
    return builder.setCurrentSchema(columns, max(last_column, int(columns.highestFieldId())))


def fields_of(schema: Field) -> Sequence[Field]:
    """Returns the top-level columns of a schema, or the fields of a struct."""
    fields: Sequence[Field] = schema["fields"]
    return fields


def column_of(field: Field) -> str:
    """Returns a column's name in frames: unlike names, field ids are unique."""
    return f"c{field['id']}"
