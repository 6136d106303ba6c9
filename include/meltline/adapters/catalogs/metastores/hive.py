"""A Hive metastore's rows, with compare-and-swap by `alter_table` on the metadata location.

Hive 2.3.10 and 4 compare the expected location in the transaction of the change (HIVE-26882). Older
releases ignore it silently. Engines that commit under a metastore's lock do not send it either, so
this also takes the lock where locks are in use.
"""

import getpass
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Any

from hive_metastore import ttypes as hive
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from meltline.adapters.catalogs.metastores.columns import columns_of
from meltline.adapters.catalogs.metastores.hive_databases import HiveConnections
from meltline.adapters.catalogs.metastores.rows import LOCATION, SPARK_PATH, Document, Row
from meltline.adapters.catalogs.table_commits import fate_unknown
from meltline.domain.errors import NameConflict
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import counted
from meltline.retries import until_done

LOCK_SETTING = "hadoop.iceberg.engine.hive.lock-enabled"
_MODIFIED = "The table has been modified"  # the answer to a failed comparison
_NOT_FOUND = "table not found"
_EXISTS = "already exists"
_LOCK_WAIT = 60.0  # seconds; commits hold one for less than one
_BATCH = 500
_SHOWN = 3
_NO_LOCKS = (
    f"the metastore gives no locks, and {LOCK_SETTING} is not false: make its lock tables with "
    "schematool, or, if every writer has engine.hive.lock-enabled=false, set that key to false "
    "in this catalog's section"
)
_NOTHING = (
    f"{LOCK_SETTING} is false and the metastore does not compare an expected parameter "
    "(HIVE-26882): use Hive 2.3.10 or 4, or locks"
)


class HiveRows:
    """The port `Metastore` over Hive.

    Args:
        catalog: Its name, for errors.
        connections: To the metastore.
        locks: Whether writers take locks, as `iceberg.engine.hive.lock-enabled` configures engines.
        lock_wait: How many seconds to wait for another writer's lock.
    """

    def __init__(
        self,
        catalog: str,
        connections: HiveConnections,
        *,
        locks: bool = True,
        lock_wait: float = _LOCK_WAIT,
    ) -> None:
        self._catalog = catalog
        self._connections = connections
        self._locks = locks
        self._lock_wait = lock_wait

    def rows(self, database: str) -> Iterable[Row]:
        """Returns every row of a database; reads again if a name vanished before its row was read.

        A table that was renamed in between would appear under neither name.

        Raises:
            LookupError: That happened each time. It names the rows that were never returned.
        """
        missing: set[str] = set()

        def attempt() -> list[Row] | None:
            nonlocal missing
            rows, names = self._rows_of_all_names(database)
            missing = names - {row.table for row in rows}
            return None if missing else rows

        rows = until_done(attempt)
        if rows is None:
            shown = ", ".join(f"{database}.{table}" for table in sorted(missing)[:_SHOWN])
            raise LookupError(
                f"{counted(len(missing), 'table')} stood under a name and had no row each time: "
                f"{shown}. May this user read them? Or are they given other names all the time?"
            )
        return rows

    def _rows_of_all_names(self, database: str) -> tuple[list[Row], set[str]]:
        rows: list[Row] = []
        with self._connections.open() as client:
            names = client.get_all_tables(database)
            for first in range(0, len(names), _BATCH):
                batch = names[first : first + _BATCH]
                tables = client.get_table_objects_by_name(database, batch)
                rows.extend(_row(table) for table in tables)
        return rows, set(names)

    def row(self, database: str, table: str) -> Row | None:
        with self._connections.open() as client:
            try:
                return _row(client.get_table(database, table))
            except hive.NoSuchObjectException:
                return None

    def replace(
        self, row: Row, parameters: Mapping[str, str], document: Document | None = None
    ) -> bool:
        return self._alter(row, (row.database, row.table), parameters, document)

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        """Renames by one `alter_table`; returns None if the metastore would move the files as well.

        See the port.
        """
        if row.entity.tableType != "EXTERNAL_TABLE":
            return None
        return self._alter(row, to, parameters, None)

    def _alter(
        self,
        row: Row,
        to: tuple[str, str],
        parameters: Mapping[str, str],
        document: Document | None,
    ) -> bool:
        """Changes only what was read; returns False if the row has changed."""
        name = TableName(self._catalog, (row.database,), row.table)
        demand = hive.EnvironmentContext(
            properties={
                "DO_NOT_UPDATE_STATS": "true",
                "expected_parameter_key": LOCATION,
                "expected_parameter_value": row.parameters[LOCATION],
            }
        )
        try:
            with self._connections.open() as client:
                return self._altered(
                    client,
                    row,
                    lambda present: client.alter_table_with_environment_context(
                        row.database,
                        row.table,
                        _changed(present, to, parameters, document),
                        demand,
                    ),
                )
        except hive.NoSuchObjectException:
            return False
        except TException as failure:
            answer = str(getattr(failure, "message", failure))
            if _MODIFIED in answer or _NOT_FOUND in answer:
                return False
            if to != (row.database, row.table) and _EXISTS in answer:
                raise NameConflict(f"{'.'.join(to)} is taken", object=".".join(to)) from failure
            raise fate_unknown(name, f"{type(failure).__name__}: {answer[:200]}") from failure

    def _altered(self, client: Any, row: Row, change: Callable[[Any], Any]) -> bool:
        """Changes the row if it is the expected one, under a lock where locks are in use."""
        lock = self._lock(client, row) if self._locks else None
        try:
            if lock is not None and lock.state != hive.LockState.ACQUIRED:
                return False
            present = client.get_table(row.database, row.table)
            if present.parameters.get(LOCATION) != row.parameters[LOCATION]:
                return False
            change(present)
            return True
        finally:
            if lock is not None:
                with suppress(TException):  # the outcome is known; an unreleased lock expires
                    client.unlock(hive.UnlockRequest(lockid=lock.lockid))

    def _lock(self, client: Any, row: Row) -> Any:
        """Requests the metastore's lock on a table, as engines do. May time out without it."""
        lock = client.lock(_lock_request(row.database, row.table))
        until = time.monotonic() + self._lock_wait
        while lock.state == hive.LockState.WAITING and time.monotonic() < until:
            time.sleep(0.1)
            lock = client.check_lock(hive.CheckLockRequest(lockid=lock.lockid))
        return lock

    def insert(
        self, database: str, table: str, parameters: Mapping[str, str], like: Row | Document
    ) -> bool:
        entity = like.entity if isinstance(like, Row) else _external_table(like)
        document = None if isinstance(like, Row) else like
        try:
            with self._connections.open() as client:
                client.create_table(_changed(entity, (database, table), parameters, document))
        except hive.AlreadyExistsException:
            return False
        except TException as failure:
            name = TableName(self._catalog, (database,), table)
            raise fate_unknown(name, f"{type(failure).__name__}: {failure}"[:200]) from failure
        return True

    def delete(self, row: Row) -> None:
        with self._connections.open() as client, suppress(hive.NoSuchObjectException):
            client.drop_table(row.database, row.table, False)

    def hindrance(self) -> str:
        """Tests whether locks work, or without locks whether the comparison does. See the port."""
        try:
            if self._locks:
                return "" if self._gives_locks() else _NO_LOCKS
            return "" if self._compares() else _NOTHING
        except TException as failure:
            return f"the metastore could not be tried out: {type(failure).__name__}: {failure}"

    def _gives_locks(self) -> bool:
        try:
            with self._connections.open() as client:
                probe = f"meltline_probe_{token_hex(4)}"
                answer = client.lock(_lock_request("default", probe))
                client.unlock(hive.UnlockRequest(lockid=answer.lockid))
        except TTransportException:
            raise
        except TException:
            return False
        return True

    def _compares(self) -> bool:
        """Tests on a temporary view whether the metastore refuses a failed comparison."""
        probe = _external_table({"location": None, "schema": {"fields": []}})
        probe = _changed(probe, ("default", f"meltline_probe_{token_hex(8)}"), {"probe": "1"}, None)
        probe.tableType, probe.viewOriginalText, probe.viewExpandedText = "VIRTUAL_VIEW", "-", "-"
        wrong = {"expected_parameter_key": "probe", "expected_parameter_value": "2"}
        context = hive.EnvironmentContext(properties=wrong)
        with self._connections.open() as client:
            client.create_table(probe)
            try:
                client.alter_table_with_environment_context(
                    probe.dbName, probe.tableName, probe, context
                )
            except hive.MetaException as refused:
                return _MODIFIED in str(refused.message)
            finally:
                client.drop_table(probe.dbName, probe.tableName, False)
        return False


