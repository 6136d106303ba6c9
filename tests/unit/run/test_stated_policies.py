"""Policies of a catalog's own store: beside our properties, and where they cannot be obeyed."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.retention.policies import show_policies
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.run.summary import Summary
from meltline.app.services import RunContext
from meltline.app.storage.explain import explain_path, explain_table
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import PolicyUnread
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.retention.policy import RETENTION
from meltline.ports import CommitOutcome, Committer
from tests.lake.lake import Lake, Table, business
from tests.lake.swept import Swept
from tests.unit.run.store_by_hand import UNREAD, StoreByHand, expiry, removal

DAYS = 20


@dataclass
class Stated:
    """A lake on day 20 with a table of a snapshot a day, and the store that its server has."""

    lake: Lake = field(default_factory=Lake)
    store: StoreByHand = field(default_factory=StoreByHand)

    def __post_init__(self) -> None:
        self.table = self.daily("t")

    def daily(self, name: str) -> Table:
        """A table that is overwritten every day."""
        table = self.lake.on(0).table(name)
        for day in range(DAYS):
            self.lake.on(day)
            table.overwrite(f"{name}{day}")
        self.lake.on(DAYS)
        return table

    def services(self, **changes: Any) -> RunContext:
        return self.lake.services(policy_stores={"lake": self.store}, **changes)

    def run(self, **changes: Any) -> Summary:
        return self.lake.run(services=self.services(**changes))

    def kept(self) -> int:
        """How many snapshots a run leaves."""
        self.run()
        return len(self.table.snapshots)

    def shown(self) -> tuple[object, str]:
        """What `policy show` says of the table's retention, and who says so."""
        services = self.services()
        lines = show_policies(services, find_object(services, "lake.air.t", ObjectKind.TABLE))
        return next((line.effective, line.source) for line in lines if line.key == RETENTION)


@pytest.fixture
def stated() -> Stated:
    return Stated()


@pytest.mark.parametrize("days", [0, 2, 7, 15])
def test_an_age_of_the_store_is_the_window_where_nobody_else_says_one(
    stated: Stated, days: int
) -> None:
    stated.store.now["t"] = expiry(days)
    assert stated.shown() == (days, "Polaris policy p")
    assert stated.kept() == days + 1


def test_a_store_that_says_nothing_leaves_all_as_it_is(stated: Stated) -> None:
    stated.store.now["t"] = removal(30)
    assert stated.kept() == 8 and stated.shown() == (7, "profile")


def test_a_property_of_ours_on_the_table_or_around_it_goes_first(stated: Stated) -> None:
    stated.store.now["t"] = expiry(2)
    stated.lake.catalogs["lake"].set_namespace_properties(("air",), {RETENTION: "10"})
    assert stated.shown() == (10, "lake.air")
    assert stated.kept() == 11
    stated.table.configure(meltline__retention_days="9")
    stated.store.now["t"] = expiry(enabled=False)
    assert stated.kept() == 10 and stated.shown() == (9, "lake.air.t")


def test_the_account_comes_after_the_store_but_for_its_least() -> None:
    stated = Stated(Lake(account=business(retention_days=12)))
    stated.store.now["t"] = expiry(4)
    assert stated.shown() == (4, "Polaris policy p")
    services = stated.lake.catalogs["lake"]
    services.set_namespace_properties(("meltline",), {"meltline.min-retention-days": "6"})
    assert stated.shown() == (6, "account") and stated.kept() == 7


def test_beside_a_word_that_is_out_of_order_the_longer_one_holds(stated: Stated) -> None:
    stated.table.configure(meltline__retention_days="nonsense")
    stated.store.now["t"] = expiry(2)
    assert stated.kept() == DAYS  # what cannot be read is as long as the profile allows
    strict = Stated(
        Lake(account=replace(business(), profile=replace(business().profile, min_days=3)))
    )
    strict.store.now["t"] = expiry(1)
    assert strict.shown() == (7, "profile") and strict.kept() == 8


