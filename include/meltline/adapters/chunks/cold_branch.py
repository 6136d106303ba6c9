"""A scratch branch of a cold table: a pass writes to it, and then publishes it in one commit.

The replicator and the rollup engine share it. It checks the chain of metadata files, so that a
commit by another writer stops the pass.
"""

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meltline.adapters.chunks.java_lists import JavaLists
from meltline.adapters.chunks.predicates import iceberg_filter
from meltline.adapters.spark.jvm import (
    CONFLICT,
    ENGINE_FAILURES,
    kind_of,
    shown_failure,
)
from meltline.adapters.spark.pinned_tables import PinnedTables
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.errors import MeltlineError, SyncRefused
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN

BRANCH = "meltline_pass"


class MovedOn(Exception):
    """Another writer has changed the cold table since the pass began."""


@dataclass(frozen=True)
class RowRemoval:
    """Data files to remove.

    Attributes:
        paths: All of them.
        ranges: Their times, by which Iceberg finds them quickly; empty if unknown.
        summary: Summary properties of the commit.
    """

    paths: Collection[str]
    layout: ChunkLayout
    ranges: Sequence[TimeRange]
    summary: Mapping[str, str]


class ColdBranch:
    """Follows the table's metadata from commit to commit: each must succeed the one before.

    The first commit to the branch starts it at main's head, as Iceberg does by default; likewise
    in a table without a snapshot.
    """

    def __init__(self, tables: PinnedTables, name: TableName, base: str) -> None:
        """Takes the table's name, and the metadata file on which the pass was decided."""
        self._tables = tables
        self._lists = JavaLists(tables.spark)
        self._name = name
        self._location = base
        self._main: int | None = None
        self._is_ours = False
        self.table: Any = None

    @property
    def head(self) -> int | None:
        """The branch's newest snapshot, else main's; None for a table without one."""
        return self._ref(BRANCH) or self._main

    def open(self) -> None:
        """Loads the table; drops the branch of a pass that was killed.

        Raises:
            MovedOn: Its metadata is not the file on which the pass was decided.
            SyncRefused: Another writer deletes rows in it.
        """
        self.table = self._tables.load(self._name)
        if self._metadata().metadataFileLocation() != self._location:
            raise MovedOn
        self._is_ours = True
        self._main = self._ref(MAIN)
        self._require_no_deletes()
        if self._ref(BRANCH) is not None:
            self._commit(self._builder().removeRef(BRANCH))

    def appended(self, before: int | None) -> int:
        """Adopts Spark's commit on the branch, and returns how many rows it added.

        A commit without rows is reverted, so that a pass after a compaction leaves no snapshot.

        Args:
            before: The branch's head before the commit.

        Raises:
            MovedOn: Another commit came between.
            SyncRefused: There is no commit, because the session stages its writes.
        """
        self._advance()
        if self._ref(MAIN) != self._main:
            raise MovedOn
        head = self._ref(BRANCH)
        if head is None:
            raise self._staged()
        snapshot = self.table.snapshot(head)
        summary = snapshot.summary()
        if summary.get("added-data-files") is None and head != before:
            nothing = self._tables.java("java.util.List").of(snapshot)
            builder = self._builder()
            if before is None or before == self._main:
                builder = builder.removeRef(BRANCH)
            else:
                builder = builder.setBranchSnapshot(before, BRANCH)
            self._commit(builder.removeSnapshots(nothing))
        return int(summary.get("added-records") or 0)

    def remove(self, removal: RowRemoval) -> None:
        """Commits the removal of data files to the branch.

        Raises:
            MovedOn: Another commit came between.
            SyncRefused: Some files are missing.
        """
        files = self._files(removal)
        sets = "org.apache.iceberg.util"
        leaving = self._tables.java(f"{sets}.DataFileSet").of(files)
        none = self._tables.java(f"{sets}.DeleteFileSet").create()
        overwrite = self.table.newOverwrite().deleteFiles(leaving, none).toBranch(BRANCH)
        for key, text in removal.summary.items():
            overwrite.set(key, text)
        overwrite.commit()
        self._advance()

    def publish(self, properties: Mapping[str, str]) -> str:
        """Sets main to the branch's head, and the properties, in one compare-and-swap.

        Returns:
            The new metadata file.

        Raises:
            MovedOn: Another commit came between.
            MeltlineError: The outcome is unknown.
        """
        try:
            self._commit(self._published(properties))
        except ENGINE_FAILURES as failure:
            raise MeltlineError(
                f"nobody knows whether the pass to {self._name} was published",
                object=str(self._name),
                expected="a commit or a conflict",
                found=shown_failure(failure),
                next="run again: the table's own properties tell up to where it has the rows",
            ) from failure
        return self._location

    def _published(self, properties: Mapping[str, str]) -> Any:
        builder = self._builder()
        if (head := self._ref(BRANCH)) is not None:
            builder = builder.setBranchSnapshot(head, MAIN).removeRef(BRANCH)
            self._main = head
        words = self._tables.java("java.util.HashMap")()
        for key, text in properties.items():
            words.put(key, text)
        return builder.setProperties(words)

    def abandon(self) -> None:
        """Drops the branch if possible; otherwise the next pass does it."""
        if not self._is_ours:
            return
        with contextlib.suppress(*ENGINE_FAILURES, MovedOn):
            self.table.refresh()
            self._location = str(self._metadata().metadataFileLocation())
            if self._ref(BRANCH) is not None:
                self._commit(self._builder().removeRef(BRANCH))

    # --- the chain of commits --------------------------------------------------------------------

    def _commit(self, builder: Any) -> None:
        operations = self.table.operations()
        try:
            operations.commit(operations.current(), builder.build())
        except ENGINE_FAILURES as failure:
            if kind_of(failure) == CONFLICT:
                raise MovedOn from failure
            raise
        self._advance()

    def _advance(self) -> None:
        """Adopts the metadata of the last commit, if its predecessor is the metadata known here."""
        self.table.refresh()
        metadata = self._metadata()
        location = str(metadata.metadataFileLocation())
        if location == self._location:
            return
        earlier = list(metadata.previousFiles())
        if not earlier or earlier[-1].file() != self._location:
            raise MovedOn
        self._location = location

    def _metadata(self) -> Any:
        return self.table.operations().current()

    def _builder(self) -> Any:
        return self._tables.java("org.apache.iceberg.TableMetadata").buildFrom(self._metadata())

    def _ref(self, name: str) -> int | None:
        ref = self._metadata().ref(name)
        return None if ref is None else int(ref.snapshotId())

    # --- files -----------------------------------------------------------------------------------

    def _require_no_deletes(self) -> None:
        head = self.table.currentSnapshot()
        if head is not None and head.deleteManifests(self.table.io()).size():
            raise SyncRefused(
                f"rows of {self._name} were deleted by somebody else",
                object=str(self._name),
                expected="data files alone: nobody but replication writes there",
                found="delete files",
                next="ask who writes to it; compact them away, and begin the sync anew",
            )

    def _staged(self) -> SyncRefused:
        return SyncRefused(
            f"what was written to {self._name} is not on its branch {BRANCH}",
            object=str(self._name),
            expected="a commit on the branch",
            found="none: the session has writes staged to be audited (spark.wap.id)",
            next="unset spark.wap.id, or write.wap.enabled of the table",
        )

    def _files(self, removal: RowRemoval) -> Any:
        """Returns Iceberg's own objects of the files, which spare it the manifests without them."""
        expected = set(removal.paths)
        for ranges in (removal.ranges, None):
            files, paths = self._live(removal.layout, ranges)
            chosen = [path in expected for path in paths]
            if sum(chosen) == len(expected):
                return self._lists.chosen(files, chosen)
        raise SyncRefused(
            f"files that are to leave {self._name} are not in it",
            object=str(self._name),
            expected=f"{len(expected)} data files",
            found=f"{sum(chosen)} of them",
            next="run again: it is decided anew on what the table has now",
        )

    def _live(
        self, layout: ChunkLayout, ranges: Sequence[TimeRange] | None
    ) -> tuple[Any, list[str]]:
        scan = self.table.newScan()
        if self._ref(BRANCH) is not None:
            scan = scan.useRef(BRANCH)
        if ranges:
            name = str(self.table.schema().findColumnName(layout.column.field_id))
            within = json.dumps(iceberg_filter(layout, name, ranges))
            parser = self._tables.java("org.apache.iceberg.expressions.ExpressionParser")
            scan = scan.filter(parser.fromJson(within))
        tasks = self._lists.taken(scan.planFiles())
        files = self._lists.each(tasks, "org.apache.iceberg.FileScanTask", "file")
        return files, self._lists.texts(
            self._lists.each(files, "org.apache.iceberg.ContentFile", "location")
        )
