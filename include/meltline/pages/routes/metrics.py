"""The metrics of purging, for a monitoring that shows a bearer token of its own."""

from secrets import compare_digest
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from meltline.app.status.metrics import text_of
from meltline.app.status.purge_status import purge_status
from meltline.pages.routes.answers import Ledgers

_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_Shown = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def metrics_router(token: str) -> APIRouter:
    """Makes the route that answers with the text of the metrics file, as it is now.

    Args:
        token: Who shows it may read the metrics, and nothing else.
    """

    def require_token(shown: _Shown) -> None:
        if shown is None or not compare_digest(shown.credentials.encode(), token.encode()):
            raise HTTPException(401, "the metrics need their token", {"WWW-Authenticate": "Bearer"})

    def metrics(context: Ledgers) -> Response:
        return Response(text_of(purge_status(context)), media_type=_TEXT_FORMAT)

    router = APIRouter(dependencies=[Depends(require_token)])
    router.add_api_route("/metrics", metrics, methods=["GET"])
    return router
