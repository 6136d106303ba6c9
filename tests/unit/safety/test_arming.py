"""A catalog that nobody has armed: runs plan, judge and report there, and destroy nothing."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.app.chunks.policies import PolicyWish, add_policy
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.run import run_chunk_step
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.expire.expire import apply_expirations
from meltline.app.purge.purge import apply_purges
from meltline.app.run.lifecycle import run_step
from meltline.app.run.recap import not_armed_line
from meltline.app.run.run_document import merge
from meltline.app.run.steps import CHUNK_STEPS, EVERY_STEP, STEPS, SWEEP, Step
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ARMED, SANDBOX_MARK, ArmingCheck
from meltline.app.safety.preconditions import require_generation
from meltline.app.safety.switches import arm, disarm
from meltline.app.services import SweepServices
from meltline.cli.install.ledgers import about_arming
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import CatalogUnlistable, LedgerOutOfStep, NotArmed, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.ports import DeleteOutcome
from tests.chunks.chunk_tables import ChunkTable, chunk_table, reading
from tests.lake.lake import ROOMY, WAREHOUSE, Lake
from tests.lake.swept import Swept, a_lake
from tests.lives.restored_ledgers import backup_of, restore
from tests.unit.house.test_layout import ROOT
from tests.unit.plan.test_guards import two_tables_in_failsafe

APPS = sorted(path.stem for path in (ROOT / "spark_apps").glob("*.py"))
DESTROYING = {"observe", "expire", "purge", "sweep", "drop_chunks"}
"""Apps after which something is gone, or on its way: dropped tables are let go by `observe`."""

SPACE = ("meltline",)
CHUNKED = "lake.air.chunked"


@dataclass(frozen=True)
class Holdings:
    """What a lake has, what of it main refers to, and what waits to be deleted."""

    snapshots: frozenset[tuple[str, int]]
    tables: frozenset[str]
    files: frozenset[str]
    waiting: frozenset[str]
    chunks: frozenset[str]

    @classmethod
    def of(cls, lake: Lake) -> "Holdings":
        at = lake.catalogs["lake"]._tables
        documents = {str(name): lake.document(place) for name, place in at.items()}
        return cls(
            frozenset(
                (name, s["snapshot-id"]) for name, d in documents.items() for s in d["snapshots"]
            ),
            frozenset(documents),
            frozenset(lake.paths()),
            frozenset(lake.waiting()),
            frozenset(ChunkTable(lake, TableName.parse(CHUNKED)).chunks_now()),
        )

    def lost(self, after: "Holdings") -> Collection[object]:
        """What is gone since, and what waits to go."""
        gone = (self.snapshots - after.snapshots) | (self.tables - after.tables)
        gone |= self.chunks - after.chunks
        return gone | (self.files - after.files) | (after.waiting - self.waiting)


def all_due() -> Swept:
    """On day 30 there are snapshots to expire, files to purge and to sweep, a drop to finalize.

    And two chunks of three to drop from hot.
    """
    swept = Swept(a_lake(has_cold=True))
    lake, table = swept.lake, swept.lake.table("one")
    chunked = chunk_table(lake, CHUNKED)
    chunked.append_rows(*(reading(id, 12 * id) for id in range(3)))
    start_sync(lake.services(), chunked.name)
    add_policy(lake.services(), chunked.name, PolicyWish(PolicyType.RETENTION, drop_after="9d"))
    swept.leave("left behind", day=0)
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12).run()
    swept.sweep(12)
    for day in range(13, 16):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.table("empty")
    drop(lake.services(), "lake.air.empty")
    lake.on(30)
    return swept


def taken_by(app: str, swept: Swept) -> Collection[object]:
    """What an app takes in a run of every step."""
    request, taken = swept.lake.request("night"), set[object]()
    for step in EVERY_STEP:
        before = Holdings.of(swept.lake)
        done_by(step, swept.services(), request)
        if app == (step.app or step.name):
            taken |= set(before.lost(Holdings.of(swept.lake)))
    return taken


def the_run(swept: Swept, steps: Sequence[Step] = STEPS, **asked: Any) -> list[Summary]:
    """The steps of one run, each in a process of its own as under Airflow."""
    request: RunRequest = replace(swept.lake.request(), **asked)
    services = swept.services(run_id=request.run_id)
    return [done_by(step, services, request) for step in steps]


def done_by(step: Step, services: SweepServices, request: RunRequest) -> Summary:
    """What the step's app does."""
    run = run_chunk_step if step in CHUNK_STEPS else run_step
    return run(step, services, request)


