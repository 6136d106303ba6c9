"""Columns of a table as a metastore lists them, for tools that do not read Iceberg metadata.

Glue and Hive write the same columns, each in its client's own types.
"""

from collections.abc import Mapping
from typing import Any

from meltline.adapters.catalogs.metastores.rows import Document

_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp",
    "timestamptz_ns": "timestamp",
    "binary": "binary",
}


def current_schema(document: Document) -> Mapping[str, Any]:
    """Returns the current schema."""
    if "schemas" not in document:
        return dict(document["schema"])
    current = document["current-schema-id"]
    return next(schema for schema in document["schemas"] if schema["schema-id"] == current)


def columns_of(document: Document) -> list[tuple[str, str, str, Mapping[str, Any]]]:
    """Returns each column's name, Hive type, comment, and the field itself."""
    fields = current_schema(document)["fields"]
    return [(f["name"], hive_type(f["type"]), f.get("doc") or "", f) for f in fields]


def hive_type(kind: Any) -> str:
    """Returns the Hive type for an Iceberg type; `string` if Hive has no equivalent."""
    if isinstance(kind, str):
        if kind.startswith("fixed"):
            return "binary"
        if kind.startswith("decimal"):
            return kind.replace(" ", "")
        return _TYPES.get(kind, "string")
    if kind["type"] == "list":
        return f"array<{hive_type(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{hive_type(kind['key'])},{hive_type(kind['value'])}>"
    fields = ",".join(f"{field['name']}:{hive_type(field['type'])}" for field in kind["fields"])
    return f"struct<{fields}>"
