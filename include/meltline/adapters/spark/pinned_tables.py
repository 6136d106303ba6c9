"""Tables with main set to a snapshot in a copy of their metadata, for reading.

Stock `VERSION AS OF` reads a snapshot with the snapshot's own schema, and its partition specs with
the present names: a filter on a partition column that was renamed since fails (Iceberg 1.12). Here
rows, files and partitions are all read under the same columns, by field id, whatever the snapshot
was written with. Nothing is written.
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
    """Loads Iceberg's tables, and frames of them."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and what its catalogs stand for."""
        self.java = JavaClasses(spark)
        self.spark = spark
        self._catalogs = catalogs

    def load(self, name: TableName) -> Any:
        """Iceberg's table, as the catalog has it now."""
        return self.java("org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            self.spark._jsparkSession, spark_identifier(self._catalogs, name)
        )

    def at(self, io: Any, location: str) -> Any:
        """A table as one of its metadata files has it, whatever its catalog has by now.

        Args:
            io: Iceberg's `FileIO` that reaches it.
            location: The file.
        """
        metadata = self.java("org.apache.iceberg.TableMetadataParser").read(io, location)
        places = self.java("org.apache.iceberg.LocationProviders").locationsFor(
            metadata.location(), metadata.properties()
        )
        static = self.java("org.apache.iceberg.StaticTableOperations")(metadata, io, places)
        return self.java("org.apache.iceberg.BaseTable")(static, location)

    def file_io(self, name: str, settings: Mapping[str, str]) -> Any:
        """A `FileIO` of Iceberg's by its class, with a catalog's settings."""
        hadoop = self.spark._jsparkSession.sessionState().newHadoopConf()
        catalogs = self.java("org.apache.iceberg.CatalogUtil")
        return catalogs.loadFileIO(name, self._map(settings), hadoop)

    def pinned(self, table: Any, snapshot_id: int, columns: Any = None) -> Any:
        """A table with main at a snapshot.

        Args:
            table: As it was loaded.
            snapshot_id: It must be in the metadata.
            columns: Another schema to read it under, by field id: Iceberg's, or the id of one of
                the table's; None is its present one.
        """
        current = table.operations().current()
        builder = self.java("org.apache.iceberg.TableMetadata").buildFrom(current)
        builder = builder.setBranchSnapshot(snapshot_id, "main")
        # A session that has its work audited on a branch would be given that branch's rows.
        builder = builder.removeProperties(self.java("java.util.Set").of(_WAP))
        if columns is not None:
            # What new rows would be partitioned and sorted by may not be among these.
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
        """The rows of a pinned table; its columns are called `c` and their field id."""
        names = [column_of(field) for field in fields_of(self.schema(table))]
        return self.frame(table, options).toDF(*names)

    def frame(self, table: Any, options: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
        """A frame of any table of Iceberg's, the ones made of metadata as well."""
        source = self.java("org.apache.iceberg.spark.source.SparkTable")(table)
        none = self.java("scala.Option").empty()
        relation = self.java(_RELATION).create(source, none, none, self._options(options), none)
        return DataFrame(self._dataset(relation), self.spark)

    def append(
        self, name: TableName, table: Any, branch: str, rows: DataFrame, options: Mapping[str, str]
    ) -> None:
        """Appends rows to a branch of a table, column for column by their order.

        The branch is made if it is not there, from main's head. The plan names it itself: where
        Spark is told of it by an option, Iceberg 1.12 writes to main as often as not.

        Args:
            name: The table's.
            table: As it was loaded.
            branch: Its name.
            rows: With the table's columns.
            options: Of Iceberg's writes.
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
        """A table's present columns, as its metadata has them."""
        schema: Field = json.loads(
            self.java("org.apache.iceberg.SchemaParser").toJson(table.schema())
        )
        return schema


def _under(builder: Any, columns: Any, last_column: int) -> Any:
    if isinstance(columns, int):
        return builder.setCurrentSchema(columns)
    return builder.setCurrentSchema(columns, max(last_column, int(columns.highestFieldId())))


def fields_of(schema: Field) -> Sequence[Field]:
    """The top columns of a schema or the fields of a struct."""
    fields: Sequence[Field] = schema["fields"]
    return fields


def column_of(field: Field) -> str:
    """What a column is called in frames: names may be taken twice, ids are not."""
    return f"c{field['id']}"
