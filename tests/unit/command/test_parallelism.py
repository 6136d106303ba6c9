"""How many small requests are sent at a time: as configured, or as a run was asked for."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest

from meltline.app.run.lifecycle import run_chain
from meltline.app.run_request import OPTIONS
from meltline.concurrency import thread_map, use_threads
from meltline.config.load import load_config
from meltline.domain.errors import UsageInvalid
from meltline.wiring import Wiring
from tests.lake.lake import Lake


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    use_threads(16)


def at_a_time() -> int:
    """How many pieces of slow work are done side by side."""
    guard, running, most = Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with guard:
            running -= 1

    list(thread_map(work, range(40)))
    return most


def test_the_configuration_says_how_many(tmp_path: Path) -> None:
    # AR-20
    (tmp_path / "meltline.yaml").write_text(
        "catalogs:\n  lake: {type: sql, uri: 'sqlite:///c.db', warehouse: w}\n"
        "io: {parallelism: 3}\n"
    )
    Wiring(load_config(tmp_path / "meltline.yaml", {}, tmp_path), {})
    assert at_a_time() == 3


def test_a_run_may_be_asked_for_another_number() -> None:
    lake = Lake()
    run_chain(lake.services(), replace(lake.request(), parallelism=2))
    assert at_a_time() == 2


@pytest.mark.parametrize("text", ["0", "1001", "many", "-1", "\u0663"])
def test_what_is_no_such_number_is_refused(text: str) -> None:
    with pytest.raises(UsageInvalid) as refused:
        OPTIONS["parallelism"].notation.read(text, "--parallelism")
    assert refused.value.expected == "a whole number from 1 to 1000"
