"""`make down`: stops exactly what `make up` started."""

import json
import os
import signal
import time
from pathlib import Path

from demo.airflow import is_running
from demo.place import Place

PATIENCE = 30.0


def main() -> None:
    """Ends Airflow's process group, gently first."""
    state = Place().root / "up.json"
    if not state.exists():
        print("Nothing of ours is running.")
        return
    pid = json.loads(state.read_text())["pid"]
    if _is_ours(pid):
        _end(pid)
        print("Stopped.")
    else:
        print("It had ended already.")
    state.unlink()


def _is_ours(pid: int) -> bool:
    """A pid may have been given to somebody else since: ours leads a group and is Airflow."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.getpgid(pid) == pid and b"standalone" in words
    except FileNotFoundError:
        return False
    except OSError:
        return is_running(pid)


def _end(group: int) -> None:
    os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.5)
    os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
