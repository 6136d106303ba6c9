"""The pages in Airflow's own API server: only who may read the lifecycle's runs sees them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meltline.domain.units import format_instant
from meltline.ports import RunRecord
from tests.command_home import TODAY, make_home
from tests.dags.airflow_home import DAG_ID, ROOT, AirflowHome

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

MOUNT = "/meltline"
CHUNKS = "meltline_chunks"
USERS = {"ann": "viewer", "olga": "op"}


@pytest.fixture(scope="module")
def server(airflow: AirflowHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's API server with the plugin, in this process, and two people who may log in."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from starlette.testclient import TestClient

    folder = tmp_path_factory.mktemp("api server")
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({user: f"{user}'s" for user in USERS}))
    config = make_home(folder).folder / "meltline.yaml"
    with pytest.MonkeyPatch.context() as patch:
        people = ",".join(f"{user}:{role}" for user, role in USERS.items())
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", people)
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        patch.setenv("MELTLINE_CONFIG", str(config))
        record_a_run(config)
        purge_cached_app()
        yield TestClient(create_app("core"), raise_server_exceptions=False)
        purge_cached_app()


def record_a_run(config: Path) -> None:
    from meltline.adapters.sql_ledger.ledger import sql_control_ledger
    from meltline.domain.clock import WallClock

    ledger = sql_control_ledger(f"sqlite:///{config.parent}/control.db", WallClock())
    ledger.runs.finish(RunRecord("scheduled__1", TODAY, TODAY, TODAY, '{"tables": []}'))
    ledger.database.close()


def token_of(server: Any, user: str) -> str:
    body = {"username": user, "password": f"{user}'s"}
    answer = server.post("/auth/token", json=body)
    assert answer.is_success, answer.text
    return str(answer.json()["access_token"])


def mounted(server: Any) -> Any:
    """The pages' own application."""
    (mount,) = (route for route in server.app.routes if getattr(route, "path", "") == MOUNT)
    return mount.app.site


def paths(server: Any) -> list[str]:
    routes = [route.path for route in mounted(server).routes]
    filled = [route.replace("{run_id:path}", "r").replace("{plan}", "p") for route in routes]
    built_in = ["/docs", "/redoc", "/openapi.json", "/static/x.js", "/docs/oauth2-redirect"]
    return [MOUNT + path.replace("{path:path}", "any/thing") for path in (*filled, *built_in)]


def test_no_path_is_open_to_who_has_not_logged_in(server: Any) -> None:
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    server.cookies.clear()
    answers = {(m, p): server.request(m, p).status_code for p in paths(server) for m in methods}
    assert len(answers) > 80
    assert set(answers.values()) == {401}, [asked for asked in answers if answers[asked] != 401]
    made_up = {"Authorization": "Bearer made.up.token"}
    assert {server.get(path, headers=made_up).status_code for path in paths(server)} <= {401, 403}


@pytest.mark.parametrize("user", USERS)
def test_who_may_read_runs_sees_the_pages_by_token_and_by_cookie(server: Any, user: str) -> None:
    token = token_of(server, user)
    bearer = {"Authorization": f"Bearer {token}"}
    text = server.get(f"{MOUNT}/", headers=bearer).text
    assert format_instant(TODAY) in text and f'href="{MOUNT}/runs/scheduled__1"' in text
    cookie = {"Cookie": f"_token={token}"}
    for path in ("/", "/runs/scheduled__1", "/plans", "/api/plans", "/style.css", "/api/storage"):
        answer = server.get(MOUNT + path, headers=cookie)
        assert answer.status_code == 200, (path, answer.text)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert server.get(f"{MOUNT}/openapi.json", headers=cookie).status_code == 404
    assert server.post(f"{MOUNT}/plans/p", headers=bearer).status_code == 405


