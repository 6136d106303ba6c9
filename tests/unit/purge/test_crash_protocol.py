"""A kill at every line of the crash protocol (docs/safety.md): before and after each call of any
port, in a run that expires and in a run that purges. The next run ends where no kill would have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from meltline.app.services import RunContext
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.iceberg.files import DepartureState, FileKind
from meltline.ports import CatalogEntry, DeleteOutcome
from tests.lake.lake import COLD_WAREHOUSE, MINUTE, Lake
from tests.lives.kills import Killed, Process

EXPIRE_DAY, PURGE_DAY = 12, 20
FAILSAFE = timedelta(days=7)


def a_lake() -> Lake:
    """Two tables that share files, and a third; statistics; a tag whose age is up by day 12."""
    lake = Lake()
    orders, lines = lake.on(0).table("orders"), lake.table("lines", version=3)
    first = orders.overwrite("a0")
    orders.statistics(first)
    lines.append("l0")
    orders.tag("short", first, **{"max-ref-age-ms": 86_400_000})
    lake.on(1)
    orders.overwrite("a1")
    lines.overwrite("l1")
    copy = lake.clone(orders, "lake.air.copy")
    lake.on(2)
    orders.overwrite("a2")
    copy.overwrite("c2")
    return lake


def a_lake_with_an_archive() -> Lake:
    """A table of which two snapshots are wanted in cold, one of them with delete files."""
    lake = Lake(has_cold=True)
    orders = lake.on(0).table("orders", properties={"meltline.cold": "all"})
    orders.append("a0")
    lake.on(1)
    orders.statistics(orders.delete_rows("d1", kind=FileKind.POSITION_DELETE))
    lake.on(2)
    orders.overwrite("a2")
    return lake


def an_archived_lake_in_failsafe() -> Lake:
    lake = a_lake_with_an_archive()
    assert lake.on(EXPIRE_DAY).run("expire").exit_code == 0
    return lake


def a_lake_in_failsafe() -> Lake:
    lake = a_lake()
    assert lake.on(EXPIRE_DAY).run("expire").exit_code == 0
    return lake


@dataclass(frozen=True)
class EndState:
    """All that may not depend on whether a process was killed on the way."""

    tables: dict[str, Any]
    paths: frozenset[str]
    departures: dict[str, tuple[DepartureState, str, int]]
    claimed: frozenset[str]
    begun: tuple[str, ...]
    cold: dict[str, Any]
    copies: frozenset[str]
    archived: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, lake: Lake) -> "EndState":
        tables = {}
        for entry in lake.catalogs["lake"].listing().entries:
            document = lake.register("lake.look.at", entry.metadata_location).document
            lake.catalogs["lake"].drop(_LOOK)
            del document["last-updated-ms"]
            log = [line["metadata-file"] for line in document.pop("metadata-log")]
            tables[str(entry.name)] = (entry.metadata_location, document, log)
        return cls(
            tables=tables,
            paths=frozenset(lake.paths()),
            departures={
                d.path: (d.state, d.owner, d.bytes)
                for d in lake.files.departures.in_states(frozenset(DepartureState))
            },
            claimed=frozenset(lake.control.claims.paths()),
            begun=tuple(p.id for p in lake.control.plans.find(states=[PlanState.APPLYING])),
            cold={str(e.name): _in_cold(lake, e) for e in lake.cold.listing().entries},
            copies=frozenset(p for p in lake.paths(COLD_WAREHOUSE) if "metadata.json" not in p),
            archived=frozenset((c.table_uuid, c.snapshot_id) for c in lake.control.archived.all()),
        )


def _in_cold(lake: Lake, entry: CatalogEntry) -> Any:
    document = lake.document(entry.metadata_location)
    return document["snapshots"], document["refs"], document["last-sequence-number"]


_LOOK = replace(Lake().table("lake.look.at").name)


COLD = ("cold", "copies", "rows", "control.archived.save", "control.archived.all")


def undisturbed(
    build: Callable[[], Lake], day: int
) -> tuple[EndState, dict[str, datetime], list[str]]:
    lake = build().on(day)
    process = Process()
    summary = lake.run("run", services=process.of(lake.services()))
    assert summary.exit_code == 0
    return EndState.of(lake), lake.waiting(), process.calls


@dataclass(frozen=True)
class Scene:
    """A run, and the calls at which it is killed: all that begin with one of some names."""

    name: str
    build: Callable[[], Lake]
    day: int
    about: tuple[str, ...] = ("",)

    def kills(self, calls: Sequence[str]) -> list[int]:
        return [at for at, call in enumerate(calls, 1) if call.startswith(self.about)]


SCENES = [
    Scene("expire", a_lake, EXPIRE_DAY),
    Scene("purge", a_lake_in_failsafe, PURGE_DAY),
    Scene("hand off", a_lake_with_an_archive, EXPIRE_DAY, COLD),
    Scene("purge what is archived", an_archived_lake_in_failsafe, PURGE_DAY, (*COLD, "deleter")),
]


def killed_run(scene: Scene, at: int, after: bool) -> tuple[Lake, str]:
    lake = scene.build().on(scene.day)
    process = Process(dies_at=at, after=after)
    with pytest.raises(Killed) as death:  # none of our except clauses may swallow it
        lake.run("run", services=process.of(lake.services()))
    lake.check_nothing_is_missing()
    lake.let_leases_end()
    lake.clock.moment += MINUTE
    return lake, f"killed {'after' if after else 'before'} call {at}, {death.value}"


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_scene_does_what_it_is_there_for(scene: Scene) -> None:
    lake = scene.build().on(scene.day)
    summary = lake.run("run")
    done = [line for line in summary.as_json()["tables"] if line["table"] != "lake.air.copy"]
    counted = {"expire": "snapshots_expired", "hand off": "snapshots_archived"}.get(
        scene.name, "files_purged"
    )
    assert all(line[counted] > 0 for line in done)
    assert {plan.state for plan in summary.plans.values()} == {PlanState.APPLIED}


@pytest.mark.parametrize("again", ["run", "next"], ids=["retried", "by-the-next-run"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
@pytest.mark.slow("a run is killed at each call")
def test_a_run_after_a_kill_at_any_call_ends_where_an_undisturbed_one_does(
    scene: Scene, after: bool, again: str
) -> None:
    # PX-11
    expected, due, calls = undisturbed(scene.build, scene.day)
    assert len(calls) > 100  # the kills are really spread over the whole chain
    for at in scene.kills(calls):
        lake, story = killed_run(scene, at, after)
        waiting = lake.waiting()
        summary = lake.run(again)
        assert summary.exit_code == 0, (story, summary.as_json())
        assert EndState.of(lake) == expected, story
        for path, moment in lake.waiting().items():
            assert due[path] <= moment <= due[path] + MINUTE, (story, path)
            assert waiting.get(path, moment) == moment, f"{story}: due_at of {path} was reset"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.slow("a run is killed at each call")
def test_whatever_was_killed_the_days_after_purge_the_same_files_and_then_nothing_is_left_to_do(
    after: bool,
) -> None:
    lake = a_lake_in_failsafe()
    lake.on(PURGE_DAY).run()
    expected, (*_, calls) = EndState.of(lake), undisturbed(a_lake, EXPIRE_DAY)
    for at in range(1, len(calls) + 1):
        lake, story = killed_run(SCENES[0], at, after)
        lake.run("next")
        lake.on(PURGE_DAY).run("purge")
        assert EndState.of(lake) == expected, story
        commits, paths = dict(lake.file_tables.commits), lake.paths()
        summary = lake.run("idle")
        assert (dict(lake.file_tables.commits), lake.paths()) == (commits, paths), story
        assert not summary.plans, story


def test_a_run_killed_again_and_again_still_gets_there() -> None:
    for scene in SCENES:
        expected, *_ = undisturbed(scene.build, scene.day)
        lake = scene.build().on(scene.day)
        for at in range(1, 400, 7):  # each time it gets a little further
            try:
                lake.run("run", services=Process(dies_at=at).of(lake.services()))
                break
            except Killed:
                lake.let_leases_end()
        else:
            pytest.fail("it never got to the end")
        assert EndState.of(lake) == expected, scene.name


class HalfDeleter:
    """Dies in the middle of a batch: some keys are gone, and nobody was told."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        self._lake.deleter.delete(files[: len(files) // 2], keys_per_second)
        raise Killed("deleter.delete")


