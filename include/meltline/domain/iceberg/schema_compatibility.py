"""Checks whether a snapshot's columns are the current ones, or readable as them (TT-3).

Columns are matched by field id, never by name. A renamed column appears under its new name, an
added one is null, and a dropped one is absent. If a dropped name is used again, the new column is
not mistaken for the old one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from meltline.domain.errors import MetadataUnreadable, SchemaIncompatible
from meltline.domain.iceberg.table_metadata import TableMetadata

Type = str | Mapping[str, Any]
Schema = Mapping[str, Any]

_PROMOTIONS = {("int", "long"), ("float", "double"), ("date", "timestamp")}


def changed_schema(state: TableMetadata, document: Schema, snapshot_id: int) -> Schema | None:
    """Returns a snapshot's own schema, if it differs from the current one.

    Args:
        state: The table.
        document: Its metadata document.
        snapshot_id: The snapshot.

    Returns:
        None if it is the current one, or the snapshot does not state it: engines then read it with
            the current one.

    Raises:
        MetadataUnreadable: It is missing from the metadata.
    """
    id = next(
        (
            raw.get("schema-id")
            for raw in document["snapshots"]
            if raw["snapshot-id"] == snapshot_id
        ),
        None,
    )
    if id is None:
        return None
    old, new = _schema(state, document, id), _present(state, document)
    return None if _same(old, new) else old


def require_readable(state: TableMetadata, document: Schema, old: Schema) -> None:
    """Refuses to read old values as a type that they cannot be converted to.

    A replaced table reuses a name's old id, whatever its new type.

    Raises:
        SchemaIncompatible: Names the column and both types.
    """
    _require_fields(state, old, _present(state, document))


def _present(state: TableMetadata, document: Schema) -> Schema:
    return _schema(state, document, document.get("current-schema-id"))


def _schema(state: TableMetadata, document: Schema, id: object) -> Schema:
    for schema in document.get("schemas") or []:
        if schema.get("schema-id") == id:
            matching: Schema = schema
            return matching
    if id is None and "schema" in document:  # format 1, before it kept several schemas
        alone: Schema = document["schema"]
        return alone
    raise MetadataUnreadable(
        f"{state.name}: the metadata does not have schema {id}",
        object=state.metadata_location,
        expected=f"a schema {id}",
        found=", ".join(str(s.get("schema-id")) for s in document.get("schemas") or []) or "none",
        next="read another snapshot, or this one with another engine",
    )


def _same(old: Type, new: Type) -> bool:
    """Whether two types have the same fields, by id, name, type and order."""
    if isinstance(old, str) or isinstance(new, str):
        return old == new
    if old["type"] != new["type"]:
        return False
    if old["type"] == "struct":
        return len(old["fields"]) == len(new["fields"]) and all(
            (a["id"], a["name"]) == (b["id"], b["name"]) and _same(a["type"], b["type"])
            for a, b in zip(old["fields"], new["fields"], strict=True)
        )
    return all(
        old[f"{part}-id"] == new[f"{part}-id"] and _same(old[part], new[part])
        for part in _parts(new)
    )


def _parts(nested: Schema) -> Sequence[str]:
    return ("element",) if nested["type"] == "list" else ("key", "value")


def _require_fields(state: TableMetadata, old: Schema, new: Schema) -> None:
    before = {field["id"]: field for field in old["fields"]}
    for field in new["fields"]:
        if field["id"] in before:
            _require(state, field["name"], before[field["id"]]["type"], field["type"])


def _require(state: TableMetadata, column: str, old: Type, new: Type) -> None:
    was, now = _kind(old), _kind(new)
    if not isinstance(old, str) and not isinstance(new, str) and was == now:
        if was == "struct":
            return _require_fields(state, old, new)
        for part in _parts(new):
            _require(state, column, old[part], new[part])
    elif not (isinstance(old, str) and isinstance(new, str) and _is_promotion(old, new)):
        raise SchemaIncompatible(
            f"{state.name}: {column} was {was} then and is {now} now",
            object=str(state.name),
            expected="a type that the old values can be read as",
            found=f"{was} and {now}",
            next="--schema snapshot reads the rows as they were",
        )
    return None


def _kind(type: Type) -> str:
    return type if isinstance(type, str) else str(type["type"])


def _is_promotion(old: str, new: str) -> bool:
    """Whether the spec allows the promotion of one type to the other, or they are equal."""
    if (old, new) in _PROMOTIONS or old in (new, "unknown"):
        return True
    if not (old.startswith("decimal(") and new.startswith("decimal(")):
        return False
    before, after = ([int(n) for n in kind[8:-1].split(",")] for kind in (old, new))
    return before[1] == after[1] and before[0] <= after[0]
