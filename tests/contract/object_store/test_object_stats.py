"""How many requests the sizes and times of many objects cost, and which."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from threading import Lock, Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from meltline.adapters.object_store.stores import ObjectStores

PAGE = 1000
WRITTEN = "2026-01-02T03:04:05.000Z"
SIZE = 7


@dataclass
class Counted:
    """An S3 server that lists and measures, counts either, and begins a listing only once.

    One that is asked to go on where a listing ended, and with a first key again, refuses: S3 itself
    does not, servers that speak its language do.
    """

    keys: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)
    lists: bool = True

    def note(self, what: str) -> None:
        with self.lock:
            self.asked[what] += 1

    def page(self, query: Mapping[str, str]) -> str | None:
        """A page of a listing; None where that is refused."""
        if not self.lists or {"continuation-token", "start-after"} <= query.keys():
            return None
        prefix = query.get("prefix", "")
        after = query.get("continuation-token", query.get("start-after", ""))
        keys = sorted(key for key in self.keys if key.startswith(prefix) and key > after)
        last = escape("".join(keys[PAGE - 1 : PAGE]))
        more = f"<NextContinuationToken>{last}</NextContinuationToken>"
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{WRITTEN}</LastModified>"
            f'<ETag>"e"</ETag><Size>{SIZE}</Size></Contents>'
            for key in keys[:PAGE]
        )
        return f"<ListBucketResult>{contents}{more if keys[PAGE:] else ''}</ListBucketResult>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counted: Counted

    def do_GET(self) -> None:
        self.counted.note("list")
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        page = self.counted.page(query)
        self._answer(400 if page is None else 200, (page or "").encode())

    def do_HEAD(self) -> None:
        self.counted.note("head")
        key = unquote(urlsplit(self.path).path.removeprefix("/lake/"))
        self._answer(200 if key in self.counted.keys else 404, length=SIZE)

    def _answer(self, status: int, body: bytes = b"", length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@dataclass(frozen=True)
class Bucket:
    """A server's bucket, and the store that asks it."""

    server: Counted
    store: ObjectStores

    def ask(self, keys: list[str], *, gone: int = 0) -> dict[str, int]:
        """Asks for some keys, all of which are there but the last; returns what that took."""
        self.server.asked.clear()
        paths = [f"s3://lake/{key}" for key in keys]
        stats = self.store.stats(paths)
        assert [stat.path for stat in stats] == paths
        assert not any(stat.error for stat in stats)
        there = [stat.file is not None for stat in stats]
        assert there == [key in self.server.keys for key in keys] and there.count(False) == gone
        return dict(self.server.asked)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    counted = Counted()
    handler = type("Handler", (_Handler,), {"counted": counted})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        properties = {
            "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
            "s3.region": "us-east-1",
            "s3.anonymous": "true",
        }
        yield Bucket(counted, ObjectStores(properties))
        server.shutdown()


def names(folder: str, count: int, first: int = 0) -> list[str]:
    return [f"{folder}/{number:07}" for number in range(first, first + count)]


def test_a_whole_folder_takes_a_listing_of_each_thousand_and_nothing_more(bucket: Bucket) -> None:
    keys = names("t", 2500)
    bucket.server.keys.update(keys)
    assert bucket.ask(keys) == {"list": 3}


def test_what_lies_between_the_keys_asked_for_is_passed_over(bucket: Bucket) -> None:
    bucket.server.keys.update(names("t", 20_000))
    first, last = names("t", 100, 3000), names("t", 100, 18_000)
    assert bucket.ask(first + last) == {"list": 2}


def test_few_keys_of_a_large_folder_are_asked_for_by_name(bucket: Bucket) -> None:
    bucket.server.keys.update(names("t", 20_000))
    assert bucket.ask(names("t", 24)) == {"head": 24}
    scattered = names("t", 20_000)[::500]
    asked = bucket.ask(scattered)
    assert asked["list"] <= 2 and asked["head"] >= len(scattered) - 4


def test_folders_are_listed_each_by_itself(bucket: Bucket) -> None:
    keys = [key for folder in range(20) for key in names(f"t/{folder}", 50)]
    bucket.server.keys.update(keys)
    assert bucket.ask(keys) == {"list": 20}


def test_what_a_listing_does_not_show_is_asked_for_by_name(bucket: Bucket) -> None:
    keys = names("t", 100)
    bucket.server.keys.update(keys[:-1])
    assert bucket.ask(keys, gone=1) == {"list": 1, "head": 1}


def test_where_nobody_may_list_each_is_asked_for_by_name(bucket: Bucket) -> None:
    keys = names("t", 100)
    bucket.server.keys.update(keys)
    bucket.server.lists = False
    assert bucket.ask(keys) == {"list": 1, "head": 100}


def test_each_of_many_paths_has_the_key_that_it_has_alone(bucket: Bucket) -> None:
    heads = ("s3://b/", "s3a://b/", "s3://c/", "S3://b/", "s3:///", "s3:/", "s3:", "file:///")
    parts = ("a", "b.c", "", ".", "..", "a b", "a\nb", "%2e%2e", "é")
    tails = ["/".join(names) for count in range(4) for names in product(parts, repeat=count)]
    paths = [head + tail for head in heads for tail in tails]
    together = _keys(bucket.store, paths)
    assert len(together) > 500
    for path in paths:
        assert _keys(bucket.store, [path]).get(path) == together.get(path), path


def _keys(store: ObjectStores, paths: list[str]) -> dict[str, tuple[tuple[str, str], str]]:
    """In which store some paths lie, and with which keys; without those that nobody can spell."""
    batches, _ = store.cloud._by_place(paths)
    return {path: (place, key) for place, batch in batches.items() for path, key in batch}
