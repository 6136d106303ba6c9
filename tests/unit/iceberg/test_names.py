"""Names of tables: what is written can be read again, and globs pick what they spell."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.iceberg.names import TableName, quote_part, selected, split_name
from tests.seeds import examples

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)
PART = st.text("ab1_.`[]*' é\n", min_size=1, max_size=6)


@MANY
@given(PART, st.lists(PART, min_size=1, max_size=3), PART)
def test_a_written_name_reads_as_itself(catalog: str, levels: list[str], name: str) -> None:
    table = TableName(catalog, tuple(levels), name)
    assert TableName.parse(str(table)) == table


@MANY
@given(st.lists(PART, min_size=1, max_size=4))
def test_two_different_names_are_never_written_alike(parts: list[str]) -> None:
    assert split_name(".".join(map(quote_part, parts))) == tuple(parts)


def test_odd_parts_are_put_in_backticks_and_plain_ones_are_not() -> None:
    assert str(TableName("lake", ("air",), "flights_2013")) == "lake.air.flights_2013"
    assert str(TableName("lake", ("a.b",), "t[1]")) == "lake.`a.b`.`t[1]`"
    assert str(TableName("lake", ("air",), "it's `so`")) == "lake.air.`it's ``so```"


@pytest.mark.parametrize("part", ["2013", "1d", "5e3", "10L", "x\n"])
def test_parts_that_spark_takes_for_numbers_or_trims_are_put_in_backticks(part: str) -> None:
    assert quote_part(part) == f"`{part}`"


def test_namespaces_have_any_number_of_levels() -> None:
    assert TableName.parse("lake.a.b.c.t") == TableName("lake", ("a", "b", "c"), "t")


@pytest.mark.parametrize(
    "text",
    ["", "lake", "lake.t", "lake..t", ".a.b", "a.b.", "a.`b.c", "a.b`c.d", "a.``.c", "`a`b.c.d"],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not"):
        TableName.parse(text)


def test_names_sort_by_catalog_namespace_and_name() -> None:
    names = [TableName("b", ("a",), "a"), TableName("a", ("b",), "a"), TableName("a", ("a",), "z")]
    assert sorted(names) == names[::-1]


FLIGHTS = TableName("lake", ("air",), "flights")
ODD = TableName("lake", ("air",), "t[1]")


@pytest.mark.parametrize(
    ("name", "globs", "picked"),
    [
        (FLIGHTS, (), True),
        (FLIGHTS, ("lake.air.*",), True),
        (FLIGHTS, ("lake.*",), True),
        (FLIGHTS, ("lake.air.flight?",), True),
        (FLIGHTS, ("lake.sea.*",), False),
        (FLIGHTS, ("lake.sea.*", "*.flights"), True),
        (FLIGHTS, ("lake.air.flight",), False),
        (FLIGHTS, ("LAKE.air.flights",), False),
        (FLIGHTS, ("lake.air.[a-z]*",), False),
        (ODD, ("lake.air.t[1]",), True),
        (ODD, ("lake.air.`t[1]`",), True),
        (ODD, ("lake.air.t[*",), True),
        (ODD, ("lake.air.t1",), False),
        (TableName("lake", ("air",), "t1"), ("lake.air.t[1]",), False),
        (TableName("lake", ("air",), "it's"), ("lake.air.it's",), True),
    ],
)
def test_globs_pick_what_they_spell_and_brackets_are_letters(
    name: TableName, globs: tuple[str, ...], picked: bool
) -> None:
    assert selected(name, globs) is picked


@MANY
@given(st.text("ab[]!-`.'", min_size=1, max_size=8))
def test_a_name_without_wildcards_picks_itself(text: str) -> None:
    table = TableName("lake", ("air",), text)
    assert selected(table, (table.plain,))
    assert selected(table, (str(table),))
