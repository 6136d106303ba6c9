"""Tables that are written to all the time: they expire like any other, and lose nothing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.gate.gate import reasons
from meltline.app.observe.observe import observe
from meltline.app.run.gate_step import run_gate
from meltline.app.run.gated_plans import judge
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.ports import Lease, SnapshotKey
from tests.lake.gaps import Gap, with_gaps
from tests.lake.lake import DAY, Lake, Table, business


def overwritten(lake: Lake | None = None) -> tuple[Lake, Table]:
    """A table of four snapshots; on day 12 the first three may go."""
    lake = lake or Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    return lake, table


def planned(lake: Lake) -> Plan:
    services, request = lake.services(), lake.request()
    (found,) = plan_expiration(
        services, observe(services), run_id=request.run_id, as_of=request.as_of
    )
    return found.plan


def judged(lake: Lake, plan: Plan) -> tuple[Plan, GateResult]:
    ((plan, verdict),) = run_gate(lake.services(), [plan])
    return plan, verdict


# --- between plan and gate ---------------------------------------------------------------


@pytest.mark.parametrize("commits", [1, 150])
def test_commits_between_plan_and_gate_do_not_refuse_a_plan(commits: int) -> None:
    """More than the 100 entries of a metadata log, too."""
    lake, table = overwritten()
    plan = planned(lake)
    for number in range(commits):
        table.append(f"late{number}")
    table.edit(lambda document: document.update({"metadata-log": document["metadata-log"][-100:]}))
    plan, verdict = judged(lake, plan)
    assert verdict.passed, reasons(verdict)
    (done,) = apply_expirations(lake.services(), [plan], lambda _: None)
    assert (done.error, done.snapshots_expired) == (None, 3)


def test_a_base_that_the_engine_has_deleted_by_now_does_not_refuse_a_plan() -> None:
    lake, table = overwritten()
    plan = planned(lake)
    table.append("late")
    lake.store.delete([plan.base_location])
    plan, verdict = judged(lake, plan)
    assert verdict.passed, reasons(verdict)


def test_a_base_that_cannot_be_read_refuses_and_is_named() -> None:
    lake, table = overwritten()
    plan = planned(lake)
    table.append("late")
    lake.spoil(plan.base_location)
    plan, verdict = judged(lake, plan)
    assert verdict.failed_on("unreadable") and plan.base_location in reasons(verdict)


@pytest.mark.parametrize("is_base_there", [True, False])
def test_the_head_of_the_plans_day_is_held_against_the_index_although_it_is_none_any_more(
    is_base_there: bool,
) -> None:
    lake, table = overwritten()
    plan, head = planned(lake), table.head
    table.append("late")
    if not is_base_there:
        lake.store.delete([plan.base_location])
    services = lake.services()
    files = services.files
    lost = replace(files, snapshots=_Forgetful(files.snapshots, {head}))
    forgetful = replace(services, files=lost)
    ((plan, verdict),) = run_gate(forgetful, [plan])
    assert [f.object.partition(":")[0] for f in verdict.failed] == [str(head)]
    assert verdict.failed_on("head_totals_differ")


def test_a_new_head_whose_files_are_not_what_it_says_refuses() -> None:
    lake, table = overwritten()
    plan = planned(lake)
    table.append("late")

    def claim_more(document: dict[str, Any]) -> None:
        document["snapshots"][-1]["summary"]["total-data-files"] = "3"

    table.edit(claim_more)
    _, verdict = judged(lake, plan)
    assert verdict.failed_on("head_totals_differ") and verdict.failed_on("unreadable")


def test_a_planned_snapshot_that_the_base_never_had_is_refused() -> None:
    """A plan's header could be altered; its base says what it was made on."""
    lake, table = overwritten()
    early = table.metadata_location
    plan = planned(lake)
    table.append("late")
    other = lake.on(12).table("other")
    _, verdict = judged(lake, replace(plan, base_location=other.metadata_location))
    assert early != table.metadata_location and verdict.failed_on("planned_not_in_metadata")


