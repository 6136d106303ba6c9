"""What tables refer to, found by brute force and by nobody's leave: nothing of Meltline is used.

Catalog rows name metadata files; those name metadata files, statistics and manifest lists; those
name manifests; those name files. All paths come out as plain local ones.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro

Document = dict[str, Any]


def local(location: str) -> str:
    """`file:/x`, `file:///x` and `/x` are one file."""
    return "/" + location.removeprefix("file:").lstrip("/")


def rows(catalog_db: Path, catalog: str) -> dict[str, str]:
    """`namespace.table` to metadata location, by the catalog's rows."""
    with closing(sqlite3.connect(catalog_db)) as connection:
        found = connection.execute(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ?",
            (catalog,),
        ).fetchall()
    return {f"{namespace}.{table}": location for namespace, table, location in found}


def document(location: str) -> Document:
    """A metadata file's content."""
    found: Document = json.loads(Path(local(location)).read_text())
    return found


def avro(location: str) -> list[dict[str, Any]]:
    """All records of an Avro file."""
    with Path(local(location)).open("rb") as file:
        return [record for record in fastavro.reader(file) if isinstance(record, dict)]


def of_snapshot(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """The manifest list, the manifests and the live files of one snapshot."""
    if "manifest-list" not in snapshot:
        manifests = list(snapshot["manifests"])
    else:
        yield local(snapshot["manifest-list"])
        manifests = [record["manifest_path"] for record in avro(snapshot["manifest-list"])]
    for manifest in manifests:
        yield local(manifest)
        for entry in avro(manifest):
            if entry["status"] != 2:
                yield local(entry["data_file"]["file_path"])


def of_table(location: str) -> set[str]:
    """Everything that a table's current metadata refers to, itself included."""
    head = document(location)
    found = {local(location)}
    found |= {local(entry["metadata-file"]) for entry in head.get("metadata-log", [])}
    for key in ("statistics", "partition-statistics"):
        found |= {local(file["statistics-path"]) for file in head.get(key, [])}
    for snapshot in head.get("snapshots", []):
        found.update(of_snapshot(snapshot))
    return found


def reachable(catalog_db: Path, catalog: str, without: str = "") -> dict[str, set[str]]:
    """What each table refers to, by `namespace.table`; `without` leaves a namespace out."""
    return {
        name: of_table(location)
        for name, location in rows(catalog_db, catalog).items()
        if not without or not name.startswith(f"{without}.")
    }


def disk(folder: Path) -> dict[str, int]:
    """Every file under a folder with its size, but checksum files and the marks of a warehouse."""
    return {
        str(path): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not (path.name.startswith(".") and path.name.endswith(".crc"))
        if not path.name.startswith(".meltline-")
    }