def documents(summaries: Sequence[Summary]) -> dict[str, Any]:
    return merge([summary.as_json() for summary in summaries])


# --- what an unarmed catalog holds back ----------------------------------------------------------


@pytest.mark.parametrize("app", APPS)
def test_no_app_takes_anything_from_a_catalog_that_is_not_armed(app: str) -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    assert not taken_by(app, swept)


@pytest.mark.parametrize("app", APPS)
def test_of_an_armed_one_the_apps_that_destroy_do(app: str) -> None:
    assert bool(taken_by(app, all_due())) == (app in DESTROYING)


def test_an_unarmed_run_ends_well_and_its_first_line_says_what_it_would_have_done() -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    before = Holdings.of(swept.lake)
    summaries = the_run(swept, (*STEPS, SWEEP))
    assert {summary.exit_code for summary in summaries} == {0}
    document = documents(summaries)
    assert {plan["gate"] for plan in document["plans"]} == {"passed"}
    assert {plan["state"] for plan in document["plans"]} == {"passed"}
    line = document["recap"][0]
    assert line.startswith("not armed: would have expired 3 snapshots of 1 table, so that ")
    for part in ("deleted ", "had 1 file (", "let go 1 dropped table; `meltline arm lake --reason"):
        assert part in line
    assert not before.lost(Holdings.of(swept.lake))


def test_a_run_that_would_have_done_nothing_says_so_too() -> None:
    lake = Lake(is_armed=False)
    lake.table("t").append("a")
    line = not_armed_line(lake.run().as_json())
    assert line == "not armed: would have destroyed nothing; `meltline arm lake --reason TEXT`"
    assert not_armed_line(Lake().run().as_json()) == ""


def test_a_dry_run_says_that_it_is_not_armed_and_counts_what_it_planned() -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    steps = [step for step in STEPS if step.previews]
    document = documents(the_run(swept, steps, dry_run=True))
    assert "expired 3 snapshots of 1 table" in not_armed_line(document)


def test_what_waited_for_the_word_goes_by_the_next_run_after_it() -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    the_run(swept, (*STEPS, SWEEP))
    before = Holdings.of(swept.lake)
    arm(swept.lake.services(), "lake", "looked at the dry run")
    document = documents(the_run(swept, (*STEPS, SWEEP)))
    assert not not_armed_line(document)
    after = Holdings.of(swept.lake)
    for kind in ("snapshots", "tables", "files"):
        assert getattr(before, kind) - getattr(after, kind), kind
    assert after.waiting - before.waiting


def test_a_plan_that_is_applied_by_hand_is_refused_with_the_way_out() -> None:
    lake, _, plans = two_tables_in_failsafe()
    disarm(lake.services(), "lake")
    for result in apply_purges(lake.services(), plans):
        assert isinstance(result.error, NotArmed) and result.error.exit_code == 3
        assert "meltline arm lake --reason" in result.error.next and "--once" in result.error.next
    assert {lake.control.plans.get(plan.id).state for plan in plans} == {PlanState.PASSED}
    arm(lake.services(), "lake", "looked")
    assert [result.error for result in apply_purges(lake.services(), plans)] == [None, None]


# --- it is asked again each time -----------------------------------------------------------------


def test_a_step_that_is_tried_again_asks_again() -> None:
    swept = all_due()
    request = swept.lake.request()
    for step in STEPS[:4]:
        run_step(step, swept.services(), request)
    disarm(swept.lake.services(), "lake")
    before = Holdings.of(swept.lake)
    (expire,) = [step for step in STEPS if step.name == "expire"]
    summary = run_step(expire, swept.services(), request)
    assert not before.lost(Holdings.of(swept.lake)) and not_armed_line(summary.as_json())
    arm(swept.lake.services(), "lake", "looked")
    run_step(expire, swept.services(), request)
    assert before.lost(Holdings.of(swept.lake))


