"""Google's store on the loopback: the fork of fake-gcs-server that speaks the XML API too."""

import contextlib
import json
import os
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stacks.s3.processes import running

_WHERE = "github.com/tustvold/fake-gcs-server, branch support-xml-api"


@dataclass(frozen=True)
class FakeGcs:
    """A running server. It asks for no token, and our client for one in each request it signs."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> Mapping[str, str]:
        return {"gcs.service.host": self.address, "gcs.oauth2.token": "any"}

    def bucket(self, name: str) -> str:
        request = urllib.request.Request(
            f"{self.address}/storage/v1/b?project=meltline",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
        return f"gs://{name}"


@contextlib.contextmanager
def running_fake_gcs(directory: Path) -> Iterator[FakeGcs]:
    """Starts a server in memory that ends with the block; without one the test is skipped."""
    command = os.environ.get("MELTLINE_FAKE_GCS") or shutil.which("fake-gcs-server")
    if not command:
        pytest.skip(f"no fake-gcs-server on PATH: `go build` {_WHERE}, or MELTLINE_FAKE_GCS")

    def words(port: int) -> list[str]:
        place = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return [command, "-scheme", "http", "-backend", "memory", *place]

    with running(words, directory / "fake-gcs.log") as port:
        yield FakeGcs(port)
