"""Reads the file ledger's Iceberg tables with PyIceberg: answers come without starting a JVM."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    LessThan,
    Or,
)
from pyiceberg.expressions import Reference as Column
from pyiceberg.expressions.literals import literal
from pyiceberg.table import DataScan, StaticTable

from meltline.adapters.catalogs.loaded_tables import reading_regular_files
from meltline.adapters.index_tables.rows import departures, newest_rows, planned_files
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

if TYPE_CHECKING:  # slow to import, and commands that only edit a table do without it
    import pyarrow as pa

_SPAN = ("table_uuid", "path", "kind", "bytes", "since", "until")
_LIVE = LessThan(term=Column("status"), value=literal(int(EntryStatus.DELETED)))


class IcebergLedgerReader:
    """The port `LedgerReader`."""

    def __init__(self, hot: CatalogConfig, catalog: Catalog, namespace: str) -> None:
        self._hot = hot
        self._catalog = catalog
        self._namespace = namespace

    def registrations(self) -> set[str]:
        """The ids of registrations of which a snapshot was ever recorded."""
        rows = self._with_settled("snapshots", None, "table_uuid")
        return set() if rows is None else set(rows.column("table_uuid").unique().to_pylist())

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Every snapshot ever recorded."""
        rows = _dicts(self._with_settled("snapshots"))
        recorded = sorted(map(_snapshot, rows), key=lambda s: s.by_changes)
        # Of one that was read wholly at first, and later by its changes, either tells the truth.
        return list({snapshot.key: snapshot for snapshot in recorded}.values())

    def side_files(self) -> Sequence[SideFile]:
        """Every metadata file and statistics file ever recorded."""
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for r in _dicts(self._with_settled("side_files"))
        ]

    def departures(
        self, kinds: Collection[FileKind] | None = None, path: str | None = None
    ) -> Sequence[Departure]:
        """The newest row of each departed path: of all, or of some kinds and of one path."""
        condition: BooleanExpression = AlwaysTrue()
        if kinds is not None:
            by_path = [] if path is None else [_is("key_hash", key_hash(path))]
            none = (AlwaysFalse(), AlwaysFalse())  # it takes two at least
            condition = Or(*none, *by_path, *(_is("kind", str(kind)) for kind in kinds))
        rows = self._with_settled("departures", condition)
        return [] if rows is None else departures(newest_rows(rows))

    def files(self, path: str | None = None) -> Iterator[IndexedFile]:
        """Every manifest and every live entry, or those that are this path."""
        itself: BooleanExpression = AlwaysTrue()
        held: BooleanExpression = _LIVE
        if path is not None:
            itself = _is("manifest_id", key_hash(path))
            held = And(_LIVE, _is("key_hash", key_hash(path)))
        for row in self._rows("manifests", itself, "manifest_id", "path", "bytes"):
            yield IndexedFile(row["manifest_id"], row["path"], FileKind.MANIFEST, row["bytes"])
        for row in self._rows("entries", held, "manifest_id", "path", "kind", "bytes"):
            yield IndexedFile(row["manifest_id"], row["path"], row["kind"], row["bytes"])

    def spans(self, path: str | None = None) -> Iterator[IndexedSpan]:
        """Every file that snapshots known by changes refer to, or those that are this path."""
        from meltline.adapters.index_tables.lifetimes import CHANGES, spans_of  # noqa: PLC0415 - starts slowly

        recorded = self._recorded()
        if recorded is None:
            return
        where = AlwaysTrue() if path is None else _is("key_hash", key_hash(path))
        changes = _together([scan.to_arrow() for scan in self._changes(where, CHANGES)])
        for row in spans_of(changes, recorded).select(_SPAN).to_pylist():
            yield IndexedSpan(**row)

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Bytes by owner and stage, of everything that manifests hold and that has departed."""
        places = {name: self._place(name) for name in ("entries", "manifests", "departures")}
        present = {name: place for name, place in places.items() if place is not None}
        if not present:
            return UsageTotals()
        if len(present) < len(places):
            raise self._incomplete(sorted(places.keys() - present.keys()))
        from meltline.adapters.file_index.storage_usage import (  # noqa: PLC0415 - starts slowly
            CHANGE_COLUMNS,
            DEPARTURES,
            ENTRY_COLUMNS,
            MANIFEST_COLUMNS,
            weigh,
        )

        entries = self._open(present["entries"], _LIVE, ENTRY_COLUMNS)
        manifests = self._open(present["manifests"], AlwaysTrue(), MANIFEST_COLUMNS)
        departed = self._with_settled("departures", AlwaysTrue(), *DEPARTURES.names)
        recorded = self._recorded() if weighing.lines else None
        scans = self._changes(AlwaysTrue(), CHANGE_COLUMNS) if recorded is not None else ()
        return weigh(
            weighing,
            entries.to_arrow_batch_reader(),
            manifests.to_arrow(),
            departed,
            changes=chain.from_iterable(scan.to_arrow_batch_reader() for scan in scans),
            recorded=recorded,
        )

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        scan = self._scan("plan_items", _is("plan_id", plan_id))
        return sorted(planned_files(scan.to_arrow()) if scan else [], key=lambda file: file.path)

    def _recorded(self) -> "pa.Table | None":
        """The snapshots that are known by what they changed; None where there are none.

        A ledger of an earlier release knows nothing of such.
        """
        steps = ("table_uuid", "snapshot_id")
        scans = self._scans_with_settled("snapshots", _is("by_changes", True), *steps)
        if not scans or "by_changes" not in scans[0].table_metadata.schema().column_names:
            return None
        recorded = _together([scan.to_arrow() for scan in scans])
        return recorded if recorded.num_rows else None

    def _changes(self, where: BooleanExpression, columns: tuple[str, ...]) -> list[DataScan]:
        """What snapshots have changed; there are some that are known by that alone."""
        if self._place("changes") is None:
            raise self._incomplete(["changes"])
        return self._scans_with_settled("changes", where, *columns)

    def _rows(
        self, name: str, where: BooleanExpression | None = None, *columns: str
    ) -> list[dict[str, Any]]:
        scan = self._scan(name, where or AlwaysTrue(), *columns)
        return _dicts(scan.to_arrow() if scan else None)

    def _with_settled(
        self, name: str, where: BooleanExpression | None = None, *columns: str
    ) -> "pa.Table | None":
        """Rows of a table and of those that were set aside of it; None before `init`."""
        scans = self._scans_with_settled(name, where or AlwaysTrue(), *columns)
        return _together([scan.to_arrow() for scan in scans]) if scans else None

    def _scans_with_settled(
        self, name: str, where: BooleanExpression, *columns: str
    ) -> list[DataScan]:
        """A table, and what was set aside of it; a row may stand in both.

        In this order: a row that moves meanwhile is then read in one of them at least. A ledger of
        an earlier release has nothing set aside.
        """
        scans = [self._scan(table, where, *columns) for table in (name, f"settled_{name}")]
        return [scan for scan in scans if scan is not None]

    def _scan(self, name: str, where: BooleanExpression, *columns: str) -> DataScan | None:
        """A table of the ledger, to be read; None before `init`."""
        location = self._place(name)
        return None if location is None else self._open(location, where, columns or ("*",))

    def _place(self, name: str) -> str | None:
        table = TableName(self._hot.name, (self._namespace,), name)
        try:
            return self._catalog.location(table)
        except TableNotFound:
            return None

    def _incomplete(self, missing: Sequence[str]) -> SetupMissing:
        """Sums over a part of the ledger would say that nothing is stored, and nothing shared."""
        return SetupMissing(
            f"tables of the file ledger are missing: {', '.join(missing)}",
            object=f"{self._hot.name}.{self._namespace}",
            expected="the tables that `meltline init` creates",
            found=f"no {' and no '.join(missing)}",
            next="restore them; or `meltline init --adopt`, which starts without their past",
        )

    def _open(self, location: str, where: BooleanExpression, columns: tuple[str, ...]) -> DataScan:
        properties = reading_regular_files(self._hot.properties, self._hot.warehouse)
        table = StaticTable.from_metadata(location, properties)
        return table.scan(row_filter=where, selected_fields=columns)


def _together(tables: "list[pa.Table]") -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    return pa.concat_tables(tables, promote_options="permissive")


def _dicts(rows: "pa.Table | None") -> list[dict[str, Any]]:
    dicts: list[dict[str, Any]] = [] if rows is None else rows.to_pylist()
    return dicts


def _is(column: str, operand: str | int | bool) -> BooleanExpression:
    return EqualTo(term=Column(column), value=literal(operand))


def _snapshot(row: dict[str, Any]) -> IndexedSnapshot:
    return IndexedSnapshot(
        SnapshotKey(row["table_uuid"], row["snapshot_id"]),
        row["committed_at"],
        row["manifest_list"] or "",
        row["manifest_list_bytes"],
        tuple(row["manifests"]),
        row.get("sequence_number") or 0,  # a ledger of an earlier release has neither
        bool(row.get("by_changes")),
    )
