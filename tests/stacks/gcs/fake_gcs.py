"""Google's store on the loopback: fake-gcs-server, which speaks one of Google's two APIs.

Our client speaks the XML API, which a fork has; Iceberg's speaks JSON, for which it takes the
server itself, since the fork has lost uploads by it.
"""

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.stacks.s3.processes import program, running

XML = "fake-gcs-server-xml", "MELTLINE_FAKE_GCS_XML"
"""Built by hand from the branch `support-xml-api` of tustvold/fake-gcs-server: no module has it."""
JSON = "fake-gcs-server", "MELTLINE_FAKE_GCS"
"""The program's name, and the variable that may name another."""


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
def running_fake_gcs(directory: Path, speaks: tuple[str, str]) -> Iterator[FakeGcs]:
    """Starts a server in memory that ends with the block; without one the test is skipped."""
    command = program(*speaks)

    def words(port: int) -> list[str]:
        place = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        place += ["-external-url", f"http://127.0.0.1:{port}"]  # where uploads are sent on
        return [command, "-scheme", "http", "-backend", "memory", *place]

    with running(words, directory / "fake-gcs.log") as port:
        yield FakeGcs(port)
