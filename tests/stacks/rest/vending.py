"""A catalog that vends: a proxy before Iceberg's server gives each table's answer keys of its own.

Keys are sessions of STS. A second proxy, before the store, knows which of them open what, and for
how long: a wrong or an old key really fails.
"""

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urlsplit

from tests.stacks.fault_proxy import Answer, Fault, FaultProxy, Request, fault_proxy, of_rest
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.s3.moto import KEY, REGION, SECRET, Moto

MINUTE_MS = 60_000
_OF_TABLES = "/tables/"


@dataclass(frozen=True)
class Session:
    """Keys for one prefix, `/bucket/folder/` as a path of the store, until a moment."""

    prefix: str
    token: str
    until: float


@dataclass
class Vendor:
    """What was vended, and who came with what.

    Attributes:
        lives: For how many seconds keys are good.
        says: In how many milliseconds it says that they end: soon, and they are asked for anew.
        signs: Whether it signs each request itself, and gives no keys.
        used: By prefix, the keys with which its files were asked for.
        refused: Requests with keys that open no such file.
    """

    moto: Moto
    rest: FaultProxy
    store: FaultProxy
    lives: float = 120.0
    says: int = 4 * MINUTE_MS
    signs: bool = False
    sessions: dict[str, Session] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    guard: Lock = field(default_factory=Lock)

    @property
    def uri(self) -> str:
        """Where the catalog answers, and vends."""
        return f"http://127.0.0.1:{self.rest.port}"

    @property
    def store_uri(self) -> str:
        """Where the store looks at keys."""
        return f"http://127.0.0.1:{self.store.port}"

    def vend(self, request: Request, answer: Answer) -> Answer:
        """Puts keys for a table into the answer that tells of it."""
        if answer.status != 200 or _OF_TABLES not in f"{request.path}/":
            return answer
        is_packed = ("content-encoding", "gzip") in [(n.lower(), t) for n, t in answer.headers]
        body = gzip.decompress(answer.body) if is_packed else answer.body
        document = json.loads(body or b"{}")
        location = (document.get("metadata") or {}).get("location")
        if not location:
            return answer
        document["config"] = {**(document.get("config") or {}), **self._config(location)}
        headers = [(n, t) for n, t in answer.headers if n.lower() != "content-encoding"]
        return Answer(answer.status, headers, json.dumps(document).encode())

    def _config(self, location: str) -> dict[str, str]:
        if self.signs:
            return {"s3.remote-signing-enabled": "true"}
        keys = dict(self.moto.session())
        prefix = f"/{location.removeprefix('s3://').rstrip('/')}/"
        session = Session(prefix, keys["s3.session-token"], time.monotonic() + self.lives)
        with self.guard:
            self.sessions[keys["s3.access-key-id"]] = session
        end = int(time.time() * 1000) + self.says
        return {**keys, "s3.session-token-expires-at-ms": str(end)}

    def open(self, request: Request) -> Fault | None:
        """Whether somebody's keys open what is asked for."""
        names = _names(request)
        with self.guard:
            session = self.sessions.get(request.key_id)
            if session is None:
                is_table = any(self._is_of_table(name) for name in names)
                ok = request.key_id == KEY and not is_table
            else:
                self.used.setdefault(session.prefix, set()).add(request.key_id)
                is_good = time.monotonic() < session.until
                has_token = request.headers.get("x-amz-security-token") == session.token
                is_own = all(f"{n}/".startswith(session.prefix) for n in names)
                ok = is_good and has_token and is_own
            if not ok:
                self.refused.append(f"{request.key_id}: {request.method} {', '.join(names)[:200]}")
        return None if ok else Fault.EXPIRED

    def _is_of_table(self, name: str) -> bool:
        return any(name.startswith(session.prefix) for session in self.sessions.values())


def _names(request: Request) -> list[str]:
    """Which objects, or which prefix of a listing, a request is about, as `/bucket/key`."""
    address = urlsplit(request.path)
    path = unquote(address.path)
    if request.is_bulk_delete:
        parts = request.body.decode().split("<Key>")[1:]
        return [f"{path.rstrip('/')}/{part.partition('</Key>')[0]}" for part in parts]
    query = dict(pair.partition("=")[::2] for pair in address.query.split("&"))
    prefix = unquote(query.get("prefix", ""))
    return [f"{path.rstrip('/')}/{prefix}"] if prefix else [path]


@contextmanager
def vending(moto: Moto, home: Path, warehouse: str) -> Iterator[tuple[Vendor, IcebergServer]]:
    """Runs Iceberg's server with its tables in a bucket, and both proxies."""
    settings = {
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": moto.address,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": KEY,
        "CATALOG_S3_SECRET__ACCESS__KEY": SECRET,
        "CATALOG_CLIENT_REGION": REGION,
        "CATALOG_HTTP__CLIENT_TYPE": "urlconnection",  # the other one is not in the bundle
    }
    with (
        iceberg_server(home, warehouse, settings) as server,
        fault_proxy(server.port, of_rest) as rest,
        fault_proxy(moto.port) as store,
    ):
        vendor = Vendor(moto, rest, store)
        rest.changes, store.chooses = vendor.vend, vendor.open
        yield vendor, server
