"""An S3 server for tests: s3proxy's jar with dependencies, in memory, on a free loopback port."""

import contextlib
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

KEY, SECRET, REGION = "meltline", "s3proxy-secret", "us-east-1"


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket."""

    port: int
    bucket: str = "lake"

    @property
    def properties(self) -> Mapping[str, str]:
        """How to reach it, in PyIceberg's words."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{self.port}",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }

    def request(self, method: str, raw_path: str) -> int:
        """Sends a signed request with the path as it is, `//` and all; returns the status."""
        path = quote(raw_path, safe="/-._~")
        now = datetime.now(UTC)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        empty = hashlib.sha256(b"").hexdigest()
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "x-amz-content-sha256": empty,
            "x-amz-date": stamp,
        }
        signed = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"{method}\n{path}\n\n{lines}\n{signed}\n{empty}"
        scope = f"{day}/{REGION}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = f"AWS4{SECRET}".encode()
        for part in (
            day,
            REGION,
            "s3",
            "aws4_request",
            f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}",
        ):
            key = hmac.digest(key, part.encode(), "sha256")
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={signed}, "
            f"Signature={key.hex()}"
        )
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            return connection.getresponse().status


def find_jar(environ: Mapping[str, str]) -> Path:
    """The jar that set-up fetched; where there is none the test is skipped (tests.real_parts)."""
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(environ.get("MELTLINE_JARS") or Path(cache, "meltline", "jars"))
    if jars := sorted(folder.glob("s3proxy-*.jar")):
        return jars[-1]
    pytest.skip(f"no s3proxy-*.jar in {folder}: run the set-up with the feature that fetches it")


@contextlib.contextmanager
def running_s3proxy(directory: Path, *, largest_request: int = 32 << 20) -> Iterator[S3Server]:
    """Starts a server that ends with the block.

    Args:
        directory: Takes its settings and its log.
        largest_request: Bytes of content above which it refuses a request.
    """
    jar = find_jar(os.environ)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = S3Server(probe.getsockname()[1])
    settings = directory / "s3proxy.properties"
    settings.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{server.port}\n"
        "s3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={KEY}\n"
        f"s3proxy.credential={SECRET}\n"
        # It knows no checksum headers, which today's clients send with each bulk delete.
        "s3proxy.ignore-unknown-headers=true\n"
        f"s3proxy.v4-max-non-chunked-request-size={largest_request}\n"
        "jclouds.provider=transient\n"
        "jclouds.identity=none\n"
        "jclouds.credential=none\n"
    )
    log = directory / "s3proxy.log"
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java, *options, "-jar", jar, "--properties", settings],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(server, process, log)
        assert server.request("PUT", f"/{server.bucket}") == 200
        yield server
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(server: S3Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1):
            return
        time.sleep(0.1)
    pytest.fail(f"s3proxy did not start:\n{log.read_text()[-2000:]}")