def test_a_kill_in_the_middle_of_a_delete_batch_costs_nothing_but_a_second_try() -> None:
    expected, *_ = undisturbed(a_lake_in_failsafe, PURGE_DAY)
    lake = a_lake_in_failsafe().on(PURGE_DAY)
    before = lake.paths()
    with pytest.raises(Killed):
        lake.run("run", services=lake.services(deleter=HalfDeleter(lake)))
    assert 0 < len(before - lake.paths()) < len(before - expected.paths)
    assert lake.run("next").exit_code == 0  # its locks went with it: the lease is what it is
    assert EndState.of(lake) == expected


def test_the_run_that_finishes_a_killed_commit_counts_failsafe_from_its_own_recording() -> None:
    lake = a_lake().on(EXPIRE_DAY)
    process = Process(after=True)
    services = process.of(lake.services())
    process.dies_at = _call_number(lake, "committer.expire", 1)
    with pytest.raises(Killed):
        lake.run("run", services=services)
    lake.let_leases_end()
    assert not lake.waiting()
    lake.on(EXPIRE_DAY + 3).run("next")
    assert set(lake.waiting().values()) == {lake.clock.now() + FAILSAFE}


def _call_number(lake: Lake, name: str, which: int) -> int:
    process = Process()
    twin = a_lake().on(EXPIRE_DAY)
    twin.run("run", services=process.of(twin.services()))
    return [at for at, call in enumerate(process.calls, 1) if call == name][which - 1]


def test_departures_of_a_killed_commit_are_recorded_under_its_own_plan_once() -> None:
    lake = a_lake().on(EXPIRE_DAY)
    process = Process(dies_at=_call_number(lake, "files.record_departures", 1))
    with pytest.raises(Killed):
        lake.run("run", services=process.of(lake.services()))
    lake.let_leases_end()
    lake.run("next")
    plans = {
        lake.control.plans.get(d.plan_id).run_id
        for d in lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    }
    assert plans == {"run"}
    assert not [p for p in lake.control.plans.find(run_id="next") if p.kind is PlanKind.EXPIRE]


def test_a_kill_as_snapshots_are_recorded_loses_no_tie_between_tables_that_share_files() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("a")
    clone = lake.clone(table, "lake.air.clone")
    process = Process(dies_at=1, after=True, about="files.record_snapshots")
    with pytest.raises(Killed):
        lake.run("run", services=process.of(lake.services()))
    lake.let_leases_end()
    lake.run("next")
    assert lake.control.registrations.sharing() == [(table.uuid, clone.uuid)]


def test_a_kill_is_not_an_error_that_a_gate_may_turn_into_a_verdict() -> None:
    class DyingGate:
        def judge(self, *_: object) -> Any:
            raise Killed("gate.judge")

    lake = a_lake().on(EXPIRE_DAY)
    services: RunContext = lake.services(gate=DyingGate())
    with pytest.raises(Killed):
        lake.run("run", services=services)
    assert {plan.state for plan in lake.control.plans.find()} == {PlanState.PLANNED}