def _lock_request(database: str, table: str) -> Any:
    lock = hive.LockComponent(
        type=hive.LockType.EXCLUSIVE,
        level=hive.LockLevel.TABLE,
        dbname=database,
        tablename=table,
    )
    lock.operationType = hive.DataOperationType.NO_TXN  # it concerns no row of a transaction
    return hive.LockRequest([lock], user=getpass.getuser(), hostname=socket.gethostname())


def _row(table: Any) -> Row:
    sd = table.sd
    serde = (sd.serdeInfo.parameters if sd and sd.serdeInfo else None) or {}
    folder = serde.get(SPARK_PATH) or (sd.location if sd else "") or ""
    parameters = dict(table.parameters or {})
    return Row(table.dbName, table.tableName, parameters, table, table.tableType or "", folder)


def _changed(
    table: Any, to: tuple[str, str], parameters: Mapping[str, str], document: Document | None
) -> Any:
    table.dbName, table.tableName = to
    table.parameters = dict(parameters)
    table.partitionKeys = table.partitionKeys or []
    if document is not None:
        table.sd.location = document["location"]
        table.sd.cols = [
            hive.FieldSchema(name, kind, comment or None)
            for name, kind, comment, _ in columns_of(document)
        ]
    return table


def _external_table(document: Document) -> Any:
    formats = "org.apache.hadoop.mapred.File{}Format"
    now = int(time.time())
    return hive.Table(
        owner=getpass.getuser(),
        createTime=now,
        lastAccessTime=now,
        tableType="EXTERNAL_TABLE",
        partitionKeys=[],
        sd=hive.StorageDescriptor(
            [],
            document["location"],
            formats.format("Input"),
            formats.format("Output"),
            serdeInfo=hive.SerDeInfo(
                serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
            ),
        ),
    )
