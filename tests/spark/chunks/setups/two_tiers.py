"""Two warehouses in one Spark session, and tables of cold that have the columns of hot's."""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from meltline.adapters.chunks.replicator import SparkReplicator
from meltline.adapters.chunks.rows import SparkChunkRows
from meltline.config.load import CatalogConfig, load_config
from meltline.domain.chunks.layout import ChunkLayout, layout_of
from meltline.domain.chunks.ranges import Unit
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import CopyOutcome, CopyRequest
from tests.spark.setups.walk import Document
from tests.spark.setups.warehouse import SPACE, Warehouse

_CARRIED = (
    "format-version",
    "schemas",
    "current-schema-id",
    "last-column-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
)


def merge_on_read() -> str:
    """Table properties by which Spark deletes rows without rewriting files."""
    return ", ".join(f"'write.{m}.mode'='merge-on-read'" for m in ("delete", "update", "merge"))


@dataclass(frozen=True)
class TwoTiers:
    """Hot and cold, each a catalog of its own."""

    hot: Warehouse
    cold: Warehouse

    @classmethod
    def empty(cls, root: Path) -> "TwoTiers":
        """Two new warehouses."""
        mark = uuid4().hex[:8]
        for tier in ("hot", "cold"):
            (root / tier).mkdir()
        return cls(
            Warehouse.empty(root / "hot", f"hot_{mark}"),
            Warehouse.empty(root / "cold", f"cold_{mark}"),
        )

    @cached_property
    def catalogs(self) -> dict[str, CatalogConfig]:
        """What the adapters are told of both."""
        found: dict[str, CatalogConfig] = {}
        for tier in (self.hot, self.cold):
            found |= load_config(tier.yaml, os.environ, tier.root).catalogs
        return found

    @property
    def rows(self) -> SparkChunkRows:
        """The adapter under test that reads."""
        return SparkChunkRows(self.hot.spark, self.catalogs)

    @property
    def replicator(self) -> SparkReplicator:
        """The adapter under test that copies."""
        return SparkReplicator(self.hot.spark, self.catalogs)

    def name(self, tier: Warehouse, table: str = "t") -> TableName:
        """A table's full name."""
        return TableName(tier.catalog, (SPACE,), table)

    def carry_shape(self, table: str = "t") -> None:
        """Gives cold's table the columns and specs that hot's has; makes it if need be."""
        shape = {key: self.hot.document(table)[key] for key in _CARRIED}
        shape["format-version"] = max(2, shape["format-version"])
        if f"{SPACE}.{table}" not in self.cold.rows():
            place = self._written(table, {**self._no_snapshots(table), **shape})
            self.cold.sql(f"CALL register_table('{SPACE}.{table}', '{place}')")
            return
        place = self._written(table, {**self.cold.document(table), **shape})
        with closing(sqlite3.connect(self.cold.db)) as connection:
            connection.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                (place, table),
            )
            connection.commit()

    def _no_snapshots(self, table: str) -> Document:
        return {
            "table-uuid": str(uuid4()),
            "location": f"file://{self.cold.folder}/{table}",
            "last-sequence-number": 0,
            "last-updated-ms": self.hot.document(table)["last-updated-ms"],
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
            "current-snapshot-id": -1,
            "next-row-id": 0,
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
        }

    def _written(self, table: str, document: Document) -> str:
        folder = self.cold.folder / table / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{len(list(folder.iterdir())):05d}-{uuid4()}.metadata.json"
        file.write_text(json.dumps(document))
        return f"file://{file}"


@dataclass
class SyncedTable:
    """A table of hot and its copy in cold, brought up to date pass by pass."""

    tiers: TwoTiers
    layout: ChunkLayout
    table: str = "t"
    copied: int | None = field(default=None)

    @classmethod
    def of(
        cls,
        tiers: TwoTiers,
        table: str = "t",
        column: str = "",
        unit: Unit | None = None,
        pattern: str = "",
    ) -> "SyncedTable":
        """Cold's table is made; it has no rows yet."""
        tiers.carry_shape(table)
        document = tiers.hot.document(table)
        return cls(tiers, layout_of(document, column, unit, pattern), table)

    @property
    def head(self) -> int:
        """Hot's newest snapshot."""
        return int(self.tiers.hot.document(self.table)["current-snapshot-id"])

    @property
    def cold_head(self) -> int:
        """Cold's newest snapshot."""
        return int(self.tiers.cold.document(self.table)["current-snapshot-id"])

    def request(self, replaced: frozenset[str] | None = frozenset()) -> CopyRequest:
        """A pass up to hot's head; what cold has of the replaced chunks leaves."""
        return CopyRequest(
            self.tiers.name(self.tiers.hot, self.table),
            self.tiers.name(self.tiers.cold, self.table),
            self.tiers.cold.location(self.table),
            self.layout,
            upto=self.head,
            after=None if replaced is None else self.copied,
            replaced=replaced,
            removed=self.cold_files(replaced),
            properties={"meltline.sync-snapshot": str(self.head)},
        )

    def cold_files(self, chunks: frozenset[str] | None) -> tuple[str, ...]:
        """The data files that cold has of some chunks, all of them by default."""
        if not self.tiers.cold.document(self.table)["snapshots"]:
            return ()
        if chunks is None:
            listed = self.tiers.cold.sql(f"SELECT file_path FROM {{{self.table}}}.files")
            return tuple(row[0] for row in listed)
        name = self.tiers.name(self.tiers.cold, self.table)
        files = self.tiers.rows.files(name, self.cold_head, self.layout, chunks)
        return tuple(path for paths in files.values() for path in paths)

    def copy(self, *replaced: str, everything: bool = False) -> CopyOutcome:
        """One pass; it must be published."""
        self.tiers.carry_shape(self.table)
        request = self.request(None if everything else frozenset(replaced))
        outcome = self.tiers.replicator.copy(request)
        assert outcome is not None
        assert outcome.location == self.tiers.cold.location(self.table)
        self.copied = request.upto
        return outcome

    def both(self) -> Iterator[list[str]]:
        """All rows of hot, and all of cold, as stock Spark reads them."""
        columns = [f["name"] for f in _present(self.tiers.hot.document(self.table))]
        for tier in (self.tiers.hot, self.tiers.cold):
            yield rows_of(tier, self.table, columns)


def _present(document: Document) -> Sequence[Document]:
    current = document["current-schema-id"]
    fields: Sequence[Document] = next(
        s["fields"] for s in document["schemas"] if s["schema-id"] == current
    )
    return fields


def rows_of(tier: Warehouse, table: str, columns: Sequence[str]) -> list[str]:
    """The rows of a table as JSON, sorted."""
    chosen = ", ".join(f"`{name}`" for name in columns)
    found = tier.sql(f"SELECT to_json(struct({chosen})) FROM {{{table}}}")
    return sorted(row[0] for row in found)
