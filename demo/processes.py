"""The processes of the demo's Airflow: found by the home they live in, ended together.

Airflow's parts outlive their parent, and a pid that was written down may be somebody else's by now.
What every one of them has, and nobody else, is the demo's own `AIRFLOW_HOME` in its environment.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE = 30.0
"""Seconds in which a process may end by itself once it was asked to."""


def of_home(home: Path, processes: Path = Path("/proc")) -> list[int]:
    """Pids of what runs in an Airflow home, this process not among them.

    Where there is no `/proc`, as on macOS, none is found.
    """
    setting = b"AIRFLOW_HOME=" + os.fsencode(home)
    return sorted(
        int(folder.name)
        for folder in processes.glob("[0-9]*")
        if folder.name != str(os.getpid()) and setting in _environment(folder) and _lives(folder)
    )


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return []


def _lives(folder: Path) -> bool:
    """Whether it is more than an entry that its parent has not yet asked about."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end(find: Callable[[], Sequence[int]], patience: float = PATIENCE) -> int:
    """Ends processes, gently first; says how many there were.

    Args:
        find: Tells which there are. It is asked until there are none: some start others as they go.
        patience: Seconds until those that remain are killed.
    """
    seen: set[int] = set()
    deadline = time.monotonic() + patience
    while pids := find():
        how = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in pids:
            if pid not in seen or how is signal.SIGKILL:
                _send(pid, how)
        seen.update(pids)
        time.sleep(0.2)
    return len(seen)


def _send(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return
