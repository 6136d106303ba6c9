"""How a table is cut into chunks, and in which of them its files lie."""

from typing import Any

import pytest

from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import (
    EVERYWHERE,
    ChunkLayout,
    Times,
    chunks_of,
    inside,
    layout_of,
    separating_spec,
)
from meltline.domain.chunks.ranges import UNBOUNDED, TimeRange, Unit
from meltline.domain.iceberg.files import FileKind
from tests.unit.chunks.chunks import COLUMN, DAYS, a_change, a_file, at

COLUMNS = {1: "long", 2: "string", 3: "timestamptz", 4: "date", 5: "timestamp", 6: "int"}
NAMES = {1: "id", 2: "word", 3: "ts", 4: "day", 5: "at", 6: "month"}


HOUR, DAY, MONTH = ((("hour", 3),), (("day", 3),), (("month", 3),))
BY_DAY = ChunkLayout(TimeColumn("ts", 3, ColumnKind.TIMESTAMPTZ, type="timestamptz"), Unit.DAY)


def a_document(*specs: tuple[tuple[str, int], ...], default: int | None = None) -> dict[str, Any]:
    """A table's metadata; each spec as transforms of columns."""
    fields = [{"id": id, "name": NAMES[id], "type": type} for id, type in COLUMNS.items()]
    return {
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": fields}],
        "default-spec-id": len(specs) - 1 if default is None else default,
        "partition-specs": [
            {
                "spec-id": id,
                "fields": [
                    {"field-id": 1000 + at, "transform": transform, "source-id": source}
                    for at, (transform, source) in enumerate(spec)
                ],
            }
            for id, spec in enumerate(specs)
        ],
    }


@pytest.mark.parametrize(
    ("spec", "column", "unit"),
    [
        ((("day", 3),), "ts", Unit.DAY),
        ((("hour", 5),), "at", Unit.HOUR),
        ((("month", 4),), "day", Unit.MONTH),
        ((("year", 3),), "ts", Unit.YEAR),
        ((("identity", 4),), "day", Unit.DAY),
        ((("identity", 3),), "ts", Unit.HOUR),
        ((("bucket[16]", 1), ("day", 3), ("identity", 2)), "ts", Unit.DAY),
        ((("month", 3), ("hour", 3)), "ts", Unit.HOUR),
        ((("void", 4), ("day", 3)), "ts", Unit.DAY),
    ],
)
def test_a_table_is_cut_as_it_is_partitioned(
    spec: tuple[tuple[str, int], ...], column: str, unit: Unit
) -> None:
    layout = layout_of(a_document(spec))
    assert (layout.column.name, layout.unit) == (column, unit)


def test_a_table_is_cut_by_the_default_spec_and_stays_as_it_was_declared() -> None:
    document = a_document((("day", 3),), (("hour", 3),))
    assert layout_of(document).unit is Unit.HOUR
    assert layout_of(document | {"default-spec-id": 0}).unit is Unit.DAY
    assert layout_of(document, unit=Unit.DAY).unit is Unit.DAY


def test_the_oldest_form_of_format_1_has_one_spec_and_one_schema() -> None:
    document = a_document((("day", 3),))
    old = {
        "schema": document["schemas"][0],
        "partition-spec": document["partition-specs"][0]["fields"],
    }
    assert layout_of(old) == layout_of(document)


def test_a_person_may_say_the_column_and_the_unit() -> None:
    layout = layout_of(a_document(()), "at", Unit.MONTH)
    assert layout == ChunkLayout(
        TimeColumn("at", 5, ColumnKind.TIMESTAMP, type="timestamp"), Unit.MONTH
    )


def test_text_and_integers_need_a_pattern() -> None:
    document = a_document((("identity", 2),))
    with pytest.raises(ValueError, match="not partitioned by one column of times"):
        layout_of(document)
    assert layout_of(document, pattern="%Y-%m").unit is Unit.MONTH
    assert layout_of(document, "month", Unit.YEAR, "%Y%m").column.pattern == "%Y%m"


