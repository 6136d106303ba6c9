"""Reads the file ledger's Iceberg tables in this process, without a JVM.

Commands that start no Spark use it, such as the run history and storage usage. They often find no
ledger, or only need to know whether one exists. So no slow module is loaded before a table is
found. `file_index.py` is the index on Spark.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from meltline.adapters.index_tables.file_parts import TableFiles
from meltline.adapters.index_tables.rows import (
    DEPARTURE,
    PLANNED_FILE,
    departures,
    newest_rows,
    planned_files,
)
from meltline.adapters.manifests.path_hash import key_hash
from meltline.config.load import CatalogConfig
from meltline.domain.errors import SetupMissing, TableNotFound
from meltline.domain.iceberg.files import Departure, EntryStatus, FileKind, PlannedFile, SideFile
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    Catalog,
    IndexedFile,
    IndexedSnapshot,
    IndexedSpan,
    SnapshotKey,
    UsageQuery,
    UsageTotals,
)

if TYPE_CHECKING:  # slow to import
    import pyarrow as pa

    from meltline.adapters.file_index.ledger_rows import LedgerRows
    from meltline.adapters.index_tables.scan_query import Condition

_SMALL = 16 * 1024 * 1024  # bytes of files that are read here for one answer
_SPAN = ("table_uuid", "path", "kind", "bytes", "since", "until")
_LIVE: "Condition" = ("status", "<", int(EntryStatus.DELETED))
_SNAPSHOT = (
    "table_uuid",
    "snapshot_id",
    "committed_at",
    "manifest_list",
    "manifest_list_bytes",
    "manifests",
    "sequence_number",
    "by_changes",
)
_SIDE_FILE = ("table_uuid", "path", "kind", "bytes", "snapshot_id")


class IcebergLedgerReader:
    """Implements the port `LedgerReader`."""

    def __init__(
        self,
        hot: CatalogConfig,
        catalog: Catalog,
        store: TableFiles,
        namespace: str,
        small: int = _SMALL,
    ) -> None:
        self._hot = hot
        self._catalog = catalog
        self._store = store
        self._namespace = namespace
        self._small = small

    def registrations(self) -> set[str]:
        """Returns the ids of registrations with at least one recorded snapshot."""
        rows = self._with_settled("snapshots", ("table_uuid",))
        return set() if rows is None else set(rows.column("table_uuid").unique().to_pylist())

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Returns every snapshot ever recorded."""
        rows = _dicts(self._with_settled("snapshots", _SNAPSHOT))
        recorded = sorted(map(_snapshot, rows), key=lambda s: s.by_changes)
        # A snapshot may have been fully read first, and by changes later: either row is right.
        return list({snapshot.key: snapshot for snapshot in recorded}.values())

    def side_files(self) -> Sequence[SideFile]:
        """Returns every metadata file and statistics file ever recorded."""
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for r in _dicts(self._with_settled("side_files", _SIDE_FILE))
        ]

    def departures(
        self, kinds: Collection[FileKind] | None = None, *paths: str
    ) -> Sequence[Departure]:
        """Returns each departed path's newest row: of all, or of some kinds and of some paths."""
        asked: list[list[Condition]] = [] if kinds is not None else [[]]
        if kinds:
            asked.append([("kind", "in", [str(kind) for kind in kinds])])
        if kinds is not None and paths:
            asked.append([_among("key_hash", paths)])
        columns = (*DEPARTURE, "key_hash", "written_ns")
        parts = [self._with_settled("departures", columns, *where) for where in asked]
        rows = self._together(parts)
        return [] if rows is None else departures(newest_rows(rows))

    def files(self, *paths: str) -> Iterator[IndexedFile]:
        """Returns every manifest and every live entry, or those that are one of some paths."""
        itself = [_among("manifest_id", paths)] if paths else []
        held = [_LIVE, _among("key_hash", paths)] if paths else [_LIVE]
        for row in _dicts(self._rows("manifests", ("manifest_id", "path", "bytes"), *itself)):
            yield IndexedFile(row["manifest_id"], row["path"], FileKind.MANIFEST, row["bytes"])
        for row in _dicts(self._rows("entries", ("manifest_id", "path", "kind", "bytes"), *held)):
            yield IndexedFile(row["manifest_id"], row["path"], row["kind"], row["bytes"])

    def spans(self, *paths: str) -> Iterator[IndexedSpan]:
        """Returns every file that snapshots known by changes reference, or those at some paths."""
        recorded = self._recorded()
        if recorded is None:
            return
        where = [_among("key_hash", paths)] if paths else []
        self._require("changes")
        from meltline.adapters.index_tables.lifetimes import CHANGES, spans_of  # noqa: PLC0415 - Arrow

        changes = self._with_settled("changes", CHANGES, *where)
        for row in spans_of(changes, recorded).select(_SPAN).to_pylist():
            yield IndexedSpan(**row)

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Sums bytes by owner and stage, of all files in manifests and all that have departed."""
        needed = ("entries", "manifests", "departures")
        if not any(map(self._place, needed)):
            return UsageTotals()
        self._require(*needed)
        from meltline.adapters.file_index.storage_usage import (  # noqa: PLC0415 - joins start slowly
            CHANGE_COLUMNS,
            DEPARTURES,
            DUE,
            ENTRY_COLUMNS,
            MANIFEST_COLUMNS,
            weigh,
        )

        entries = self._batches("entries", ENTRY_COLUMNS, _LIVE)
        manifests = self._rows("manifests", MANIFEST_COLUMNS)
        asked = () if weighing.due_by is None else (DUE.name,)
        departed = self._with_settled("departures", (*DEPARTURES.names, *asked))
        recorded = self._recorded() if weighing.lines else None
        changes = self._changes(CHANGE_COLUMNS) if recorded is not None else []
        lines = chain.from_iterable(changes)
        return weigh(weighing, entries, manifests, departed, changes=lines, recorded=recorded)

    def _changes(self, columns: Sequence[str]) -> "list[Iterable[pa.RecordBatch]]":
        """Reads the changes of snapshots; some snapshots are known by these alone."""
        self._require("changes")
        return [self._batches(name, columns) for name in _both("changes")]

    def items(self, *plan_ids: str) -> Mapping[str, Sequence[PlannedFile]]:
        """Returns the items of plans, each sorted by path; a plan without any has an empty list."""
        columns = ("plan_id", *PLANNED_FILE)
        rows = self._rows("plan_items", columns, ("plan_id", "in", sorted(plan_ids)))
        items: dict[str, list[PlannedFile]] = {plan_id: [] for plan_id in plan_ids}
        if rows is not None:
            ids = rows.column("plan_id").to_pylist()
            for plan_id, file in zip(ids, planned_files(rows), strict=True):
                items[plan_id].append(file)
        return {key: sorted(files, key=lambda file: file.path) for key, files in items.items()}

    def _recorded(self) -> "pa.Table | None":
        """Returns the snapshots that are known by their changes; None if there are none."""
        columns = ("table_uuid", "snapshot_id")
        recorded = self._with_settled("snapshots", columns, _is("by_changes", True))
        return recorded if recorded is not None and recorded.num_rows else None

    def _with_settled(
        self, name: str, columns: Sequence[str], *where: "Condition"
    ) -> "pa.Table | None":
        """Returns rows of a table and of its history table; None before `init`.

        Read in this order, a row that moves meanwhile is in at least one of them; it may be in
        both.
        """
        return self._together([self._rows(table, columns, *where) for table in _both(name)])

    def _together(self, parts: Sequence["pa.Table | None"]) -> "pa.Table | None":
        present = [part for part in parts if part is not None]
        return self._ledger_rows.together(present) if present else None

    def _rows(self, name: str, columns: Sequence[str], *where: "Condition") -> "pa.Table | None":
        """Returns rows of one of the ledger's tables, in any order; None before `init`."""
        location = self._place(name)
        return None if location is None else self._ledger_rows.all(name, location, columns, where)

    def _batches(
        self, name: str, columns: Sequence[str], *where: "Condition"
    ) -> "Iterable[pa.RecordBatch]":
        """Returns the current rows in batches: there may be millions."""
        location = self._place(name)
        return () if location is None else self._ledger_rows.parts(name, location, columns, where)

    @cached_property
    def _ledger_rows(self) -> "LedgerRows":
        from meltline.adapters.file_index.ledger_rows import LedgerRows  # noqa: PLC0415 - Arrow

        return LedgerRows(self._hot, self._store, self._small)

    def _place(self, name: str) -> str | None:
        table = TableName(self._hot.name, (self._namespace,), name)
        try:
            return self._catalog.location(table)
        except TableNotFound:
            return None

    def _require(self, *names: str) -> None:
        """Refuses missing tables: sums over a part would show nothing stored and nothing shared."""
        missing = sorted(name for name in names if self._place(name) is None)
        if not missing:
            return
        raise SetupMissing(
            f"tables of the file ledger are missing: {', '.join(missing)}",
            object=f"{self._hot.name}.{self._namespace}",
            expected="the tables that `meltline init` creates",
            found=f"no {' and no '.join(missing)}",
            next="restore them; or `meltline init --adopt`, which starts without their past",
        )


def _both(name: str) -> tuple[str, str]:
    """A table, and its history table."""
    return name, f"settled_{name}"


def _dicts(rows: "pa.Table | None") -> list[dict[str, Any]]:
    dicts: list[dict[str, Any]] = [] if rows is None else rows.to_pylist()
    return dicts


def _is(column: str, operand: str | int | bool) -> "Condition":
    return column, "=", operand


def _among(column: str, paths: Sequence[str]) -> "Condition":
    return column, "in", sorted({key_hash(path) for path in paths})


def _snapshot(row: dict[str, Any]) -> IndexedSnapshot:
    return IndexedSnapshot(
        SnapshotKey(row["table_uuid"], row["snapshot_id"]),
        row["committed_at"],
        row["manifest_list"] or "",
        row["manifest_list_bytes"],
        tuple(row["manifests"]),
        row["sequence_number"],
        row["by_changes"],
    )
