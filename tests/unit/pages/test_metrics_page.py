"""The metrics over HTTP: for who shows their token, and for nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi import HTTPException
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from meltline.app.services import ReadContext
from meltline.app.status.metrics import text_of
from meltline.app.status.purge_status import purge_status
from meltline.pages.site import site
from tests.lake.lake import Lake

TOKEN = "of the monitoring"


def no_reader() -> None:
    """The check of the pages, which lets nobody in."""
    raise HTTPException(403, "not for you")


@contextmanager
def nothing_is_read() -> Iterator[ReadContext]:
    raise AssertionError("the ledgers were opened for somebody who may not read")
    yield


def test_who_shows_the_token_reads_the_text_of_the_metrics_file() -> None:
    lake = Lake()
    lake.table("lake.a.t").append("f")
    lake.on(1).run()

    @contextmanager
    def ledgers() -> Iterator[ReadContext]:
        yield lake.services()

    client = TestClient(site(ledgers, no_reader, TOKEN))
    answer = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.text == text_of(purge_status(lake.services()))
    families = {family.name for family in text_string_to_metric_families(answer.text)}
    assert "meltline_purge_stopped" in families


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer another"},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer \u00fc".encode()},
    ],
)
def test_who_shows_another_token_or_none_is_refused_before_anything_is_read(
    headers: dict[str, str],
) -> None:
    client = TestClient(site(nothing_is_read, no_reader, TOKEN))
    answer = client.get("/metrics", headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_the_token_opens_no_other_page() -> None:
    client = TestClient(
        site(nothing_is_read, no_reader, TOKEN), headers={"authorization": f"Bearer {TOKEN}"}
    )
    for path in ("/", "/storage", "/api/storage", "/style.css", "/metrics/"):
        assert client.get(path).status_code == 403


def test_without_a_token_there_is_no_such_page_not_even_for_an_empty_one() -> None:
    client = TestClient(site(nothing_is_read, lambda: None))
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"authorization": "Bearer "}).status_code == 404
