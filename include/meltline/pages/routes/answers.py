"""Dependencies and responses that all routes share."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Query, Request, Response
from fastapi.responses import HTMLResponse

from meltline.app.services import ReadContext
from meltline.domain.json_values import plain
from meltline.pages.rendering import render

OpenLedgers: TypeAlias = Callable[[], AbstractContextManager[ReadContext]]
"""Opens the ledgers for one request, and closes them after it."""


def ledgers(request: Request) -> Iterator[ReadContext]:
    """Yields the ledgers and catalogs, for the duration of a request."""
    open_ledgers: OpenLedgers = request.app.state.open_ledgers
    with open_ledgers() as context:
        yield context


Ledgers = Annotated[ReadContext, Depends(ledgers)]
Limit = Annotated[int, Query(ge=1, le=500)]


def root_of(request: Request) -> str:
    """Returns the path prefix of the pages: of the mount, and of a proxy around it."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def page(request: Request, template: str, status: int = 200, **facts: Any) -> Response:
    """Renders a page from a template."""
    return HTMLResponse(render(template, root=root_of(request), **facts), status)


def document(facts: Any, status: int = 200) -> Response:
    """Returns a JSON document, in the format of a command's `--json`."""
    text = json.dumps(plain(facts), indent=2, ensure_ascii=False)
    return Response(text, status, media_type="application/json")
