"""Lazily mounts the pages in Airflow's API server, for users who may read the lifecycle's runs.

Every component of Airflow loads the plugin, so the first request imports what the pages need.
"""

import os
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from meltline.airflow.requests.request import LIFECYCLE

METRICS_TOKEN = "MELTLINE_METRICS_TOKEN"
"""Environment variable of the API server: the bearer token of the metrics."""

_Message = MutableMapping[str, Any]


class LatePages:
    """The site as an ASGI application, built on the first request."""

    async def __call__(
        self, scope: _Message, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Handles a request."""
        await self.site(scope, receive, send)

    @cached_property
    def site(self) -> Any:
        """The FastAPI application."""
        from meltline.pages.site import site  # noqa: PLC0415 - FastAPI and Jinja

        return site(ledgers_of_request, _require_reader(), os.environ.get(METRICS_TOKEN, ""))


def _require_reader() -> Callable[..., Any]:
    """Returns Airflow's own access check, by its cookie or a token.

    Airflow mounts a plugin's application outside its login: without this check any user could read.
    The pages show what the runs' XComs and logs show, so the same permission applies.
    """
    # This is not part of Airflow's public interface; no other module of ours uses it.
    from airflow.api_fastapi.auth.managers.models.resource_details import (  # noqa: PLC0415
        DagAccessEntity,
    )
    from airflow.api_fastapi.core_api.security import requires_access_dag  # noqa: PLC0415

    return requires_access_dag("GET", DagAccessEntity.RUN, LIFECYCLE)


@contextmanager
def ledgers_of_request() -> Iterator[Any]:
    """Opens the ledgers like a command that starts no JVM, and closes the control ledger.

    Raises:
        SetupMissing: The API server has no path of `meltline.yaml`, or `meltline init` has not been
            run.
        ConfigInvalid: The file does not exist, or is invalid.
    """
    from meltline.airflow.requests.configuration import config_path  # noqa: PLC0415
    from meltline.app.safety.preconditions import require_prepared  # noqa: PLC0415
    from meltline.config.load import load_config  # noqa: PLC0415
    from meltline.wiring import Wiring  # noqa: PLC0415

    config = load_config(Path(config_path()), os.environ, Path.cwd())
    context = Wiring(config, progress=lambda line: None).ledgers()
    try:
        require_prepared(context)
        yield context
    finally:
        context.control.database.close()
