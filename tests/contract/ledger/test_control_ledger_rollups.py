"""Every control ledger: rollups, which only it knows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.errors import NameConflict
from meltline.domain.iceberg.names import TableName
from meltline.ports import ControlLedger
from tests.contract.ledger.chunk_rows import START, a_rollup, at_once
from tests.contract.ledger.control_ledgers import (
    NOW,
    ODD_NAMES,
    Shop,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]

HOUR = timedelta(hours=1)
RANGE = TimeRange(START, START + HOUR)
OLDEST = TimeRange(datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, 0, 0, 0, 7, tzinfo=UTC))


def test_a_rollup_comes_back_as_it_was_stored(shop: Shop, ledger: ControlLedger) -> None:
    full = a_rollup(
        "жa",
        table=TableName.parse(ODD_NAMES[1]),
        source=TableName.parse(ODD_NAMES[2]),
        query="SELECT 'it''s %s'\n\tFROM `ж`",
        width="7 days",
        depends_on=("hourly", "b"),
        who="it's ж",
        invalidated=(OLDEST, RANGE),
        missed=(RANGE,),
        last_refreshed_at=NOW + HOUR,
        problem="a corrupt \x01 file",
        realtime_view="lake.air._rollup_rt_ж",
    )
    first = ledger.rollups.add(a_rollup())
    second = ledger.rollups.add(full)
    assert first == a_rollup(id=first.id) and second == replace(full, id=second.id)
    assert 0 < first.id < second.id
    assert list(shop.handle().rollups.all()) == [first, second]


def test_rollups_are_found_by_what_they_aggregate_in_the_order_of_their_names(
    ledger: ControlLedger,
) -> None:
    names = {"b": "u-1", "a": "u-2", "c": "u-1"}
    stored = {n: ledger.rollups.add(a_rollup(n, source_uuid=of)) for n, of in names.items()}
    assert [r.name for r in ledger.rollups.all()] == ["a", "b", "c"]
    assert list(ledger.rollups.all(["u-1", "u-9"])) == [stored["b"], stored["c"]]
    assert list(ledger.rollups.all([])) == []


def test_a_second_rollup_of_a_name_is_refused_and_the_first_stays(ledger: ControlLedger) -> None:
    first = ledger.rollups.add(a_rollup())
    with pytest.raises(NameConflict) as refused:
        ledger.rollups.add(a_rollup(width="1 day", source_uuid="u-2"))
    assert refused.value.object == "hourly"
    assert list(ledger.rollups.all()) == [first]


def test_of_two_people_who_declare_a_rollup_at_once_one_comes_first(
    shop: Shop, ledger: ControlLedger
) -> None:
    wishes = [a_rollup(who=who) for who in ("me", "you")]
    answers = at_once(shop, *(lambda h, wish=wish: h.rollups.add(wish) for wish in wishes))
    (stored,) = ledger.rollups.all()
    assert stored in answers
    assert {type(answer) for answer in answers} == {Rollup, NameConflict}


def test_a_number_is_never_given_again(ledger: ControlLedger) -> None:
    first = ledger.rollups.add(a_rollup())
    assert ledger.rollups.remove("hourly")
    assert not ledger.rollups.remove("hourly")
    again = ledger.rollups.add(a_rollup())
    assert again.id > first.id
    assert list(ledger.rollups.all()) == [again]


@pytest.mark.parametrize(
    "seen",
    [
        {"invalidated": (RANGE,)},
        {"missed": (RANGE,)},
        {"last_refreshed_at": None},
        {"problem": "none"},
        {"depends_on": ("other",)},
        {"who": "you"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_rollup_that_somebody_else_has_changed_is_left_as_it_is(
    ledger: ControlLedger, seen: dict[str, object]
) -> None:
    stored = ledger.rollups.add(a_rollup(last_refreshed_at=NOW))
    before = replace(stored, **seen)  # type: ignore[arg-type]
    assert not ledger.rollups.save(before, replace(stored, problem="mine"))
    assert list(ledger.rollups.all()) == [stored]


def test_a_rollup_that_was_dropped_and_declared_anew_is_not_the_one_that_was_read(
    ledger: ControlLedger,
) -> None:
    first = ledger.rollups.add(a_rollup())
    ledger.rollups.remove("hourly")
    assert not ledger.rollups.save(first, replace(first, problem="mine"))
    again = ledger.rollups.add(a_rollup())
    assert not ledger.rollups.save(first, replace(first, problem="mine"))
    assert list(ledger.rollups.all()) == [again]


def test_a_rollup_is_saved_over_what_was_read_with_its_number(ledger: ControlLedger) -> None:
    first, other = ledger.rollups.add(a_rollup()), ledger.rollups.add(a_rollup("other"))
    refreshed = replace(
        first,
        source=TableName.parse("lake.air.flown"),
        invalidated=(RANGE,),
        missed=(OLDEST,),
        last_refreshed_at=NOW + HOUR,
    )
    assert ledger.rollups.save(first, refreshed)
    assert not ledger.rollups.save(first, replace(first, problem="late"))
    assert ledger.rollups.save(refreshed, replace(refreshed, invalidated=()))
    assert list(ledger.rollups.all()) == [replace(refreshed, invalidated=()), other]


def test_of_a_refresh_and_a_person_at_the_same_moment_one_looks_again(
    shop: Shop, ledger: ControlLedger
) -> None:
    stored = ledger.rollups.add(a_rollup())
    ends = [replace(stored, invalidated=(RANGE,)), replace(stored, last_refreshed_at=NOW)]
    answers = at_once(shop, *(lambda h, end=end: h.rollups.save(stored, end) for end in ends))
    assert sorted(map(bool, answers)) == [False, True]
    assert list(ledger.rollups.all()) == [ends[answers.index(True)]]


def test_whatever_is_written_of_rollups_is_the_newest_time(
    shop: Shop, ledger: ControlLedger
) -> None:
    def stored() -> Rollup:
        (rollup,) = ledger.rollups.all()
        return rollup

    for write in (
        lambda: ledger.rollups.add(a_rollup()),
        lambda: ledger.rollups.save(stored(), replace(stored(), problem="none")),
        lambda: ledger.rollups.remove("hourly"),
    ):
        shop.clock.moment += timedelta(days=1)
        write()
        assert ledger.database.newest_time() == shop.clock.moment
