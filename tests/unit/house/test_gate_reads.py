"""A gate only judges: what it is given can read, and whoever gives it more is found."""

from pathlib import Path

import pytest

import meltline
from meltline.app.chunks.gate import DropLook
from meltline.app.gate.evidence import collect_evidence
from tests.house.reach import GATES, dangers
from tests.house.sources import House, read
from tests.unit.house.test_house import house

PORTS = """
    from typing import Protocol

    class Reader(Protocol):
        def read(self) -> bytes: ...

    class Remover(Protocol):
        def delete(self, paths): ...

    class Ledger(Reader, Protocol):
        def save(self, rows): ...

    class IncidentAlarm(Protocol):
        def add(self, incidents): ...
"""
SHELF = """
    from dataclasses import dataclass
    from meltline import ports
    from meltline.ports import Reader, Remover

    @dataclass
    class Context:
        reader: Reader
        remover: "Remover | None"

    @dataclass
    class Narrow:
        reader: Reader

        @classmethod
        def of(cls, context: Context) -> "Narrow": ...

    @dataclass
    class Lent:
        reader: Reader

        def context(self) -> ports.Ledger: ...
"""
JUDGE = """
    from meltline.app.shelf import Narrow
    from meltline.ports import IncidentAlarm, Reader

    def judge(shelf: Narrow, reader: Reader, alarm: IncidentAlarm): ...
"""


ROOMS = {
    "app__gate__more": "meltline.app.gate.more",
    "app__chunks__gate": "meltline.app.chunks.gate",
}
"""Where a gate's code can be: below its package, and a module that is the whole of it."""


def around(gate: str, room: str = "app__gate__more") -> House:
    return house(ports__=PORTS, app__shelf=SHELF, app__gate__judge=JUDGE, **{room: gate})


def test_the_gate_reaches_nothing_that_could_destroy_anything() -> None:
    package = Path(meltline.__file__).parent  # a mutation breaks a copy
    assert dangers(read(package.parents[1])).places == []


@pytest.mark.parametrize("look", [collect_evidence, DropLook])
def test_what_looks_for_each_gate_is_covered(look: object) -> None:
    assert any(f"{look.__module__}.".startswith(f"{gate}.") for gate in GATES)


def test_what_reads_is_no_danger_nor_who_was_made_of_more() -> None:
    assert dangers(around("")).places == []


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(
    ("gate", "danger"),
    [
        ("from meltline.ports import Remover", "meltline.ports.Remover.delete"),
        ("from meltline.ports import Ledger as Reader", "meltline.ports.Ledger.save"),
        ("from meltline.app.shelf import Context", "meltline.ports.Remover.delete"),
        ("from meltline.app.shelf import Lent", "meltline.ports.Ledger.save"),
        ("from meltline import ports", "imports meltline.ports"),
        ("import meltline.app.shelf", "imports meltline.app.shelf"),
        ("def late():\n    import os", "imports os"),
        (
            "from meltline.ports import Remover as R\n"
            "class Case:\n    def __init__(self, remover: R): ...",
            "meltline.ports.Remover.delete",
        ),
        ("class Case:\n    end: Callable[[], None]", "ROOM.Case.end"),
    ],
)
def test_whoever_gives_a_gate_more_is_found(gate: str, danger: str, room: str) -> None:
    places = dangers(around(gate, room)).places
    assert places == [f"1 {danger.replace('ROOM', ROOMS[room])}"]


def test_a_port_that_learns_to_write_is_found() -> None:
    ports = PORTS.replace("def read(self) -> bytes: ...", "def truncate(self): ...")
    good = around("")
    changed = house(ports__=ports, app__shelf=SHELF, app__gate__judge=JUDGE)
    assert dangers(good).value == 0
    assert dangers(changed).places == ["1 meltline.ports.Reader.truncate"]