def test_what_is_disarmed_during_a_purge_takes_no_further_batch() -> None:
    slow = replace(ROOMY, delete_keys_per_second=1)  # a plan of 60 files is a batch of its own
    lake, _, plans = two_tables_in_failsafe(slow, files=40)
    plain = lake.deleter

    class DisarmingDeleter:
        def delete(
            self, files: Sequence[DepartedObject], keys_per_second: int
        ) -> Sequence[DeleteOutcome]:
            disarm(lake.services(), "lake")
            return plain.delete(files, keys_per_second)

    done = apply_purges(lake.services(deleter=DisarmingDeleter()), plans)
    assert len({path.rpartition("/data/")[0] for path in plain.deleted if "/data/" in path}) == 1
    assert sorted(type(result.error) for result in done if result.error) == [NotArmed]


# --- whose word counts ---------------------------------------------------------------------------


def without_the_property(lake: Lake) -> None:
    lake.catalogs["lake"].set_namespace_properties(SPACE, {}, [ARMED])


def with_another_s_property(lake: Lake) -> None:
    lake.catalogs["lake"].set_namespace_properties(SPACE, {ARMED: "another word"})


def without_the_row(lake: Lake) -> None:
    lake.control.switch.arm(None)


def of_another_catalog(lake: Lake) -> None:
    word = lake.control.switch.arming()
    assert word is not None
    lake.control.switch.arm(replace(word, catalog="before"))


def of_another_warehouse(lake: Lake) -> None:
    word = lake.control.switch.arming()
    assert word is not None
    lake.control.switch.arm(replace(word, warehouse="s3://before"))


@pytest.mark.parametrize(
    "change",
    [
        without_the_property,
        with_another_s_property,
        without_the_row,
        of_another_catalog,
        of_another_warehouse,
    ],
)
def test_ledger_and_catalog_must_both_have_the_word_for_this_warehouse(
    change: Callable[[Lake], None],
) -> None:
    lake, _, plans = two_tables_in_failsafe()
    change(lake)
    assert all(isinstance(r.error, NotArmed) for r in apply_purges(lake.services(), plans))
    assert not lake.deleter.deleted
    assert "not_armed" in {finding.code for finding in examine(lake.services())}


def test_an_armed_catalog_is_nothing_to_report() -> None:
    assert "not_armed" not in {finding.code for finding in examine(Lake().services())}


def test_nothing_goes_while_the_catalog_does_not_say_whether_it_is_armed() -> None:
    lake, _, plans = two_tables_in_failsafe()
    lake.catalogs["lake"].unlistable = "no answer"
    done = apply_purges(lake.services(), plans)
    assert all(isinstance(result.error, CatalogUnlistable) for result in done)
    assert not lake.deleter.deleted


def test_the_mark_of_a_sandbox_arms_it_and_the_configuration_alone_does_not() -> None:
    lake = Lake(is_armed=False)
    assert ArmingCheck.of(lake.services()).refusal()
    lake.store.write(f"{WAREHOUSE}/{SANDBOX_MARK}", b"")
    assert not ArmingCheck.of(lake.services()).refusal()
    lake.sandbox = False
    assert ArmingCheck.of(lake.services()).refusal()


def test_init_doctor_and_the_first_line_of_a_run_say_that_a_sandbox_is_armed() -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    assert about_arming(ArmingCheck.of(swept.lake.services())).startswith("Runs only report")
    swept.lake.store.write(f"{WAREHOUSE}/{SANDBOX_MARK}", b"")
    services = swept.lake.services()
    assert "armed: sandbox" in about_arming(ArmingCheck.of(services))
    said = {finding.code: finding for finding in examine(services)}
    assert said["armed_sandbox"].level == "info" and "not_armed" not in said
    assert "armed: sandbox" in said["armed_sandbox"].message
    document = documents(the_run(swept))
    assert document["armed"] == "sandbox"
    assert document["recap"][0].startswith("armed: sandbox; 3 snapshots of `lake.air.one` expired")
    chunks = documents(the_run(swept, CHUNK_STEPS))
    assert chunks["recap"][0].startswith("armed: sandbox; ")


def test_what_a_person_armed_is_not_called_a_sandbox() -> None:
    lake = Lake()
    assert about_arming(ArmingCheck.of(lake.services())) == ""
    assert "armed_sandbox" not in {finding.code for finding in examine(lake.services())}
    assert lake.run().as_json()["recap"] == ["nothing was done"]


