"""Two large purges in a real Airflow with real Spark: a person approves one and rejects the other.

The one that approves does so in a browser.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import WallClock
from meltline.ports import ControlLedger
from tests.dags.airflow_home import RunningAirflow, running_airflow
from tests.dags.browser.people import Person, chromium, take_picture
from tests.dags.small_lake import COMMITS, TABLES, LakeState, small_lake

pytestmark = [
    pytest.mark.slow("three runs of a real Airflow, and a browser"),
    pytest.mark.airflow,
    pytest.mark.spark,
]

APPROVAL = "meltline_approval"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("approvals")
    return small_lake(folder / "a lake", approve_above="1B")


@pytest.fixture(scope="module")
def airflow(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    with running_airflow(tmp_path_factory.mktemp("home") / "airflow") as running:
        running.set_variable("meltline_config", str(lake))
        running.unpause()
        running.until(lambda: running.runs("scheduled"), seconds=60)
        yield running


@pytest.fixture
def ledger(lake: Path) -> Iterator[ControlLedger]:
    opened = sql_control_ledger(f"sqlite:///{lake.parent}/control.db", WallClock())
    yield opened
    opened.database.close()


def questions(airflow: RunningAirflow) -> dict[str, dict[str, Any]]:
    """Each table's run that asks, with what it was started with."""
    asked = {}
    for run in airflow.runs(dag_id=APPROVAL):
        question = airflow.question(run["dag_run_id"], APPROVAL)
        (table,) = [name for name in TABLES if f"lake.air.{quoted(name)} " in question["subject"]]
        asked[table] = {**run["conf"], "run": run["dag_run_id"], "question": question}
    return asked


def quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def test_a_person_approves_one_purge_and_rejects_another_while_runs_go_on(
    airflow: RunningAirflow, lake: Path, ledger: ControlLedger
) -> None:
    first = airflow.finished(airflow.runs("scheduled")[0]["dag_run_id"])
    assert first["state"] == "success"
    document = airflow.xcom(first["dag_run_id"], "verdict")
    assert len(document["approvals"]) == len(TABLES) and "wait for approval" in str(
        document["recap"]
    )
    asked = questions(airflow)
    assert asked.keys() == set(TABLES)
    assert all(each["digest"] in each["question"]["body"] for each in asked.values())
    assert all(first["dag_run_id"] == each["found_by"] for each in asked.values())

    # A later run waits for nobody, plans nothing of it, and asks nothing again.
    later = airflow.finished(airflow.trigger())
    assert later["state"] == "success"
    assert airflow.xcom(later["dag_run_id"], "verdict")["plans"] == []
    assert len(airflow.runs(dag_id=APPROVAL)) == len(TABLES)
    assert LakeState.of(lake).data_files == dict.fromkeys(TABLES, COMMITS)

    approved, rejected = (asked[name] for name in TABLES)
    with chromium() as browser:
        question = Person.logged_in(browser, airflow).open_question(APPROVAL, approved["run"])
        expect(question.page.get_by_text(approved["digest"])).to_be_visible()
        take_picture(question.page, "question")
        question.answer("Approve", reason="-- agreed")
    airflow.answer(rejected["run"], APPROVAL, "Reject", reason="keep it")
    for each in (approved, rejected):
        ended = airflow.finished(each["run"], dag_id=APPROVAL)
        assert ended["state"] == "success", airflow.states(each["run"], APPROVAL)
    assert LakeState.of(lake).data_files == {TABLES[0]: 1, TABLES[1]: COMMITS}

    word = ledger.verdicts.approval(approved["plan"], approved["digest"])
    assert word is not None and (word.who, word.reason) == ("admin", "-- agreed")
    assert ledger.verdicts.approval(rejected["plan"], rejected["digest"]) is None
    no = ledger.verdicts.rejections([rejected["digest"]])[rejected["digest"]]
    assert (no.who, no.reason) == ("admin", "keep it")
    states = airflow.states(rejected["run"], APPROVAL)
    assert {task: states[task] for task in ("gate_purge", "purge", "report", "verdict")} == {
        "gate_purge": "skipped",
        "purge": "skipped",
        "report": "success",
        "verdict": "success",
    }

    # What was rejected stays, is named, and is not asked about again.
    last = airflow.finished(airflow.trigger())
    assert last["state"] == "success"
    document = airflow.xcom(last["dag_run_id"], "verdict")
    assert "approvals" not in document and "keep it" in str(document["notices"])
    assert len(airflow.runs(dag_id=APPROVAL)) == len(TABLES)
    assert LakeState.of(lake).data_files == {TABLES[0]: 1, TABLES[1]: COMMITS}
