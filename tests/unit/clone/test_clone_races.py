"""A clone beside runs that expire and purge: whatever comes when, and wherever it dies.

Either there is no clone, or it has every file it names, for as long as it is there.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from meltline.app.catalog.metadata import load_state
from meltline.app.clone.clone import clone
from meltline.app.clone.gc_guard import may_share, set_guard
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.services import RunContext
from meltline.domain.errors import CommitConflict, LockLost, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.time_travel.timetravel import PointSide, TagPoint, TravelPoint
from meltline.ports import AuditEntry, GuardKind, GuardRecord
from tests.lake.lake import MINUTE, Lake, Table
from tests.lives.kills import Killed, Process

NAME, COPY = "lake.air.t", "lake.air.copy"
TAGGED = TravelPoint(PointSide.AT, TagPoint("short"))


def a_lake(day: float = 3.5) -> tuple[Lake, Table]:
    """A table overwritten on the days 0 to 3, its first snapshot under a tag of ten days."""
    lake = Lake()
    table = lake.on(0).table("t")
    for number in range(4):
        lake.on(number)
        table.overwrite(f"f{number}")
    table.tag("short", table.snapshots[0], **{"max-ref-age-ms": 10 * 86_400_000})
    return lake.on(day), table


def clones(services: RunContext) -> None:
    clone(services, NAME, COPY, point=TAGGED)


def is_there(lake: Lake) -> bool:
    return COPY in {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}


def guard(table: Table) -> str | None:
    found: str | None = table.document["properties"].get("gc.enabled")
    return found


def live_on(lake: Lake, table: Table, *days: float) -> None:
    """Days of the chain: whatever a clone does not keep expires and is purged."""
    lake.let_leases_end()
    now = lake.clock.now()
    lake.clock.moment = now + MINUTE
    assert lake.run().exit_code == 0
    for day in days:
        assert lake.on(day).run().exit_code == 0


def check(lake: Lake, table: Table, story: str) -> None:
    """After weeks of runs: a clone has all it names, and nothing else is left of the command."""
    first = table.data("f0")
    assert lake.control.vetoes.all() == [], story
    if is_there(lake):
        copy = Table(lake, TableName.parse(COPY))
        assert {entry.path for entry in copy.live()} == {first}, story
        assert first in lake.paths().difference(lake.waiting()), story
        assert guard(table) == "false", story
    else:
        assert first not in lake.paths(), story
        assert guard(table) is None, story


# --- the command dies -----------------------------------------------------------------------------


def calls_of_a_clone() -> list[str]:
    lake, _ = a_lake()
    process = Process()
    clones(process.of(lake.services()))
    return process.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_a_clone_is_killed_it_is_whole_or_not_there(after: bool) -> None:
    calls = calls_of_a_clone()
    assert calls.count("catalog.create") == 1 and len(calls) > 10
    made = 0
    for number, name in enumerate(calls, 1):
        lake, table = a_lake()
        with pytest.raises(Killed):
            clones(Process(number, after).of(lake.services()))
        made += is_there(lake)
        live_on(lake, table, 12, 20, 21, 30)
        check(lake, table, f"killed {'after' if after else 'before'} call {number}, {name}")
    assert 0 < made < len(calls)


def test_a_database_killed_anywhere_is_there_with_all_its_tables_or_with_none() -> None:
    def build() -> Lake:
        lake, _ = a_lake()
        lake.table("lake.air.u").append("u")
        return lake

    process = Process()
    clone(process.of(build().services()), "lake.air", "lake.copy", ObjectKind.DATABASE)
    found = set()
    for number in range(1, len(process.calls) + 1):
        lake = build()
        with pytest.raises(Killed):
            clone(Process(number).of(lake.services()), "lake.air", "lake.copy", ObjectKind.DATABASE)
        entries = lake.catalogs["lake"].listing().entries
        found.add(len([e for e in entries if e.name.namespace == ("copy",)]))
    assert found == {0, 2}


# --- something comes in between -------------------------------------------------------------------


@dataclass
class Interrupted(Process):
    """A process during whose call of some number, just before it, something else happens."""

    at: int = 0
    intrude: Callable[[], Any] = lambda: None
    fired: bool = field(default=False)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        if len(self.calls) + 1 == self.at and not self.fired:
            self.fired = True
            self.intrude()
        return super().call(name, work)


def attempted(lake: Lake, services: RunContext, refused: list[MeltlineError]) -> None:
    """A clone that may be refused, and then has left nothing in the catalog."""
    try:
        clones(services)
    except MeltlineError as error:
        refused.append(error)
        assert not is_there(lake)


@pytest.mark.parametrize("days", [(12,), (12, 20), (12, 20, 30)], ids=str)
def test_a_clone_that_sleeps_while_runs_expire_and_purge_is_refused_or_whole(
    days: tuple[int, ...],
) -> None:
    """It has its locks no more, and its snapshot may have gone to the last file."""
    refused: list[MeltlineError] = []
    calls = calls_of_a_clone()
    for number, name in enumerate(calls, 1):
        lake, table = a_lake()

        def weeks(lake: Lake = lake) -> None:
            lake.let_leases_end()
            for day in days:
                lake.on(day).run()

        services = Interrupted(at=number, intrude=weeks).of(lake.services())
        attempted(lake, services, refused)
        lake.check_nothing_is_missing()
        live_on(lake, table, 40, 50, 51, 60)
        check(lake, table, f"slept before call {number}, {name}")
    assert refused and len(refused) < len(calls)
    assert any(isinstance(error, CommitConflict) for error in refused)


@dataclass(frozen=True)
class Scene:
    """A run during which a clone is made."""

    name: str
    day: float
    steals: bool = False


SCENES = [Scene("expire", 12), Scene("expire, its locks lost", 12, True), Scene("purge", 20)]


def at_scene(scene: Scene) -> tuple[Lake, Table]:
    lake, table = a_lake()
    for day in (3.6, 12) if scene.name == "purge" else (3.6,):
        lake.on(day).run()
    return lake.on(scene.day), table


def calls_of_a_run(scene: Scene) -> int:
    lake, _ = at_scene(scene)
    process = Process()
    lake.run("run", services=process.of(lake.services()))
    return len(process.calls)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_clone_made_at_any_moment_of_a_run_is_refused_or_whole(scene: Scene) -> None:
    refused: list[MeltlineError] = []
    count = calls_of_a_run(scene)
    tries = range(1, count + 1, 5)
    for number in tries:
        lake, table = at_scene(scene)

        def cloned(lake: Lake = lake) -> None:
            if scene.steals:
                lake.let_leases_end()
            attempted(lake, lake.services(), refused)

        run = Interrupted(at=number, intrude=cloned).of(lake.services())
        with suppress(LockLost):
            lake.run("run", services=run)
        live_on(lake, table, scene.day + 8, scene.day + 18, scene.day + 19, scene.day + 28)
        check(lake, table, f"cloned before call {number} of {count}")
    if scene.name != "purge":
        assert 0 < len(refused) < len(tries)


def test_two_clones_at_once_are_two_clones() -> None:
    calls = calls_of_a_clone()
    for number in range(1, len(calls) + 1):
        lake, table = a_lake()

        def another(lake: Lake = lake) -> None:
            lake.let_leases_end()
            clone(lake.services(), NAME, "lake.air.second", point=TAGGED)

        clones(Interrupted(at=number, intrude=another).of(lake.services()))
        assert guard(table) == "false"
        live_on(lake, table, 12, 20, 30)
        assert table.data("f0") in lake.paths()


def test_a_clone_that_fails_leaves_the_guard_to_another_that_counts_on_it() -> None:
    """One is refused at its last step, when another one has come in between."""
    lake, table = a_lake()

    class Late:
        """A catalog in which the name is taken, and a clone made, just before we register."""

        def __init__(self, target: Any) -> None:
            self._target = target

        def __getattr__(self, name: str) -> Any:
            if name == "create":
                lake.let_leases_end()
                clone(lake.services(), NAME, COPY, point=TAGGED)
            return getattr(self._target, name)

    late = lake.services(catalogs={"lake": Late(lake.catalogs["lake"])})
    with pytest.raises(MeltlineError):
        clones(late)
    assert is_there(lake) and guard(table) == "false"


def test_a_guard_that_a_report_lifts_in_the_middle_is_set_again() -> None:
    calls = calls_of_a_clone()
    before_create = calls.index("catalog.create") + 1
    lake, table = a_lake()

    def lift() -> None:
        table.unset("gc.enabled")
        table.unset("meltline.gc-enabled-before")

    clones(Interrupted(at=before_create, intrude=lift).of(lake.services()))
    assert guard(table) == "false"


def test_a_clone_of_a_source_that_is_dropped_in_the_middle_is_whole() -> None:
    calls = calls_of_a_clone()
    before_create = calls.index("catalog.create") + 1
    lake, table = a_lake()
    first = table.data("f0")
    clones(Interrupted(at=before_create, intrude=table.drop).of(lake.services()))
    assert is_there(lake) and len(lake.control.vetoes.all()) == 1
    for day in (4, 15, 24, 25, 34):
        assert lake.on(day).run().exit_code == 0
    assert first in lake.paths() and lake.control.vetoes.all() == []


def test_the_words_of_a_finished_clone_are_taken_back_so_that_no_run_reads_all_its_files() -> None:
    lake, _ = a_lake()
    clones(lake.services())
    assert lake.control.vetoes.all() == []


def test_that_a_guard_was_lifted_is_known_of_the_table_and_not_of_a_name() -> None:
    lake = Lake()
    one, other = lake.table("one"), lake.table("other")
    services = lake.services()
    states = [load_state(lake.store, t.name, t.metadata_location) for t in (one, other)]
    lake.control.registrations.add_sharing([(one.uuid, other.uuid)])
    assert may_share(services.control.registrations, services.control.decisions, states) == {
        one.uuid,
        other.uuid,
    }
    lake.control.audit.add(AuditEntry(lake.clock.now(), "x", "lift guard", str(other.name)))
    lake.control.decisions.save_guard(
        GuardRecord(one.uuid, GuardKind.LIFTED, "tester", "it shares no file", lake.clock.now())
    )
    assert may_share(services.control.registrations, services.control.decisions, states) == {
        other.uuid
    }
    set_guard(GuardLog.of(services), services.editors, states[0])
    assert may_share(services.control.registrations, services.control.decisions, states) == {
        one.uuid,
        other.uuid,
    }
