"""Where drivers are found: folders that their owner alone may enter."""

import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OF_ONE_TASK = ("AIRFLOW_CTX_", "_AIRFLOW_", "__AIRFLOW_")
"""Begin the names of variables that Airflow sets for each task anew; no step reads them."""
_LEFT_SECONDS = 3600


@dataclass(frozen=True)
class DriverPlace:
    """A driver's folder: its socket, the token that proves who asks, and what it printed."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / "socket"

    @property
    def log(self) -> Path:
        """What it and its JVM print beside the output of steps."""
        return self.folder / "log"

    def token(self) -> bytes:
        """The secret by which it knows who may ask it for steps.

        Raises:
            OSError: The driver is gone.
        """
        return (self.folder / "token").read_bytes()

    def printed(self) -> str:
        """All that stands in the log; nothing where there is none."""
        with suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")
        return ""

    def remove(self) -> None:
        """Leaves nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_left(self, before: float) -> bool:
        """Whether nobody listens there, and nobody has just made it.

        Args:
            before: Seconds since the epoch; what was made later may be about to listen.
        """
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            if self.folder.stat().st_mtime < before:
                return probe.connect_ex(str(self.socket)) != 0
        return False


@dataclass(frozen=True)
class DriverPlaces:
    """The folders of all drivers of one user of this machine."""

    root: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> "DriverPlaces | None":
        """The user's folder for them; None where another user could have made it, or may enter."""
        above = environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        root = Path(above, f"meltline-{os.getuid()}")
        with suppress(OSError):
            root.mkdir(mode=0o700, exist_ok=True)
            status = root.lstat()
            own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if own and not stat.S_IMODE(status.st_mode) & 0o077:
                return cls(root)
        return None

    def new(self, key: str) -> DriverPlace:
        """A folder for one more driver of a run, with a token of its own; dead ones' are removed.

        Raises:
            OSError: It cannot be made.
        """
        for place in map(DriverPlace, self.root.iterdir()):
            if place.is_left(time.time() - _LEFT_SECONDS):
                place.remove()
        place = DriverPlace(Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.root)))
        handle = os.open(place.folder / "token", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        return place

    def of_run(self, key: str) -> Iterator[DriverPlace]:
        """Those that a run's steps have made so far, alive or not."""
        yield from map(DriverPlace, sorted(self.root.glob(f"{key}-*")))


def run_key(run: Sequence[str], master: str, config: Path, environ: Mapping[str, str]) -> str:
    """By what a run's steps find its driver: all that the driver was started with.

    A step finds none that was started for another run, or with another configuration, other
    credentials or another master: these stay in a JVM for as long as it lives.

    Args:
        run: What names the run: its DAG and its id there.
        master: Of Spark.
        config: `meltline.yaml`; it counts as it stands there now.
        environ: Of the step; what is of one task alone does not count.

    Raises:
        OSError: The configuration cannot be read.
    """
    lasting = {k: v for k, v in sorted(environ.items()) if not k.startswith(_OF_ONE_TASK)}
    document = hashlib.sha256(config.read_bytes()).hexdigest()
    parts = json.dumps([*run, master, str(config.absolute()), document, lasting])
    return hashlib.sha256(parts.encode()).hexdigest()[:24]
