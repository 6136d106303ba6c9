"""Azure's blobs on the loopback: Azurite, which npm has (`npm install azurite`)."""

import base64
import contextlib
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlencode

from tests.stacks.s3.processes import program, running

ACCOUNT = "devstoreaccount1"
KEY = (  # the one that is printed on every page about it
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_VERSION = "2021-12-02"


@dataclass(frozen=True)
class Azurite:
    """A running server."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self.where, "adls.account-key": KEY}

    @property
    def where(self) -> Mapping[str, str]:
        """How to reach it, without keys."""
        return {"adls.account-name": ACCOUNT, "adls.account-host": self.address}

    def container(self, name: str) -> str:
        """Makes a container, and gives its location."""
        day = formatdate(usegmt=True)
        headers = f"x-ms-date:{day}\nx-ms-version:{_VERSION}"
        empty = "\n" * 12
        signed = f"PUT{empty}{headers}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        request = urllib.request.Request(
            f"{self.address}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": day,
                "x-ms-version": _VERSION,
                "Authorization": f"SharedKey {ACCOUNT}:{_sign(signed)}",
            },
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 201
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def sas_token(self, lives: timedelta, rights: str = "rwdlac") -> str:
        """A token for all of the account's blobs, as a catalog would vend it."""
        end = (datetime.now(UTC) + lives).strftime("%Y-%m-%dT%H:%M:%SZ")
        signed = f"{ACCOUNT}\n{rights}\nb\nsco\n\n{end}\n\nhttps,http\n{_VERSION}\n\n"
        return urlencode(
            {
                "sv": _VERSION,
                "ss": "b",
                "srt": "sco",
                "sp": rights,
                "se": end,
                "spr": "https,http",
                "sig": _sign(signed),
            }
        )


def _sign(text: str) -> str:
    return base64.b64encode(
        hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    ).decode()


@contextlib.contextmanager
def running_azurite(directory: Path) -> Iterator[Azurite]:
    """Starts a server in memory that ends with the block; without one the test is skipped."""
    command = program("azurite-blob", "MELTLINE_AZURITE")
    options = [
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--silent",
        "--disableTelemetry",
        "--blobHost",
    ]
    with running(
        lambda port: [command, *options, "127.0.0.1", "--blobPort", str(port)],
        directory / "azurite.log",
    ) as port:
        yield Azurite(port)
