"""What a run does grows with the lake and with what changed, and not with a product of the two.

Calls are counted, not seconds: four times as many tables may mean four times as many calls of a
function, and where each table looks at every other it would be sixteen times.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import CodeType, FrameType

import pytest

import meltline
from meltline.app.run.lifecycle import run_chain
from tests.lake.lake import Lake

HERE = meltline.__path__[0]
FEW, TIMES = 10, 4
MOST = 1.4 * TIMES
"""So many times as many calls are still in proportion: what is done in waves comes in steps."""
SLACK = 400  # calls of what is done by chance, as by threads

Build = Callable[[Lake, int], None]


def tables(lake: Lake, count: int) -> None:
    for number in range(count):
        table = lake.table(f"t{number}")
        table.append(f"a{number}")
        table.overwrite(f"b{number}")
        table.overwrite(f"c{number}")


def clones(lake: Lake, count: int) -> None:
    source = lake.table("t")
    source.append("a")
    for number in range(count):
        clone = lake.clone(source, f"lake.air.c{number}")
        clone.append(f"b{number}")
        clone.overwrite(f"c{number}")


def renamed_tables(lake: Lake, count: int) -> None:
    for number in range(count):
        table = lake.table(f"t{number}")
        table.append(f"a{number}")
    _run(lake)
    for number, pointer in enumerate(lake.catalogs["lake"].listing().entries):
        lake.catalogs["lake"].drop(pointer.name)
        lake.register(f"lake.air.r{number}", pointer.metadata_location).append(f"b{number}")


def snapshots(lake: Lake, count: int) -> None:
    """Each with one manifest: with all that came before, lists would be as long as history is."""
    table = lake.table("t")
    for number in range(5 * count):
        lake.clock.moment += timedelta(seconds=1)
        table.overwrite(f"a{number}")


def refs(lake: Lake, count: int) -> None:
    table = lake.table("t")
    for number in range(8):
        table.append(f"a{number}")
    for number in range(5 * count):
        at = table.snapshots[number % 8]
        table.tag(f"tag{number}", at, **{"max-ref-age-ms": 86_400_000 * (number % 60 + 1)})
        table.tag(f"meltline_consumer_{number}", at)


@pytest.mark.parametrize("build", [tables, clones, renamed_tables, snapshots, refs])
def test_no_function_is_called_more_often_than_in_proportion(build: Build) -> None:
    few, many = _calls(build, FEW), _calls(build, FEW * TIMES)
    assert many.total() > few.total() > 1000
    beyond = {name: (few[name], n) for name, n in many.items() if n > MOST * few[name] + SLACK}
    assert not beyond


def _calls(build: Build, count: int) -> Counter[str]:
    lake = Lake()
    build(lake, count)
    with _counted() as calls:
        for day in (1, 20, 40):
            lake.on(day)
            _run(lake)
    return calls


def _run(lake: Lake) -> None:
    run_chain(lake.services(), lake.request())


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """How often each of our functions is called meanwhile, in this thread or in new ones."""
    codes: Counter[CodeType] = Counter()
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes[frame.f_code] += 1

    before = sys.getprofile()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    for code, n in codes.items():
        place = code.co_filename.removeprefix(HERE)
        if place != code.co_filename:
            calls[f"{place}:{code.co_firstlineno} {code.co_name}"] += n
