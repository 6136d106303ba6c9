"""One suite for every file ledger: the items of plans, and the states of departures."""

from dataclasses import replace
from datetime import timedelta

from meltline.domain.iceberg.files import (
    DepartureState,
    FileKind,
    PlannedFile,
)
from tests.contract.index.file_shelf import (
    CANCELLED,
    DELETED,
    FAILSAFE,
    MS,
    NOW,
    Shelf,
)

# --- plan items ----------------------------------------------------------------------------------


def test_items_come_back_as_they_were_sorted_by_path(shelf: Shelf) -> None:
    files = [
        PlannedFile(shelf.path("i/ж b"), FileKind.DATA, 2**40, "o", NOW),
        PlannedFile(shelf.path("i/a"), FileKind.MANIFEST_LIST, 0, "o"),
        PlannedFile(shelf.path("i/B"), FileKind.DELETION_VECTOR, 1, "p", NOW + MS),
    ]
    shelf.ledger.items.store({"items-1": files, "items-2": files[:1]})
    found = shelf.ledger.items.of(["items-1", "items-2", "items-none"])
    assert list(found["items-1"]) == sorted(files, key=lambda file: file.path)
    assert list(found["items-2"]) == files[:1]
    assert list(found["items-none"]) == []
    assert shelf.ledger.items.of([]) == {}


def test_items_are_stored_once_and_never_changed(shelf: Shelf) -> None:
    first = PlannedFile(shelf.path("i/first"), FileKind.DATA, 1, "o")
    other = replace(first, path=shelf.path("i/other"))
    shelf.ledger.items.store({"once": [first]})
    shelf.ledger.items.store({"once": [first, other], "once-b": [other], "once-empty": []})
    found = shelf.ledger.items.of(["once", "once-b", "once-empty"])
    assert [list(found[plan]) for plan in found] == [[first], [other], []]


# --- departures ----------------------------------------------------------------------------------


def _states(shelf: Shelf, *shorts: str) -> dict[str, DepartureState]:
    paths = [shelf.path(short) for short in shorts]
    found = shelf.ledger.departures.in_states(frozenset(DepartureState), paths=paths)
    return {shelf.short(departure.path): departure.state for departure in found}


def test_a_departure_comes_back_as_it_was_recorded(shelf: Shelf) -> None:
    full = shelf.departure("d/full", kind=FileKind.MANIFEST, bytes=2**40, recorded_at=NOW + MS)
    shelf.ledger.departures.record({"full": [full]})
    found = shelf.ledger.departures.in_states(frozenset({FAILSAFE}), paths=[full.path])
    assert list(found) == [full]


def test_a_marker_is_recorded_once_whatever_comes_under_it(shelf: Shelf) -> None:
    first = shelf.departure("d/once")
    later = replace(first, due_at=first.due_at + timedelta(days=9), recorded_at=NOW + MS)
    shelf.ledger.departures.record({"marker": [first]})
    shelf.ledger.departures.record({"marker": [later, shelf.departure("d/extra")]})
    found = shelf.ledger.departures.in_states(
        frozenset(DepartureState), paths=[first.path, shelf.path("d/extra")]
    )
    assert list(found) == [first]


def test_a_known_marker_does_not_hold_back_a_new_one_beside_it(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"beside-1": [shelf.departure("d/one")]})
    shelf.ledger.departures.record(
        {"beside-1": [shelf.departure("d/one", state=DELETED)],
         "beside-2": [shelf.departure("d/two")]}
    )  # fmt: skip
    assert _states(shelf, "d/one", "d/two") == {"d/one": FAILSAFE, "d/two": FAILSAFE}


def test_the_newest_state_wins_whatever_its_times_say(shelf: Shelf) -> None:
    path = "d/moves"
    for number, state in enumerate((FAILSAFE, CANCELLED, FAILSAFE, DELETED)):
        # A clock that was set back does not bring an older state to the top.
        moved = shelf.departure(path, state=state, recorded_at=NOW - number * MS)
        shelf.ledger.departures.record({f"moves-{number}": [moved]})
        assert _states(shelf, path) == {path: state}
    assert shelf.ledger.departures.in_states(frozenset({FAILSAFE}), paths=[shelf.path(path)]) in (
        [],
        (),
    )


def test_one_file_under_two_spellings_has_one_state(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"spell-1": [shelf.departure("d/s")]})
    other = shelf.path("d/s").replace("file:///", "file:/")
    moved = shelf.departure("d/s", path=other, state=DELETED)
    shelf.ledger.departures.record({"spell-2": [moved]})
    for asked in (shelf.path("d/s"), other):
        found = shelf.ledger.departures.in_states(frozenset(DepartureState), paths=[asked])
        assert [departure.state for departure in found] == [DELETED]


def test_a_file_is_due_exactly_at_its_time(shelf: Shelf) -> None:
    one = shelf.departure("d/due")
    shelf.ledger.departures.record({"due": [one]})
    for late, expected in ((-MS, []), (0 * MS, [one]), (MS, [one])):
        found = shelf.ledger.departures.in_states(
            frozenset({FAILSAFE}), due_by=one.due_at + late, paths=[one.path]
        )
        assert list(found) == expected


def test_no_paths_asked_for_is_no_answer_and_none_given_is_all(shelf: Shelf) -> None:
    shelf.ledger.departures.record({"all": [shelf.departure("d/all")]})
    assert list(shelf.ledger.departures.in_states(frozenset(DepartureState), paths=[])) == []
    everything = shelf.ledger.departures.in_states(frozenset(DepartureState))
    assert shelf.path("d/all") in {departure.path for departure in everything}
    assert [d.path for d in everything] == sorted(d.path for d in everything)


def test_departures_without_rows_change_nothing(shelf: Shelf) -> None:
    shelf.ledger.departures.record({})
    shelf.ledger.departures.record({"no-rows": []})
    shelf.ledger.departures.record({"no-rows": [shelf.departure("d/after-all")]})
    assert _states(shelf, "d/after-all") == {"d/after-all": FAILSAFE}


def test_a_plan_is_on_its_way_while_a_file_of_it_waits_that_no_purge_has_left(shelf: Shelf) -> None:
    whole, half = (shelf.departure(f"d/{name}", plan_id=name) for name in ("whole", "half"))
    left = [replace(row, recorded_at=row.due_at + MS) for row in (whole, half)]
    waiting = shelf.departure("d/waiting", plan_id="half")
    shelf.ledger.departures.record({"on-their-way": [whole, half, waiting]})
    assert {"whole", "half"} <= shelf.ledger.departures.waiting_plans()
    shelf.ledger.departures.record({"left": left})
    plans = shelf.ledger.departures.waiting_plans()
    assert "half" in plans and "whole" not in plans
