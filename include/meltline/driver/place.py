"""Folders of running drivers, private to one user: socket, token and log of each.

Client and server use them. A run's key in the folder's name lets its steps find its driver.
"""

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
"""Prefixes of variables that Airflow sets for each task; no step reads them."""
_LEFT_SECONDS = 3600


@dataclass(frozen=True)
class DriverPlace:
    """A driver's folder: its socket, the token that authenticates callers, and its log."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self.folder / "socket"

    @property
    def log(self) -> Path:
        """The output of the driver and its JVM, apart from that of steps."""
        return self.folder / "log"

    def token(self) -> bytes:
        """Returns the secret that a caller must know.

        Raises:
            OSError: The driver is gone.
        """
        return (self.folder / "token").read_bytes()

    def printed(self) -> str:
        """Returns the log's content; empty if there is none."""
        with suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")
        return ""

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_left(self, before: float) -> bool:
        """Returns whether no driver listens there, and none is about to.

        Args:
            before: Seconds since the epoch; a newer folder's driver may be about to listen.
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
        """Returns the user's folder; None if another user could have created or may enter it."""
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
        """Creates a folder with a new token for one more driver of a run; removes dead drivers'.

        Raises:
            OSError: It cannot be created.
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
        """Yields the folders of the run's drivers so far, alive or not."""
        yield from map(DriverPlace, sorted(self.root.glob(f"{key}-*")))


def run_key(run: Sequence[str], master: str, config: Path, environ: Mapping[str, str]) -> str:
    """Returns the key by which a run's steps find its driver: a hash of all inputs of its start.

    A step finds no driver of another run, or with another configuration, other credentials or
    another master: these stay in a JVM for its lifetime.

    Args:
        run: Identifies the run: its DAG and its id there.
        master: The Spark master.
        config: `meltline.yaml`; its current content counts.
        environ: The step's environment; variables of one task alone are ignored.

    Raises:
        OSError: The configuration cannot be read.
    """
    lasting = {k: v for k, v in sorted(environ.items()) if not k.startswith(_OF_ONE_TASK)}
    document = hashlib.sha256(config.read_bytes()).hexdigest()
    parts = json.dumps([*run, master, str(config.absolute()), document, lasting])
    return hashlib.sha256(parts.encode()).hexdigest()[:24]
