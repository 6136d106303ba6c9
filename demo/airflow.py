"""Airflow for the demo: its own home, its own port, nothing shared with another installation."""

import json
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.place import CHECKOUT

LIFECYCLE = "meltline_lifecycle"
CHUNKS, REPLICATE = "meltline_chunks", "meltline_replicate"
POOL = "meltline_cold"


@dataclass(frozen=True)
class Airflow:
    """An Airflow home and how to call the command in it."""

    home: Path

    @property
    def passwords(self) -> Path:
        """The login of the demo's only user."""
        return self.home / "passwords.json"

    def environment(self, base: Mapping[str, str], port: int = 8080) -> dict[str, str]:
        """Airflow's settings: loopback only, few workers, our DAG and no examples."""
        url = f"http://127.0.0.1:{port}"
        return {
            **base,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(CHECKOUT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": url,
            # Above INFO a task says nothing, to nobody.
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "SPT_NOENV": "1",  # a process that names itself leaves its environment readable
            "MELTLINE_COLD_POOL": POOL,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Makes the home and its database; quick when both are there."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.passwords.exists():
            self.passwords.write_text(json.dumps({"admin": secrets.token_urlsafe(12)}))
            self.passwords.chmod(0o600)
        if not (self.home / "airflow.db").exists():
            self.call(["db", "migrate"], environment, self.home / "migrate.log")
        if not (log := self.home / "pool.log").exists():
            pool = ["pools", "set", POOL, "1", "copies of history to the cold tier"]
            self.call(pool, environment, log)

    def call(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Runs an Airflow command; what it prints goes to a file, and to the error if it fails.

        Raises:
            subprocess.CalledProcessError: It failed; the log's end has been printed.
        """
        command = [str(Path(sys.executable).with_name("airflow")), *words]
        with log.open("w") as out:
            done = subprocess.run(
                command, env=dict(environment), stdout=out, stderr=subprocess.STDOUT, check=False
            )
        if done.returncode:
            sys.stderr.write("".join(log.read_text().splitlines(keepends=True)[-60:]))
            raise subprocess.CalledProcessError(done.returncode, command)


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
