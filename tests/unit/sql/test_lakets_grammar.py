"""SELECT lakets.…(…) as Postgres would read it: forms, literals, names of parameters."""

import pytest

from meltline.domain.errors import SqlUnreadable
from meltline.grammar import parse
from meltline.grammar.calls import Argument, Literal, arguments_of
from meltline.grammar.statements import FunctionCall, Query
from tests.unit.sql.test_grammar import ADD_BOTH, ADD_RETENTION, ADD_TIERING


def call(text: str) -> FunctionCall:
    parsed = parse(text)
    assert isinstance(parsed, FunctionCall), parsed
    return parsed


def arguments(text: str) -> tuple[Argument, ...]:
    return arguments_of(call(f"SELECT lakets.f({text})"))


def only(text: str) -> tuple[Literal, object]:
    (argument,) = arguments(text)
    return argument.literal, argument.value


# --- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "alias", "columns"),
    [
        ("SELECT lakets.f('a')", "", ()),
        ("select LakeTS . F ( 'a' ) ;;", "", ()),
        ("-- why\nSELECT lakets.f('a'); -- done", "", ()),
        ("SELECT lakets.f('a') AS id", "id", ()),
        ("SELECT lakets.f('a') id", "id", ()),
        ("SELECT * FROM lakets.f('a');", "", ()),
        ("SELECT * FROM lakets.f('a') AS x", "x", ()),
        ("SELECT * FROM lakets.f('a') x (one, `Two`)", "x", ("one", "Two")),
    ],
)
def test_a_call_that_is_the_whole_statement_is_one_of_ours(
    text: str, alias: str, columns: tuple[str, ...]
) -> None:
    read = call(text)
    assert (read.name, read.alias, read.columns) == ("f", alias, columns)
    assert [a.value for a in arguments_of(read)] == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lakets.f('a'), lakets.f('b')",
        "SELECT lakets.f('a') FROM t",
        "SELECT lakets.f('a') + 1",
        "SELECT lakets.f('a') AS x(y)",
        "SELECT * FROM lakets.f('a') WHERE caught_up",
        "SELECT cdf_status FROM lakets.f()",
        "SELECT lakets.f(time, 1) AS bucket, avg(v) FROM t GROUP BY 1",
    ],
)
def test_a_call_within_more_is_for_nobody_else(text: str) -> None:
    read = parse(text)
    assert isinstance(read, Query) and read.calls == ("f",)


def test_a_statement_about_a_table_called_lakets_is_for_spark() -> None:
    for text in ("SELECT lakets.f FROM lakets", "SELECT * FROM lakets.f", "SELECT f('a')"):
        read = parse(text)
        assert isinstance(read, Query) and read.calls == ()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (ADD_TIERING, ["metrics", "7 days"]),
        (ADD_RETENTION, ["metrics", "90 days"]),
        (ADD_BOTH, ["metrics", "7 days", "90 days"]),
    ],
)
def test_the_sources_own_statements_are_read_with_what_they_say(
    text: str, values: list[str]
) -> None:
    assert [argument.value for argument in arguments_of(call(text))] == values


# --- literals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "literal", "value"),
    [
        ("'it''s'", Literal.TEXT, "it's"),
        ('"metrics"', Literal.TEXT, "metrics"),
        ("$$it's $1; -- all\nof it$$", Literal.TEXT, "it's $1; -- all\nof it"),
        ("$q$one $$ and ' two$q$", Literal.TEXT, "one $$ and ' two"),
        ("$$$$", Literal.TEXT, ""),
        ("'metrics'::text", Literal.TEXT, "metrics"),
        ("'metrics'::regclass", Literal.TEXT, "metrics"),
        ("7", Literal.NUMBER, "7"),
        ("-1.5", Literal.NUMBER, "-1.5"),
        ("TRUE", Literal.BOOLEAN, "true"),
        ("false::boolean", Literal.BOOLEAN, "false"),
        ("NULL", Literal.NULL, None),
        ("NULL::text[]", Literal.NULL, None),
        ("INTERVAL '7 days'", Literal.INTERVAL, "7 days"),
        ("INTERVAL '7' DAY", Literal.INTERVAL, "7 day"),
        ("interval 7 days", Literal.INTERVAL, "7 days"),
        ("'7 days'::interval", Literal.INTERVAL, "7 days"),
        ("TIMESTAMPTZ '2026-01-05'", Literal.TIMESTAMP, "2026-01-05"),
        ("'2026-01-05'::timestamptz", Literal.TIMESTAMP, "2026-01-05"),
        ("'2026-01-05'::timestamp with time zone", Literal.TIMESTAMP, "2026-01-05"),
        ("ARRAY['a', 'b']", Literal.ARRAY, ("a", "b")),
        ("ARRAY[]::text[]", Literal.ARRAY, ()),
        ("'{}'::text[]", Literal.ARRAY, "{}"),
    ],
)
def test_literals_are_read_as_postgres_has_them(text: str, literal: Literal, value: object) -> None:
    assert only(text) == (literal, value)


@pytest.mark.parametrize(
    "text",
    ["now()", "time", "7 +", "'a' || 'b'", "ARRAY[1]", "'a'::json", "7::interval", "'a' 'b',"],
)
def test_what_is_no_literal_is_told_with_its_place(text: str) -> None:
    with pytest.raises(SqlUnreadable, match=r"line 1, column \d+: "):
        arguments(text)


def test_texts_between_dollars_hide_nothing_else_of_a_statement() -> None:
    text = "SELECT * FROM t AT(OFFSET => -1) WHERE v = '$$' AND w = '${x}' OR `a$$b` = '$$'"
    read = parse(text)
    assert isinstance(read, Query) and len(read.clauses) == 1


def test_a_text_between_dollars_must_end() -> None:
    for text in ("SELECT lakets.f($$a)", "SELECT lakets.f($q$a$$)", "SELECT lakets.f('a'"):
        with pytest.raises(SqlUnreadable):
            parse(text)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["=>", ":="])
def test_arguments_are_named_by_either_sign_behind_those_by_place(sign: str) -> None:
    read = arguments(f"'metrics', P_After {sign} '7 days', p_schema_name{sign}'air'")
    assert [(a.name, a.value) for a in read] == [
        ("", "metrics"),
        ("p_after", "7 days"),
        ("p_schema_name", "air"),
    ]


def test_a_value_without_a_name_behind_one_with_a_name_is_refused() -> None:
    with pytest.raises(SqlUnreadable, match=r"column 44: .*`=>`"):
        arguments("p_table_name => 'metrics', '7 days'")
