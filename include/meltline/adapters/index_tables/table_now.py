"""Current state of a ledger table, parsed from Iceberg's JSON for schema and snapshot.

`tables_io.py` and `parquet_scan.py` build it. It needs neither Java nor PyIceberg.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meltline.adapters.index_tables.file_parts import NotPlain

INTEGERS = ("int", "long", "timestamptz")
"""Types, by Iceberg's names, whose values are whole numbers."""
_KINDS = (*INTEGERS, "string")


@dataclass(frozen=True)
class TableNow:
    """A table of the ledger at one of its snapshots.

    Attributes:
        fields: Its columns: name, id, and Iceberg type; the type is empty if its bounds are not
            used.
        manifest_list: The path of the snapshot's manifest list.
        files: How many data files the snapshot has by its summary; likewise `rows`.
    """

    fields: Mapping[str, tuple[int, str]]
    manifest_list: str
    files: int
    rows: int

    @classmethod
    def of(cls, schema: str, snapshot: str) -> "TableNow":
        """Parses Iceberg's JSON. Raises NotPlain."""
        return cls._of(json.loads(schema), json.loads(snapshot))

    @classmethod
    def of_metadata(cls, content: bytes) -> "TableNow | None":
        """Parses a metadata file; None if the table has no snapshot yet. Raises NotPlain."""
        try:
            document = json.loads(content)
            current = document.get("current-snapshot-id")
            if current in (None, _NO_SNAPSHOT) and not document.get("snapshots"):
                return None
            schema = _with(document["schemas"], "schema-id", document["current-schema-id"])
            snapshot = _with(document["snapshots"], "snapshot-id", current)
        except (KeyError, ValueError) as other:  # packed, or damaged
            raise NotPlain from other
        return cls._of(schema, snapshot)

    @classmethod
    def _of(cls, schema: Mapping[str, Any], snapshot: Mapping[str, Any]) -> "TableNow":
        columns = schema["fields"]
        if any("initial-default" in column for column in columns):  # older files omit that value
            raise NotPlain
        fields = {
            column["name"]: (column["id"], column["type"] if column["type"] in _KINDS else "")
            for column in columns
        }
        try:
            summary = snapshot["summary"]
            files, rows = int(summary["total-data-files"]), int(summary["total-records"])
            return cls(fields, snapshot["manifest-list"], files, rows)
        except (KeyError, ValueError) as missing:
            raise NotPlain from missing


_NO_SNAPSHOT = -1  # as Java writes it


def _with(objects: list[dict[str, Any]], key: str, number: int) -> Mapping[str, Any]:
    """Returns the object with that number. Raises NotPlain unless there is exactly one."""
    chosen = [document for document in objects if document[key] == number]
    if len(chosen) != 1:
        raise NotPlain
    return chosen[0]
