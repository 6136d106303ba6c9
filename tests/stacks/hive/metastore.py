"""A Hive metastore of the version that pyspark ships, on Derby, for as long as a block lasts."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
_STARTS_WITHIN = 120.0  # seconds


@contextmanager
def metastore(folder: Path, *, locks: bool) -> Iterator[str]:
    """Serves an empty metastore on the loopback.

    Args:
        folder: For its database, its warehouse and its log.
        locks: Whether it has the tables for locks, which a schema that is made in passing lacks.

    Yields:
        Its address.
    """
    port = _free_port()
    with (folder / "metastore.log").open("wb") as log:
        server = subprocess.Popen(
            _command(folder, port, locks=locks), cwd=folder, stdout=log, stderr=log
        )
        try:
            _await_port(port, server)
            yield f"thrift://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def _command(folder: Path, port: int, *, locks: bool) -> list[str]:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "none",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        **({"hive.in.tez.test": "true"} if locks else {}),  # makes the tables for locks
    }
    return [
        str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
        if "JAVA_HOME" in os.environ
        else "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dhive.async.log.enabled=false",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.system.home={folder}",
        "-cp",
        f"{_JARS}/*",
        "org.apache.hadoop.hive.metastore.HiveMetaStore",
        "-p",
        str(port),
        *(word for k, v in settings.items() for word in ("--hiveconf", f"{k}={v}")),
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("the metastore does not answer; its log stands in its folder")
