"""Nobody reads a page who may not: every path there is or could be is behind the one check."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI, Header, HTTPException
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from meltline.app.services import ReadContext
from meltline.pages.site import site

BUILT_IN = ("/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/static/x.js", "/nothing")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def require_word(x_word: str = Header("")) -> None:
    """A check that lets in who knows the word."""
    if x_word != "please":
        raise HTTPException(401, "who are you?")


@contextmanager
def nothing_is_read() -> Iterator[ReadContext]:
    raise AssertionError("the ledgers were opened for somebody who may not read")
    yield


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return site(nothing_is_read, require_word)


def paths(app: FastAPI) -> list[str]:
    routes = [route.path for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes), "something is mounted beside the routes"
    filled = [route.replace("{run_id:path}", "r").replace("{plan}", "p") for route in routes]
    return [*(path.replace("{path:path}", "any/thing") for path in filled), *BUILT_IN]


def test_every_route_and_every_other_path_is_refused_by_every_method(app: FastAPI) -> None:
    client = TestClient(app)
    answers = {(m, p): client.request(m, p).status_code for p in paths(app) for m in METHODS}
    assert {"/storage", "/api/storage", "/style.css", "/docs", "/openapi.json"} <= set(paths(app))
    assert set(answers.values()) == {401}, [asked for asked in answers if answers[asked] != 401]


def test_who_is_refused_does_not_learn_whether_their_question_was_a_good_one(app: FastAPI) -> None:
    client = TestClient(app)
    for path in ("/runs/r?kind=nonsense", "/runs/r?batch=x", "/plans/p?items=perhaps"):
        assert client.get(path).status_code == 401


def test_who_may_read_still_cannot_write(app: FastAPI) -> None:
    client = TestClient(app, headers={"x-word": "please"})
    for method in METHODS[2:]:
        answer = client.request(method, "/plans/p")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert client.get("/style.css").status_code == 200


def test_each_route_has_the_check_first(app: FastAPI) -> None:
    for route in app.routes:
        checks: list[Any] = route.dependant.dependencies  # type: ignore[attr-defined]
        assert checks[0].call is require_word, route
