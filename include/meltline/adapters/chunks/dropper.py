"""Drops chunks by Iceberg's overwrite of files, which validates again on each of its retries.

`app/chunks` calls it after a gate has passed. `DeleteFiles` would only check that the files exist.
A concurrent row delete would be lost with them, and a concurrent row would remain alone in a chunk
that counts as dropped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from meltline.adapters.chunks.java_lists import JavaLists
from meltline.adapters.chunks.predicates import iceberg_filter
from meltline.adapters.spark.jvm import ENGINE_FAILURES, kind_of, shown_failure
from meltline.adapters.spark.pinned_tables import PinnedTables
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import TimeRange, merged
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import DropOutcome, DropRequest

_CONFLICTS = {
    "ValidationException": "the table changed after the gate",
    "CommitFailedException": "others committed first each time",
}
_TASK, _FILE = "org.apache.iceberg.FileScanTask", "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"


class _Conflict(Exception):
    """The reason why the table does not allow the drop."""


@dataclass(frozen=True)
class _Leaving:
    """Iceberg's own objects of the files to remove, kept in the JVM because the lists may be long.

    Attributes:
        files: Data files.
        deletes: Delete files that apply to these alone; one may occur several times.
    """

    files: Any
    deletes: Any


class JvmChunkDropper:
    """Implements `ChunkDropper` for every catalog that Spark can open."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        self._tables = PinnedTables(spark, catalogs)
        self._java = self._tables.java
        self._lists = JavaLists(spark)

    def drop(self, request: DropRequest) -> DropOutcome:
        """Removes exactly these files in one commit. See the port.

        Raises:
            MeltlineError: It failed without a conflict, or its outcome is unknown. The next run
                finds out, since the plan's id is in the snapshot's summary.
        """
        is_committing = False
        try:
            table = self._tables.load(request.table)
            self._require_base(table, request.base_snapshot)
            within = self._filter(table, request)
            leaving = self._leaving(table, within, request)
            is_committing = True
            return DropOutcome(self._commit(table, within, leaving, request))
        except _Conflict as conflict:
            return DropOutcome(None, str(conflict))
        except ENGINE_FAILURES as failure:
            kind, cause = kind_of(failure), shown_failure(failure)
            if kind in _CONFLICTS:
                return DropOutcome(None, f"{_CONFLICTS[kind]}: {cause}")
            raise _failed(request.table, cause, is_committing=is_committing) from failure

    def _require_base(self, table: Any, base: int) -> None:
        table.refresh()
        if table.snapshot(base) is None:
            raise _Conflict(f"snapshot {base}, on which the gate judged, is not in the table")
        head = table.currentSnapshot()
        ancestry = self._java("org.apache.iceberg.util.SnapshotUtil")
        if head is None or not ancestry.isAncestorOf(table, head.snapshotId(), base):
            raise _Conflict(f"main does not descend from snapshot {base}, on which the gate judged")

    def _filter(self, table: Any, request: DropRequest) -> Any:
        """Returns the chunks' ranges as a filter on the column, under its current name."""
        column = table.schema().findColumnName(request.layout.column.field_id)
        if column is None:
            raise _Conflict(f"the column {request.layout.column.name} is not there any more")
        ranges = _ranges(request.layout, request.chunks)
        # As JSON the whole filter takes one round trip, and its values fit the column as literals.
        return self._java("org.apache.iceberg.expressions.ExpressionParser").fromJson(
            json.dumps(iceberg_filter(request.layout, str(column), ranges))
        )

    def _leaving(self, table: Any, within: Any, request: DropRequest) -> _Leaving:
        lists = self._lists
        # A plain scan of the snapshot would use the schema that it was written with, and fail
        # if the column was renamed since.
        base = self._tables.pinned(table, request.base_snapshot)
        tasks = lists.taken(base.newScan().filter(within).planFiles())
        files = lists.each(tasks, _TASK, "file")
        paths = lists.texts(lists.each(files, _FILE, "location"))
        if len(paths) != len(request.files) or set(paths) != request.files:
            raise _Conflict(_difference(request.files, set(paths)))
        return _Leaving(files, self._deletes(tasks, files, request.files))

    def _deletes(self, tasks: Any, files: Any, paths: frozenset[str]) -> Any:
        """Returns the delete files that apply to these data files alone.

        Each either names one of them, or belongs to a partition that lies completely in the
        chunks: there the scan has no residual filter. All others may apply to other chunks. They
        stay, as after any delete of whole files.
        """
        lists = self._lists
        whole = lists.texts(lists.each(tasks, "org.apache.iceberg.ContentScanTask", "residual"))
        specs = lists.texts(lists.each(files, _FILE, "specId"))
        deletes = lists.each(tasks, _TASK, "deletes")
        counts = [int(n) for n in lists.texts(lists.each(deletes, "java.util.Collection", "size"))]
        flat = lists.flat(deletes)
        referenced = lists.texts(
            lists.each_static(
                flat,
                "org.apache.iceberg.util.ContentFileUtil",
                "referencedDataFileLocation",
                _DELETE,
            )
        )
        delete_specs = lists.texts(lists.each(flat, _FILE, "specId"))
        owners = [at for at, count in enumerate(counts) for _ in range(count)]
        goes = [
            names in paths or (names == "null" and whole[at] == "true" and specs[at] == spec)
            for at, names, spec in zip(owners, referenced, delete_specs, strict=True)
        ]
        return lists.chosen(flat, goes)

    def _commit(self, table: Any, within: Any, leaving: _Leaving, request: DropRequest) -> int:
        sets = "org.apache.iceberg.util"
        files = self._java(f"{sets}.DataFileSet").of(leaving.files)
        deletes = self._java(f"{sets}.DeleteFileSet").of(leaving.deletes)
        overwrite = table.newOverwrite().deleteFiles(files, deletes)
        overwrite = overwrite.validateFromSnapshot(request.base_snapshot)
        overwrite = overwrite.conflictDetectionFilter(within)
        overwrite = overwrite.validateNoConflictingData().validateNoConflictingDeletes()
        for key, text in request.summary.items():
            overwrite.set(key, text)
        overwrite.commit()
        return int(overwrite.updateEvent().snapshotId())


def _ranges(layout: ChunkLayout, chunks: Sequence[str]) -> list[TimeRange]:
    ranges = []
    for name in chunks:
        times = layout.range(name)
        if times is None:
            raise _Conflict(f"{name} has rows without a time, and is never dropped")
        ranges.append(times)
    if not ranges:
        raise _Conflict("no chunk is to be dropped")
    return merged(ranges)


def _difference(gated: frozenset[str], there: set[str]) -> str:
    more, gone = sorted(there - gated), sorted(gated - there)
    parts = []
    if more:
        parts.append(f"{len(more)} more, such as {more[0]}")
    if gone:
        parts.append(f"{len(gone)} fewer, such as {gone[0]}")
    return "the chunks have other files than the gate has passed: " + (", ".join(parts) or "twice")


def _failed(table: TableName, cause: str, *, is_committing: bool) -> MeltlineError:
    if not is_committing:
        return MeltlineError(
            f"chunks of {table} could not be dropped; nothing was committed",
            object=str(table),
            expected="a table whose metadata this session can read",
            found=cause,
            next="run again; if it stays, have a look at the table with the engine itself",
        )
    return MeltlineError(
        f"nobody knows what became of the drop of chunks of {table}",
        object=str(table),
        expected="a commit or a conflict",
        found=cause,
        next="run again: the catalog decides, since a drop that was committed has the plan's id",
    )
