"""The gate and cold: whatever is wrong with a copy, its original stays where it is.

Every test damages cold, or lets the archive lie, and asks what the gates say of it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.app.gate.cold_purge_evidence import _expected
from meltline.app.run.gated_plans import judge
from meltline.app.run.lifecycle import Run, run_chain
from meltline.app.run.summary import Summary
from meltline.domain.archive.cold import chosen
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.deletion.plan import PlanState
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.profiles import Cadence
from meltline.ports import HandedOver, HandoffRequest, Mended, Original
from tests.lake.lake import COLD_WAREHOUSE, Lake, Table
from tests.lives.histories import histories, instant
from tests.seeds import examples
from tests.unit.archive.test_handoff import cold_state, daily

EXPIRE_DAY, PURGE_DAY = 12, 20


class Idle:
    """An archive that mends nothing: the gate alone stands before the purge."""

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        yield from ()

    def mend(
        self, originals: Sequence[Original], may_go_on: Callable[[], bool]
    ) -> Iterator[Mended]:
        yield from ()


class Spoiling(Idle):
    """An archive whose work is damaged before the gate looks at it."""

    def __init__(self, lake: Lake, damage: Callable[[], None]) -> None:
        self.lake, self.damage = lake, damage

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        yield from self.lake.archive.hand_off(requests, may_go_on)
        self.damage()


class Lying(Idle):
    """An archive that does nothing and says that it has."""

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        for request in requests:
            for one in request.snapshots:
                yield request.hot.name, HandedOver(one.snapshot.snapshot_id, cold_location="x")


def lake_with_history() -> tuple[Lake, Table]:
    lake = Lake(has_cold=True)
    return lake, daily(lake, 12)


def refusal(summary: Summary, table: str = "lake.air.t") -> str:
    (line,) = [t for t in summary.as_json()["tables"] if t["table"] == table]
    return str(line["refused"])


def test_an_archive_that_only_says_so_lets_nothing_expire() -> None:
    lake, table = lake_with_history()
    before = table.snapshots
    summary = lake.on(EXPIRE_DAY).run(services=lake.services(archive=Lying()))
    assert summary.exit_code == 3
    assert "cold_missing" in refusal(summary)
    assert table.snapshots == before and not lake.waiting()


def copies(lake: Lake, ending: str) -> list[str]:
    return sorted(path for path in lake.paths(COLD_WAREHOUSE) if path.endswith(ending))


def lose(ending: str) -> Callable[[Lake], None]:
    def damage(lake: Lake) -> None:
        lake.store.delete([copies(lake, ending)[0]])

    return damage


def truncate(ending: str) -> Callable[[Lake], None]:
    def damage(lake: Lake) -> None:
        path = copies(lake, ending)[0]
        lake.store.write(path, lake.store.read(path)[:-1])

    return damage


def other_bytes(lake: Lake) -> None:
    for path in copies(lake, ".parquet"):
        lake.store.write(path, b"x" * len(lake.store.read(path)))


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Lake], None]:
    """Changes the cold metadata document where it stands."""

    def damage(lake: Lake) -> None:
        location = lake.cold.location(TableName("ice", ("air",), "t"))
        document = json.loads(lake.store.read(location))
        change(document)
        lake.store.write(location, json.dumps(document).encode())

    return damage


def forget_oldest(document: dict[str, Any]) -> None:
    del document["snapshots"][0]


def point_at_hot(document: dict[str, Any]) -> None:
    for snapshot in document["snapshots"]:
        name = snapshot["manifest-list"].rpartition("/")[2]
        snapshot["manifest-list"] = f"file:///w/air/t/metadata/{name}"


def other_summary(document: dict[str, Any]) -> None:
    document["snapshots"][0]["summary"]["operation"] = "delete"


def other_table(document: dict[str, Any]) -> None:
    document["properties"]["meltline.cold-of"] = "somebody else"


OTHER_SUMMARY = edited(other_summary)
DAMAGES = [
    (lose(".parquet"), "cold_files_missing"),
    (truncate(".parquet"), "cold_files_missing"),
    (other_bytes, "cold_rows_differ"),
    (lose("-1-m.avro"), "cold_unreadable"),
    (lose("-m0.avro"), "cold_differs"),
    (truncate("-m0.avro"), "cold_differs"),
    (edited(forget_oldest), "cold_missing"),
    (edited(point_at_hot), "cold_outside"),
    (OTHER_SUMMARY, "cold_differs"),
    (edited(other_table), "cold_missing"),
]
NAMES = [
    "a data file is gone", "a data file is cut", "data files have other bytes",
    "a manifest list is gone", "a manifest is gone", "a manifest is cut",
    "the metadata forgets a snapshot", "the metadata points at hot",
    "a snapshot has another summary", "the table is another's",
]  # fmt: skip


@pytest.mark.parametrize(("damage", "fact"), DAMAGES, ids=NAMES)
def test_nothing_expires_over_a_copy_that_is_not_whole(
    damage: Callable[[Lake], None], fact: str
) -> None:
    lake, table = lake_with_history()
    before = table.snapshots
    services = lake.services(archive=Spoiling(lake, lambda: damage(lake)))
    summary = lake.on(EXPIRE_DAY).run(services=services)
    assert summary.exit_code == 3
    assert fact in refusal(summary)
    assert table.snapshots == before


@pytest.mark.parametrize(("damage", "fact"), DAMAGES, ids=NAMES)
def test_nothing_is_purged_over_a_copy_that_is_not_whole_any_more(
    damage: Callable[[Lake], None], fact: str
) -> None:
    lake, _ = lake_with_history()
    assert lake.on(EXPIRE_DAY).run().exit_code == 0
    waiting = lake.waiting()
    assert waiting
    services = lake.on(PURGE_DAY).services()
    plans = [planned.plan for planned in Run(services, lake.request()).plan_purge()]
    damage(lake)
    judged = judge(services, plans)
    (plan,) = judged
    if damage is OTHER_SUMMARY:  # no file is worse for it, and hot, which could tell, has forgotten
        assert (plan.state, plan.note) == (PlanState.PASSED, "")
    else:
        assert plan.state is PlanState.REFUSED and fact in plan.note


@pytest.mark.parametrize("damage", [damage for damage, _ in DAMAGES], ids=NAMES)
def test_no_purge_takes_the_original_of_a_copy_that_is_not_whole_any_more(
    damage: Callable[[Lake], None],
) -> None:
    lake, _ = lake_with_history()
    lake.on(EXPIRE_DAY).run()
    before = {path: lake.store.read(path) for path in copies(lake, "")}
    damage(lake.on(EXPIRE_DAY + 1))
    lake.on(PURGE_DAY).run(services=lake.services(archive=Idle()))
    there = lake.paths(COLD_WAREHOUSE)
    hurt = {copy for copy in before if copy not in there or lake.store.read(copy) != before[copy]}
    assert hurt and not {mirrored(p, COLD_WAREHOUSE) for p in lake.deleter.deleted} & hurt


def test_a_damaged_copy_is_mended_the_next_night_and_then_its_original_may_go() -> None:
    lake, table = lake_with_history()
    spoiling = Spoiling(lake, lambda: lose(".parquet")(lake))
    lake.on(EXPIRE_DAY).run(services=lake.services(archive=spoiling))
    before = len(table.snapshots)
    summary = lake.on(EXPIRE_DAY + 1).run()
    assert summary.exit_code == 0, summary.as_json()
    assert len(table.snapshots) < before


def test_a_cold_catalog_that_cannot_be_listed_stops_its_tables_and_no_others() -> None:
    lake, table = lake_with_history()
    other = daily(lake, 12, "other", cold="none")
    before, others = table.snapshots, len(other.snapshots)
    lake.cold.unlistable = "the archive is away"
    summary = lake.on(EXPIRE_DAY).run()
    assert summary.exit_code == 4
    assert table.snapshots == before
    assert len(other.snapshots) < others


def test_once_archived_a_cold_tier_that_is_away_stops_the_purge_as_well() -> None:
    lake, _ = lake_with_history()
    lake.on(EXPIRE_DAY).run()
    lake.cold.unlistable = "the archive is away"
    summary = lake.on(PURGE_DAY).run()
    assert not lake.deleter.deleted and summary.exit_code != 0
    lake.cold.unlistable = ""
    assert lake.on(PURGE_DAY + 1).run().exit_code == 0
    assert lake.deleter.deleted


def test_a_cold_tier_taken_out_of_the_configuration_stops_the_purge_of_what_it_holds() -> None:
    lake, _ = lake_with_history()
    lake.on(EXPIRE_DAY).run()
    lake.has_cold = False
    lake.on(PURGE_DAY).run()
    assert not lake.deleter.deleted


def test_what_left_before_there_was_a_policy_is_purged_as_ever() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12, cold="none")
    lake.on(EXPIRE_DAY).run()
    table.configure(**{"meltline__cold": "all"})
    summary = lake.on(PURGE_DAY).run()
    assert summary.exit_code == 0, summary.as_json()
    assert lake.deleter.deleted


def test_a_manifest_that_was_compared_once_is_not_opened_again() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    table.append("base")
    for day in range(1, 16):
        lake.on(day)
        table.append(f"more{day}")
    opened: list[int] = []

    class Counting:
        def __init__(self) -> None:
            self.inner: Any = lake.services().copies

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def differences(self, pairs: Sequence[Any], warehouse: str) -> Sequence[str]:
            opened.append(len(pairs))
            return list(self.inner.differences(pairs, warehouse))

    for day in (12, 13, 14, 15):
        services: Any = lake.services(copies=Counting())
        lake.on(day).run(services=services)
    assert opened[0] > 2 and max(opened[1:]) <= 2


def test_files_of_a_neighbours_archived_snapshot_need_their_copies_too() -> None:
    lake = Lake(has_cold=True)
    source = lake.on(0).table("source", properties={"meltline.cold": "none"})
    source.append("shared")
    copy = lake.clone(source, "lake.air.copy")
    copy.configure(**{"meltline__cold": "all"})
    lake.on(1)
    source.overwrite("s1")
    copy.overwrite("c1")
    shared = mirrored(source.data("shared"), COLD_WAREHOUSE)
    spoiling = Spoiling(lake, lambda: lake.store.delete([shared]) and None)
    summary = run_chain(lake.on(EXPIRE_DAY).services(archive=spoiling), lake.request())
    assert any("cold_files_missing" in plan.note for plan in summary.plans.values())
    assert not lake.waiting()


# --- the other end asks for no more than the handoff gives -----------------------------------


@settings(max_examples=examples(few=37, many=150), deadline=None)
@given(
    histories(), st.sampled_from(list(Cadence)[1:]), st.floats(0, 60), st.sampled_from([0.0, 7.0])
)
def test_the_gate_wants_nothing_in_cold_that_the_policy_does_not_choose(
    story: Any, cadence: Cadence, later: float, window: float
) -> None:
    day = (max(story.times()) - instant(0)).total_seconds() / 86400 + later
    keeps = story.observe(day).keeps(day, window)
    plan = replace(story.plan(day, window), snapshots=keeps.expired)
    wanted = _expected(cadence, story.state(), plan)
    assert wanted <= chosen(cadence, story.state(), keeps).keys()


def test_the_gate_finds_the_last_of_each_day_by_itself() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "daily"})
    for step in range(36):
        lake.on(step / 3)
        table.overwrite(f"f{step}")
    services = lake.services(archive=Lying())
    summary = lake.on(20).run(services=services)
    assert "cold_missing" in refusal(summary)
    lake.on(21).run()
    assert len(cold_state(lake).snapshots) == 11


def test_many_planned_files_of_one_folder_are_looked_for_by_one_listing() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    table.append(*(f"f{number:03}" for number in range(60)))
    lake.on(1)
    table.overwrite("new")
    lost = mirrored(table.data("f007"), COLD_WAREHOUSE)
    spoiling = Spoiling(lake, lambda: lake.store.delete([lost]) and None)
    summary = lake.on(EXPIRE_DAY).run(services=lake.services(archive=spoiling))
    assert f"cold_files_missing is 0 (found 1: {table.data('f007')})" in refusal(summary)
    assert lake.on(EXPIRE_DAY + 1).run().exit_code == 0


def test_a_table_whose_copies_nobody_can_judge_is_refused_and_no_other() -> None:
    lake = Lake(has_cold=True)
    table, other = daily(lake, 12), daily(lake, 12, "other")
    inner: Any = lake.services().copies

    class Crashing:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def differences(self, pairs: Sequence[Any], warehouse: str) -> Sequence[str]:
            if any("/air/t/" in pair.hot.path for pair in pairs):
                raise RuntimeError("out of its depth")
            return list(inner.differences(pairs, warehouse))

    crashing: Any = Crashing()
    before = table.snapshots
    summary = lake.on(EXPIRE_DAY).run(services=lake.services(copies=crashing))
    assert "cold_unreadable" in refusal(summary) and "out of its depth" in refusal(summary)
    assert table.snapshots == before and len(other.snapshots) < 12