def test_an_age_beyond_the_profile_or_the_calendar_is_kept_all_the_same(stated: Stated) -> None:
    stated.store.now["t"] = expiry(400)
    assert stated.shown() == (400, "Polaris policy p")
    stated.store.now["t"] = expiry(10**9)
    assert stated.shown() == ("infinite", "Polaris policy p") and stated.kept() == DAYS


@pytest.mark.parametrize("odd", [{"enabled": False}, {"problem": "cannot be read"}])
def test_what_is_turned_off_or_not_understood_expires_no_snapshot_and_no_ref(
    stated: Stated, odd: dict[str, Any]
) -> None:
    stated.table.tag("old", stated.table.snapshots[0], **{"max-ref-age-ms": 1})
    stated.store.now["t"] = expiry(1, **odd)
    summary = stated.run()
    assert len(stated.table.snapshots) == DAYS and "old" in stated.table.refs
    assert summary.exit_code == 0, "it is as somebody wants it"
    assert stated.shown() == ("infinite", "Polaris policy p")


def test_explain_names_the_policy_by_which_nothing_expires(stated: Stated) -> None:
    stated.store.now["t"] = expiry(1, enabled=False)
    stated.run()
    services = stated.services()
    oldest = stated.table.snapshots[0]
    (snapshot,) = explain_table(services, stated.table.name, oldest)
    assert "turned off by Polaris policy p" in snapshot.keep_reasons
    path = next(path for path in stated.lake.paths() if "/t0." in path)
    assert "turned off by Polaris policy p" in explain_path(services, path).keep_reasons


def test_a_policy_that_is_not_understood_is_found_by_the_doctor(stated: Stated) -> None:
    stated.store.now["t"] = expiry(problem="says what is not known here: key1")
    messages = [finding.message for finding in examine(stated.services())]
    assert any("key1; nothing expires" in message for message in messages)


def test_so_many_snapshots_of_a_branch_stay_as_it_says(stated: Stated) -> None:
    stated.store.now["t"] = expiry(0, least_snapshots=5)
    assert stated.kept() == 5


def test_a_table_whose_policies_cannot_be_read_is_skipped_and_others_go_on(stated: Stated) -> None:
    other = stated.daily("u")
    stated.store.now["t"] = UNREAD
    summary = stated.run()
    assert len(stated.table.snapshots) == DAYS and len(other.snapshots) == 8
    assert "HTTP 403" in summary.tables["lake.air.t"].skipped and summary.exit_code == 4
    assert not summary.tables["lake.air.u"].skipped


def test_nothing_of_such_a_table_is_purged_either(stated: Stated) -> None:
    stated.run()
    waiting = set(stated.lake.waiting())
    stated.lake.on(DAYS + 8)
    stated.store.now["t"] = UNREAD
    stated.run()
    assert waiting and stated.lake.deleter.deleted == []
    stated.store.now.clear()
    stated.run()
    assert waiting <= set(stated.lake.deleter.deleted)


def test_a_policy_that_is_longer_by_the_gate_refuses_the_plan_of_a_shorter_one(
    stated: Stated,
) -> None:
    stated.store.before["t"], stated.store.now["t"] = expiry(2), expiry(15)
    summary = stated.run()
    assert len(stated.table.snapshots) == DAYS
    assert "planned_in_window" in summary.tables["lake.air.t"].refused


@pytest.mark.parametrize(
    ("now", "facts"),
    [
        (expiry(enabled=False), {"planned_in_window", "planned_young_refs"}),
        (expiry(problem="odd"), {"planned_in_window", "planned_young_refs"}),
        (expiry(0, least_snapshots=5), {"planned_in_window"}),
        (UNREAD, {"planned_in_window", "planned_young_refs", "unreadable"}),
    ],
)
def test_the_gate_asks_by_itself(stated: Stated, now: Any, facts: set[str]) -> None:
    stated.table.tag("old", stated.table.snapshots[0], **{"max-ref-age-ms": 1})
    stated.store.before["t"], stated.store.now["t"] = expiry(0), now
    (planned,) = Run(stated.services(), stated.lake.request()).plan_expiration()
    ((_, verdict),) = run_gate(stated.services(), [planned.plan])
    assert planned.plan.refs == ("old",) and {f.fact for f in verdict.failed} == facts