def test_who_may_not_read_the_lifecycles_runs_does_not_see_the_pages(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    asked: list[tuple[str, str]] = []

    def refuse(*, method: str, details: Any, **_: Any) -> bool:
        asked.append((method, details.id))
        return False

    bearer = {"Authorization": f"Bearer {token_of(server, 'ann')}"}
    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", refuse)
    assert {server.get(path, headers=bearer).status_code for path in paths(server)} == {403}
    assert set(asked) == {("GET", DAG_ID)}


def test_a_server_that_does_not_know_the_configuration_says_what_to_do(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bearer = {"Authorization": f"Bearer {token_of(server, 'ann')}"}
    monkeypatch.setenv("MELTLINE_CONFIG", str(tmp_path / "none.yaml"))
    answer = server.get(f"{MOUNT}/api/storage", headers=bearer)
    assert answer.status_code == 503 and answer.json()["error"]["type"] == "ConfigInvalid"


def test_the_menu_has_an_entry_that_leads_to_the_pages(airflow: AirflowHome) -> None:
    import airflow.plugins_manager as plugins

    (plugin,) = (plugin for plugin in plugins._get_plugins()[0] if plugin.name == "meltline")
    (view,) = plugin.external_views
    (app,) = plugin.fastapi_apps
    assert (view["category"], view["href"]) == ("browse", f"{app['url_prefix']}/")
    assert plugins.get_import_errors() == {}


_LOAD = """
import importlib.metadata, json, runpy, sys
importlib.metadata.entry_points = lambda **_: ()  # as where no package is installed
from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import BaseOperatorLink
from airflow.configuration import conf
before = set(sys.modules)
assert "MeltlinePlugin" in runpy.run_path(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_the_plugin_loads_nothing_heavy(airflow: AirflowHome) -> None:
    plugin = ROOT / "plugins" / "meltline_plugin.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD, str(plugin)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    heavy = {"fastapi", "jinja2", "obstore", "pyarrow", "pyiceberg", "pyspark", "numpy"}
    assert loaded & (heavy | {"great_expectations", "pandas", "fastavro"}) == set()


# --- links of tasks --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tasks(airflow: AirflowHome) -> Mapping[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=airflow.project / "dags")
    return {**bag.dags[CHUNKS].task_dict, **bag.dags[DAG_ID].task_dict}


def key_of(dag_id: str, run_id: str, map_index: int) -> Any:
    return SimpleNamespace(dag_id=dag_id, run_id=run_id, map_index=map_index)


@pytest.mark.parametrize(
    ("task", "map_index", "query"),
    [
        ("plan_expiration", -1, "?kind=expire"),
        ("gate_expiration", 1, "?kind=expire&batch=2"),
        ("plan_purge", -1, "?kind=purge"),
        ("gate_purge", 0, "?kind=purge&batch=1"),
        ("purge", 0, "?kind=purge&batch=1"),
    ],
)
def test_tasks_that_plan_and_gate_link_to_their_page(
    tasks: Mapping[str, Any], task: str, map_index: int, query: str
) -> None:
    (link,) = tasks[task].operator_extra_links
    ti = key_of(DAG_ID, "scheduled__2026-11-21T00:00:00+00:00", map_index)
    run = "scheduled__2026-11-21T00%3A00%3A00%2B00%3A00"
    address = link.get_link(SimpleNamespace(task_id=task), ti_key=ti)
    assert address == f"/meltline/runs/{run}{query}#gates"


@pytest.mark.parametrize(
    ("task", "map_index", "query"),
    [
        ("plan_drops", -1, "?kind=drop_chunks"),
        ("gate_drops", 1, "?kind=drop_chunks&batch=2"),
        ("drop_chunks", 0, "?kind=drop_chunks&batch=1"),
    ],
)
def test_tasks_over_chunks_link_to_their_page_under_the_name_of_the_run_in_the_ledger(
    tasks: Mapping[str, Any], task: str, map_index: int, query: str
) -> None:
    (link,) = tasks[task].operator_extra_links
    ti = key_of(CHUNKS, "manual__1", map_index)
    address = link.get_link(SimpleNamespace(task_id=task), ti_key=ti)
    assert address == f"/meltline/runs/chunks__manual__1{query}#gates"


def test_a_link_goes_where_a_proxy_shows_airflow(
    tasks: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://data.example.org/airflow/")
    (link,) = tasks["gate_purge"].operator_extra_links
    key = key_of(DAG_ID, "r", 0)
    address = link.get_link(SimpleNamespace(task_id="gate_purge"), ti_key=key)
    assert address == "/airflow/meltline/runs/r?kind=purge&batch=1#gates"


def test_other_tasks_have_no_link(tasks: Mapping[str, Any]) -> None:
    without = {name for name, task in tasks.items() if not task.operator_extra_links}
    asking = {"find_approvals", "ask_for_approval"}
    of_chunks = {"replicate_to_cold", "refresh_rollups", "evaluate_chunks", "report_chunks"}
    assert without == {"observe", "hand_off_to_cold", "report", "verdict", *asking, *of_chunks}
