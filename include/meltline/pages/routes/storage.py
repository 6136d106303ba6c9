"""Routes of storage by stage: the page, and its figures as JSON."""

from threading import Lock

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from meltline.app.run_request import globs
from meltline.app.storage.storage_answer import storage_answer
from meltline.pages.lake_picture import NEXT_STEPS, lake_picture
from meltline.pages.routes.answers import Ledgers, document, root_of
from meltline.pages.storage_picture import storage_page

router = APIRouter()
_ONE_AT_A_TIME = Lock()
"""Serializes requests: summing up a large ledger takes seconds and memory."""


@router.get("/storage")
def picture(request: Request, context: Ledgers, tables: str = "") -> Response:
    """Shows the storage of the lake, or of the tables that match some globs."""
    with _ONE_AT_A_TIME:
        drawn = lake_picture(context, globs(tables))
    return HTMLResponse(storage_page(drawn, root=root_of(request), next_steps=NEXT_STEPS))


@router.get("/api/storage")
def figures(context: Ledgers, tables: str = "", by: str = "table") -> Response:
    """Returns the document of `storage --json`."""
    with _ONE_AT_A_TIME:
        return document(storage_answer(context, globs(tables), by=by).as_json())
