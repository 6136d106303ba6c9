"""Glue's rows, with compare-and-swap by `UpdateTable` and the `VersionId` that was read.

It implements the protocols of `rows`; `tables` has the logic that Glue shares with Hive.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from meltline.adapters.catalogs.metastores.columns import columns_of
from meltline.adapters.catalogs.metastores.rows import SPARK_PATH, Document, Edit, Row
from meltline.adapters.catalogs.table_commits import fate_unknown
from meltline.adapters.catalogs.table_renames import not_empty
from meltline.domain.errors import CatalogReadOnly, CommitConflict
from meltline.domain.iceberg.names import TableName

_GONE = "EntityNotFoundException"
_TAKEN = "AlreadyExistsException"
# Refused before any change: a concurrent change came first, or requests were throttled.
_NOT_DONE = {_GONE, "ConcurrentModificationException", "ThrottlingException"}
_REFUSED = {"AccessDeniedException", "InvalidInputException", "ValidationException"}
_DATABASE_FIELDS = {"Description": "comment", "LocationUri": "location"}


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


class GlueRows:
    """The port `Metastore` over Glue.

    Args:
        catalog: Its name, for errors.
        client: A boto3 client that sends each request once. If it sent a commit again after a
            lost answer, it would report that a concurrent change came first.
        skip_archive: Whether Glue keeps no version of its own of a replaced row.
    """

    def __init__(self, catalog: str, client: Any, *, skip_archive: bool = True) -> None:
        self._catalog = catalog
        self._glue = client
        self._skip_archive = skip_archive

    def rows(self, database: str) -> Iterable[Row]:
        pages = self._glue.get_paginator("get_tables").paginate(DatabaseName=database)
        return [_row(database, table) for page in pages for table in page["TableList"]]

    def row(self, database: str, table: str) -> Row | None:
        try:
            return _row(database, self._glue.get_table(DatabaseName=database, Name=table)["Table"])
        except ClientError as error:
            if _code(error) == _GONE:
                return None
            raise

    def replace(
        self, row: Row, parameters: Mapping[str, str], document: Document | None = None
    ) -> bool:
        """Sends one `UpdateTable` that keeps all other fields as they were read. See the port.

        Version numbers restart with each table: a table that was dropped and created again may have
        the version that was read. So this compares the creation time right before the request.
        """
        version = row.entity.get("VersionId")
        if not version:
            raise self._refused(row, "Glue gave no VersionId for the table")
        table = self._input(row.table, parameters, row, document)
        if not _is_same(self.row(row.database, row.table), row):
            return False
        try:
            self._glue.update_table(
                DatabaseName=row.database,
                TableInput=table,
                SkipArchive=self._skip_archive,
                VersionId=version,
            )
        except (ClientError, BotoCoreError) as failure:
            self._require_not_done(row.database, row.table, failure)
            return False
        return True

    def insert(
        self, database: str, table: str, parameters: Mapping[str, str], like: Row | Document
    ) -> bool:
        try:
            self._glue.create_table(
                DatabaseName=database,
                TableInput=self._input(table, parameters, *_pattern(like)),
            )
        except (ClientError, BotoCoreError) as failure:
            if isinstance(failure, ClientError) and _code(failure) == _TAKEN:
                return False
            self._require_not_done(database, table, failure)
            raise CommitConflict(
                f"{database}.{table} was not made", object=f"{database}.{table}"
            ) from failure
        return True

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        """Returns None: Glue has no such request. See the port."""
        return None

    def delete(self, row: Row) -> None:
        try:
            self._glue.delete_table(DatabaseName=row.database, Name=row.table)
        except ClientError as error:
            if _code(error) != _GONE:
                raise fate_unknown(self._name(row.database, row.table), _code(error)) from error

    def hindrance(self) -> str:
        """Returns an empty text: each row has a version. See the port."""
        return ""

    def _input(
        self,
        name: str,
        parameters: Mapping[str, str],
        row: Row | None,
        document: Document | None,
    ) -> dict[str, Any]:
        """Builds Glue's input from the row's known fields and the changed ones."""
        takes = self._glue.meta.service_model.shape_for("TableInput").members
        carried = {} if row is None else {k: v for k, v in row.entity.items() if k in takes}
        table = {"TableType": "EXTERNAL_TABLE", **carried, "Name": name}
        if document is not None:
            storage = {**table.get("StorageDescriptor", {}), "Location": document["location"]}
            table["StorageDescriptor"] = {**storage, "Columns": _columns(document)}
        return {**table, "Parameters": dict(parameters)}

    def _require_not_done(
        self, database: str, table: str, failure: ClientError | BotoCoreError
    ) -> None:
        code = _code(failure) if isinstance(failure, ClientError) else type(failure).__name__
        if code in _REFUSED:
            raise CatalogReadOnly(
                f"Glue refuses to change {database}.{table}",
                object=f"{database}.{table}",
                expected="a role that may change tables, and a change that Glue takes",
                found=f"{code}: {str(failure)[:200]}",
                next="look at the role's rights",
            ) from failure
        if code not in _NOT_DONE:
            raise fate_unknown(self._name(database, table), code) from failure

    def _name(self, database: str, table: str) -> TableName:
        return TableName(self._catalog, (database,), table)

    def _refused(self, row: Row, reason: str) -> CatalogReadOnly:
        name = self._name(row.database, row.table)
        return CatalogReadOnly(
            f"{name} cannot be changed safely",
            object=str(name),
            expected="a VersionId to compare and set with",
            found=reason,
            next="change it with the tool that owns it",
        )


def _is_same(standing: Row | None, row: Row) -> bool:
    """Returns whether a row is unchanged since it was read, and belongs to the same table."""
    if standing is None or standing.location != row.location:
        return False
    fields = ("VersionId", "CreateTime")
    return [standing.entity.get(field) for field in fields] == [
        row.entity.get(field) for field in fields
    ]


def _pattern(like: Row | Document) -> tuple[Row | None, Document | None]:
    return (like, None) if isinstance(like, Row) else (None, like)


def _row(database: str, table: Mapping[str, Any]) -> Row:
    storage = table.get("StorageDescriptor") or {}
    serde = (storage.get("SerdeInfo") or {}).get("Parameters") or {}
    folder = serde.get(SPARK_PATH) or storage.get("Location") or ""
    parameters = dict(table.get("Parameters") or {})
    kind = str(table.get("TableType") or "")
    return Row(database, str(table["Name"]), parameters, table, kind, folder)


def _columns(document: Document) -> list[dict[str, Any]]:
    """Returns the current schema's columns, marked as Iceberg's own clients mark them."""
    return [
        {
            "Name": name,
            "Type": kind,
            "Comment": comment,
            "Parameters": {
                "iceberg.field.id": str(field["id"]),
                "iceberg.field.optional": str(not field["required"]).lower(),
                "iceberg.field.current": "true",
            },
        }
        for name, kind, comment, field in columns_of(document)
    ]


class GlueDatabases:
    """The port `Databases` over Glue."""

    def __init__(self, catalog: str, client: Any) -> None:
        self._catalog = catalog
        self._glue = client

    def properties(self) -> dict[str, dict[str, str]]:
        pages = self._glue.get_paginator("get_databases").paginate()
        return {
            str(database["Name"]): _texts(database)
            for page in pages
            for database in page["DatabaseList"]
        }

    def make(self, database: str, properties: Mapping[str, str]) -> bool:
        try:
            self._glue.create_database(DatabaseInput=_database({}, database, properties))
        except ClientError as error:
            if _code(error) == _TAKEN:
                return False
            raise
        return True

    def change(self, database: str, edit: Edit) -> None:
        present = self._glue.get_database(Name=database)["Database"]
        properties = edit(_texts(present))
        takes = self._glue.meta.service_model.shape_for("DatabaseInput").members
        carried = {k: v for k, v in present.items() if k in takes and k not in _DATABASE_FIELDS}
        self._glue.update_database(
            Name=database, DatabaseInput=_database(carried, database, properties)
        )

    def remove(self, database: str) -> None:
        """Deletes an empty database.

        Checks just before: Glue deletes a database with its content.
        """
        try:
            tables = self._glue.get_tables(DatabaseName=database, MaxResults=1)["TableList"]
            if tables:
                raise not_empty(self._catalog, (database,), str(tables[0]["Name"]))
            self._glue.delete_database(Name=database)
        except ClientError as error:
            if _code(error) != _GONE:
                raise


def _texts(database: Mapping[str, Any]) -> dict[str, str]:
    """Returns a database's properties, including its description and location."""
    fields = {word: database[k] for k, word in _DATABASE_FIELDS.items() if database.get(k)}
    return {**(database.get("Parameters") or {}), **fields}


def _database(
    carried: Mapping[str, Any], name: str, properties: Mapping[str, str]
) -> dict[str, Any]:
    fields = {k: properties[word] for k, word in _DATABASE_FIELDS.items() if word in properties}
    parameters = {k: v for k, v in properties.items() if k not in _DATABASE_FIELDS.values()}
    return {**carried, **fields, "Name": name, "Parameters": parameters}
