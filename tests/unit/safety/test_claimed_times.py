"""The times that the pages name, to the millisecond: clocks and sleepers are the tests' own."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from meltline.adapters.catalogs.table_commits import commit_edit
from meltline.adapters.catalogs.table_renames import commit_moves
from meltline.app.expire.expire import apply_expirations
from meltline.app.ownership.departed_objects import DepartedObjects
from meltline.app.purge.purge import apply_purges
from meltline.app.safety.preconditions import require_clock
from meltline.domain.clock import FixedClock
from meltline.domain.errors import ClockRefused, CommitConflict, PlanStale
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from meltline.ports import TableMove
from tests.doubles.store import MemoryStore
from tests.lake.lake import T0, Lake
from tests.unit.plan.test_races import departed, expiration, overwritten

TOLERATED = timedelta(minutes=5)
STEP = timedelta(milliseconds=1)


class With:
    """A port of which one method does something else."""

    def __init__(self, inner: Any, **methods: Callable[..., Any]) -> None:
        self._inner, self._methods = inner, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._inner, name)


def off_the_database(lake: Lake, by: timedelta) -> Any:
    control = lake.control
    database = With(control.database, now=lambda: lake.clock.now() + by)
    return lake.services(control=replace(control, database=database))


def off_the_store(lake: Lake, by: timedelta) -> Any:
    def write(path: str, content: bytes) -> datetime:
        return lake.store.write(path, content) + by

    return lake.services(writer=With(lake.store, write=write))


OFF = pytest.mark.parametrize("off", [off_the_database, off_the_store])
SIGNS = pytest.mark.parametrize("sign", [1, -1])


@OFF
@SIGNS
def test_a_clock_five_minutes_off_is_tolerated_and_no_more(
    off: Callable[[Lake, timedelta], Any], sign: int
) -> None:
    lake = Lake()
    lake.clock.simulated = False
    require_clock(off(lake, sign * TOLERATED))
    with pytest.raises(ClockRefused, match="disagrees"):
        require_clock(off(lake, sign * (TOLERATED + STEP)))


@OFF
@SIGNS
def test_nothing_is_purged_by_a_clock_that_is_further_off(
    off: Callable[[Lake, timedelta], Any], sign: int
) -> None:
    lake, _, plan = departed()
    lake.clock.simulated = False
    (refused,) = apply_purges(off(lake, sign * (TOLERATED + STEP)), [plan])
    assert isinstance(refused.error, ClockRefused) and lake.deleter.deleted == []
    (done,) = apply_purges(off(lake, sign * TOLERATED), [plan])
    assert done.error is None and lake.deleter.deleted


def slow_after_the_proof(lake: Lake, pause: timedelta) -> Any:
    """Services of a machine that stands still between the proof of a batch and its deletes."""

    def lost(locks: Sequence[Any]) -> Any:
        lake.clock.moment += pause
        return lake.control.locks.lost(locks)

    locks = With(lake.control.locks, lost=lost)
    return lake.services(control=replace(lake.control, locks=locks))


def test_deletes_begin_within_five_minutes_of_their_proof() -> None:
    lake, _, plan = departed()
    (done,) = apply_purges(slow_after_the_proof(lake, TOLERATED), [plan])
    assert done.error is None and lake.deleter.deleted


def test_a_proof_older_than_five_minutes_deletes_nothing_and_drops_its_claim() -> None:
    lake, _, plan = departed()
    (late,) = apply_purges(slow_after_the_proof(lake, TOLERATED + STEP), [plan])
    assert isinstance(late.error, PlanStale) and "five minutes" in late.error.expected
    assert lake.deleter.deleted == [] and not lake.control.claims.paths()
    (done,) = apply_purges(lake.services(), [plan])
    assert done.error is None and lake.deleter.deleted


def test_an_object_newer_than_five_minutes_before_its_departure_is_another_one() -> None:
    lake, _, _ = departed()
    lake.sandbox = lake.clock.simulated = False
    departure = min(lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE})), key=str)
    looked_at = DepartedObjects.of(lake.services(), {departure.path: departure}).at(departure.path)
    assert looked_at.unlike(departure.bytes, departure.departed_at - TOLERATED) == ""
    assert "modified" in looked_at.unlike(departure.bytes, departure.departed_at - TOLERATED + STEP)


# --- waits between tries ---------------------------------------------------------------------


def waits_of_an_expiration(_: int) -> list[float]:
    lake, table = overwritten()
    plan, waits, others = expiration(lake), list[float](), count()

    def expire(*_: Any) -> None:
        """Somebody else is faster."""
        table.append(f"theirs{next(others)}")

    services = lake.services(committer=With(None, expire=expire))
    (left,) = apply_expirations(services, [plan], waits.append)
    assert left.error is not None and left.snapshots_expired == 0
    return waits


class Restless:
    """A catalog whose tables somebody else always moves first."""

    def location(self, name: TableName) -> str:
        return "file:///w/t/metadata/v1.metadata.json"

    def swap(self, *_: object) -> bool:
        return False

    def apply(self, *_: object) -> bool:
        return False


def document() -> bytes:
    return json.dumps(
        {
            "format-version": 2, "table-uuid": "0b0c2a52-6a2a-4f6c-8f5e-2f3c1d1b7a10",
            "location": "file:///w/t", "last-updated-ms": 0, "last-sequence-number": 0,
            "properties": {}, "snapshots": [], "snapshot-log": [], "metadata-log": [], "refs": {},
        }
    ).encode()  # fmt: skip


def store() -> MemoryStore:
    return MemoryStore({"file:///w/t/metadata/v1.metadata.json": document()})


def waits_of_an_edit(number: int) -> list[float]:
    waits: list[float] = []
    with pytest.raises(CommitConflict):
        commit_edit(
            Restless(), store(), TableName("lake", ("air",), "t"),
            lambda edited: edited.set_properties({"a": "b"}, []), FixedClock(T0),
            unique=lambda: str(number), pause=waits.append,
        )  # fmt: skip
    return waits


def waits_of_a_move(number: int) -> list[float]:
    waits: list[float] = []
    table = TableName("lake", ("air",), "t")
    rows: Any = Restless()
    target = TableName("lake", ("air",), "u")
    move = TableMove(table, target, lambda edited: edited.set_properties({"a": "b"}, []))
    with pytest.raises(CommitConflict):
        commit_moves(
            rows, store(), [move], {}, [], FixedClock(T0), unique=lambda: str(number),
            pause=waits.append,
        )  # fmt: skip
    return waits


@pytest.mark.parametrize(
    ("waits_of", "first"),
    [
        (waits_of_an_expiration, (0.05, 0.2)),
        (waits_of_an_edit, (0.02, 0.1)),
        (waits_of_a_move, (0.02, 0.1)),
    ],
)
def test_the_wait_between_tries_grows_has_a_bound_and_is_nobody_elses(
    waits_of: Callable[[int], list[float]], first: tuple[float, float]
) -> None:
    lives = [waits_of(number) for number in range(5)]
    least, most = first
    for waits in lives:
        assert len(waits) >= 4
        assert all(least * 2**n <= wait <= most * 2**n for n, wait in enumerate(waits))
    # Writers that met once would meet each time if they waited alike.
    assert len({waits[0] for waits in lives}) == len(lives)