@dataclass
class ChangedMeanwhile:
    """A committer before whose first commit the store says something else."""

    stated: Stated
    answer: Any
    has_changed: bool = False

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        if not self.has_changed:
            self.has_changed = True
            self.stated.store.now["t"] = self.answer
            self.stated.table.overwrite("late")  # the base has moved: all is checked once more
        return self._committer().expire(plan, base_location)

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return self._committer().confirm(plan)

    def withdraw(self, plan: Plan) -> bool:
        return self._committer().withdraw(plan)

    def _committer(self) -> Committer:
        return self.stated.lake.services().committer


@pytest.mark.parametrize("answer", [expiry(15), expiry(enabled=False), UNREAD])
def test_a_policy_that_changes_before_the_commit_is_seen_by_the_last_check(
    stated: Stated, answer: Any
) -> None:
    stated.store.now["t"] = stated.store.before["t"] = expiry(2)
    before = set(stated.table.snapshots)
    stated.run(committer=ChangedMeanwhile(stated, answer))
    assert before <= set(stated.table.snapshots)
    states = {plan.state for plan in stated.lake.control.plans.find()}
    assert PlanState.STALE in states and PlanState.APPLIED not in states


def test_what_the_store_says_is_what_a_dropped_table_keeps(stated: Stated) -> None:
    stated.store.now["t"] = UNREAD
    with pytest.raises(PolicyUnread):
        drop(stated.services(), "lake.air.t")
    stated.store.now["t"] = expiry(40)
    drop(stated.services(), "lake.air.t")
    stated.lake.on(DAYS + 39)
    stated.run()
    assert any("t" in str(e.name) for e in stated.lake.catalogs["lake"].listing().entries)


def test_a_retention_that_was_not_known_is_not_remembered_as_one(stated: Stated) -> None:
    stated.run()
    stated.store.now["t"] = UNREAD
    stated.run()
    (applied,) = (
        words["applied-retention-days"]
        for words in stated.lake.control.policies.all().values()
        if "applied-retention-days" in words
    )
    assert applied == "7"


def test_a_plan_asks_anew_for_no_table_but_those_it_changes(stated: Stated) -> None:
    stated.lake.table("quiet")
    stated.store.now["t"] = expiry(3)
    stated.run()
    assert set(stated.store.asked) == {"t"}


# --- orphans --------------------------------------------------------------------------------------


def orphaned(answer: Any, age: float = 5) -> tuple[set[str], Summary]:
    """What a second sweep lets go of one stray that was left, and seen, so many days before it."""
    swept, store = Swept(), StoreByHand()
    store.now["t"] = answer
    stray = swept.leave("stray.parquet", day=17 - age)
    services = swept.services(policy_stores={"lake": store})
    swept.sweep(17 - age, services)
    summary = swept.sweep(17, services)
    return swept.waiting() & {stray}, summary


def test_orphans_depart_where_the_store_says_nothing_of_them_or_a_shorter_age() -> None:
    for answer in (expiry(enabled=False), removal(), removal(0), removal(1)):
        departed, _ = orphaned(answer)
        assert len(departed) == 1, answer
    departed, _ = orphaned(removal(1), age=2)
    assert not departed, "our own minimum age is three days"


def test_orphans_are_as_old_as_the_store_wants_them() -> None:
    assert not orphaned(removal(6))[0]
    assert orphaned(removal(4))[0]
    assert not orphaned(removal(10**9))[0]


@pytest.mark.parametrize("answer", [removal(enabled=False), removal(problem="odd"), UNREAD])
def test_no_orphan_of_a_table_departs_where_that_is_turned_off_or_not_known(answer: Any) -> None:
    departed, summary = orphaned(answer)
    assert not departed
    told = " ".join([*summary.notes, *(t.skipped for t in summary.tables.values())])
    assert "Polaris policy p" in told or "HTTP 403" in told
