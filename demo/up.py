"""`make up`: Airflow with its UI on loopback, with the demo loaded."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

from demo.airflow import Airflow, free_port, is_running
from demo.place import Place, environment

PATIENCE = 180.0


def main() -> None:
    """Starts Airflow unless ours is running, waits until it answers, says how to log in."""
    place = Place()
    if not place.clock_file.exists():
        sys.exit("make up: there is no demo yet; run `make demo` first")
    airflow = Airflow(place.root / "airflow")
    state = place.root / "up.json"
    if state.exists():
        running = json.loads(state.read_text())
        if is_running(running["pid"]):
            _tell(running["port"], airflow)
            return
    port = free_port()
    now = datetime.fromisoformat(place.clock_file.read_text())
    settings = airflow.environment(environment(now, place), port)
    settings["AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"] = str(free_port())
    settings["AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"] = str(free_port())
    airflow.prepare(settings)
    command = [str(Path(sys.executable).with_name("airflow")), "standalone"]
    with (place.root / "up.log").open("w") as log:
        # A session of its own: `make down` ends the whole group, because Airflow's parts outlive
        # their parent.
        process = subprocess.Popen(
            command, env=settings, stdout=log, stderr=log, start_new_session=True
        )
    state.write_text(json.dumps({"pid": process.pid, "port": port}))
    _wait(process, port, place)
    _tell(port, airflow)


def _wait(process: "subprocess.Popen[bytes]", port: int, place: Place) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"make up: Airflow ended at once; see {place.root / 'up.log'}")
        if answers(port):
            return
        time.sleep(1)
    process.send_signal(signal.SIGTERM)
    sys.exit(f"make up: no answer after {PATIENCE:.0f} s; see {place.root / 'up.log'}")


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
