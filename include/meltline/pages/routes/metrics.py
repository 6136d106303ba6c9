"""Route of the purge metrics, for a monitoring system with its own bearer token."""

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
    """Builds the route that returns the current text of the metrics file.

    Args:
        token: The bearer token; it gives access to the metrics alone.
    """

    def require_token(shown: _Shown) -> None:
        if shown is None or not compare_digest(shown.credentials.encode(), token.encode()):
            raise HTTPException(401, "the metrics need their token", {"WWW-Authenticate": "Bearer"})

    def metrics(context: Ledgers) -> Response:
        return Response(text_of(purge_status(context)), media_type=_TEXT_FORMAT)

    router = APIRouter(dependencies=[Depends(require_token)])
    router.add_api_route("/metrics", metrics, methods=["GET"])
    return router
