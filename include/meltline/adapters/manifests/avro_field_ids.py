"""Field ids of Avro schemas that have none, by the specification's names, for the gate's evidence.

Some services write manifest lists and manifests without ids. The specification gives each field a
name as well as an id, so that a name tells the id where none is written. What is written stays:
a field that has an id is the one of that id, whatever it is called.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

_BY_NAME: Mapping[str, int] = {
    "status": 0,
    "data_file": 2,
    "file_path": 100,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "content": 134,
    "referenced_data_file": 143,
    "manifest_path": 500,
    "manifest_length": 501,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
"""Of the fields that a gate asks for. It does so by the structs above them as well: a partition
field that is called like one of these is another."""
_MADE_UP = 2_000_000_000  # beyond all ids that the specification and tables give


def with_ids(schema: Any) -> Any:
    """The schema with an id for each field, element, key and value; made up where nobody asks.

    Raises:
        KeyError: A field has no name, or no type.
    """
    return _with_ids(schema, count(_MADE_UP))


def _with_ids(schema: Any, fresh: Iterator[int]) -> Any:
    match schema:
        case list():
            return [_with_ids(branch, fresh) for branch in schema]
        case {"type": "record", "fields": fields}:
            return {**schema, "fields": [_identified(field, fresh) for field in fields]}
        case {"type": "array", "items": items}:
            return {"element-id": next(fresh), **schema, "items": _with_ids(items, fresh)}
        case {"type": "map", "values": values}:
            ids = {"key-id": next(fresh), "value-id": next(fresh)}
            return {**ids, **schema, "values": _with_ids(values, fresh)}
        case {"type": dict() | list() as inner}:
            return {**schema, "type": _with_ids(inner, fresh)}
    return schema


def _identified(field: Any, fresh: Iterator[int]) -> Any:
    number = field.get("field-id", _BY_NAME.get(field["name"], next(fresh)))
    return {**field, "field-id": number, "type": _with_ids(field["type"], fresh)}
