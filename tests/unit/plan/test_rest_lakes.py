"""The chain on a catalog whose server writes the metadata: what comes meanwhile is never lost."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace

import pytest

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.protocol import CommitRaced, Json, LoadedTable
from meltline.app.catalog.dropped import dropped_tables
from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.expire.abandon import abandon
from meltline.app.observe.observe import observe
from meltline.app.safety.server_probe import PROBED, ServerVerdict
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import CommitUnproven, UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import FOREVER_MS
from tests.doubles.rest_protocol import MemoryProtocol
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed

HOUR = 1 / 24


@dataclass
class Others:
    """What others do just before the next commit of ours, and whether the run dies after it."""

    name: str = ""
    snapshot: int = 0
    table: Table | None = None
    seen: list[TableName] = field(default_factory=list)

    def __call__(self, name: TableName) -> None:
        self.seen.append(name)
        if self.table is not None and self.name:
            table, tag, self.name = self.table, self.name, ""
            table.tag(tag, self.snapshot)


def rest_lake() -> tuple[Lake, Table, Others]:
    """Four snapshots behind a server; on day 12 the first three may go."""
    others = Others()
    lake = Lake(behind_rest=True, interrupt=others)
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    others.table = table
    return lake.on(12), table, others


def dying_at_its_answer(lake: Lake) -> RunContext:
    """Services of a run that dies when its first commit is made, before the answer comes."""
    services = lake.services()

    def die(name: TableName) -> None:
        raise Killed(str(name))

    served = MemoryProtocol(lake.catalogs["lake"], lake.store, lake.interrupt, die)
    committer = RestCommitter({"lake": served}, lake.store, lake.clock)
    return replace(services, committer=committer)


class Fatal:
    """A committer whose process dies before it commits."""

    def expire(self, *words: object) -> None:
        raise Killed


def swap(lake: Lake, name: TableName, stranger: TableName) -> None:
    """Somebody renames a table, and gives its name to another one."""
    standing = lake.catalogs["lake"]._tables
    standing[replace(name, name="moved")] = standing.pop(name)
    standing[name] = standing.pop(stranger)


def assert_nothing_departed_as_planned(lake: Lake) -> None:
    """What a restored ref needs was in the plan: another one was made of what really left."""
    (plan,) = [p for p in lake.control.plans.find(states=[PlanState.STALE]) if p.snapshots]
    assert "audit" in plan.note
    departures = lake.files.departures.in_states(frozenset(DepartureState))
    assert departures and plan.id not in {departure.plan_id for departure in departures}


def over(lake: Lake) -> None:
    """Nights until all that may go has gone."""
    for day in (13, 21, 30, 39):
        lake.on(day).run()


def test_what_nobody_needs_goes_as_from_any_catalog() -> None:
    lake, table, others = rest_lake()
    assert lake.run().exit_code == 0
    assert table.snapshots == [table.head] and others.seen == [table.name]
    over(lake)
    assert not lake.waiting() and not any("f0" in path for path in lake.paths())


def test_a_tag_that_comes_during_the_commit_keeps_its_snapshot_and_only_that() -> None:
    lake, table, others = rest_lake()
    first, second, *_ = table.snapshots
    needed = {path for path in lake.paths() if "f0" in path}
    others.name, others.snapshot = "audit", first
    summary = lake.run()
    assert summary.exit_code == 0
    assert set(table.snapshots) == {first, table.head} and table.document["refs"]["audit"]
    assert second not in table.snapshots and not needed & lake.waiting().keys()
    assert_nothing_departed_as_planned(lake)
    over(lake)
    assert needed <= lake.paths() and not any("f1" in path for path in lake.paths())
    lake.check_nothing_is_missing()


@pytest.mark.parametrize("dies", [False, True])
def test_a_tag_that_is_kept_longer_as_it_is_to_go_stays_with_its_snapshot(dies: bool) -> None:
    lake, table, _ = rest_lake()
    first = table.snapshots[0]
    table.tag("old", first, **{"max-ref-age-ms": 1})
    needed = {path for path in lake.paths() if "f0" in path}

    def keep_longer(name: TableName) -> None:
        if table.refs.get("old", {}).get("max-ref-age-ms") == 1:
            table.tag("old", first, **{"max-ref-age-ms": FOREVER_MS})

    lake.interrupt = keep_longer
    with pytest.raises(Killed) if dies else nullcontext():
        lake.run(services=dying_at_its_answer(lake) if dies else None)
    lake.interrupt = lambda name: None
    lake.on(12 + HOUR).run()
    assert table.refs["old"] == {"snapshot-id": first, "type": "tag", "max-ref-age-ms": FOREVER_MS}
    assert not needed & lake.waiting().keys()
    over(lake)
    assert needed <= lake.paths() and not any("f1" in path for path in lake.paths())
    lake.check_nothing_is_missing()


def test_an_answer_that_has_the_next_commit_too_hides_no_tag_that_was_lost() -> None:
    lake, table, others = rest_lake()
    first = table.snapshots[0]
    others.name, others.snapshot = "audit", first
    lake.answering = lambda name: table.append("next")
    assert lake.run().exit_code == 0
    assert first in table.snapshots and table.document["refs"]["audit"]["snapshot-id"] == first
    assert_nothing_departed_as_planned(lake)
    lake.answering = lambda name: None
    over(lake)
    lake.check_nothing_is_missing()


def test_another_table_that_takes_the_name_before_a_tag_is_back_does_not_get_it() -> None:
    lake, table, others = rest_lake()
    stranger = lake.table("stranger")
    stranger.append("s")
    others.name, others.snapshot = "audit", table.snapshots[0]

    def tag_then_swap(name: TableName) -> None:
        others(name)
        if len(others.seen) == 2:  # the commit that would restore
            swap(lake, name, stranger.name)

    lake.interrupt = tag_then_swap
    before = stranger.document
    assert lake.run().exit_code != 0
    assert Table(lake, table.name).document == before
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    assert plan.table == table.name and not lake.waiting()


def test_of_a_run_that_died_after_its_commit_nothing_departs_before_the_tag_is_back() -> None:
    lake, table, others = rest_lake()
    first = table.snapshots[0]
    others.name, others.snapshot = "audit", first
    died = dying_at_its_answer(lake)
    with pytest.raises(Killed):
        lake.run(services=died)
    assert first not in table.snapshots and "audit" not in table.document["refs"]
    observation = observe(lake.services())
    (reason,) = observation.blocked.values()
    assert "not known yet which refs came" in reason
    lake.on(12 + HOUR).run()
    assert first in table.snapshots and table.document["refs"]["audit"]
    assert not observe(lake.services()).blocked
    assert not [path for path in lake.waiting() if "f0" in path]
    assert_nothing_departed_as_planned(lake)
    over(lake)
    assert any("f0" in path for path in lake.paths())
    assert not any("f1" in path for path in lake.paths())
    lake.check_nothing_is_missing()


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ("", "never probed"),
        ("{}", "never probed"),
        (ServerVerdict("", "another", "", checked="2026").written, "not the one that was probed"),
        (ServerVerdict("", "", "2026-01-12T23:59:00Z", (), "file:///w/m.json").written, "second"),
        (ServerVerdict("", "", "2026-01-12T23:59:00Z").written, "never probed"),
        (ServerVerdict("it keeps no metadata log", "", "").written, "keeps no metadata log"),
    ],
)
def test_behind_a_server_that_was_not_found_fit_nothing_expires(verdict: str, reason: str) -> None:
    lake, table, others = rest_lake()
    before, files = table.snapshots, lake.paths()
    lake.catalogs["lake"].set_namespace_properties(("meltline",), {PROBED: verdict})
    lake.run()
    over(lake)
    assert table.snapshots == before and files <= lake.paths() and not others.seen
    codes = ("catalog_not_managed", "probe_open")
    (finding,) = [f for f in examine(lake.services()) if f.code in codes]
    assert reason in finding.message and "--probe-catalog lake" in finding.fix


def test_where_the_base_is_gone_nothing_departs_until_a_person_says_so() -> None:
    lake, table, _ = rest_lake()
    died = dying_at_its_answer(lake)
    base = table.metadata_location
    with pytest.raises(Killed):
        lake.run(services=died)
    content = lake.spoil(base)
    files = lake.paths()
    for day in (13, 21, 30):
        assert lake.on(day).run().exit_code != 0
    assert files <= lake.paths() and not lake.waiting()
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    for refused in ("", "  "):
        with pytest.raises(UsageInvalid, match="cannot be abandoned"):
            abandon(lake.services(), plan.id, refused)
    ended = abandon(lake.services(), plan.id, "nobody tags here")
    assert ended.state is PlanState.STALE and "nobody tags here" in ended.note
    with pytest.raises(UsageInvalid, match="cannot be abandoned"):
        abandon(lake.services(), plan.id, "again")
    lake.mend(base, content)
    for day in (31, 39, 48):
        lake.on(day).run()
    assert not any("f0" in path for path in lake.paths())


def test_a_commit_that_is_sent_again_takes_nothing_that_has_come_back() -> None:
    lake, table, others = rest_lake()
    sent: list[tuple[Sequence[Json], Sequence[Json]]] = []
    served = MemoryProtocol(lake.catalogs["lake"], lake.store, lake.interrupt)

    class Gateway:
        def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
            return served.load(name, refs_only=refs_only)

        def commit(
            self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
        ) -> LoadedTable:
            sent.append((requirements, updates))
            return served.commit(name, requirements, updates)

    others.name, others.snapshot = "audit", table.snapshots[0]
    committer = RestCommitter({"lake": Gateway()}, lake.store, lake.clock)
    lake.run(services=replace(lake.services(), committer=committer))
    for words in list(sent):
        with suppress(CommitRaced):
            served.commit(table.name, *words)
    assert table.document["refs"]["audit"]["snapshot-id"] in table.snapshots


def test_a_commit_of_a_dead_run_never_comes() -> None:
    lake, table, _ = rest_lake()
    first = table.snapshots[0]
    sent: list[tuple[TableName, Sequence[Json], Sequence[Json]]] = []
    served = MemoryProtocol(lake.catalogs["lake"], lake.store)

    class OnItsWay:
        def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
            return served.load(name, refs_only=refs_only)

        def commit(
            self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
        ) -> LoadedTable:
            sent.append((name, requirements, updates))
            raise Killed

    committer = RestCommitter({"lake": OnItsWay()}, lake.store, lake.clock)
    with pytest.raises(Killed):
        lake.run(services=replace(lake.services(), committer=committer))
    table.tag("audit", first)
    lake.on(12 + HOUR).run()
    with suppress(CommitRaced):
        served.commit(*sent[0])
    assert first in table.snapshots and table.document["refs"]["audit"]["snapshot-id"] == first


def test_a_run_that_died_before_its_commit_is_planned_anew() -> None:
    lake, table, _ = rest_lake()
    with pytest.raises(Killed):
        lake.run(services=lake.services(committer=Fatal()))
    assert len(lake.control.plans.find(states=[PlanState.APPLYING])) == 1
    assert lake.on(12 + HOUR).run().exit_code == 0
    assert table.snapshots == [table.head]
    assert not lake.control.plans.find(states=[PlanState.APPLYING])
    over(lake)
    lake.on(60).run()
    assert set(table.document["refs"]) == {"main"}, "a fence stands for a day"


def test_another_table_that_takes_the_name_of_a_dead_runs_table_is_not_fenced() -> None:
    lake, table, _ = rest_lake()
    stranger = lake.table("stranger")
    stranger.append("s")
    with pytest.raises(Killed):
        lake.run(services=lake.services(committer=Fatal()))
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    swap(lake, table.name, stranger.name)
    before = Table(lake, table.name).document
    with pytest.raises(CommitUnproven) as refused:  # as between a listing and what follows it
        lake.services().committer.withdraw(plan)
    assert "another table of that name" in refused.value.found
    assert Table(lake, table.name).document == before


@pytest.mark.parametrize("renamed", [False, True], ids=["dropped", "renamed by somebody"])
def test_what_came_of_a_commit_is_told_under_the_name_that_the_table_has_now(renamed: bool) -> None:
    lake, table, others = rest_lake()
    first = table.snapshots[0]
    others.name, others.snapshot = "audit", first
    with pytest.raises(Killed):
        lake.run(services=dying_at_its_answer(lake))
    assert "audit" not in table.refs
    if renamed:
        standing = lake.catalogs["lake"]._tables
        moved = Table(lake, replace(table.name, name="moved"))
        standing[moved.name] = standing.pop(table.name)
    else:
        drop(lake.services(), str(table.name))
        (dropped,) = dropped_tables(lake.services(), lake.catalogs["lake"].listing())
        moved = Table(lake, dropped.state.name)
    lake.on(12 + HOUR).run()
    assert moved.refs["audit"]["snapshot-id"] == first
    assert not lake.control.plans.find(states=[PlanState.APPLYING])
    assert lake.on(13).run().exit_code == 0
    lake.check_nothing_is_missing()


def test_a_commit_that_is_on_its_way_to_a_renamed_table_never_comes() -> None:
    lake, table, _ = rest_lake()
    with pytest.raises(Killed):
        lake.run(services=lake.services(committer=Fatal()))
    (plan,) = lake.control.plans.find(states=[PlanState.APPLYING])
    standing = lake.catalogs["lake"]._tables
    moved = Table(lake, replace(table.name, name="moved"))
    standing[moved.name] = standing.pop(table.name)
    lake.on(12 + HOUR).run()
    assert f"fence__{plan.id}" in moved.refs
    assert lake.control.plans.get(plan.id).state is PlanState.STALE
