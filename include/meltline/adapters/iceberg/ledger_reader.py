"""Reads the file ledger's Iceberg tables with PyIceberg: answers come without starting a JVM."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import StaticTable

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.catalogs import open_catalog
from meltline.adapters.ledger_rows import departure, planned_file
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
            departures=_newest(self._rows(tables, "departures")),
        )

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        rows = self._rows(
            self._tables(), "plan_items", EqualTo(term=Reference("plan_id"), value=literal(plan_id))
        )
        return sorted(map(planned_file, rows), key=lambda file: file.path)

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
        if name not in tables:
            return []
        table = StaticTable.from_metadata(tables[name], dict(self._hot.properties))
        scan = table.scan(row_filter=where or AlwaysTrue(), selected_fields=columns)
        found: pa.Table = scan.to_arrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows


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


def _newest(rows: list[dict[str, Any]]) -> list[Departure]:
    newest: dict[int, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["written_ns"]):
        newest[key_hash(row["path"])] = row
    return [departure(row) for row in newest.values()]
