"""Iceberg's own REST server, started from its jars: a JDBC catalog behind the protocol."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import httpx
import pyspark
import pytest

from meltline.jars.jar_paths import jar_folder

_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
_JARS = ("iceberg-open-api", "iceberg-core", "iceberg-api", "iceberg-common", "iceberg-aws-1",
         "url-connection-client", "failsafe", "iceberg-bundled-guava", "iceberg-aws-bundle",
         "caffeine", "jakarta.servlet", "jetty-",
         "sqlite-jdbc", "postgresql")  # fmt: skip
_START_SECONDS = 60


@dataclass
class IcebergServer:
    """A running server; its catalog is a SQLite file of its own."""

    port: int
    home: Path
    settings: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        return self.settings["CATALOG_WAREHOUSE"]

    def start(self) -> None:
        """Starts it and waits until it answers."""
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx512m", "-cp", _class_path(), _MAIN],
                env={**os.environ, **self.settings, "CATALOG_REST_PORT": str(self.port)},
                stdout=log,
                stderr=log,
                cwd=self.home,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self.process.poll() is None, (self.home / "server.log").read_text()
            assert time.monotonic() < deadline, "the REST server does not start"
            time.sleep(0.1)

    def stop(self) -> None:
        """Kills it, by its own process: as a machine that is switched off would be."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.uri}/v1/config").is_success
        except httpx.TransportError:
            return False


@contextmanager
def iceberg_server(
    home: Path, warehouse: str = "", settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[IcebergServer]:
    """Runs a server with an empty catalog while the block lasts.

    Args:
        home: Its folder, which is there.
        warehouse: Where its tables lie; empty is a folder of its own.
        settings: Further settings, by the names of their environment variables.
    """
    if not sorted(jar_folder(os.environ).glob("iceberg-open-api-*.jar")):
        pytest.skip("no REST server: set up with MELTLINE_FEATURES=test,s3,stacks")
    server = IcebergServer(
        _free_port(),
        home,
        {
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:{home}/rest.db",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_CLIENTS": "1",  # SQLite has one writer
            "CATALOG_WAREHOUSE": warehouse or f"file://{home}/warehouse",
            **settings,
        },
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _class_path() -> str:
    # Spark's folder comes last: its servlets are of an older kind.
    jars = jar_folder(os.environ)
    own = [str(path) for prefix in _JARS for path in sorted(jars.glob(f"{prefix}*.jar"))]
    return os.pathsep.join([*own, f"{Path(pyspark.__file__).parent}/jars/*"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
