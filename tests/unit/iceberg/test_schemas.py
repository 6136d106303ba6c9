"""Whether old rows can be read under the present columns: by field id, at every depth."""

from typing import Any

import pytest

from meltline.domain.errors import MetadataUnreadable, SchemaIncompatible
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.schema_compatibility import changed_schema, require_readable
from meltline.domain.iceberg.table_metadata import TableMetadata
from tests.lives.histories import UUID

NAME = TableName.parse("lake.air.t")
Fields = list[dict[str, Any]]


def field(id: int, name: str, type: Any = "long", **more: Any) -> dict[str, Any]:
    return {"id": id, "name": name, "type": type, "required": False, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(id: int, element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": id, "element": element, "element-required": False}


def map_of(key_id: int, key: Any, value_id: int, value: Any) -> dict[str, Any]:
    return {
        "type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value,
        "value-required": False,
    }  # fmt: skip


def table(old: Fields, new: Fields, **snapshot: Any) -> tuple[TableMetadata, dict[str, Any]]:
    """A table of schema 1 now, with a snapshot 7 of schema 0."""
    document: dict[str, Any] = {
        "format-version": 2, "table-uuid": UUID, "location": "file:///t", "last-updated-ms": 0,
        "current-schema-id": 1, "current-snapshot-id": 7,
        "schemas": [{"schema-id": 0, **struct(*old)}, {"schema-id": 1, **struct(*new)}],
        "snapshots": [
            {"snapshot-id": 7, "timestamp-ms": 0, "manifest-list": "m", "schema-id": 0} | snapshot
        ],
    }  # fmt: skip
    return parse_table(NAME, "file:///m", 1, document), document


def is_changed(old: Fields, new: Fields, **snapshot: Any) -> bool:
    return changed_schema(*table(old, new, **snapshot), 7) is not None


def require(old: Any, new: Any) -> None:
    """Reads one column whose type has changed."""
    state, document = table([field(1, "c", old)], [field(1, "c", new)])
    own = changed_schema(state, document, 7)
    assert own is not None and own["schema-id"] == 0
    require_readable(state, document, own)


NESTED = struct(
    field(3, "a"), field(4, "l", list_of(5, "int")), field(6, "m", map_of(7, "int", 8, "date"))
)


def test_the_same_columns_are_the_same_whatever_else_is_said_of_them() -> None:
    old, new = [field(1, "id"), field(2, "s", NESTED)], [
        field(1, "id", required=True, doc="x"), field(2, "s", NESTED)
    ]  # fmt: skip
    assert not is_changed(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([field(1, "a")], [field(1, "b")]),
        ([field(1, "a")], [field(2, "a")]),
        ([field(1, "a")], [field(1, "a"), field(2, "b")]),
        ([field(1, "a"), field(2, "b")], [field(1, "a")]),
        ([field(1, "a"), field(2, "b")], [field(2, "b"), field(1, "a")]),
        ([field(1, "a"), field(2, "b")], [field(1, "b"), field(2, "a")]),
        ([field(1, "a", "int")], [field(1, "a", "long")]),
        ([field(1, "s", struct(field(2, "a")))], [field(1, "s", struct(field(2, "b")))]),
        ([field(1, "l", list_of(2, "int"))], [field(1, "l", list_of(2, "long"))]),
        ([field(1, "l", list_of(2, "int"))], [field(1, "l", list_of(3, "int"))]),
        ([field(1, "m", map_of(2, "int", 3, struct(field(4, "a"))))],
         [field(1, "m", map_of(2, "int", 3, struct(field(5, "a"))))]),
    ],
    ids=["renamed", "used again", "added", "dropped", "moved", "swapped", "promoted", "in a struct",
         "in a list", "another list", "in a map"],
)  # fmt: skip
def test_a_change_is_seen_by_id_name_type_and_order_at_every_depth(
    old: Fields, new: Fields
) -> None:
    assert is_changed(old, new)
    state, document = table(old, new)
    own = changed_schema(state, document, 7)
    assert own is not None
    require_readable(state, document, own)  # and all of these can be read


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "long"),
        ("float", "double"),
        ("decimal(9, 2)", "decimal(12,2)"),
        ("date", "timestamp"),
        ("unknown", "string"),
        (list_of(2, "int"), list_of(2, "long")),
        (map_of(2, "int", 3, "float"), map_of(2, "long", 3, "double")),
    ],
)
def test_a_promoted_column_can_be_read(old: Any, new: Any) -> None:
    require(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("string", "int"),
        ("long", "int"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("decimal(9,2)", "decimal(8,2)"),
        ("date", "timestamptz"),
        ("int", list_of(2, "int")),
        (list_of(2, "int"), "int"),
        (list_of(2, "int"), map_of(2, "int", 3, "int")),
        (list_of(2, "string"), list_of(2, "int")),
        (map_of(2, "int", 3, "string"), map_of(2, "int", 3, "int")),
        (struct(field(2, "x", "string")), struct(field(2, "y", "int"))),
    ],
)
def test_what_is_no_promotion_is_refused_and_never_guessed(old: Any, new: Any) -> None:
    with pytest.raises(SchemaIncompatible, match="was") as refused:
        require(old, new)
    assert "--schema snapshot" in refused.value.next


def test_a_snapshot_that_names_no_schema_is_read_as_engines_read_it() -> None:
    assert not is_changed([field(1, "a")], [field(1, "b")], **{"schema-id": None})


def test_a_schema_that_is_missing_is_an_error() -> None:
    with pytest.raises(MetadataUnreadable, match="schema 9"):
        is_changed([field(1, "a")], [field(1, "b")], **{"schema-id": 9})
