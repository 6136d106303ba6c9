"""The DAG, run by Airflow for real with stand-ins for the apps: what runs, what is skipped, why."""

import gc
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_home import DAG_ID, AirflowHome
from tests.dags.project import STEPS, TASKS, Project, batches, plan, table

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("config"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

EXPIRY = {"plans": [plan("lake.air.t", "expire", "planned")], "batches": batches(1)}
PURGE = {"plans": [plan("lake.air.t", "purge", "planned")], "batches": batches(1)}
EXPIRED = {
    "plans": [plan("lake.air.t", "expire", "applied")],
    "tables": [table("lake.air.t", snapshots_expired=3, files_departed=7, bytes_departed=700)],
}
PURGED = {
    "plans": [plan("lake.air.t", "purge", "applied")],
    "tables": [table("lake.air.t", files_purged=7, bytes_purged=700)],
}
PASSED = {"gate": "passed"}
TWO = {
    "plan_expiration": {
        "plans": [
            plan("lake.air.t", "expire", "planned") | {"batch": 1},
            plan("lake.air.u", "expire", "planned") | {"batch": 2},
        ],
        "batches": batches(1, 1),
    },
    "gate_expiration 1": {"plans": [plan("lake.air.t", "expire", "passed") | PASSED]},
    "gate_expiration 2": {"plans": [plan("lake.air.u", "expire", "passed") | PASSED]},
    "expire 1": EXPIRED,
    "expire 2": {
        "plans": [plan("lake.air.u", "expire", "applied")],
        "tables": [table("lake.air.u", snapshots_expired=1)],
    },
}
FULL = {"plan_expiration": EXPIRY, "expire": EXPIRED, "plan_purge": PURGE, "purge": PURGED}
ALL_APPS = [step for step in STEPS if step != "verdict"]


class Chain:
    """Runs the DAG and tells what came of it."""

    def __init__(self, project: Project, dags: Path) -> None:
        self.project = project
        self.dags = dags
        self.run: Any = None

    def go(self, answers: dict[str, Any], **conf: Any) -> str:
        """Runs it once, as a manual run without logical date; returns its state."""
        self.project.answer(**answers)
        self.run = self._dag().test(logical_date=None, run_conf=conf)
        gc.collect()  # the provider leaves its pipes open: let that be said here, not later
        return str(self.run.state.value)

    def _dag(self) -> Any:
        """Loaded anew for each run, as Airflow does: a run's parameters stay in the object."""
        from airflow.dag_processing.dagbag import DagBag

        dag = DagBag(dag_folder=self.dags).dags[DAG_ID]
        for task in dag.tasks:
            task.retry_delay = timedelta(0)
        return dag

    @property
    def states(self) -> dict[str, str]:
        return {ti.task_id: str(ti.state) for ti in self.run.get_task_instances()}

    def state_of(self, task: str, index: int) -> str:
        found = [ti for ti in self.run.get_task_instances() if ti.task_id == task]
        return str(next(ti.state for ti in found if ti.map_index == index))

    def states_by_batch(self, task: str) -> dict[str, str]:
        """By the names that a person sees in the UI."""
        found = [ti for ti in self.run.get_task_instances() if ti.task_id == task]
        return {ti.rendered_map_index: str(ti.state) for ti in found}

    def events(self) -> list[list[str]]:
        """What the asset events of the run say that it did."""
        from airflow import settings
        from airflow.models.asset import AssetEvent
        from sqlalchemy import select

        with settings.Session() as session:
            rows = session.scalars(
                select(AssetEvent).where(AssetEvent.source_run_id == self.run.run_id)
            )
            return [event.extra["recap"] for event in rows]

    @property
    def started(self) -> list[str]:
        return list(self.project.calls())

    def xcom(self, task: str) -> Any:
        from airflow import settings
        from airflow.models.xcom import XComModel

        rows = XComModel.get_many(
            run_id=self.run.run_id, task_ids=task, dag_ids=DAG_ID, key="return_value"
        )
        with settings.Session() as session:
            found = session.scalars(rows).first()
            value = found and XComModel.deserialize_value(found)
        return json.loads(value) if isinstance(value, str) else value


@pytest.fixture
def chain(project: Project, airflow: AirflowHome) -> Chain:
    return Chain(project, airflow.project / "dags")


def test_with_work_to_do_every_app_runs_in_order(chain: Chain) -> None:
    assert chain.go(FULL) == "success"
    assert chain.started == ALL_APPS
    assert chain.states == {**dict.fromkeys(TASKS, "success"), "ask_for_approval": "skipped"}
    assert chain.xcom("expire")["tables"] == EXPIRED["tables"]


def test_the_verdict_hands_on_the_whole_run_as_one_document(chain: Chain) -> None:
    chain.go(FULL)
    document = chain.xcom("verdict")
    assert document["run_id"] == chain.run.run_id
    assert document["tables"] == [
        table(
            "lake.air.t",
            snapshots_expired=3,
            files_departed=7,
            bytes_departed=700,
            files_purged=7,
            bytes_purged=700,
        )
    ]
    assert document["recap"] == [
        "3 snapshots of `lake.air.t` expired; 7 files, 700 B of `lake.air.t` began to wait; "
        "7 files, 700 B of `lake.air.t` deleted"
    ]
    assert chain.events() == [document["recap"]]
    assert {p["id"]: p["state"] for p in document["plans"]} == {
        "expire-lake.air.t": "applied",
        "purge-lake.air.t": "applied",
    }


def test_with_nothing_to_do_no_gate_and_no_destructive_app_is_started(chain: Chain) -> None:
    assert chain.go({}) == "success"
    apps = ["observe", "hand_off_to_cold", "plan_expiration", "plan_purge", "report"]
    assert chain.started == apps
    skipped = [step for step, state in chain.states.items() if state == "skipped"]
    assert sorted(skipped) == [
        "ask_for_approval",
        "expire",
        "gate_expiration",
        "gate_purge",
        "purge",
    ]


def test_nothing_to_expire_does_not_hold_up_a_purge(chain: Chain) -> None:
    assert chain.go({"plan_purge": PURGE, "purge": PURGED}) == "success"
    assert chain.started[-4:] == ["plan_purge", "gate_purge", "purge", "report"]
    assert "expire" not in chain.started


def test_what_an_earlier_run_left_half_done_is_gone_on_with(chain: Chain) -> None:
    assert chain.go({"plan_expiration": {"batches": batches(1)}}) == "success"
    assert "gate_expiration" in chain.started
    assert "expire" in chain.started
    assert "purge" not in chain.started


@pytest.mark.parametrize("gate, step", [("gate_expiration", "expire"), ("gate_purge", "purge")])
def test_a_gate_that_crashes_has_not_passed(chain: Chain, gate: str, step: str) -> None:
    assert chain.go({**FULL, gate: "crash"}) == "failed"
    assert chain.started.count(gate) == 1
    assert step not in chain.started
    assert chain.states[gate] == "failed"
    assert chain.states[step] == "failed"
    assert f"never ran: {step} (batch 1)" in str(chain.xcom("verdict")["complaints"])


def test_each_batch_goes_through_its_own_gate_and_its_own_step(chain: Chain) -> None:
    assert chain.go(TWO) == "success"
    told = [(step, words.get("batch")) for step, words in chain.project.every_call()]
    assert sorted(told[3:7]) == [
        ("expire", "1"), ("expire", "2"), ("gate_expiration", "1"), ("gate_expiration", "2"),
    ]  # fmt: skip
    assert all(told.index(("gate_expiration", n)) < told.index(("expire", n)) for n in "12")
    assert [step for step, _ in told[7:]] == ["plan_purge", "report"]
    assert chain.states_by_batch("gate_expiration") == {
        f"batch {number} of 2: 1 plan: 1 plan passed": "success" for number in (1, 2)
    }
    assert chain.states_by_batch("expire") == {
        "batch 1 of 2: 1 plan: 3 snapshots of `lake.air.t` expired; "
        "7 files, 700 B of `lake.air.t` began to wait": "success",
        "batch 2 of 2: 1 plan: 1 snapshot of `lake.air.u` expired": "success",
    }
    assert chain.xcom("verdict")["tables"] == [
        table("lake.air.t", snapshots_expired=3, files_departed=7, bytes_departed=700),
        table("lake.air.u", snapshots_expired=1),
    ]


@pytest.mark.parametrize("broken", ["gate_expiration 1", "expire 1"])
def test_a_batch_that_fails_does_not_stop_another_one(chain: Chain, broken: str) -> None:
    assert chain.go({**TWO, broken: "crash"}) == "failed"
    assert chain.state_of("expire", 1) == "success"
    assert "success" not in {chain.state_of("expire", 0), chain.states["plan_purge"]}
    assert chain.states["verdict"] == "failed"
    tables = {t["table"]: t["snapshots_expired"] for t in chain.xcom("verdict")["tables"]}
    assert tables == {"lake.air.u": 1}


def test_a_batch_that_is_refused_does_not_stop_another_one(chain: Chain) -> None:
    refused = {"tables": [table("lake.air.t", refused="too much at once")]}
    assert chain.go({**TWO, "gate_expiration 1": refused, "expire 1": {}}) == "failed"
    assert set(chain.states_by_batch("expire").values()) == {"success"}
    assert chain.started[-2:] == ["plan_purge", "report"]
    lines = {t["table"]: t["refused"] for t in chain.xcom("verdict")["tables"]}
    assert lines == {"lake.air.t": "too much at once", "lake.air.u": None}


def test_nothing_destructive_follows_an_observation_that_crashed(chain: Chain) -> None:
    assert chain.go({**FULL, "observe": "crash"}) == "failed"
    assert chain.started == ["observe"]
    assert chain.states["verdict"] == "failed"


def test_tables_that_were_skipped_or_refused_fail_the_run_at_its_end(chain: Chain) -> None:
    answers = {
        **FULL,
        "observe": {"tables": [table("lake.air.u", skipped="its manifest is corrupt")]},
        "gate_purge": {"tables": [table("lake.air.v", refused="too much at once")]},
    }
    assert chain.go(answers) == "failed"
    assert chain.started == ALL_APPS
    assert chain.states["verdict"] == "failed"
    assert [t["table"] for t in chain.xcom("verdict")["tables"]] == [
        "lake.air.t", "lake.air.u", "lake.air.v",
    ]  # fmt: skip


def test_a_dry_run_plans_and_changes_nothing(chain: Chain) -> None:
    assert chain.go(FULL, dry_run=True) == "success"
    steps = ["observe", "hand_off_to_cold", "plan_expiration", "plan_purge"]
    assert chain.started == steps
    assert all("dry-run" in words for words in chain.project.calls().values())


def test_each_app_is_told_the_run_its_day_and_where_the_configuration_is(
    chain: Chain, config: Path
) -> None:
    before = datetime.now(UTC)
    chain.go(FULL, tables="lake.air.*", as_of="2026-01-05T00:00:00Z")
    for step, words in chain.project.calls().items():
        assert words["config"] == str(config), step
        assert words["run-id"] == chain.run.run_id
        assert words["as-of"] == "2026-01-05T00:00:00Z"
        assert words["tables"] == "lake.air.*"
        assert not Path(words["summary"]).exists()  # nothing stays behind
    assert chain.run.run_after >= before
    assert chain.project.calls()["gate_expiration"]["kind"] == "expire"
    assert chain.project.calls()["gate_purge"]["kind"] == "purge"


def test_without_a_logical_date_the_day_is_now(chain: Chain) -> None:
    chain.go({})  # without parameters
    told = {words["as-of"] for words in chain.project.calls().values()}
    assert len(told) == 1
    as_of = datetime.fromisoformat(told.pop())
    assert abs((as_of - chain.run.run_after).total_seconds()) < 0.01


def test_only_what_plans_and_does_the_purge_is_told_of_an_approval(chain: Chain) -> None:
    chain.go(FULL, approve_over_limit=True, reason="-- agreed with finance")
    told = {step: words.get("approve") for step, words in chain.project.calls().items()}
    assert {step for step, reason in told.items() if reason} == {"plan_purge", "purge"}
    assert told["purge"] == "-- agreed with finance"
