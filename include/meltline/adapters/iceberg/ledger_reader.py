"""Reads the file ledger's Iceberg tables with PyIceberg: answers come without starting a JVM."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import StaticTable

from meltline.adapters.iceberg.catalogs import open_catalog
from meltline.adapters.ledger_rows import departures, planned_files
from meltline.config import CatalogConfig
from meltline.domain.files import Departure, FileKind, PlannedFile, SideFile
from meltline.ports import (
    IndexedFile,
    IndexedSnapshot,
    LedgerContents,
    ObjectStore,
    SnapshotKey,
)

if TYPE_CHECKING:  # slow to import, and commands that only edit a table do without it
    import pyarrow as pa


class IcebergLedgerReader:
    """The port `LedgerReader`."""

    def __init__(self, hot: CatalogConfig, store: ObjectStore, namespace: str) -> None:
        self._hot = hot
        self._store = store
        self._namespace = namespace

    def contents(self) -> LedgerContents:
        """Everything; of departures the newest row of each path. Empty before `init`."""
        tables = self._tables()
        live = LessThan(term=Reference("status"), value=literal(2))
        return LedgerContents(
            snapshots=[_snapshot(row) for row in _unique(self._rows(tables, "snapshots"))],
            manifests=[
                IndexedFile(r["manifest_id"], r["path"], FileKind.MANIFEST, r["bytes"])
                for r in self._rows(tables, "manifests")
            ],
            entries=[
                IndexedFile(r["manifest_id"], r["path"], r["kind"], r["bytes"])
                for r in self._rows(
                    tables, "entries", live, ("manifest_id", "path", "kind", "bytes")
                )
            ],
            side_files=[
                SideFile(
                    r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"]
                )
                for r in self._rows(tables, "side_files")
            ],
            departures=_newest(self._table(tables, "departures")),
        )

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        asked = EqualTo(term=Reference("plan_id"), value=literal(plan_id))
        rows = self._table(self._tables(), "plan_items", asked)
        return sorted(planned_files(rows) if rows else [], key=lambda file: file.path)

    def _tables(self) -> Mapping[str, str]:
        listing = open_catalog(self._hot, self._store).listing()
        return {
            entry.name.name: entry.metadata_location
            for entry in listing.entries
            if entry.name.namespace == (self._namespace,)
        }

    def _rows(
        self,
        tables: Mapping[str, str],
        name: str,
        where: BooleanExpression | None = None,
        columns: tuple[str, ...] = ("*",),
    ) -> list[dict[str, Any]]:
        found = self._table(tables, name, where, columns)
        rows: list[dict[str, Any]] = found.to_pylist() if found else []
        return rows

    def _table(
        self,
        tables: Mapping[str, str],
        name: str,
        where: BooleanExpression | None = None,
        columns: tuple[str, ...] = ("*",),
    ) -> "pa.Table | None":
        if name not in tables:
            return None
        table = StaticTable.from_metadata(tables[name], dict(self._hot.properties))
        scan = table.scan(row_filter=where or AlwaysTrue(), selected_fields=columns)
        return scan.to_arrow()


def _unique(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({(row["table_uuid"], row["snapshot_id"]): row for row in rows}.values())


def _snapshot(row: dict[str, Any]) -> IndexedSnapshot:
    return IndexedSnapshot(
        SnapshotKey(row["table_uuid"], row["snapshot_id"]),
        row["committed_at"],
        row["manifest_list"] or "",
        row["manifest_list_bytes"],
        tuple(row["manifests"]),
    )


def _newest(rows: "pa.Table | None") -> list[Departure]:
    if rows is None:
        return []
    ordered = rows.sort_by("written_ns")
    keys = ordered.column("key_hash").to_pylist()
    return list(dict(zip(keys, departures(ordered), strict=True)).values())
