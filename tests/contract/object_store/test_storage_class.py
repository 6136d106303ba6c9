"""Of what class an object on S3 is to be: said with the request that writes it (AR-29)."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from meltline.adapters.object_store.stores import ObjectStores

Requests = list[tuple[str, str | None]]


@contextmanager
def listening() -> Iterator[tuple[str, Requests]]:
    """An address that takes whatever is written, and what was said of its class."""
    requests: Requests = []

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append((self.command, self.headers.get("x-amz-storage-class")))
            self.send_response(200)
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Wed, 26 Jun 2024 09:20:00 GMT")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_HEAD = _take

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("storage_class", ["GLACIER_IR", "DEEP_ARCHIVE", ""])
def test_what_is_written_to_s3_is_of_the_configured_class(storage_class: str) -> None:
    # AR-29
    with listening() as (address, requests):
        properties = {
            "s3.endpoint": address,
            "s3.region": "here",
            "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
        }
        if storage_class:
            properties["s3.write.storage-class"] = storage_class
        store = ObjectStores(properties)
        store.write("s3://b/a", b"x")
        store.write_stream("s3://b/c", iter([b"y"]))
        written = [said for command, said in requests if command == "PUT"]
        assert written == [storage_class or None] * 2
