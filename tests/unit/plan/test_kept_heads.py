"""After an expiration every ref shows what it showed before, or it is an incident (PX-4)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.ports import CommitOutcome
from tests.doubles.committer import MemoryCommitter
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed


@dataclass
class Careless:
    """A committer that changes more than it was asked to."""

    lake: Lake
    harm: Callable[[dict[str, Any]], None]

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        inner = MemoryCommitter(self.lake.catalogs, self.lake.store)
        done = inner.expire(plan, base_location)
        if done is not None:
            document = json.loads(self.lake.store.read(done.new_location))
            self.harm(document)
            self.lake.store.write(done.new_location, json.dumps(document).encode())
        return done

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return CommitOutcome(plan.committed_base, "")

    def withdraw(self, plan: Plan) -> bool:
        return False


def main_elsewhere(document: dict[str, Any]) -> None:
    other = min(s["snapshot-id"] for s in document["snapshots"])
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = other


def main_gone(document: dict[str, Any]) -> None:
    del document["refs"]["main"]
    document["current-snapshot-id"] = -1


def branch_gone(document: dict[str, Any]) -> None:
    del document["refs"]["audit"]


def rows_lost(document: dict[str, Any]) -> None:
    for snapshot in document["snapshots"]:
        snapshot["summary"]["total-records"] = "0"


def list_replaced(document: dict[str, Any]) -> None:
    lists = [s["manifest-list"] for s in document["snapshots"]]
    for snapshot in document["snapshots"]:
        snapshot["manifest-list"] = lists[0]


def busy() -> tuple[Lake, Table]:
    """A table with a branch and a tag of which two snapshots expire; it is day 12."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(5):
        lake.on(day)
        table.overwrite(f"f{day}")
    table.branch("audit", table.snapshots[3])
    lake.run()
    return lake.on(12), table


def careless(lake: Lake, harm: Callable[[dict[str, Any]], None]) -> RunContext:
    return lake.services(committer=Careless(lake, harm))


def incidents(lake: Lake) -> list[str]:
    return [f.object for f in examine(lake.services()) if f.code == "incident"]


@pytest.mark.parametrize("harm", [main_elsewhere, main_gone, branch_gone, rows_lost])
def test_a_commit_that_changed_what_a_ref_shows_is_an_incident_and_nothing_departs(
    harm: Callable[[dict[str, Any]], None],
) -> None:
    lake, table = busy()
    files = lake.paths()
    base = table.metadata_location
    for day in (12, 13, 20, 30):
        assert lake.on(day).run(services=careless(lake, harm)).exit_code != 0
        assert incidents(lake) and not lake.waiting()
    assert files <= lake.paths()
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    assert plan.committed_base == base
    assert all(name.startswith("lake.air.t@") for name in incidents(lake))


def test_a_commit_that_made_another_table_of_it_fails_and_the_former_is_kept() -> None:
    lake, _ = busy()
    files = lake.paths()
    assert lake.run(services=careless(lake, list_replaced)).exit_code == 1
    assert lake.on(13).run().exit_code == 0
    assert len(lake.catalogs["lake"].listing().entries) == 2 and not lake.waiting()
    lake.on(20).run()
    assert files <= lake.paths()


def test_it_is_over_once_the_metadata_from_before_stands_again() -> None:
    lake, table = busy()
    base = table.metadata_location
    lake.run(services=careless(lake, main_elsewhere))
    lake.catalogs["lake"].unregister(table.name, table.metadata_location)
    lake.catalogs["lake"].register(table.name, base)
    head = table.head
    for day in (13, 14):
        lake.on(day).run()
    assert not incidents(lake) and table.head == head
    assert lake.on(15).run().exit_code == 0 and table.data("f0") in lake.waiting()


def test_what_others_commit_after_it_is_no_incident() -> None:
    lake, table = busy()

    def commit(document: dict[str, Any]) -> None:
        pass

    class Overtaken(Careless):
        def expire(self, *words: Any) -> CommitOutcome | None:
            done = super().expire(*words)
            table.append("later")
            table.drop_ref("audit")
            return done

    summary = lake.run(services=lake.services(committer=Overtaken(lake, commit)))
    assert summary.exit_code == 0 and not incidents(lake) and lake.waiting()


def test_a_run_that_was_killed_after_its_commit_leaves_the_look_to_the_next() -> None:
    lake, _ = busy()

    class Fatal(Careless):
        def expire(self, *words: Any) -> CommitOutcome | None:
            super().expire(*words)
            raise Killed

    with pytest.raises(Killed):
        lake.run(services=lake.services(committer=Fatal(lake, branch_gone)))
    assert not incidents(lake)
    assert lake.run().exit_code != 0
    assert incidents(lake) == ["lake.air.t@audit"] and not lake.waiting()


def test_what_others_commit_on_the_base_of_a_run_that_was_killed_is_no_incident() -> None:
    lake, table = busy()

    class Fatal(Careless):
        def expire(self, *words: Any) -> CommitOutcome | None:
            raise Killed

    with pytest.raises(Killed):
        lake.run(services=lake.services(committer=Fatal(lake, branch_gone)))
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    table.append("later")
    table.drop_ref("audit")
    table.expire_elsewhere(*plan.snapshots)
    assert lake.run().exit_code == 0 and not incidents(lake)
