"""Commit times: thousands of commits made in a minute are given days, in the newest metadata.

As in the demo, the head metadata file is written anew and the catalog is pointed at it; snapshots,
manifests and data files stay as Iceberg wrote them.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from meltline.domain.units import to_millis

Document = dict[str, Any]


def rows(catalog_db: Path) -> dict[str, str]:
    """Where the current metadata of each `namespace.table` lies."""
    with closing(sqlite3.connect(catalog_db, timeout=30)) as connection:
        found = connection.execute(
            "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
        )
        return dict(found.fetchall())


def read_document(location: str) -> Document:
    """A metadata file."""
    document: Document = json.loads(Path(location.removeprefix("file:")).read_text("utf-8"))
    return document


def stage(catalog_db: Path, table: str, when: Callable[[int], datetime]) -> None:
    """Gives every snapshot of a linear history its time, and the log with it.

    Args:
        catalog_db: The catalog's SQLite file.
        table: `namespace.table`.
        when: The time of the commit with this sequence number.
    """
    old = rows(catalog_db)[table]
    document = read_document(old)
    snapshots = sorted(document["snapshots"], key=lambda snapshot: snapshot["sequence-number"])
    for snapshot in snapshots:
        snapshot["timestamp-ms"] = to_millis(when(snapshot["sequence-number"]))
    last = snapshots[-1]["timestamp-ms"]
    # One transaction leaves one entry in the log; as many commits would have left one each.
    document["snapshot-log"] = [
        {"timestamp-ms": s["timestamp-ms"], "snapshot-id": s["snapshot-id"]} for s in snapshots
    ]
    document["metadata-log"] = [
        *({**e, "timestamp-ms": min(e["timestamp-ms"], last)} for e in document["metadata-log"]),
        {"timestamp-ms": last, "metadata-file": old},
    ]
    document["last-updated-ms"] = last
    folder, _, name = old.rpartition("/")
    new = f"{folder}/{int(name.partition('-')[0]) + 1:05d}-{uuid4()}.metadata.json"
    Path(new.removeprefix("file:")).write_text(json.dumps(document), encoding="utf-8")
    point(catalog_db, table, old, new)


def point(catalog_db: Path, table: str, old: str, new: str) -> None:
    """Points the catalog at another metadata file of a `namespace.table`."""
    namespace, _, name = table.rpartition(".")
    with closing(sqlite3.connect(catalog_db, timeout=30)) as connection, connection:
        changed = connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
            " WHERE table_namespace = ? AND table_name = ? AND metadata_location = ?",
            (new, old, namespace, name, old),
        ).rowcount
    assert changed == 1, f"{table} moved while its times were staged"


def rename_catalog(catalog_db: Path, name: str) -> None:
    """Gives all rows of a copied catalog the copy's name."""
    with closing(sqlite3.connect(catalog_db, timeout=30)) as connection, connection:
        for table in ("iceberg_tables", "iceberg_namespace_properties"):
            connection.execute(f"UPDATE {table} SET catalog_name = ?", (name,))


def commit_labels(document: Mapping[str, Any]) -> dict[str, str]:
    """Commit UUIDs, as file names have them, to `commit N`: the same in every twin."""
    labels = {}
    for snapshot in document["snapshots"]:
        name = snapshot["manifest-list"].rpartition("/")[2]  # snap-<id>-<attempt>-<uuid>.avro
        uuid = name.removesuffix(".avro").split("-", 3)[3]
        labels[uuid] = f"commit {snapshot['sequence-number']}"
    return labels
