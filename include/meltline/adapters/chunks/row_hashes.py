"""Spark SQL that hashes a row to one number, equal for equal rows in any table.

Row digests and replication use it. Columns are hashed by field id, and a null adds nothing. So
order and names of columns do not matter, nor does a column that one table lacks and another has
without values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meltline.adapters.spark.pinned_tables import Field, column_of, fields_of

_SAME = frozenset(
    ("boolean", "string", "binary", "uuid", "date", "timestamp", "timestamptz"),
)
_WHOLE, _FLOATING = frozenset(("int", "long")), frozenset(("float", "double"))
_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\d+\]")


def unsupported(fields: Sequence[Field]) -> list[str]:
    """Returns the columns that cannot be copied and hashed, with their types."""
    return [
        f"{path} is {type}"
        for path, type in _leaves(fields)
        if type not in _SAME | _WHOLE | _FLOATING
        and not _DECIMAL.fullmatch(type)
        and not _FIXED.fullmatch(type)
    ]


def types_by_id(fields: Sequence[Field]) -> dict[int, str]:
    """Returns every field's type, also of nested ones; only the kind of structs, lists, maps."""
    types: dict[int, str] = {}
    for id, type in _parts(fields):
        types[id] = type if isinstance(type, str) else str(type["type"])
        if not isinstance(type, str):
            types |= types_by_id(_children(type))
    return types


def row_hash(fields: Sequence[Field]) -> str:
    """Returns SQL for the hash of a row whose columns are named by their field ids."""
    return _struct_hash([(field, column_of(field)) for field in fields], 0)


def _hashable(type: Any, value: str, depth: int) -> str:
    """Returns a value that Spark can hash, equal before and after a promotion of its type."""
    if isinstance(type, str):
        return _plain(type, value)
    name = f"v{depth}"
    if type["type"] == "struct":
        parts = [(field, f"{value}.{_quoted(field['name'])}") for field in fields_of(type)]
        inner = _struct_hash(parts, depth)
    elif type["type"] == "list":
        element = _element(type["element"], name, depth + 1)
        inner = f"xxhash64(size({value}), transform({value}, {name} -> {element}))"
    else:
        key = _hashable(type["key"], f"{name}.key", depth + 1)
        element = _element(type["value"], f"{name}.value", depth + 1)
        entry = f"xxhash64({key}, {element})"
        entries = f"transform(map_entries({value}), {name} -> {entry})"
        inner = f"xxhash64(size({value}), array_sort({entries}))"
    return f"CASE WHEN {value} IS NOT NULL THEN {inner} END"


def _struct_hash(parts: Sequence[tuple[Field, str]], depth: int) -> str:
    ordered = sorted(parts, key=lambda part: int(part[0]["id"]))
    pairs = [
        f"CASE WHEN {value} IS NOT NULL THEN {int(field['id'])} END, "
        f"{_hashable(field['type'], value, depth)}"
        for field, value in ordered
    ]
    # The first argument distinguishes a struct without values from a null.
    return f"xxhash64({', '.join(('1', *pairs))})"


def _element(type: Any, value: str, depth: int) -> str:
    """Returns the hash of an element of a list or map, where a null counts too."""
    return f"xxhash64({value} IS NULL, {_hashable(type, value, depth)})"


def _plain(type: str, value: str) -> str:
    if type in _WHOLE:
        return f"CAST({value} AS BIGINT)"
    if type in _FLOATING:
        number = f"CAST({value} AS DOUBLE)"  # and -0.0 + 0.0 is 0.0
        return f"CASE WHEN isnan({value}) THEN double('NaN') ELSE {number} + 0.0D END"
    if decimal := _DECIMAL.fullmatch(type):
        return f"CAST({value} AS DECIMAL(38, {decimal[1]}))"
    return value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _leaves(fields: Sequence[Field], above: str = "") -> Iterator[tuple[str, str]]:
    for field in fields:
        path = f"{above}{field['name']}"
        type = field["type"]
        if isinstance(type, str):
            yield path, type
        else:
            yield from _leaves(_children(type), f"{path}.")


def _parts(fields: Sequence[Field]) -> Iterator[tuple[int, Any]]:
    return ((int(field["id"]), field["type"]) for field in fields)


def _children(type: Mapping[str, Any]) -> Sequence[Field]:
    """Returns a struct's fields; for lists and maps their elements, under the spec's names."""
    if type["type"] == "struct":
        return fields_of(type)
    kinds = ("element",) if type["type"] == "list" else ("key", "value")
    return [{"id": type[f"{kind}-id"], "name": kind, "type": type[kind]} for kind in kinds]
