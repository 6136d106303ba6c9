"""Every id in the repository has its item in docs/requirements.md, and every item its tests."""

import re
from pathlib import Path

from tests.requirements import ITEM, PAGE, ROOT, holders, ids_in, texts, with_tests, written

ITEMS = ITEM.findall(PAGE.read_text(encoding="utf-8"))


def test_every_id_that_is_used_has_an_item_with_an_anchor() -> None:
    known = {name for _, _, name, _ in ITEMS}
    unknown = {
        (str(path.relative_to(ROOT)), name)
        for path in texts()
        for name in ids_in(path.read_text(encoding="utf-8")) - known
    }
    assert len(known) > 100
    assert unknown == set()


def test_each_item_has_one_anchor_and_that_is_its_id() -> None:
    anchors = [anchor for _, anchor, _, _ in ITEMS]
    assert anchors == [name.lower() for _, _, name, _ in ITEMS]
    assert len({*anchors}) == len(anchors) == PAGE.read_text(encoding="utf-8").count("<a id=")


def test_every_item_is_held_by_a_test_and_the_page_says_by_which() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "run `make pages`"
    assert [name for _, _, name, tests in ITEMS if not tests.strip()] == []


def test_no_text_points_at_a_design_that_is_not_here() -> None:
    outside = re.compile(r"design\W{1,6}(?:sections?\W{1,6})?\d|\bissue\s+\d", re.IGNORECASE)
    pointing = {
        str(path.relative_to(ROOT))
        for path in texts()
        if outside.search(path.read_text(encoding="utf-8"))
    }
    assert pointing == set()


def test_a_new_test_an_unknown_id_and_a_range_would_be_noticed() -> None:
    first, second, third = (f"TT-{number}" for number in (33, 34, 35))
    assert ids_in(f"({first} to\n    {third}, not TTT-1 or tt-1)") == {first, second, third}
    assert ids_in(f"{first} to 34") == {first, second}
    page = f'| <a id="{first.lower()}"></a>{first} | What. | [gone](gone.py) |\n'
    here = Path(__file__)
    assert with_tests(page, {}) == page.replace("[gone](gone.py)", "")
    assert "[test_requirements](../tests/unit/house/" in with_tests(page, {first: [here]})
    assert holders([here]) == {}
