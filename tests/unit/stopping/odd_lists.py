"""Manifest lists and manifests as some writers have them: counted wrongly, or without field ids."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.doubles.manifest_files import read_avro, written_avro
from tests.lake.lake import Lake, Table

STATUSES = ("added", "existing", "deleted")
Row = dict[str, Any]


def count_wrongly(
    lake: Lake, table: Table, count: Callable[[Row], Mapping[str, int]], path: str = ""
) -> None:
    """Has the list of the newest commit count its manifests in its own way.

    Args:
        lake: Where the table lies.
        table: Its newest commit has not been observed yet.
        count: Tells some counts of a manifest, by status, from what its row says.
        path: The manifest that is counted so; empty for all.
    """
    place = table.manifest_list(table.head)
    file = read_avro(lake.store.read(place))
    for row in file.rows:
        if path in ("", row["manifest_path"]):
            row |= {f"{status}_files_count": n for status, n in count(row).items()}
    lake.store.write(place, file.bytes(file.rows))


def nothing(row: Row) -> Mapping[str, int]:
    """No entry of any status."""
    return dict.fromkeys(STATUSES, 0)


def one_more(row: Row) -> Mapping[str, int]:
    """An entry more than was added."""
    return {"added": row["added_files_count"] + 1}


def all_as_existing(row: Row) -> Mapping[str, int]:
    """As many entries as there are, all of them of one status."""
    return {**nothing(row), "existing": sum(row[f"{status}_files_count"] for status in STATUSES)}


_IDS = frozenset(("field-id", "element-id", "key-id", "value-id"))


def leave_out_ids(lake: Lake, table: Table) -> None:
    """Has the lists and manifests of a table no field ids, as if each had been written so."""
    for place in map(table.manifest_list, table.snapshots):
        listed = read_avro(lake.store.read(place))
        for row in listed.rows:
            content = without_ids(lake.store.read(row["manifest_path"]))
            lake.store.write(row["manifest_path"], content)
            row["manifest_length"] = len(content)
        lake.store.write(place, without_ids(listed.bytes(listed.rows)))


def without_ids(content: bytes) -> bytes:
    """An Avro file whose schema has no id."""
    file = read_avro(content)
    return written_avro(_bare(file.schema), file.rows, file.metadata)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if isinstance(schema, dict):
        return {key: _bare(part) for key, part in schema.items() if key not in _IDS}
    return schema
