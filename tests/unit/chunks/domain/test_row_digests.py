"""Checksums of a chunk's rows compare only under columns that leave equal rows their hashes."""

from typing import Any

import pytest

from meltline.domain.chunks.cold.row_digests import ColdDigest, comparable, fingerprint
from meltline.domain.chunks.sync import RowDigest

Field = dict[str, Any]


def column(id: int, type: Any = "long", **more: Any) -> Field:
    return {"id": id, "name": f"c{id}", "required": False, "type": type, **more}


def struct(*fields: Field) -> Field:
    return {"type": "struct", "fields": list(fields)}


def listed(id: int, type: Any) -> Field:
    return {"type": "list", "element-id": id, "element": type, "element-required": False}


def mapped(key: int, of: Any) -> Field:
    return {"type": "map", "key-id": key, "key": "string", "value-id": key + 1, "value": of}


BEFORE = (
    column(1),
    column(2, "date"),
    column(3, struct(column(4, "decimal(9, 2)"), column(5, listed(6, struct(column(7)))))),
    column(8, mapped(9, struct(column(11)))),
)


def document(*schemas: tuple[Field, ...]) -> dict[str, Any]:
    numbered = [{"schema-id": n, **struct(*fields)} for n, fields in enumerate(schemas)]
    return {"schemas": numbered, "current-schema-id": len(schemas) - 1}


DIGEST = ColdDigest.of(RowDigest(2, 7, ((1, 0),)), struct(*BEFORE))

ALIKE: dict[str, tuple[Field, ...]] = {
    "nothing": BEFORE,
    "another order and other names": tuple(f | {"name": "n"} for f in reversed(BEFORE)),
    "a column that comes": (*BEFORE, column(12, "string")),
    "a nested one that comes": (
        *BEFORE[:3],
        column(8, mapped(9, struct(column(11), column(12, "date")))),
    ),
    "a wider type": (
        column(1, "decimal(9, 0)"),
        BEFORE[1],
        column(3, struct(column(4, "decimal(20, 2)"), BEFORE[2]["type"]["fields"][1])),
        BEFORE[3],
    ),
}
OTHER: dict[str, tuple[Field, ...]] = {
    "a column that goes": BEFORE[1:],
    "one that goes from a struct": (
        *BEFORE[:2],
        column(3, struct(BEFORE[2]["type"]["fields"][1])),
        BEFORE[3],
    ),
    "one that goes from a list": (
        *BEFORE[:2],
        column(3, struct(column(4, "decimal(9, 2)"), column(5, listed(6, struct())))),
        BEFORE[3],
    ),
    "one that goes from a map": (*BEFORE[:3], column(8, mapped(9, struct(column(12))))),
    "a date that becomes a time": (BEFORE[0], column(2, "timestamp"), *BEFORE[2:]),
    "one that comes with a value for old rows": (*BEFORE, column(12, **{"initial-default": 3})),
}


@pytest.mark.parametrize("now", ALIKE.values(), ids=ALIKE)
def test_changes_of_columns_that_leave_hashes_alike_compare(now: tuple[Field, ...]) -> None:
    assert DIGEST.columns in comparable(document(BEFORE, now))


@pytest.mark.parametrize("now", OTHER.values(), ids=OTHER)
def test_changes_of_columns_that_may_change_hashes_do_not_compare(now: tuple[Field, ...]) -> None:
    assert DIGEST.columns not in comparable(document(BEFORE, now))


def test_nothing_compares_where_columns_are_forgotten() -> None:
    assert DIGEST.columns not in comparable(document((column(1),), (*BEFORE, column(12))))


def test_rows_are_the_same_by_number_and_checksum() -> None:
    assert ColdDigest(2, 7, "").has_same_rows(DIGEST)
    assert not ColdDigest(3, 7, "").has_same_rows(DIGEST)
    assert not ColdDigest(2, 8, "").has_same_rows(DIGEST)
    assert ColdDigest.of(None, struct(*BEFORE)) == ColdDigest(0, 0, fingerprint(struct(*BEFORE)))
