"""A throw-away Postgres server from the machine's own packages, for contract tests."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

_START_SECONDS = 60


@dataclass
class PostgresServer:
    """A running server with password authentication, on 127.0.0.1.

    Attributes:
        launch: Starts its process.
    """

    port: int
    password: str
    launch: Callable[[], "subprocess.Popen[bytes]"] = field(repr=False)
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Starts it and waits until it answers."""
        self.process = self.launch()
        _wait_until_ready(self, self.process, self.log)

    def kill(self) -> None:
        """Stops it as `pg_ctl stop -m immediate` does: no client is told, and it has to recover."""
        self._stop(signal.SIGQUIT)

    def stop(self) -> None:
        """Postgres's fast shutdown, which does not wait for clients."""
        self._stop(signal.SIGINT)

    def _stop(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=_START_SECONDS)
            self.process = None

    def disconnect(self) -> int:
        """Ends every client's connection; the server goes on. Returns how many."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return int((ended.fetchone() or (0,))[0])

    def url(self, database: str) -> str:
        return f"postgresql://meltline:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Makes an empty database and returns its URL."""
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def throwaway_postgres() -> Iterator[PostgresServer]:
    """Starts a server and stops it again, by its own process; nothing of it stays.

    Where Postgres is not installed the tests that need it are skipped (tests.real_parts).
    """
    programs = _programs()
    if programs is None:
        pytest.skip("Postgres is not installed (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="meltline-pg-"))
    user = _prepare_home(home)
    port, password, log = _free_port(), secrets.token_hex(12), home / "log"

    def launch() -> "subprocess.Popen[bytes]":
        with log.open("ab") as words:
            command = _command(programs, home, port)
            return subprocess.Popen(command, stdout=words, stderr=words, user=user, cwd=home)

    server = PostgresServer(port, password, launch, log)
    _initdb(programs, home, user, password)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home)


def _programs() -> Path | None:
    """The folder of initdb and postgres: Debian keeps it off PATH, one per version."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(installed, key=lambda path: float(path.parts[-3]))
    return newest[-1].parent if newest else None


def _prepare_home(home: Path) -> str | None:
    """Postgres refuses to run as root: root hands it to the package's user."""
    if os.geteuid() != 0:
        return None
    owner = pwd.getpwnam("postgres")
    os.chown(home, owner.pw_uid, owner.pw_gid)
    return owner.pw_name


def _initdb(programs: Path, home: Path, user: str | None, password: str) -> None:
    secret = home / "password"
    secret.write_text(password)
    secret.chmod(0o644)  # its folder is the owner's alone
    command = [
        str(programs / "initdb"),
        *("-D", str(home / "data"), "-U", "meltline", "--encoding=UTF8", "--locale=C"),
        *("--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"),
    ]
    done = subprocess.run(command, user=user, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"initdb failed: {done.stdout}{done.stderr}"


def _command(programs: Path, home: Path, port: int) -> list[str]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(home),
        "fsync": "off",  # it lives for one test run
        "shared_buffers": "16MB",
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    return [str(programs / "postgres"), "-D", str(home / "data"), *options]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(server.url("postgres"), connect_timeout=5).close()
            return
        except psycopg.OperationalError as failure:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Postgres did not start: {log.read_text()}") from failure
            time.sleep(0.1)
