"""Random lives that are written down, so that one that failed can be lived again and be kept.

A recording is the list of a life's moves, each with what was drawn for it, as JSON. It depends on
what the moves are called, and neither on a seed nor on the version of Hypothesis. `rule` and
`initialize` stand in for Hypothesis's own of the same name.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings, stateful
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.lives.shrinking import Move, shrunk
from tests.seeds import SEED

KEPT = Path(__file__).parent / "kept_lives"
FAILED = Path(__file__).parents[2] / "build" / "failed_lives"
Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def rule(**drawn: Any) -> Decorator:
    """A move that may come at any time."""
    return lambda move: stateful.rule(**drawn)(_recorded(move))


def initialize(**drawn: Any) -> Decorator:
    """A move that comes first."""
    return lambda move: stateful.initialize(**drawn)(_recorded(move))


def _recorded(move: Callable[..., None]) -> Callable[..., None]:
    """Notes a move before it is made. What a move calls is a part of it, and no move."""

    @wraps(move)
    def recording(life: "RecordedLife", **drawn: Any) -> None:
        if not life.in_a_move:
            life.moves.append((move.__name__, drawn))
        outer, life.in_a_move = life.in_a_move, True
        try:
            move(life, **drawn)
        except Exception:
            life.is_broken = True
            raise
        finally:
            life.in_a_move = outer

    return recording


class RecordedLife(RuleBasedStateMachine):
    """A life that knows its moves.

    Attributes:
        newest: The life that was lived last; the smallest one that fails, once one has failed.
        moves: What happened, in order.
        in_a_move: Whether a move is being made.
        is_broken: Whether it has failed, so that there is nothing more to check in the end.
    """

    newest: ClassVar["RecordedLife | None"] = None

    def __init__(self) -> None:
        super().__init__()
        RecordedLife.newest = self
        self.moves: list[Move] = []
        self.in_a_move = False
        self.is_broken = False

    def check_invariants(self, *about: Any) -> None:
        try:
            super().check_invariants(*about)
        except Exception:
            self.is_broken = True
            raise


# --- recordings ----------------------------------------------------------------------------------


def to_json(life: str, story: str, moves: Sequence[Move]) -> str:
    """A recording; `life` names the class, `story` says what went wrong, in a sentence."""
    lines = ",\n  ".join(json.dumps([name, _plain(drawn)]) for name, drawn in moves)
    head = f'{{"life": {json.dumps(life)},\n "story": {json.dumps(story)},\n'
    return f'{head} "moves": [\n  {lines}\n ]}}\n'


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a move drew {value!r}: teach tests.lives.recorded to write it down")


def _drawn(value: Any) -> Any:
    if isinstance(value, list):
        return [_drawn(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"seconds"}:
            return timedelta(seconds=value["seconds"])
        return {key: _drawn(item) for key, item in value.items()}
    return value


def read_moves(recording: Path) -> list[Move]:
    return [(name, _drawn(drawn)) for name, drawn in json.loads(recording.read_text())["moves"]]


def live_again(life: RecordedLife, moves: Sequence[Move]) -> None:
    """The same moves once more, with all that is checked after each of them and in the end."""
    try:
        for name, drawn in moves:
            getattr(life, name)(**drawn)
            for check in life.invariants:
                check.function(life)
    except Exception:
        life.is_broken = True
        raise
    finally:
        life.teardown()


# --- random lives --------------------------------------------------------------------------------


def live(
    kind: type[RecordedLife],
    *,
    lives: int,
    moves: int,
    begin: int = SEED,
    failed: Path | None = FAILED,
    after_each: Callable[[Any], None] = lambda life: None,
) -> None:
    """Lives random lives; one that fails is written down, in the smallest form that a minute finds.

    Hypothesis would shrink it by what it draws; the moves themselves are much fewer. Without a
    folder for it nothing is written.
    """

    class Life(kind):  # type: ignore[misc,valid-type]
        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                after_each(self)

    looked = settings(
        max_examples=lives,
        stateful_step_count=moves,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(begin)(Life), settings=looked)
    except Exception as error:
        if failed is not None and isinstance(life := RecordedLife.newest, kind):
            error.add_note(_keep(kind, life.moves, begin, failed))
        raise


def _keep(kind: type[RecordedLife], moves: Sequence[Move], begin: int, folder: Path) -> str:
    """Writes a failing life down; returns what to do with it."""
    what = failure(kind, moves)
    smallest = shrunk(moves, lambda fewer: is_alike(failure(kind, fewer), what), seconds=60)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind.__name__}-{begin}.json"
    path.write_text(to_json(kind.__name__, failure(kind, smallest), smallest), "utf-8")
    return (
        f"This life was written to {path}\n"
        f"Move it to {KEPT.relative_to(KEPT.parents[2])} under a name that says what went wrong:"
        " each of those is lived again by every run of the tests."
    )


def failure(kind: type[RecordedLife], moves: Sequence[Move]) -> str:
    """What goes wrong in a life of these moves, in a line; empty if nothing does."""
    try:
        live_again(kind(), moves)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def is_alike(failure: str, other: str) -> bool:
    """Whether two failures are of one kind; files and ids aside."""
    return failure.split(":")[:2] == other.split(":")[:2]
