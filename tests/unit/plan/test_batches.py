"""Packing: each plan in one batch, groups together, not too many batches, none of them too full."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.deletion.batches import (
    PLAN_WEIGHT,
    Batch,
    BatchSettings,
    homes,
    in_batches,
    listed,
    pack,
)
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import T0
from tests.seeds import examples

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)
ALONE = Groups([])


def a_plan(number: int, files: int = 0, again: str = "") -> Plan:
    """A plan of a table of its own; `again` makes it another one of the same table."""
    return Plan(
        id=f"e{number}{again}",
        run_id="run-1",
        kind=PlanKind.EXPIRE,
        table=TableName.parse(f"lake.air.t{number}"),
        table_uuid=f"u{number:03}",
        digest=f"sha256:{again}",
        as_of=T0,
        created_at=T0,
        base_location="file:///m",
        files=files,
    )


def weight(plans: Sequence[Plan]) -> int:
    return sum(plan.files + PLAN_WEIGHT for plan in plans)


SIZES = st.lists(st.integers(0, 30_000), min_size=1, max_size=25)
PAIRS = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=12)
SETTINGS = st.builds(BatchSettings, st.integers(1, 9), st.integers(1, 60_000))


def grouped(pairs: list[tuple[int, int]]) -> Groups:
    return Groups([(f"u{one:03}", f"u{other:03}") for one, other in pairs])


@MANY
@given(SIZES, PAIRS, SETTINGS, st.randoms(use_true_random=False))
def test_every_plan_has_one_batch_and_groups_stay_together(
    sizes: list[int], pairs: list[tuple[int, int]], allowed: BatchSettings, random: Random
) -> None:
    plans, groups = [a_plan(n, files) for n, files in enumerate(sizes)], grouped(pairs)
    packed = in_batches(plans, [], groups, allowed)
    assert [replace(plan, batch=1) for plan in packed] == plans

    batches: dict[int, list[Plan]] = {}
    for plan in packed:
        batches.setdefault(plan.batch, []).append(plan)
    assert sorted(batches) == list(range(1, len(batches) + 1))
    assert len(batches) <= allowed.most_apps
    of_group = {(groups.key(plan.table_uuid), plan.batch) for plan in packed}
    assert len(of_group) == len({key for key, _ in of_group})

    total = weight(plans)
    count = min(allowed.most_apps, -(-total // allowed.files_per_app))
    members: dict[str, list[Plan]] = {}
    for plan in plans:
        members.setdefault(groups.key(plan.table_uuid), []).append(plan)
    largest = max(map(weight, members.values()))
    # An even share, and what one more group brings. In whole numbers: the bound is reached.
    assert max(map(weight, batches.values())) * count <= total + largest * (count - 1)
    if total <= allowed.files_per_app:
        assert len(batches) == 1

    random.shuffle(plans)
    shuffled = in_batches(plans, [], groups, allowed)
    assert {p.id: p.batch for p in shuffled} == {p.id: p.batch for p in packed}


@MANY
@given(SIZES, PAIRS, SETTINGS, st.integers(0, 25))
def test_what_is_planned_again_goes_where_its_group_is(
    sizes: list[int], pairs: list[tuple[int, int]], allowed: BatchSettings, stored: int
) -> None:
    plans, groups = [a_plan(n, files) for n, files in enumerate(sizes)], grouped(pairs)
    first = in_batches(plans, [], groups, allowed)
    assert in_batches(plans, first, groups, allowed) == first

    # The first try died when some headers were stored, and some of the tables have moved since.
    kept = first[:stored]
    moved = [a_plan(n, files + 1, again="b") for n, files in enumerate(sizes)]
    second = in_batches(moved, kept, groups, allowed)
    before = homes(kept, groups)
    assert all(plan.batch == before.get(groups.key(plan.table_uuid), plan.batch) for plan in second)
    assert max(plan.batch for plan in second) <= allowed.most_apps


def test_a_fleet_is_packed_evenly_and_the_largest_table_has_an_app_of_its_own() -> None:
    allowed = BatchSettings(most_apps=3, files_per_app=100_000)
    plans = [a_plan(0, 99_000), *(a_plan(n, 19_000) for n in range(1, 11))]
    packed = in_batches(plans, [], ALONE, allowed)
    assert [plan.batch for plan in packed] == [1, *[2, 3] * 5]


def test_ten_thousand_tables_are_a_bounded_number_of_apps() -> None:
    plans = [a_plan(number, number % 400) for number in range(10_000)]
    packed = in_batches(plans, [], ALONE, BatchSettings())
    loads = [weight([p for p in packed if p.batch == number]) for number in range(1, 9)]
    assert sum(loads) == weight(plans)
    assert max(loads) - min(loads) <= PLAN_WEIGHT + 399


def test_by_default_some_hundred_small_tables_are_one_batch() -> None:
    plans = [a_plan(number, files=200) for number in range(800)]
    assert {plan.batch for plan in in_batches(plans, [], ALONE, BatchSettings())} == {1}


def test_tables_that_were_found_to_share_files_meanwhile_go_on_where_they_are() -> None:
    apart = [replace(a_plan(1), batch=3), replace(a_plan(2), batch=2)]
    again = [a_plan(1, again="b"), a_plan(2, again="b"), a_plan(3)]
    found = in_batches(again, apart, grouped([(1, 2), (2, 3)]), BatchSettings(most_apps=4))
    assert [plan.batch for plan in found] == [3, 2, 2]


def test_what_batches_hold_already_counts() -> None:
    allowed = BatchSettings(most_apps=2, files_per_app=10)
    assert pack({"a": 4}, allowed, {1: 5, 2: 3}) == {"a": 2}


def test_batches_are_listed_without_a_gap_so_that_a_map_index_always_means_the_same_one() -> None:
    work = {3: [a_plan(1, 5), a_plan(2, 6)], 1: [a_plan(3, 7)]}
    assert listed(work) == [Batch(1, 3, 1, 7), Batch(2, 3, 0, 0), Batch(3, 3, 2, 11)]
    assert listed({}) == listed({2: []}) == []
