"""A throw-away Airflow: its own home, SQLite and ports; the checkout's DAGs, or a project's."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
DAG_ID = "meltline_lifecycle"
_BIN = Path(sys.executable).parent
_START_SECONDS = 180
_STOP_SECONDS = 60
_LOCKED = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.CONFLICT)


@dataclass(frozen=True)
class AirflowHome:
    """The environment that everything of one Airflow runs in.

    Attributes:
        project: The folder with dags/.
        extra: Further environment: the configuration, a simulated clock.
    """

    home: Path
    project: Path = ROOT
    extra: Mapping[str, str] = field(default_factory=dict)
    ports: Sequence[int] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What is different from the environment of the tests."""
        python_path = [str(self.project / "include"), str(ROOT / "include")]
        settings = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__CORE__PARALLELISM": "2",  # each task is a JVM of its own
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
            "GX_ANALYTICS_ENABLED": "false",
            "MELTLINE_COLD_POOL": "",
            "MELTLINE_CONFIG": "",  # whatever the shell that runs the tests has set
            "MELTLINE_DRIVER": "",
            "MELTLINE_NOW": "",
            "MELTLINE_REPLICATE_SCHEDULE": "",
            "PATH": os.pathsep.join([str(_BIN), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(python_path),
        }
        if self.ports:
            api, worker_logs, trigger_logs = self.ports
            settings |= {
                "AIRFLOW__API__HOST": "127.0.0.1",
                "AIRFLOW__API__PORT": str(api),
                "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{api}",
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{api}/execution/",
                "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
                "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
            }
        return {**settings, **self.extra}

    def airflow(self, *words: str) -> str:
        """Runs an `airflow` command to its end and returns what it printed."""
        done = subprocess.run(
            [str(_BIN / "airflow"), *words],
            env=os.environ | self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"airflow {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def new_home(folder: Path, *, project: Path = ROOT, **extra: str) -> AirflowHome:
    """An Airflow with an initialised database; nothing of it runs yet."""
    home = AirflowHome(folder, project, extra)
    folder.mkdir(parents=True, exist_ok=True)
    home.airflow("db", "migrate")
    return home


@dataclass(frozen=True)
class RunningAirflow:
    """Scheduler, DAG processor, triggerer and API, all in one process group."""

    home: AirflowHome
    client: httpx.Client

    def runs(self, run_type: str = "", dag_id: str = DAG_ID) -> list[dict[str, Any]]:
        """The runs of the lifecycle, or of another DAG, so far, of one kind or of all."""
        listed = self._get(f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
        return [run for run in listed if run_type in ("", run["run_type"])]

    def trigger(self, **conf: Any) -> str:
        """Triggers a run as the UI does, without a logical date; returns its id."""
        answer = self.client.post(
            f"/api/v2/dags/{DAG_ID}/dagRuns", json={"logical_date": None, "conf": conf}
        )
        assert answer.is_success, answer.text
        return str(answer.json()["dag_run_id"])

    def unpause(self) -> None:
        """Lets the schedule begin."""
        answer = self.client.patch(f"/api/v2/dags/{DAG_ID}", json={"is_paused": False})
        assert answer.is_success, answer.text

    def set_variable(self, key: str, value: str) -> None:
        """Sets an Airflow variable, new or not."""
        body = {"key": key, "value": value}
        answer = self.client.patch(f"/api/v2/variables/{key}", json=body)
        if answer.status_code == httpx.codes.NOT_FOUND:
            answer = self.client.post("/api/v2/variables", json=body)
        assert answer.is_success, answer.text

    def backfill(self, first: str, last: str, **options: Any) -> None:
        """Runs past dates again and waits for the last one."""
        order = {"dag_id": DAG_ID, "from_date": first, "to_date": last, "dag_run_conf": {}}
        backfill = self._taken_backfill(order | options)["id"]
        self.until(lambda: self._get(f"/api/v2/backfills/{backfill}")["completed_at"], seconds=1800)

    def finished(
        self, run_id: str, seconds: float = 900, *, dag_id: str = DAG_ID
    ) -> dict[str, Any]:
        """The run, once it has ended."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        self.until(lambda: self._get(path)["state"] in ("success", "failed"), seconds=seconds)
        return self._get(path)

    def states(self, run_id: str, dag_id: str = DAG_ID) -> dict[str, str]:
        """State of each task of a run; of one that is mapped, its last batch's."""
        return {ti["task_id"]: ti["state"] for ti in self._instances(run_id, dag_id)}

    def batches(self, run_id: str) -> dict[str, list[str]]:
        """The names under which the UI shows the batches of each mapped task."""
        found: dict[str, list[str]] = {}
        for ti in self._instances(run_id):
            if ti["map_index"] >= 0:
                found.setdefault(ti["task_id"], []).append(ti["rendered_map_index"])
        return {task: sorted(names) for task, names in found.items()}

    def question(self, run_id: str, dag_id: str) -> dict[str, Any]:
        """What a run asks a person, once it does."""
        self.until(lambda: self.states(run_id, dag_id).get("ask") == "awaiting_input", seconds=300)
        return self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails")

    def answer(self, run_id: str, dag_id: str, option: str, **params: Any) -> None:
        """Answers it, as a person does in the UI."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"
        answer = self.client.patch(path, json={"chosen_options": [option], "params_input": params})
        assert answer.is_success, answer.text

    def _instances(self, run_id: str, dag_id: str = DAG_ID) -> list[dict[str, Any]]:
        found = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        instances: list[dict[str, Any]] = found["task_instances"]
        return instances

    def xcom(self, run_id: str, task: str, dag_id: str = DAG_ID) -> Any:
        """What a task returned."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/"
        value = self._get(f"{path}return_value?deserialize=true")["value"]
        return json.loads(value) if isinstance(value, str) else value

    def link(self, run_id: str, task: str, map_index: int = -1) -> str:
        """Where the one button of a task leads."""
        path = f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/{task}/links"
        (address,) = self._get(f"{path}?map_index={map_index}")["extra_links"].values()
        return str(address)

    def logs(self) -> str:
        """Every task log there is."""
        return "\n".join(log.read_text() for log in (self.home.home / "logs").rglob("*.log"))

    def until(self, condition: Any, *, seconds: float) -> None:
        """Waits until something holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s; {self.runs()}"
            time.sleep(0.5)

    def _taken_backfill(self, order: dict[str, Any], *, seconds: float = 300) -> dict[str, Any]:
        """Orders a backfill again as long as Airflow's SQLite is locked by another writer.

        Airflow answers 503 then and removes what it began; a rest of that is a conflict until
        its scheduler closes it.
        """
        deadline = time.monotonic() + seconds
        answer = self.client.post("/api/v2/backfills", json=order)
        while answer.status_code in _LOCKED and time.monotonic() < deadline:
            time.sleep(1)
            answer = self.client.post("/api/v2/backfills", json=order)
        assert answer.is_success, answer.text
        taken: dict[str, Any] = answer.json()
        return taken

    def _get(self, path: str) -> dict[str, Any]:
        answer = self.client.get(path)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def running_airflow(
    folder: Path, *, project: Path = ROOT, **extra: str
) -> Iterator[RunningAirflow]:
    """Starts `airflow standalone` and stops all of it again, by its process group."""
    password = secrets.token_hex(8)
    ports = free_ports(3)
    folder.mkdir(parents=True)
    settings = extra | admin_settings(folder, ports[0], password)
    home = AirflowHome(folder, project, settings, ports)
    with (
        running_component(["standalone"], home.environment, folder / "standalone.log") as process,
        logged_in(home, password, process, folder / "standalone.log") as airflow,
    ):
        yield airflow


def admin_settings(folder: Path, port: int, password: str) -> dict[str, str]:
    """What makes one user, who may do everything, and tells tasks of the public API.

    Args:
        folder: Takes the password's file.
        port: Of the API.
        password: The user's.
    """
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({"admin": password}))
    api = {"conn_type": "http", "host": "127.0.0.1", "port": port}
    return {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW_CONN_MELTLINE_AIRFLOW_API": json.dumps(
            {**api, "login": "admin", "password": password}
        ),
    }


@contextmanager
def running_component(
    words: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts an `airflow` command that goes on, and stops it and all that it started.

    Args:
        words: Of the command.
        environment: What is different from that of the tests.
        log: Takes what it prints; it runs in the log's folder.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(_BIN / "airflow"), *words],
            env=os.environ | environment,
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,  # SIGTERM to its leader alone would orphan the others
        )
    try:
        yield process
    finally:
        _stop(process)


@contextmanager
def logged_in(
    home: AirflowHome, password: str, process: subprocess.Popen[bytes], log: Path
) -> Iterator[RunningAirflow]:
    """Waits until the API knows the lifecycle.

    Args:
        home: Whose API.
        password: The user's.
        process: Of the API.
        log: What it prints.
    """
    url = f"http://127.0.0.1:{home.ports[0]}"
    headers = {"Authorization": f"Bearer {_token(url, password, process, log)}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
        airflow = RunningAirflow(home, client)
        airflow.until(
            lambda: client.get(f"/api/v2/dags/{DAG_ID}").is_success, seconds=_START_SECONDS
        )
        yield airflow


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _token(url: str, password: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """Waits for the API: Airflow says that it is ready before its API is."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            answer = httpx.post(
                f"{url}/auth/token", json={"username": "admin", "password": password}
            )
            if answer.is_success:
                return str(answer.json()["access_token"])
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"Airflow did not start:\n{log.read_text()[-5000:]}")
        time.sleep(0.5)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the whole group; what does not go by itself is killed."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline and _alive(process):
            time.sleep(0.1)
    process.wait(timeout=_STOP_SECONDS)


def _alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # reaps the leader, or its group would never be gone
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True
