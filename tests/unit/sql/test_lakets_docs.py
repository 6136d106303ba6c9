"""What docs/sql.md says of the functions of LakeTS is what there is."""

import re
from pathlib import Path

from meltline.app.sql.lakets.dispatch import FUNCTIONS, INSTEAD
from meltline.app.sql.lakets.signatures import bound
from meltline.grammar import parse
from meltline.grammar.statements import FunctionCall

DOCS = Path(__file__).resolve().parents[3] / "docs"
SECTION = (DOCS / "sql.md").read_text().split("## Functions of LakeTS")[1].split("\n## ")[0]


def test_the_page_has_a_statement_for_every_function_and_each_can_be_read() -> None:
    shown = set()
    (block,) = re.findall(r"```sql\n(.+?)```", SECTION, re.DOTALL)
    for text in filter(None, map(str.strip, block.split(";\n"))):
        call = parse(text)
        assert isinstance(call, FunctionCall), text
        signature = FUNCTIONS[call.name].signature
        assert bound(call, signature).keys() == {p.name for p in signature.parameters}, text
        shown.add(call.name)
    assert shown == FUNCTIONS.keys()


def test_the_page_has_each_functions_parameters_and_columns_in_their_order() -> None:
    told = {}
    for line in re.findall(r"^\| (`.+) \|$", SECTION, re.MULTILINE):
        names, parameters, answer = (re.findall(r"`(\w+)`", cell) for cell in line.split(" | "))
        told |= {name: (parameters, answer) for name in names}
    assert told.keys() == FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        parameters, answer = told[name]
        assert parameters == [p.name for p in function.signature.parameters]
        if function.signature.is_rows:
            assert answer == [column.name for column in function.signature.columns]


def test_no_page_names_a_function_that_there_is_not() -> None:
    named = re.findall(r"\blakets\.(\w+)", "".join(p.read_text() for p in DOCS.glob("*.md")))
    assert {name.lower() for name in named} <= FUNCTIONS.keys() | INSTEAD.keys()
