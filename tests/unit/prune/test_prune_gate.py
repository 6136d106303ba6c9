"""Nothing leaves cold without a stored, passed verdict on exactly its digest (PX-1)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from meltline.app.prune.cold_prune import prune
from meltline.app.prune.prune_deletes import Pruned, PruneDeletes
from meltline.app.prune.prune_gate import PruneGate, verdict_id
from meltline.app.retention.holds import add_hold
from meltline.app.services import RunContext
from meltline.domain.archive.pruning import PRUNING, PrunePlan
from meltline.domain.deletion.gate import GateFacts, GateResult
from meltline.domain.errors import GateNotPassed
from meltline.ports import DeleteOutcome
from tests.lake.lake import DAY, T0, Lake
from tests.lake.plain_gate import PlainGateEngine
from tests.unit.archive.test_cold_past import COLD_WAREHOUSE, NAME
from tests.unit.prune.test_cold_prune import (
    COLD,
    Failing,
    archived,
    cold_files,
    document,
    needed,
    ports,
    pruned,
)


@dataclass
class Engine:
    """A gate engine that notes what it is asked, and may refuse or crash."""

    lake: Lake
    refuses: bool = False
    crashes: bool = False
    ttl: timedelta = timedelta(hours=6)

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        if self.crashes:
            raise ZeroDivisionError
        plain = PlainGateEngine(self.lake.config().limits, self.ttl)
        if self.refuses:
            evidence = [replace(e, facts={**e.facts, "planned_needed": 1}) for e in evidence]
        return plain.judge(evidence, now)


def old() -> Lake:
    lake, _ = archived()
    return lake.on(30)


def plan_of(lake: Lake) -> PrunePlan:
    """What a prune of the first three snapshots would take, by a dry run."""
    (told,) = pruned(lake, 2.5, dry_run=True)
    state = document(lake)
    uuid = state["properties"]["meltline.cold-of"]
    files = sorted(cold_files(lake) - _named_by_others(lake, told.snapshots))
    return PrunePlan(uuid, state["table-uuid"], told.snapshots, tuple(files))


def _named_by_others(lake: Lake, ids: Sequence[int]) -> set[str]:
    staying = [s for s in document(lake)["snapshots"] if s["snapshot-id"] not in ids]
    lists = [s["manifest-list"] for s in staying]
    return {*lists, *(path for at in lists for path in lake._walk(at))}


def gate(lake: Lake, **changes: object) -> PruneGate:
    made: RunContext = ports(lake, **changes)
    assert made.cold is not None
    uuid = document(lake)["properties"]["meltline.cold-of"]
    return PruneGate(made, Engine(lake), made.cold, COLD, NAME, uuid)


def refusal(lake: Lake, plan: PrunePlan, **more: bool) -> str:
    with pytest.raises(GateNotPassed) as refused:
        gate(lake).judge(plan, **more)
    return refused.value.found


def take(lake: Lake, engine: Engine, services: RunContext | None = None) -> None:
    prune(services or ports(lake), engine, NAME, T0 + 2.5 * DAY, "costs", dry_run=False)


def unchanged(lake: Lake, files: set[str]) -> bool:
    begun = [key for key in document(lake)["properties"] if key.startswith(PRUNING)]
    return lake.paths(COLD_WAREHOUSE) == files and not begun


def test_a_prune_goes_by_a_verdict_that_is_stored_for_its_digest() -> None:
    lake = old()
    plan = plan_of(lake)
    (done,) = pruned(lake, 2.5)
    assert done.digest == plan.digest and done.deleted == len(plan.files)
    verdict = lake.control.verdicts.newest([verdict_id(plan)])[verdict_id(plan)]
    assert (verdict.suite, verdict.digest, verdict.passed) == ("prune", done.digest, True)
    assert verdict.evaluated == 9


def test_a_dry_run_is_judged_and_stores_no_verdict() -> None:
    lake = old()
    plan = plan_of(lake)
    assert not lake.control.verdicts.newest([verdict_id(plan)])
    with pytest.raises(GateNotPassed):
        prune(ports(lake), Engine(lake, refuses=True), NAME, T0 + 2.5 * DAY, "x", dry_run=True)


@pytest.mark.parametrize("engine", ["refuses", "crashes", "late"])
def test_what_is_not_passed_stays_whole_and_the_verdict_says_why(engine: str) -> None:
    lake = old()
    plan, files = plan_of(lake), lake.paths(COLD_WAREHOUSE)
    with pytest.raises(GateNotPassed):
        take(lake, Engine(lake, engine == "refuses", engine == "crashes",
                          timedelta(0) if engine == "late" else DAY))  # fmt: skip
    verdict = lake.control.verdicts.newest([verdict_id(plan)])[verdict_id(plan)]
    assert not verdict.approves(plan.digest, lake.clock.now()) and unchanged(lake, files)


def test_the_gate_finds_by_itself_whatever_a_planner_may_overlook() -> None:
    lake = old()
    good = plan_of(lake)
    gate(lake).judge(good)
    ids = [s["snapshot-id"] for s in document(lake)["snapshots"]]
    others = sorted(_named_by_others(lake, good.snapshots))
    for fact, wrong in {
        "planned_newest": replace(good, snapshots=(*good.snapshots, ids[-1])),
        "planned_not_in_table": replace(good, snapshots=(*good.snapshots, 7)),
        "planned_outside": replace(good, files=(*good.files, "file:///w/air/t/data/t9.parquet")),
        "planned_needed": replace(good, files=(*good.files, others[0])),
    }.items():
        assert f"{fact} is 0" in refusal(lake, wrong)
    assert "planned_not_in_table is 0" in refusal(lake, replace(good, cold_uuid="another"))
    lake.on(21)
    assert "planned_early is 0" in refusal(lake, good)
    lake.on(30)
    add_hold(ports(lake), str(NAME), reason="case 7", until=None)
    assert "planned_held is 0" in refusal(lake, good)
    assert "planned_held is 0" in refusal(lake, good, removed=True)


def test_what_cannot_be_read_is_the_cause_of_all_else() -> None:
    lake = old()
    good = plan_of(lake)
    lake.spoil(document(lake)["snapshots"][-1]["manifest-list"])
    found = refusal(lake, good)
    assert found.startswith("unreadable is 0") and "what follows from that" in found


def test_what_the_permanent_store_must_have_and_has_not_stays() -> None:
    lake, _ = archived(**{"meltline.deep": "true"})
    assert "planned_not_deep is 0" in refusal(lake, plan_of_undeep(lake.on(30)))


def plan_of_undeep(lake: Lake) -> PrunePlan:
    first = document(lake)["snapshots"][0]
    state = document(lake)
    uuid = state["properties"]["meltline.cold-of"]
    return PrunePlan(uuid, state["table-uuid"], (first["snapshot-id"],), (first["manifest-list"],))


def test_a_plan_that_is_not_kept_as_it_was_judged_does_not_go() -> None:
    lake = old()
    good = plan_of(lake)
    place = good.place(document(lake)["location"])
    lake.store.write(place, replace(good, files=good.files[1:]).written)
    with pytest.raises(GateNotPassed) as refused:
        gate(lake).judge(good, place)
    assert "digest_matches is true" in refused.value.found


def test_a_prune_that_was_not_finished_is_judged_again_before_it_is() -> None:
    lake = old()
    made = ports(lake)
    assert made.cold is not None
    failing = replace(made.cold, remover=Failing(lake, ".parquet"))
    take(lake, Engine(lake), replace(made, cold=failing))
    files = cold_files(lake)
    assert files != needed(lake)
    lake.on(31)
    with pytest.raises(GateNotPassed):
        take(lake, Engine(lake, refuses=True))
    assert cold_files(lake) == files
    take(lake, Engine(lake))
    assert cold_files(lake) == needed(lake)


@dataclass
class SlowStore:
    """A store that takes its time to delete; after the first batch another table needs the rest."""

    lake: Lake
    takes: timedelta
    twin: bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lake.store, name)

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        outcomes = self.lake.store.delete(paths)
        self.lake.clock.moment += self.takes
        place = f"{COLD_WAREHOUSE}/twin.metadata.json"
        if self.lake.store.size(place) is None:
            self.lake.store.write(place, self.twin)
            self.lake.cold.register(replace(COLD, name="twin"), place)
        return outcomes


@pytest.mark.parametrize(("seconds", "deleted"), [(299, 2), (300, 1)])
def test_a_batch_goes_only_on_a_proof_younger_than_five_minutes(seconds: int, deleted: int) -> None:
    lake = old()
    before = document(lake)
    made = ports(lake)
    assert made.cold is not None
    failing = replace(made.cold, remover=Failing(lake, ""))
    take(lake, Engine(lake), replace(made, cold=failing))
    twin = {**before, "table-uuid": "5e0f0f0e-0000-4000-8000-000000000001"}
    slow = SlowStore(lake, timedelta(seconds=seconds), json.dumps(twin).encode())
    judge = gate(lake)
    deletes = PruneDeletes(
        made, replace(made.cold, remover=slow), COLD, judge.uuid, (), judge, batch=1
    )
    (plan,) = deletes.unfinished()
    told = Pruned(NAME, COLD)
    deletes.finish(plan, told)
    assert (told.deleted, len(told.kept) > 1) == (deleted, True)
