"""The pages as a read-only web application, to be mounted in one that authenticates users.

Airflow's API server mounts it.
"""

import logging
import traceback
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meltline.domain.errors import (
    ConfigInvalid,
    MeltlineError,
    PlanNotFound,
    RunNotFound,
    SetupMissing,
    UsageInvalid,
)
from meltline.domain.redaction import discreet
from meltline.pages.rendering import style_sheet
from meltline.pages.routes import plans, runs, storage
from meltline.pages.routes.answers import OpenLedgers, document, page
from meltline.pages.routes.metrics import metrics_router

log = logging.getLogger(__name__)

ROUTERS = (runs.router, plans.router, storage.router)
"""The routers of the pages; another capability adds its own."""

_HEADERS = {
    # No scripts at all, styles from this site alone, and frames only on the same site.
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_STATUS: tuple[tuple[type[MeltlineError], int], ...] = (
    (PlanNotFound, 404),
    (RunNotFound, 404),
    (UsageInvalid, 400),
    (SetupMissing, 503),
    (ConfigInvalid, 503),
)


def site(
    open_ledgers: OpenLedgers, require_reader: Callable[..., Any], metrics_token: str = ""
) -> FastAPI:
    """Builds the application.

    Args:
        open_ledgers: Opens the ledgers for a request.
        require_reader: A dependency that raises an HTTPException for a user without read access. It
            guards every path, known or not; FastAPI's own paths are disabled.
        metrics_token: The bearer token of the metrics, which need no access to the pages. Empty:
            there are no metrics.
    """
    app = FastAPI(
        title="Meltline",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        middleware=[Middleware(SafeHeaders)],
    )
    app.add_exception_handler(MeltlineError, _refused)
    app.add_exception_handler(Exception, _unforeseen)
    app.state.open_ledgers = open_ledgers
    if metrics_token:
        app.include_router(metrics_router(metrics_token))
    guarded = APIRouter(dependencies=[Depends(require_reader)])
    for router in ROUTERS:
        guarded.include_router(router)
    guarded.add_api_route("/style.css", _style, methods=["GET"])
    guarded.add_api_route("/{path:path}", _nothing, methods=_METHODS)
    app.include_router(guarded)
    return app


class SafeHeaders:
    """Adds the security headers for browsers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Calls the application, and adds the headers to its response."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                safe = [(name.encode(), text.encode()) for name, text in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *safe]}
            await send(message)

        await self._app(scope, receive, send_safely)


def _style() -> Response:
    return Response(style_sheet(), media_type="text/css")


def _nothing(request: Request, path: str) -> Response:
    """Handles all unknown paths, so that a user without access cannot probe which paths exist."""
    if request.method != "GET":
        raise HTTPException(405, "these pages only read", {"allow": "GET"})
    raise HTTPException(404, "there is no such page")


def _refused(request: Request, error: Exception) -> Response:
    """Shows an error of Meltline, with its next step."""
    assert isinstance(error, MeltlineError)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return _error(request, error, status)


def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("a page failed\n%s", discreet("".join(traceback.format_exception(error))))
    told = MeltlineError(
        "something went wrong that Meltline did not foresee",
        object=type(error).__name__,
        next="the API server's log has the whole trace",
    )
    answer = _error(request, told, 500)
    answer.headers.update(_HEADERS)  # this response bypasses all middleware
    return answer


def _error(request: Request, error: MeltlineError, status: int) -> Response:
    if "/api/" in request.url.path:
        return document({"error": error.as_json()}, status)
    return page(request, "error.html", status, error=error)
