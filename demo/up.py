"""`make up`: Airflow with its UI on loopback, with the demo loaded."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

from demo.airflow import Airflow, free_port
from demo.place import Place, environment
from demo.processes import end, of_home

PATIENCE = 180.0
"""Seconds without an answer and without a new line in the log, after which it is given up."""


def main() -> None:
    """Starts Airflow unless ours is running, waits until it answers, says how to log in."""
    place = Place()
    if not place.clock_file.exists():
        sys.exit("make up: there is no demo yet; run `make demo` first")
    airflow = Airflow(place.root / "airflow")
    state = place.root / "up.json"
    if state.exists():
        port = json.loads(state.read_text())["port"]
        if answers(port) and of_home(airflow.home):
            _tell(port, airflow)
            return
    end(lambda: of_home(airflow.home))  # what a crash has left would hold the database
    port = free_port()
    now = datetime.fromisoformat(place.clock_file.read_text())
    settings = airflow.environment(environment(now, place), port)
    settings["AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"] = str(free_port())
    settings["AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"] = str(free_port())
    airflow.prepare(settings)
    command = [str(Path(sys.executable).with_name("airflow")), "standalone"]
    with (place.root / "up.log").open("w") as log:
        # A session of its own: the terminal's Ctrl-C is for this command, not for Airflow.
        process = subprocess.Popen(
            command, env=settings, stdout=log, stderr=log, start_new_session=True
        )
    state.write_text(json.dumps({"port": port}))
    try:
        problem = _wait(process, port, place.root / "up.log")
    except BaseException:  # Ctrl-C while it starts
        end(lambda: of_home(airflow.home))
        raise
    if problem:
        end(lambda: of_home(airflow.home))
        sys.exit(f"make up: {problem}; see {place.root / 'up.log'}")
    _tell(port, airflow)


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> str:
    """Waits as long as it goes on with something; says what is wrong, empty when it answers."""
    size, deadline = -1, 0.0
    while not answers(port):
        if process.poll() is not None:
            return f"Airflow ended with {process.returncode} before it answered"
        if log.stat().st_size != size:
            size, deadline = log.stat().st_size, time.monotonic() + PATIENCE
        if time.monotonic() > deadline:
            return f"no answer, and no new line in the log for {PATIENCE:.0f} s"
        time.sleep(1)
    return ""


def answers(port: int) -> bool:
    """Whether Airflow's API answers."""
    url = f"http://127.0.0.1:{port}/api/v2/monitor/health"
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tell(port: int, airflow: Airflow) -> None:
    password = json.loads(airflow.passwords.read_text())["admin"]
    print(
        f"Airflow:  http://127.0.0.1:{port}/dags/meltline_lifecycle\n"
        f"Login:    admin / {password}\n"
        "Stop it:  make down"
    )


if __name__ == "__main__":
    main()