def test_a_manual_run_may_go_once_by_a_reason_which_the_audit_has_once() -> None:
    swept = all_due()
    disarm(swept.lake.services(), "lake")
    before = Holdings.of(swept.lake)
    document = documents(the_run(swept, once="the disk is full"))
    assert before.lost(Holdings.of(swept.lake)) and not not_armed_line(document)
    entries = [e for e in swept.lake.control.audit.entries() if e.action == "destroy once"]
    assert [(e.object, e.reason) for e in entries] == [("lake", "the disk is full")]
    assert ArmingCheck.of(swept.lake.services()).refusal()


def test_only_the_hot_catalog_can_be_armed_and_only_with_a_reason() -> None:
    lake = Lake(is_armed=False, other_catalogs=("theirs",))
    with pytest.raises(UsageInvalid, match="theirs"):
        arm(lake.services(), "theirs", "why not")
    with pytest.raises(UsageInvalid, match="reason"):
        arm(lake.services(), "lake", " ")
    with pytest.raises(UsageInvalid, match="theirs"):
        disarm(lake.services(), "theirs")
    assert lake.control.switch.arming() is None


def test_who_armed_it_and_why_stands_in_the_catalog_and_in_the_audit() -> None:
    lake = Lake(is_armed=False)
    arming = arm(lake.services(), "lake", "  looked at the dry run ")
    stated = lake.catalogs["lake"].listing().namespaces[SPACE][ARMED]
    assert arming.is_in(stated) and stated.endswith(" tester: looked at the dry run")
    assert [(e.who, e.reason) for e in lake.control.audit.entries() if e.action == "arm"] == [
        ("tester", "looked at the dry run")
    ]


class Silent:
    """A catalog that does not answer who would change it."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("no answer")


# --- what takes it back --------------------------------------------------------------------------


def test_a_catalog_that_does_not_answer_is_disarmed_all_the_same_and_that_is_said() -> None:
    lake = Lake()
    done = disarm(lake.services(editors={"lake": Silent()}), "lake")
    assert isinstance(done.unnoted, CatalogUnlistable)
    assert ArmingCheck.of(lake.services()).refusal()
    assert disarm(lake.services(), "lake").unnoted is None


def test_a_catalog_that_was_not_told_is_not_armed() -> None:
    lake = Lake(is_armed=False)
    with pytest.raises(CatalogUnlistable):
        arm(lake.services(editors={"lake": Silent()}), "lake", "why not")
    assert lake.control.switch.arming() is None


def test_a_backup_from_before_it_was_disarmed_does_not_arm_it_again() -> None:
    lake = Lake()
    before = backup_of(lake)
    disarm(lake.services(), "lake")
    restore(lake, before)
    with pytest.raises(LedgerOutOfStep):
        require_generation(lake.services())
    with pytest.raises(NotArmed):
        ArmingCheck.of(lake.services()).require()


def test_a_ledger_that_is_adopted_is_not_armed() -> None:
    lake = Lake()
    before = backup_of(lake)
    arm(lake.services(), "lake", "once more")
    restore(lake, before)
    assert init(lake.services(), adopt=True).adopted
    assert lake.control.switch.arming() is None
    assert ARMED not in lake.catalogs["lake"].listing().namespaces[SPACE]
    with pytest.raises(NotArmed):
        ArmingCheck.of(lake.services()).require()


def test_expirations_ask_too_and_leave_their_plans_unbegun() -> None:
    swept = all_due()
    request = swept.lake.request()
    for step in STEPS[:4]:
        run_step(step, swept.services(), request)
    (plan,) = swept.lake.control.plans.find(run_id=request.run_id)
    without_the_row(swept.lake)
    (done,) = apply_expirations(swept.services(), [plan])
    assert isinstance(done.error, NotArmed)
    assert swept.lake.control.plans.get(plan.id).state is PlanState.PASSED


def test_a_word_is_for_the_warehouse_as_it_was_spelled_with_a_slash_or_without() -> None:
    lake = Lake()
    config = lake.config()
    hot = replace(config.catalogs["lake"], warehouse=f"{WAREHOUSE}/")
    context = lake.services(config=replace(config, catalogs={**config.catalogs, "lake": hot}))
    assert not ArmingCheck.of(context).refusal()
