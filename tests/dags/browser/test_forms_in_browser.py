"""Every form in a browser: it opens with nothing to correct, and what is asked for arrives."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.dags.airflow_home import RunningAirflow, running_airflow
from tests.dags.browser.people import Form, Person, chromium, take_picture
from tests.dags.project import Project
from tests.dags.test_forms import NAME, Lake

pytestmark = [pytest.mark.airflow, pytest.mark.slow("a real Airflow and a browser")]

FILLED: dict[str, dict[str, str]] = {
    "meltline_lifecycle": {"tables": "lake.air.*", "once": "a first look"},
    "meltline_approval": {"plan": "none-such"},
    "meltline_orphan_sweep": {"minimum_age": "7d", "inventory": "/tmp/inventory"},
    "meltline_chunks": {"tables": "lake.air.t", "once": "a first look"},
    "meltline_replicate": {"tables": "lake.air.*"},
    "meltline_holds": {"reason": "an audit"},
    "meltline_restore_undrop": {"name": NAME},
    "meltline_restore_rollback": {"name": NAME, "snapshot": "7"},
    "meltline_restore_recover": {"name": NAME, "new_name": "lake.air.r", "reason": "it was needed"},
    "meltline_restore_clone": {"name": NAME, "new_name": "lake.air.c"},
}
"""Every DAG, and what a person writes into some fields of its form."""
PICTURED = ("meltline_lifecycle", "meltline_restore_undrop")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    """The checkout's DAGs, stand-ins for the Spark apps, and a real lake for commands."""
    project = Project.create(tmp_path_factory.mktemp("project"))
    project.answer()
    lake = Lake.create(tmp_path_factory.mktemp("lake"))
    more = {**project.environment, "MELTLINE_CONFIG": str(lake.folder / "meltline.yaml")}
    home = tmp_path_factory.mktemp("site") / "home"
    with running_airflow(home, project=project.folder, **more) as running:
        yield running


@pytest.fixture(scope="module")
def person(airflow: RunningAirflow) -> Iterator[Person]:
    with chromium() as browser:
        yield Person.logged_in(browser, airflow)


def runs(airflow: RunningAirflow, dag_id: str) -> list[dict[str, Any]]:
    """The runs that people have triggered, the newest first."""
    answer = airflow.client.get(
        f"/api/v2/dags/{dag_id}/dagRuns?run_type=manual&order_by=-run_after"
    )
    assert answer.is_success, answer.text
    found: list[dict[str, Any]] = answer.json()["dag_runs"]
    return found


def submitted(airflow: RunningAirflow, form: Form, dag_id: str) -> dict[str, Any]:
    """Submits a form; returns the run that came of it."""
    before = len(runs(airflow, dag_id))
    form.submit()
    airflow.until(lambda: len(runs(airflow, dag_id)) > before, seconds=60)
    return runs(airflow, dag_id)[0]


def test_there_is_a_form_for_every_dag(airflow: RunningAirflow) -> None:
    listed = airflow.client.get("/api/v2/dags?limit=100").json()["dags"]
    assert {dag["dag_id"] for dag in listed} == FILLED.keys()


@pytest.mark.parametrize("dag_id", sorted(FILLED))
def test_a_form_opens_with_nothing_to_correct_and_can_be_submitted_as_it_is(
    airflow: RunningAirflow, person: Person, dag_id: str
) -> None:
    form = person.open_form(dag_id)
    expect(form.button).to_be_enabled()
    expect(form.complaint).to_have_count(0)
    if dag_id in PICTURED:
        take_picture(form.page, dag_id)
    run = submitted(airflow, form, dag_id)
    ended = airflow.finished(run["dag_run_id"], dag_id=dag_id)
    assert ended["state"] == "success"


@pytest.mark.parametrize("dag_id", sorted(FILLED))
def test_what_is_written_into_a_form_arrives(
    airflow: RunningAirflow, person: Person, dag_id: str
) -> None:
    form = person.open_form(dag_id)
    for name, text in FILLED[dag_id].items():
        form.fill(name, text)
    expect(form.button).to_be_enabled()
    run = submitted(airflow, form, dag_id)
    assert FILLED[dag_id].items() <= run["conf"].items()


def test_a_backfill_can_be_ordered_as_its_form_opens(
    airflow: RunningAirflow, person: Person
) -> None:
    form = person.open_form("meltline_lifecycle")
    form.order_backfill("2026-11-10", "2026-11-10")
    expect(form.complaint).to_have_count(0)
    expect(form.page.get_by_text("1 run will be triggered.")).to_be_visible()
    form.backfill_button.click()
    expect(form.page.get_by_text("Backfill in progress")).to_be_visible()
    airflow.until(lambda: airflow.runs("backfill"), seconds=120)
