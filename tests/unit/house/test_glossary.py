"""The glossary has every word that the domain's states have, and its types are where it says."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import Enum, IntEnum
from pathlib import Path

import pytest

import meltline.domain
import meltline.ports
from tests.unit.house.test_docs import DOCS, ROOT, rows, text

PAGE = DOCS / "glossary.md"
WORDS = [row for row in rows(PAGE) if len(row) == 4 and row[0] != "Word"]
PACKAGE = ROOT / "include" / "meltline"


def enumerations() -> Iterator[type[Enum]]:
    """Those of the domain and the ports, which all that a command prints is made of."""
    for package in (meltline.domain, meltline.ports):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            here = (module.name, True)
            for kind in vars(importlib.import_module(module.name)).values():
                if isinstance(kind, type) and (kind.__module__, issubclass(kind, Enum)) == here:
                    yield kind


@pytest.mark.parametrize("kind", list(enumerations()), ids=lambda kind: kind.__name__)
def test_every_state_of_the_domain_has_its_word(kind: type[Enum]) -> None:
    members = {e.name if issubclass(kind, IntEnum) else e.value for e in kind}
    assert members - set(re.findall(r"`([^`]+)`", text(PAGE))) == set()


def test_a_word_stands_in_one_row() -> None:
    words = [row[0].strip("`") for row in WORDS]
    assert len(words) > 80
    assert sorted({*words}) == sorted(words)


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row[0])
def test_what_a_word_names_is_where_the_glossary_says(row: list[str]) -> None:
    place, *types = re.findall(r"`([^`]+)`", row[3])
    folder: Path = PACKAGE / place
    assert folder.exists()
    source = "\n".join(map(text, folder.rglob("*.py") if folder.is_dir() else [folder]))
    assert [name for name in types if not re.search(rf"^class {name}\b", source, re.M)] == []
    assert all(cell.strip() for cell in row)