@dataclass(frozen=True)
class _Forgetful:
    """A snapshot index that has lost some of them."""

    inner: Any
    lost: set[int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        known: Mapping[SnapshotKey, tuple[int, int]] = self.inner.live_totals(heads)
        return {key: total for key, total in known.items() if key.snapshot_id not in self.lost}


def lease(table: Table, snapshot_id: int) -> None:
    until = table.lake.clock.moment + DAY
    table.lake.control.leases.save(Lease("l", table.uuid, snapshot_id, until))


def _back_and_forth(table: Table, old: int) -> None:
    head = table.head
    table.rollback(old)
    table.point("main", head)


NEEDED_NOW: Mapping[str, Callable[[Table, int], object]] = {
    "tag": lambda table, old: table.tag("keep", old),
    "branch": lambda table, old: table.branch("b", old),
    "share": lambda table, old: table.tag("share__s", old),
    "held snapshot": lambda table, old: table.tag("hold__h", old),
    "lease": lease,
    "rollback": lambda table, old: table.rollback(old),
    "rollback and forth": _back_and_forth,
    "expired by another": lambda table, old: table.expire_elsewhere(old),
}


@pytest.mark.parametrize("what", NEEDED_NOW)
def test_what_a_planned_snapshot_is_needed_for_by_now_makes_the_plan_anew_the_same_night(
    what: str,
) -> None:
    # AR-40
    lake, table = overwritten()
    plan, old = planned(lake), table.snapshots[1]
    table.append("late")
    NEEDED_NOW[what](table, old)
    stale, anew = judge(lake.services(), [plan])
    assert (stale.id, stale.state, anew.state) == (plan.id, PlanState.STALE, PlanState.PASSED)
    assert stale.note and "head_totals_differ" not in stale.note
    assert old not in anew.snapshots
    (done,) = apply_expirations(lake.services(), [anew], lambda _: None)
    assert done.error is None and plan.snapshots[0] not in table.snapshots
    assert (old in table.snapshots) is (what != "expired by another")


@pytest.mark.parametrize("hold", [True, False])
def test_a_table_that_is_held_or_gone_by_now_has_no_plan_any_more(hold: bool) -> None:
    lake, table = overwritten()
    plan = planned(lake)
    if hold:
        table.configure(meltline__hold="audit")
    else:
        table.drop()
    (stale,) = judge(lake.services(), [plan])
    assert stale.state is PlanState.STALE and lake.waiting() == {}


def test_a_branch_that_came_and_went_on_a_planned_snapshot_is_no_reason() -> None:
    lake, table = overwritten()
    plan, old = planned(lake), table.snapshots[1]
    table.branch("b", old)
    table.drop_ref("b")
    (passed,) = judge(lake.services(), [plan])
    assert (passed.id, passed.state) == (plan.id, PlanState.PASSED)


def test_a_planned_file_that_a_new_commit_names_again_is_planned_no_more() -> None:
    lake, table = overwritten()
    plan, again = planned(lake), table.data("f1")
    assert again in {file.path for file in lake.files.items.of([plan.id])[plan.id]}
    table.append("f1")
    stale, anew = judge(lake.services(), [plan])
    assert (stale.state, anew.state) == (PlanState.STALE, PlanState.PASSED)
    assert again not in {file.path for file in lake.files.items.of([anew.id])[anew.id]}


def test_tables_that_move_whenever_another_one_is_committed_are_all_expired() -> None:
    lake = Lake()
    tables = [lake.on(0).table(f"t{number}") for number in range(9)]
    for day in range(4):
        lake.on(day)
        for table in tables:
            table.overwrite(f"f{day}")
    lake.on(12)

    def commit(gap: Gap) -> None:
        for table in tables if gap is Gap.COMMITTED else ():
            table.append(f"late{lake.next_id()}")

    services, request = lake.services(), lake.request()
    plans = plan_expiration(services, observe(services), run_id=request.run_id, as_of=request.as_of)
    passed = judge(services, [one.plan for one in plans])
    done = apply_expirations(with_gaps(services, commit), passed, lambda _: None)
    assert [(one.error, one.snapshots_expired) for one in done] == [(None, 3)] * len(tables)


def test_metadata_that_an_engine_deletes_before_we_read_it_is_looked_for_once_more() -> None:
    """Every other listing names a metadata file that is gone a moment later."""
    lake, table = overwritten()
    table.configure(
        write__metadata__delete_after_commit__enabled="true",
        write__metadata__previous_versions_max="1",
    )
    listings = Counter[Gap]()

    def commit(gap: Gap) -> None:
        listings[gap] += 1
        for _ in range(2 if gap is Gap.LISTED and listings[gap] % 2 else 0):
            table.append(f"late{lake.next_id()}")

    for day, shift in ((12, 0), (13, 1), (20, 0), (21, 1)):
        listings[Gap.LISTED] = shift
        summary = lake.on(day).run(services=with_gaps(lake.services(), commit))
        assert summary.exit_code == 0, summary.as_json()
    assert table.data("f0") in lake.deleter.deleted


# --- in every gap of every night ---------------------------------------------------------


@dataclass
class Writers:
    """Engines that commit to all of some tables in each gap of a night, and know what they wrote.

    Attributes:
        rows: What each snapshot held when it was written: its live files and what is in them.
        commits: How often they committed, by gap.
    """

    tables: Sequence[Table]
    rows: dict[tuple[str, int], dict[str, bytes]] = field(default_factory=dict)
    commits: Counter[Gap] = field(default_factory=Counter)
    _tonight: set[Gap] = field(default_factory=set)

    def night(self) -> None:
        """From now on each gap is one that nobody has come into."""
        self._tonight.clear()

    def act(self, gap: Gap) -> None:
        """Commits; twice where a catalog was listed, so that no log has what was listed."""
        if gap in self._tonight:
            return
        self._tonight.add(gap)
        for table in self.tables * (2 if gap is Gap.LISTED else 1):
            self.commit(table)
            self.commits[gap] += 1

    def commit(self, table: Table) -> None:
        name = f"{table.name.name}-{table.lake.next_id()}"
        path = table.data(name)
        table.lake.store.write(path, name.encode().ljust(100 + len(path)))
        written = table.overwrite(name) if sum(self.commits.values()) % 3 else table.append(name)
        self.rows[table.uuid, written] = self.read(table, written)

    @staticmethod
    def read(table: Table, snapshot_id: int) -> dict[str, bytes]:
        """What a reader of that snapshot gets, from the list on down."""
        paths = table.lake._walk(table.manifest_list(snapshot_id))
        return {path: table.lake.store.read(path) for path in paths if path.endswith(".parquet")}


@pytest.mark.slow("several nights with a commit in every gap")
def test_busy_tables_expire_night_for_night_and_every_kept_snapshot_reads_as_written() -> None:
    lake = Lake(account=business(retention_days=1, failsafe_days=1))
    writers = Writers([lake.on(0).table(f"t{number}") for number in range(5)])
    for table in writers.tables[:2]:  # an engine that deletes what it has replaced
        table.configure(
            write__metadata__delete_after_commit__enabled="true",
            write__metadata__previous_versions_max="1",
        )
    counts = []
    for night in range(1, 31):
        lake.on(night)
        writers.night()
        summary = lake.run(services=with_gaps(lake.services(), writers.act))
        assert summary.exit_code == 0, (night, summary.as_json())
        counts.append(max(len(table.snapshots) for table in writers.tables))
    gaps = set(Gap) - {Gap.SIGHTED}  # these tables have no branch that a snapshot could leave
    assert set(writers.commits) == gaps and min(writers.commits.values()) >= 25 * 5
    assert counts[-1] <= max(counts[3:6]), counts
    for table in writers.tables:
        for snapshot_id in table.snapshots:
            assert Writers.read(table, snapshot_id) == writers.rows[table.uuid, snapshot_id]
    assert len(lake.deleter.deleted) > 4 * len(lake.paths())
