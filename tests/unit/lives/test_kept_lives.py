"""Lives that failed once, each under a name that says what went wrong; none may fail again."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tests.chunks.chunk_lives import ChunkLives, ReopenedChunkLives
from tests.chunks.rollup_lives import RollupLives
from tests.lake.wrong_clocks import WrongClocks
from tests.lives.copied_installations import CopiedInstallations
from tests.lives.copied_lives import CopiedArchives, CopiedLifecycles
from tests.lives.recorded import (
    KEPT,
    RecordedLife,
    initialize,
    live,
    live_again,
    read_moves,
    rule,
    to_json,
)
from tests.lives.restored_ledgers import RestoredLedgers
from tests.lives.shrinking import Move, shrunk
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.unit.lives.test_random_archives import RandomArchives
from tests.unit.lives.test_random_lifecycles import (
    LosingLifecycles,
    MiscountedLifecycles,
    RandomLifecycles,
    StrangeLifecycles,
)
from tests.unit.lives.test_random_rest import RestLifecycles

KINDS = (
    RandomLifecycles,
    RandomArchives,
    UnluckyLifecycles,
    RestLifecycles,
    RestoredLedgers,
    CopiedInstallations,
    WrongClocks,
    CopiedLifecycles,
    CopiedArchives,
    ChunkLives,
    ReopenedChunkLives,
    RollupLives,
    StrangeLifecycles,
    MiscountedLifecycles,
    LosingLifecycles,
)
OPEN = KEPT / "open"
LIVES = {kind.__name__: kind for kind in KINDS}


def lived_again(recording: Path) -> None:
    kind = json.loads(recording.read_text("utf-8"))["life"]
    live_again(LIVES[kind](), read_moves(recording))


@pytest.mark.parametrize("recording", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.slow("one kept life has many nights")
def test_a_life_that_failed_once_does_not_fail_again(recording: Path) -> None:
    lived_again(recording)


def missing(recording: Path) -> str:
    """Returns the behaviour that an open life waits for."""
    return str(json.loads(recording.read_text("utf-8"))["missing"])


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(
            recording,
            id=recording.stem,
            marks=pytest.mark.xfail(strict=True, reason=missing(recording)),
        )
        for recording in sorted(OPEN.glob("*.json"))
    ],
)
def test_an_open_life_fails_until_its_missing_behaviour_is_built(recording: Path) -> None:
    """A life that passes moves up a folder."""
    lived_again(recording)


# --- the recorder itself -------------------------------------------------------------------------


class Candle(RecordedLife):
    """Fails once it has burnt for three hours in all, a move within a move counted once."""

    def __init__(self) -> None:
        super().__init__()
        self.burnt = timedelta(0)
        self.ended = False

    @initialize(names=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3))))
    def is_made(self, names: list[tuple[str, int]]) -> None:
        assert all(letter in "ab" and number < 4 for letter, number in names)

    @rule(span=st.sampled_from([timedelta(hours=1), timedelta(hours=2)]))
    def burns(self, span: timedelta) -> None:
        self.burnt += span

    @rule()
    def burns_for_an_hour(self) -> None:
        self.burns(span=timedelta(hours=1))

    @invariant()
    def is_not_burnt_down(self) -> None:
        assert self.burnt < timedelta(hours=3), "burnt down"

    def teardown(self) -> None:
        self.ended = True


def test_a_life_that_fails_is_written_down_in_its_smallest_form_and_fails_again(
    tmp_path: Path,
) -> None:
    with pytest.raises(AssertionError, match="burnt down") as failure:
        live(Candle, lives=50, moves=10, begin=7, failed=tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == "Candle-7.json"
    assert any(str(path) in note for note in failure.value.__notes__)
    recording = json.loads(path.read_text())
    assert (recording["life"], recording["story"]) == ("Candle", "AssertionError: burnt down")
    assert len(recording["moves"]) <= 3  # and no hour too many, see below
    again = Candle()
    with pytest.raises(AssertionError, match="burnt down"):
        live_again(again, read_moves(path))
    assert again.burnt == timedelta(hours=3) and again.ended


def test_what_moves_have_drawn_comes_back_from_a_recording_as_it_was(tmp_path: Path) -> None:
    moves = [("is_made", {"names": [["a", 1]]}), ("burns", {"span": timedelta(hours=2)})]
    (tmp_path / "life.json").write_text(to_json("Candle", "no story", moves))
    assert read_moves(tmp_path / "life.json") == moves


def test_a_failing_life_loses_the_moves_and_the_actions_that_it_does_not_take() -> None:
    days = [["a", "b"], ["c"], ["b", "d"]]
    moves = [("past", {"days": days}), ("look", {}), ("run", {"span": 3}), ("look", {})]

    def goes_wrong(fewer: Sequence[Move]) -> bool:
        return "'d'" in str(fewer) and "run" in str(fewer)

    assert shrunk(moves, goes_wrong, seconds=60) == [
        ("past", {"days": [["d"]]}),
        ("run", {"span": 3}),
    ]
    assert shrunk(moves, goes_wrong, seconds=0) == moves


def test_a_life_that_does_not_fail_leaves_no_recording(tmp_path: Path) -> None:
    live(Candle, lives=5, moves=1, begin=7, failed=tmp_path)
    assert not list(tmp_path.iterdir())
