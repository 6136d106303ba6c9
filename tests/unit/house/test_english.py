"""The check of plain English can fail: small pages and modules that are written badly."""

import re
from pathlib import PurePosixPath
from textwrap import dedent

import pytest

from tests.house import english
from tests.house.english import IDIOMS, MOST_CODE, Text, Unit
from tests.house.given_up import GIVEN_UP
from tests.house.sources import House, Source

STILTED = {
    "came to (= resulted in)": "Shows how much the purge came to.",
    "anew, afresh": "Plans it anew.",
    "let go": "A table is let go after its retention.",
    "held against (= compared)": "Each row is held against the ledger.",
    "take back, wanted back": "Tables that are wanted back.",
    "a person's word": "Needs a person's word.",
    "stands (= is)": "The file stands in a manifest.",
    "so many (as a noun)": "So many requests run at a time.",
    "whoever, nobody, somebody": "Files that nobody needs.",
    "of which, of whom, of that": "A commit of which the result is unknown.",
    'a clause with "What" as a sentence': "What a purge deleted.",
    "is there": "Checks that the file is there.",
    "wholly": "A chunk that is wholly old.",
    "goes on": "The run goes on.",
    "told of, says of": "Plans tell apart the two.",
    "words (= arguments)": "The words of a command.",
    "a look (= a read or scan)": "Fails after one look at the catalog.",
    "place (= path, bucket)": "Deletes from this place.",
    "departs (a verb)": "A file departs with its commit.",
    "made of": "The table is made of chunks.",
    "by itself": "Each file counts by itself.",
    "odd": "Skips odd files.",
}

PLAIN = """
    It has come to be trusted, and a fault comes to light. The departure of a file is recorded.
    `whoever` and [a page](made-of-words.md) are code. Letters go onward to replacement oddities.
"""


def module(text: str, path: str = "include/meltline/app/purge/purge.py") -> House:
    return House((Source(PurePosixPath(path), dedent(text)),))


def page(text: str, path: str = "docs/safety.md") -> Unit:
    (unit,) = english.page_units({PurePosixPath(path): dedent(text).lstrip()}).values()
    return unit


@pytest.mark.parametrize("name", IDIOMS)
def test_each_idiom_is_found(name: str) -> None:
    assert re.search(IDIOMS[name], STILTED[name])
    assert [place.split(": ")[1] for place in page(STILTED[name]).idioms] == [name]


def test_a_plain_text_has_no_idioms() -> None:
    assert page(PLAIN).idioms == []


def test_the_rate_is_that_of_ten_thousand_words() -> None:
    assert page("plain " * 998 + "odd wholly").rate == 20


def test_code_blocks_and_code_spans_of_a_page_are_left_out() -> None:
    text = """
        Run `meltline words` first.

        ```sh
        echo nobody stands there
        ```

        - Then it is odd.
    """
    unit = page(text)
    assert unit.idioms == ["docs/safety.md:7: odd: - Then it is odd."]
    assert sum(text.words for text in unit.texts) == 6


def test_an_idiom_is_found_across_the_end_of_a_line() -> None:
    assert len(page("A table is let\ngo, and is taken\nback.").idioms) == 2


def test_paragraphs_items_and_rows_are_texts_of_their_own() -> None:
    texts = page("# Head\nProse\nmore.\n\n- first\n  goes on\n- second\n| a | b |\n").texts
    assert [text.text for text in texts] == [
        "# Head\x20Prose more.",
        "- first goes on",
        "- second",
        "| a | b |",
    ]


def test_docstrings_comments_and_attribute_docstrings_count() -> None:
    text = '''
        """Whoever reads."""

        LIMIT = 1
        """So many."""

        # Nobody calls
        # it anew.
        text = "whoever"
    '''
    unit = english.code_units(module(text))["app/purge"]
    assert len(unit.idioms) == 4
    assert unit.limit == MOST_CODE


@pytest.mark.parametrize("term", GIVEN_UP)
def test_each_given_up_term_is_found_in_every_case(term: str) -> None:
    camel = "".join(part.title() for part in term.split("_"))
    for name in (term, f"_old_{term}_now", camel, f"Old{camel}", term.upper()):
        assert english.given_up(name)
    assert GIVEN_UP[term]


@pytest.mark.parametrize("name", ["line", "until", "toldest", "outlook", "lifespan", "done"])
def test_names_that_only_contain_the_letters_of_a_term_are_fine(name: str) -> None:
    assert english.given_up(name) is None


def test_identifiers_are_named_with_their_replacement() -> None:
    unit = english.code_units(module("def judge(strays): ...\nnote = 'stray'\n"))["app/purge"]
    assert unit.given_up == [
        "include/meltline/app/purge/purge.py:1: judge: say evaluate",
        "include/meltline/app/purge/purge.py:1: strays: say orphan candidate",
    ]


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("include/meltline/app/purge/deep/purge.py", "app/purge"),
        ("include/meltline/cli/run/driver.py", "cli"),
        ("include/meltline/domain/clock.py", "domain"),
        ("include/meltline/api.py", "meltline"),
        ("tests/unit/purge/test_purge.py", "tests"),
    ],
)
def test_a_file_belongs_to_one_unit(path: str, unit: str) -> None:
    assert english.unit_of(PurePosixPath(path)) == unit


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("README.md", "docs"),
        ("docs/safety.md", "docs"),
        ("docs/decisions/001-local-files.md", "docs/decisions"),
        ("docs/commands.md", "docs, generated"),
    ],
)
def test_a_page_belongs_to_one_unit(path: str, unit: str) -> None:
    assert english.page_unit(PurePosixPath(path)) == unit


def unit(idioms: int, names: int = 0, limit: float | None = 15) -> Unit:
    return Unit(limit, [Text("here", "odd " * idioms + "plain " * (1000 - idioms))], ["x"] * names)


@pytest.mark.parametrize(
    ("measured", "record", "good"),
    [
        (unit(1), {}, True),
        (unit(2), {}, False),
        (unit(1, names=1), {}, False),
        (unit(2), {"app": [20, 0]}, True),
        (unit(3), {"app": [20, 0]}, False),
        (unit(2, names=3), {"app": [20, 3]}, True),
        (unit(2, names=4), {"app": [20, 3]}, False),
        (unit(99, names=9, limit=None), {}, True),
    ],
)
def test_no_figure_may_rise_above_its_record_and_its_limit(
    measured: Unit, record: dict[str, list[float]], good: bool
) -> None:
    assert english.held({"app": measured}, record) is good


def test_a_record_only_falls_and_goes_once_the_limits_hold() -> None:
    units = {"fell": unit(3), "rose": unit(9), "plain": unit(1), "new": unit(9)}
    record = {"fell": [40.0, 0], "rose": [50.0, 0], "plain": [30.0, 5], "gone": [30.0, 5]}
    assert english.lowered(units, record) == {"fell": [30, 0], "rose": [50, 0]}


def test_a_place_is_printed_where_a_figure_rose(capsys: pytest.CaptureFixture[str]) -> None:
    assert not english.held({"app": unit(2)}, {})
    assert "here: odd: " in capsys.readouterr().out
