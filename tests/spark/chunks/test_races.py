"""What others do between the gate and the drop: the chunks they touch wait, all others go (LT-36).

Each kind of late write has a chunk of its own, so that one run tells of each whether it was seen.
No row may disappear, and none that was deleted may come back.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pytest

from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import LockHeld
from meltline.ports import DropOutcome, DropRequest
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, deferred, dropped, ids
from tests.spark.setups.late_writes import delete_by_user

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("races"))


@dataclass
class DropperBesideWhom:
    """The real dropper, just before whose first commit somebody else acts."""

    real: Any
    act: Callable[[], object]
    has_acted: bool = False

    def drop(self, request: DropRequest) -> DropOutcome:
        if not self.has_acted:
            self.has_acted = True
            self.act()
        outcome: DropOutcome = self.real.drop(request)
        return outcome


def beside(lake: ChunkLake, act: Callable[[], object]) -> RunContext:
    """Services of a run that is overtaken at the last moment."""
    context = lake.services()
    return replace(context, dropper=DropperBesideWhom(context.dropper, act))


Moment = Callable[[ChunkLake, str, Callable[[], object]], Any]


def after_the_gate(lake: ChunkLake, table: str, act: Callable[[], object]) -> Any:
    run = lake.run(table, steps=lake.steps[:-2])
    act()
    run.visit(lake.steps[-2:])
    return run


def before_the_commit(lake: ChunkLake, table: str, act: Callable[[], object]) -> Any:
    return lake.run(table, services=beside(lake, act))


MOMENTS: Mapping[str, Moment] = {
    "after the gate": after_the_gate,
    "before the commit": before_the_commit,
}
WRITTEN = {
    "insert": 17,
    "update": 16,
    "delete": 15,
    "equality delete": 14,
    "update copy-on-write": 13,
    "merge": 12,
    "move into it": 11,
}
COMPACTED, UNTOUCHED = 10, (9, 8)
DELETED = ("delete", "equality delete", "merge")


def late_writes(lake: ChunkLake, table: str, of_day: Mapping[int, list[int]]) -> None:
    """All kinds, each to its own chunk."""

    def first(kind: str) -> int:
        return of_day[WRITTEN[kind]][0]

    word = f"{{{table}}}"
    lake.insert(table, WRITTEN["insert"])
    lake.w.sql(f"UPDATE {word} SET v = 'late' WHERE id = {first('update')}")
    lake.w.sql(f"DELETE FROM {word} WHERE id = {first('delete')}")
    equality_delete(lake, table, WRITTEN["equality delete"], f"v{first('equality delete')}")
    lake.w.sql(
        f"MERGE INTO {word} t USING (SELECT {first('merge')} AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE",
        f"UPDATE {word} SET ts = TIMESTAMP '{lake.day(WRITTEN['move into it'])} 20:00:00'"
        f" WHERE id = {of_day[0][0]}",
        f"ALTER TABLE {word} SET TBLPROPERTIES ('write.update.mode'='copy-on-write')",
        f"UPDATE {word} SET v = 'late' WHERE id = {first('update copy-on-write')}",
    )


def equality_delete(lake: ChunkLake, table: str, day: int, v: str) -> None:
    """As Flink writes it."""
    number = (date.fromisoformat(lake.day(day)) - date(1970, 1, 1)).days
    delete_by_user(lake.w, table, v, number, column="v")


def compact(lake: ChunkLake, table: str, day: int) -> None:
    lake.w.sql(
        f"CALL rewrite_data_files(table => 'n.{table}',"
        f" where => \"ts >= TIMESTAMP '{lake.day(day)} 00:00:00'"
        f" AND ts < TIMESTAMP '{lake.day(day - 1)} 00:00:00'\","
        " options => map('rewrite-all', 'true'))"
    )


@pytest.mark.parametrize(("moment", "version"), [("after the gate", 2), ("before the commit", 3)])
def test_of_late_writes_exactly_the_touched_chunks_wait_and_all_others_go_in_the_same_run(
    lake: ChunkLake, moment: str, version: int
) -> None:
    table = f"late_{moment.replace(' ', '_')}_{version}"
    lake.create(table, mode="merge-on-read", version=version)
    days = (*WRITTEN.values(), COMPACTED, *UNTOUCHED, 0)
    inserted = lake.insert(table, *days)
    of_day = {day: inserted[2 * at : 2 * at + 2] for at, day in enumerate(days)}
    lake.sync(table)
    lake.follow(table)
    lake.policy(table, PolicyType.TIERED_RETENTION)
    before = set(ids(lake.hot(table)))
    after: list[Any] = []

    def act() -> None:
        late_writes(lake, table, of_day)
        compact(lake, table, COMPACTED)
        after.extend(lake.hot(table))

    run = MOMENTS[moment](lake, table, act)
    assert run.summary.exit_code == 0, run.summary.as_json()
    assert dropped(run) == lake.days(COMPACTED, *UNTOUCHED)
    assert deferred(run) == dict.fromkeys(lake.days(*WRITTEN.values()), Deferral.BEHIND)
    gone = [*of_day[COMPACTED], *of_day[9], *of_day[8]]
    assert lake.hot(table) == [row for row in after if row[0] not in gone]
    lake.follow(table)
    again = lake.run(table)
    assert dropped(again) == lake.days(*WRITTEN.values()) and deferred(again) == {}
    expected = [row for row in after if row[0] not in gone]
    assert [row for row in lake.cold(table) if row[0] not in gone] == expected
    deleted = {of_day[WRITTEN[kind]][0] for kind in DELETED}
    assert before - set(ids(lake.cold(table))) == deleted
    assert lake.hot_days(table) in ([], lake.days(0))


def test_a_compaction_of_everything_in_the_gap_only_makes_the_run_plan_anew(
    lake: ChunkLake,
) -> None:
    lake.synced("compacted", *OLD, *OLD, *YOUNG, type=PolicyType.RETENTION)
    everything = lake.hot("compacted")

    def act() -> None:
        lake.w.sql(
            "CALL rewrite_data_files(table => 'n.compacted', options => map('rewrite-all', 'true'))"
        )
        lake.w.sql("CALL rewrite_manifests('n.compacted')")

    run = before_the_commit(lake, "compacted", act)
    assert dropped(run) == lake.days(*OLD) and run.summary.exit_code == 0
    assert lake.both("compacted") == lake.cold("compacted") == everything


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_expiry_of_the_judged_snapshot_in_the_gap_loses_no_row(
    lake: ChunkLake, moment: str
) -> None:
    table = f"expired_{moment.replace(' ', '_')}"
    lake.synced(table, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    everything = lake.hot(table)

    def act() -> None:
        lake.insert(table, OLD[0])
        lake.insert(table, 0)
        lake.w.sql(
            f"CALL expire_snapshots(table => 'n.{table}',"
            " older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        )

    run = MOMENTS[moment](lake, table, act)
    assert lake.day(OLD[0]) not in dropped(run)
    assert len(lake.both(table)) == len(everything) + 4
    assert set(everything) <= set(lake.both(table))


def test_of_two_runs_in_threads_each_chunk_is_dropped_once(lake: ChunkLake) -> None:
    lake.synced("threads", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    everything = lake.hot("threads")
    contexts = [lake.services(), lake.services()]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda context: lake.run("threads", services=context), contexts))
    names = [name for run in runs for name in dropped(run)]
    assert sorted(set(names)) == lake.days(*OLD)
    drops = [s for s in lake.w.document("threads")["snapshots"] if _is_drop(s)]
    assert len(drops) == 1
    assert lake.both("threads") == lake.cold("threads") == everything
    assert lake.hot_days("threads") == lake.days(*YOUNG)
    assert dropped(lake.run("threads")) == []


def _is_drop(snapshot: Mapping[str, Any]) -> bool:
    return "meltline.plan-id" in snapshot["summary"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.slow("two whole runs")
def test_a_second_run_in_the_middle_of_the_first_one_drops_nothing_twice(
    lake: ChunkLake, moment: str
) -> None:
    table = f"second_{moment.replace(' ', '_')}"
    lake.synced(table, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    everything, inner = lake.hot(table), []
    first = MOMENTS[moment](lake, table, lambda: inner.append(lake.run(table)))
    (second,) = inner
    shared = set(dropped(first)) | set(dropped(second))
    assert shared == set(lake.days(*OLD)) and first.summary.exit_code == 0
    assert len([s for s in lake.w.document(table)["snapshots"] if _is_drop(s)]) == 1
    assert lake.both(table) == lake.cold(table) == everything
    assert set(lake.statuses(table).values()) <= {"active", "dropped"} | {"tiered"}


def test_replication_beside_a_drop_waits_for_it_or_goes_before_it(lake: ChunkLake) -> None:
    lake.synced("beside", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    passes: list[Any] = []

    def act() -> None:
        lake.insert("beside", 0)
        passes.append(lake.replicate("beside"))

    run = after_the_gate(lake, "beside", act)
    assert passes[0].error is None and dropped(run) == lake.days(*OLD)
    lake.insert("beside", *OLD)
    lake.follow("beside")
    everything = lake.cold("beside")
    run = before_the_commit(lake, "beside", lambda: passes.append(lake.replicate("beside")))
    assert isinstance(passes[1].error, LockHeld) and dropped(run) == lake.days(*OLD)
    lake.follow("beside")
    assert lake.cold("beside") == everything == lake.both("beside")


def test_on_its_first_day_a_policy_only_plans_by_schedule(lake: ChunkLake) -> None:
    lake.synced("regret", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    everything = lake.hot("regret")
    run = lake.run("regret", at_once=False)
    assert dropped(run) == [] and lake.hot("regret") == everything
    assert any("its policy is new: 3 chunks would be dropped" in n for n in run.summary.notices)
    lake.ahead += timedelta(hours=25)
    lake.follow("regret")
    assert dropped(lake.run("regret", at_once=False)) == lake.days(*OLD)
