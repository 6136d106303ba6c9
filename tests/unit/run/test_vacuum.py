"""VACUUM in SQL: the chain over one table, with a window that may be longer and never shorter."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.retention.holds import add_hold
from meltline.app.run.gate_step import run_gate
from meltline.app.services import RunContext
from meltline.app.sql.statement_results import StatementResult
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    CatalogReadOnly,
    MeltlineError,
    RetentionOutOfRange,
    SqlUnreadable,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.retention.longer_window import LongerWindow
from meltline.domain.retention.policy import RETENTION, Retention
from meltline.grammar import parse
from meltline.grammar.statements import Vacuum
from meltline.ports import CommitOutcome, Committer, SqlEngine
from tests.lake.lake import DAY, T0, Lake, Table, business

HOURS_OF_POLICY = 7 * 24
TODAY = 20


@dataclass
class Vacuuming:
    """Two tables that are overwritten every day, and somebody who vacuums them on day 20."""

    lake: Lake = field(default_factory=Lake)
    changes: dict[str, Any] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table, self.other = (self.daily(name) for name in ("t", "u"))
        self.lake.on(TODAY)

    def daily(self, name: str) -> Table:
        """A table with a snapshot of each day."""
        table = self.lake.on(0).table(name)
        for day in range(TODAY):
            self.lake.on(day)
            table.overwrite(f"{name}{day}")
        return table

    def services(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        self.opened.append(app)
        return self.lake.services(**self.changes)

    def __call__(self, text: str) -> StatementResult:
        def engine() -> SqlEngine:
            raise AssertionError("SQL was sent to Spark")

        request = StatementRequest(text, ObjectName("lake", ("air",)))
        outcome = run_statement(self.lake.services(**self.changes), engine, request, self.services)
        self.lake.check_nothing_is_missing()
        return outcome

    def row(self, text: str) -> dict[str, Any]:
        """The one row of the answer."""
        read = self(text).read
        assert read is not None
        (cells,) = read.rows
        return dict(zip((column.name for column in read.columns), cells, strict=True))


@dataclass
class TaggedMeanwhile:
    """Somebody tags a snapshot between the first look before a commit and the commit."""

    table: Table
    snapshot_id: int

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        if "late" not in self.table.refs:
            self.table.tag("late", self.snapshot_id)
        return self._committer().expire(plan, base_location)

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return self._committer().confirm(plan)

    def withdraw(self, plan: Plan) -> bool:
        return self._committer().withdraw(plan)

    def _committer(self) -> Committer:
        return self.table.lake.services().committer


def planned(lake: Lake) -> Plan:
    """An expiration of `t`, by its policy alone."""
    services, request = lake.services(), lake.request(tables=("lake.air.t",))
    (stored,) = plan_expiration(
        services,
        observe(services),
        run_id=request.run_id,
        as_of=request.as_of,
        tables=request.tables,
    )
    return stored.plan


def begun(lake: Lake) -> Plan:
    """The same, passed and begun, by a run that was killed before it committed."""
    services = lake.services()
    (passed, _), *_ = run_gate(services, [planned(lake)])
    return services.control.plans.move(passed, PlanState.APPLYING)


@pytest.fixture
def sql() -> Vacuuming:
    return Vacuuming()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VACUUM t", Vacuum(("t",))),
        ("vacuum lake.`a.b`.t retain 168 hours;", Vacuum(("lake", "a.b", "t"), 168)),
        ("VACUUM air.t RETAIN 0 HOURS DRY RUN", Vacuum(("air", "t"), 0, dry_run=True)),
        ("VACUUM t DRY RUN -- now", Vacuum(("t",), dry_run=True)),
    ],
)
def test_a_vacuum_is_read(text: str, expected: Vacuum) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "VACUUM",
        "VACUUM 't'",
        "VACUUM t RETAIN",
        "VACUUM t RETAIN 1.5 HOURS",
        "VACUUM t RETAIN -1 HOURS",
        "VACUUM t RETAIN 7 DAYS",
        "VACUUM t RETAIN 168",
        "VACUUM t DRY",
        "VACUUM t LITE",
    ],
)
def test_what_is_no_vacuum_is_refused_and_says_where(text: str) -> None:
    with pytest.raises(SqlUnreadable, match="line 1, column"):
        parse(text)


def test_without_retain_the_one_table_is_brought_to_its_policy(sql: Vacuuming) -> None:
    before = len(sql.other.snapshots)
    row = sql.row("VACUUM t")
    assert (row["table"], row["retained_hours"], row["state"]) == ("lake.air.t", 168, "ok")
    assert len(sql.table.snapshots) == 8 and row["snapshots_expired"] == TODAY - 8
    assert row["files_departed"] > 0 and row["files_purged"] == 0, "they wait in failsafe"
    assert len(sql.other.snapshots) == before, "nobody asked for the other table"
    assert "12 snapshots" in row["summary"]
    (run,) = [record for record in sql.lake.control.runs.newest(5) if record.summary]
    assert '"snapshots_expired": 12' in run.summary


def test_the_same_as_a_run_over_that_table(sql: Vacuuming) -> None:
    sql("VACUUM t")
    twin = Vacuuming()
    twin.lake.run(tables=("lake.air.t",))
    assert len(twin.table.snapshots) == len(sql.table.snapshots)
    assert sorted(twin.lake.waiting().values()) == sorted(sql.lake.waiting().values())


def test_more_hours_than_the_policy_keep_more_and_the_gate_agrees(sql: Vacuuming) -> None:
    row = sql.row(f"VACUUM t RETAIN {15 * 24} HOURS")
    assert (row["retained_hours"], row["state"]) == (15 * 24, "ok")
    assert len(sql.table.snapshots) == 16 and row["snapshots_expired"] == TODAY - 16
    (plan,) = sql.lake.control.plans.find()
    assert plan.window_start == plan.as_of - 15 * DAY and plan.state is PlanState.APPLIED


@pytest.mark.parametrize("hours", [0, 1, HOURS_OF_POLICY - 1])
def test_fewer_hours_than_the_policy_are_refused_and_nothing_is_started(
    sql: Vacuuming, hours: int
) -> None:
    with pytest.raises(RetentionOutOfRange, match="7 days, by profile") as refused:
        sql(f"VACUUM t RETAIN {hours} HOURS")
    assert "at least 168 hours" in refused.value.expected
    assert sql.opened == [] and len(sql.table.snapshots) == TODAY


def test_as_many_hours_as_the_policy_are_not_too_few(sql: Vacuuming) -> None:
    assert sql.row(f"VACUUM t RETAIN {HOURS_OF_POLICY} HOURS")["snapshots_expired"] == TODAY - 8


def test_the_policy_that_refuses_is_the_nearest_one_and_named(sql: Vacuuming) -> None:
    namespace = {RETENTION: "30"}
    sql.lake.catalogs["lake"].set_namespace_properties(("air",), namespace)
    with pytest.raises(RetentionOutOfRange, match=r"30 days, by lake\.air"):
        sql("VACUUM t RETAIN 719 HOURS")
    sql.table.configure(meltline__retention_days="10")
    assert sql.row("VACUUM t RETAIN 240 HOURS")["retained_hours"] == 240


def test_a_retention_for_ever_is_longer_than_any_hours() -> None:
    profile = replace(business().profile, max_days=None)
    sql = Vacuuming(Lake(account=replace(business(retention_days="infinite"), profile=profile)))
    with pytest.raises(RetentionOutOfRange, match="infinite"):
        sql("VACUUM t RETAIN 8000000 HOURS")
    assert sql.row("VACUUM t")["retained_hours"] is None


@pytest.mark.parametrize("hours", [24 * 365_000 + 1, 10**40])
def test_hours_that_leave_the_calendar_are_refused(sql: Vacuuming, hours: int) -> None:
    with pytest.raises(RetentionOutOfRange, match="RETAIN") as refused:
        sql(f"VACUUM t RETAIN {hours} HOURS")
    assert refused.value.expected == "at most 8760000 hours"
    assert len(sql.table.snapshots) == TODAY


def test_the_most_hours_keep_everything(sql: Vacuuming) -> None:
    assert sql.row(f"VACUUM t RETAIN {24 * 365_000} HOURS")["snapshots_expired"] == 0


def test_what_an_earlier_run_planned_by_the_policy_is_not_committed_in_the_longer_window(
    sql: Vacuuming,
) -> None:
    plan = begun(sql.lake)
    row = sql.row(f"VACUUM t RETAIN {15 * 24} HOURS")
    assert row["snapshots_expired"] == TODAY - 16 and len(sql.table.snapshots) == 16
    assert sql.lake.control.plans.get(plan.id).state is PlanState.STALE


def test_a_table_whose_plan_goes_stale_is_planned_anew_with_the_same_window(
    sql: Vacuuming,
) -> None:
    oldest = sql.table.snapshots[0]
    sql.changes = {"committer": TaggedMeanwhile(sql.table, oldest)}
    row = sql.row(f"VACUUM t RETAIN {15 * 24} HOURS")
    assert row["state"] == "ok" and row["snapshots_expired"] == TODAY - 17
    assert len(sql.table.snapshots) == 17 and oldest in sql.table.snapshots
    stale, applied = sorted(sql.lake.control.plans.find(), key=lambda plan: -len(plan.snapshots))
    assert (stale.state, applied.state) == (PlanState.STALE, PlanState.APPLIED)
    assert applied.window_start == stale.window_start == applied.as_of - 15 * DAY


def test_the_gate_holds_a_plan_against_the_longer_window_by_itself(sql: Vacuuming) -> None:
    # Planned by the policy, and said to be planned with more: the plan broke its own word.
    plan = replace(planned(sql.lake), window_start=T0 + (TODAY - 15) * DAY)
    ((_, verdict),) = run_gate(sql.lake.services(), [plan])
    assert [f.fact for f in verdict.failed] == ["planned_in_window"]


def test_a_policy_that_is_longer_by_now_counts_and_no_other_table_is_meant() -> None:
    t, u = TableName("lake", ("air",), "t"), TableName("lake", ("air",), "u")
    week = Retention(window=7 * DAY, failsafe=DAY, source="profile")
    longer = LongerWindow.of_hours(t, 240, week)
    month = replace(week, window=30 * DAY)
    for_ever = replace(week, window=None)
    assert longer.over(t, week).window == 10 * DAY and longer.over(u, week) == week
    assert longer.over(t, month) == month and longer.over(t, for_ever) == for_ever


def test_a_dry_run_says_what_would_be_done_and_does_nothing(sql: Vacuuming) -> None:
    row = sql.row("VACUUM t RETAIN 240 HOURS DRY RUN")
    assert row["state"] == "dry run" and "would expire" in row["summary"]
    assert len(sql.table.snapshots) == TODAY and sql.lake.control.runs.newest(5) == []


def test_a_catalog_that_nobody_armed_loses_nothing_and_says_what_would_go() -> None:
    sql = Vacuuming(Lake(is_armed=False))
    row = sql.row("VACUUM t")
    assert row["state"] == "not armed" and "would have expired 12 snapshots" in row["summary"]
    assert len(sql.table.snapshots) == TODAY


def test_a_hold_keeps_the_table_as_ever(sql: Vacuuming) -> None:
    add_hold(sql.lake.services(), "lake.air.t", reason="case 17")
    sql("VACUUM t")
    assert len(sql.table.snapshots) == TODAY


def test_files_past_their_failsafe_are_purged_by_it(sql: Vacuuming) -> None:
    sql("VACUUM t")
    sql.lake.clock.moment += timedelta(days=8)
    row = sql.row("VACUUM t RETAIN 1000 HOURS")
    assert row["files_purged"] > 0 and row["snapshots_expired"] == 0


def test_a_table_that_is_left_alone_says_so(sql: Vacuuming) -> None:
    sql.table.configure(meltline__enabled="false")
    outcome = sql("VACUUM t")
    assert outcome.read is not None and outcome.read.rows[0][-2] == "not managed"
    assert outcome.exit_code == 4 and "nothing of them is touched" in outcome.warnings[0]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", TableNotFound),
        ("lake.meltline.files", CatalogReadOnly),
        ("other.air.x", CatalogReadOnly),
    ],
)
def test_what_cannot_be_vacuumed_is_refused(name: str, error: type[MeltlineError]) -> None:
    sql = Vacuuming(Lake(other_catalogs=("other",)))
    with pytest.raises(error):
        sql(f"VACUUM {name}")
    assert sql.opened == []


def test_a_name_that_picks_other_tables_too_is_refused(sql: Vacuuming) -> None:
    sql.lake.table("lake.air.`t*`")
    sql.lake.table("lake.air.`t x`")
    with pytest.raises(UsageInvalid, match="other tables") as refused:
        sql("VACUUM `t*`")
    assert refused.value.found == "lake.air.`t x`" and sql.opened == []