@pytest.mark.parametrize(
    ("spec", "column", "unit", "why"),
    [
        ((), "", None, "found: none"),
        ((("bucket[4]", 1),), "", None, "found: none"),
        ((("void", 3),), "", None, "found: none"),
        ((("day", 3), ("day", 5)), "", None, "found: at, ts"),
        ((("day", 3),), "nowhere", None, "there is no column nowhere"),
        ((("day", 3),), "at", None, "say a unit"),
        ((), "id", Unit.DAY, "say what its values are"),
        ((("month", 4),), "", Unit.HOUR, "do not tell one hour from the next"),
    ],
)
def test_a_table_that_cannot_be_cut_is_refused(
    spec: tuple[tuple[str, int], ...], column: str, unit: Unit | None, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        layout_of(a_document(spec), column, unit)


# --- where files lie ------------------------------------------------------------------------------


def times(start: str, end: str) -> Times:
    return Times(TimeRange(at(start), at(end)))


@pytest.mark.parametrize(
    ("lying", "names"),
    [
        (times("2026-01-05T07:00", "2026-01-05T08:00"), ["2026-01-05"]),
        (times("2026-01-05", "2026-01-06"), ["2026-01-05"]),
        (times("2026-01-05T23:00", "2026-01-06T00:00:00.000001"), ["2026-01-05", "2026-01-06"]),
        (Times(None), [UNBOUNDED]),
        (EVERYWHERE, None),
        (times("9999-12-31T07:00", "9999-12-31T08:00"), [UNBOUNDED]),
        (times("9999-12-30", "9999-12-31T08:00"), None),
        (times("0001-01-01", "9999-01-01"), None),
    ],
)
def test_a_file_lies_in_the_chunks_of_its_times(lying: Times, names: list[str] | None) -> None:
    assert DAYS.names(lying) == names


@pytest.mark.parametrize(
    ("unit", "of_a_month"),
    [
        (Unit.HOUR, 744),
        (Unit.DAY, 31),
        (Unit.MONTH, 1),
        (Unit.YEAR, 1),
    ],
)
def test_files_of_an_older_spec_belong_to_chunks_as_far_as_they_lie_inside(
    unit: Unit, of_a_month: int
) -> None:
    layout = ChunkLayout(COLUMN, unit)
    names = layout.names(Times(Unit.MONTH.range("2026-01")))
    assert names is not None and len(names) == of_a_month


@pytest.mark.parametrize(
    ("where", "names", "is_inside"),
    [
        ("2026-01-05", {"2026-01-05"}, True),
        ("2026-01-05", {"2026-01-04"}, False),
        ("2026-01-05..2026-01-06", {"2026-01-05"}, False),
        ("2026-01-05..2026-01-06", {"2026-01-05", "2026-01-06"}, True),
        (UNBOUNDED, {"2026-01-05"}, False),
        ("everywhere", {"2026-01-05", UNBOUNDED}, False),
    ],
)
def test_a_file_is_inside_where_all_of_it_is(where: str, names: set[str], is_inside: bool) -> None:
    assert inside(DAYS, a_file(where), names) is is_inside


@pytest.mark.parametrize(
    ("specs", "default", "spec"),
    [
        ((DAY, MONTH), 1, 0),
        ((HOUR, DAY), 1, 1),
        ((HOUR, DAY, MONTH), 2, 1),
        ((MONTH, DAY), 0, 1),
        ((MONTH,), 0, 0),
        (((("day", 3), ("bucket[4]", 99)), MONTH), 1, 1),
        (((("day", 5),), MONTH), 1, 1),
    ],
)
def test_cold_is_cut_by_the_newest_spec_whose_partitions_are_no_longer_than_chunks(
    specs: tuple[tuple[tuple[str, int], ...], ...], default: int, spec: int
) -> None:
    """The default one if it is such; of a column that is gone nothing can be written."""
    assert separating_spec(a_document(*specs, default=default), BY_DAY) == spec


def test_files_together_reach_as_far_as_each_does() -> None:
    files = [a_file("2026-01-05..2026-01-06"), a_file("2026-01-06..2026-01-07")]
    assert chunks_of(DAYS, files) == frozenset({"2026-01-05", "2026-01-06", "2026-01-07"})
    assert chunks_of(DAYS, [*files, a_file("everywhere")]) is None
    assert chunks_of(DAYS, []) == frozenset()


# --- what a commit did ----------------------------------------------------------------------------


def test_a_commit_touches_what_it_adds_and_removes() -> None:
    change = a_change(1, ["2026-01-05"], ["2026-01-04"], "overwrite")
    assert change.touched(DAYS) == frozenset({"2026-01-04", "2026-01-05"})
    assert a_change(1, ["everywhere"]).touched(DAYS) is None


def test_a_compaction_touches_nothing() -> None:
    change = a_change(1, ["2026-01-05"], ["2026-01-05", "everywhere"], "replace")
    assert change.touched(DAYS) == change.rewritten(DAYS) == frozenset()


def test_a_commit_of_which_nobody_said_what_it_is_touches_what_it_names() -> None:
    assert a_change(1, ["2026-01-05"], operation="").touched(DAYS) == frozenset({"2026-01-05"})


def test_rewritten_is_where_more_was_done_than_to_add_rows() -> None:
    deletes = a_file("2026-01-06", FileKind.POSITION_DELETE)
    change = a_change(1, ["2026-01-05", deletes], ["2026-01-07"], "overwrite")
    assert change.rewritten(DAYS) == frozenset({"2026-01-06", "2026-01-07"})
    assert a_change(1, ["2026-01-05"]).rewritten(DAYS) == frozenset()
    of_all = a_file("everywhere", FileKind.EQUALITY_DELETE)
    assert a_change(1, [of_all]).rewritten(DAYS) is None
