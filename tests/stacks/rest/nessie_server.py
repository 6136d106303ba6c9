"""Nessie, which needs a jar of 245 MB and a newer Java than Spark: started by hand.

NESSIE_JAR=…/nessie-quarkus-0.99.0-runner.jar NESSIE_JAVA=…/bin/java pytest test_nessie.py
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.stacks.s3.moto import KEY, REGION, SECRET, Moto
from tests.stacks.s3.processes import running

JAR, JAVA = "NESSIE_JAR", "NESSIE_JAVA"


@dataclass(frozen=True)
class Nessie:
    """A running server whose tables lie in a bucket."""

    port: int

    @property
    def uri(self) -> str:
        """Its main branch, by Iceberg's protocol."""
        return f"http://127.0.0.1:{self.port}/iceberg/main"

    def branch(self, name: str) -> None:
        """Another branch, as main is now."""
        api = f"http://127.0.0.1:{self.port}/api/v2/trees"
        main = httpx.get(f"{api}/main").json()["reference"]
        answer = httpx.post(f"{api}?name={name}&type=BRANCH", json=main)
        assert answer.is_success, answer.text


@contextlib.contextmanager
def nessie(moto: Moto, warehouse: str, log: Path) -> Iterator[Nessie]:
    """Runs a server with an empty catalog while the block lasts."""
    if JAR not in os.environ:
        pytest.skip(f"run by hand: {JAR} names no jar of Nessie")
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.management.enabled": "false",
        "quarkus.management.port": "0",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": warehouse,
        f"{s3}.endpoint": moto.address,
        f"{s3}.path-style-access": "true",
        f"{s3}.region": REGION,
        f"{s3}.access-key": "urn:nessie-secret:quarkus:keys",
        "keys.name": KEY,
        "keys.secret": SECRET,
    }
    words = [f"-D{name}={text}" for name, text in settings.items()]
    java = [os.environ.get(JAVA, "java"), "-Xmx512m", *words]
    with running(
        lambda port: [*java, f"-Dquarkus.http.port={port}", "-jar", os.environ[JAR]], log
    ) as port:
        yield Nessie(port)
