"""A process that runs the chain, and its death by `kill -9`."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from queue import Queue
from threading import Thread

from tests.soak.figures import ROOT

LONGEST = 300  # seconds without a word


@dataclass(frozen=True)
class Blow:
    """When a process is killed: some seconds after it has told of a call, or after it was ready.

    Attributes:
        call: What the call's name begins with; empty: whichever.
        which: The how manieth such call.
        seconds: How long after it.
        spares_jvm: Whether Spark's JVM is left to notice by itself.
    """

    call: str
    which: int
    seconds: float
    spares_jvm: bool

    @classmethod
    def drawn(cls, dice: random.Random) -> "Blow":
        """Half of them in a commit or in the deletes."""
        call, most, seconds = dice.choice(
            (
                ("committer", 3, 0.6),
                ("committer", 3, 0.6),
                ("deleter.delete.key", 20, 0.005),
                ("deleter.delete.key", 20, 0.005),
                ("files.record", 3, 1.5),
                ("", 250, 0.2),
                ("", 30, 10.0),
            )
        )
        spares_jvm = dice.random() < 0.2
        return cls(call, dice.randint(1, most), dice.random() * seconds, spares_jvm)


class Child:
    """A process that runs the chain, and the group that dies with it."""

    def __init__(self, folder: Path) -> None:
        self.last_call = ""
        self._lines: Queue[str] = Queue()
        self._log = (folder / "chain.log").open("a")
        command = [sys.executable, "-m", "tests.soak.chain", str(folder)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True, start_new_session=True,
        )  # fmt: skip
        self._ears = Thread(target=self._listen, daemon=True)
        self._ears.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put("gone")

    def run(self, name: str, now: datetime, blow: Blow | None) -> int | None:
        """The exit code of a run; nothing if the process was killed in it."""
        assert self._process.stdin is not None
        asked = {"run": name, "now": now.isoformat()}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        matching = 0
        while True:
            what, _, told = self._lines.get(timeout=LONGEST).partition(" ")
            if what == "ended":
                return int(told)
            if what == "gone":
                raise RuntimeError(f"the chain ended by itself; see {self._log.name}")
            self.last_call = told
            matching += blow is not None and told.startswith(blow.call)
            if blow is not None and matching == blow.which:
                time.sleep(blow.seconds)
                self.kill(spare_jvm=blow.spares_jvm)
                return None

    def kill(self, *, spare_jvm: bool = False) -> None:
        """`kill -9`; returns when nothing of it is left."""
        self._process.kill() if spare_jvm else os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._wait_for_the_group(seconds=20)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._ears.join(timeout=20)
        while not self._lines.empty():
            what, _, told = self._lines.get().partition(" ")
            self.last_call = told if what == "call" else self.last_call
        self._log.close()

    def _wait_for_the_group(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with suppress(ProcessLookupError):
            while time.monotonic() < end:
                os.killpg(self._process.pid, 0)
                time.sleep(0.05)
