"""The pages in Airflow's API server, for those who may read the lifecycle's runs there.

Every part of Airflow loads the plugin: what makes the pages is imported by the first request.
"""

import os
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from meltline.airflow.requests.request import LIFECYCLE

METRICS_TOKEN = "MELTLINE_METRICS_TOKEN"
"""Environment variable of the API server: what a monitoring shows to read the metrics."""

_Message = MutableMapping[str, Any]


class LatePages:
    """The site as an ASGI application that is made when somebody first asks for a page."""

    async def __call__(
        self, scope: _Message, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Passes a request on."""
        await self.site(scope, receive, send)

    @cached_property
    def site(self) -> Any:
        """The FastAPI application."""
        from meltline.pages.site import site  # noqa: PLC0415 - FastAPI and Jinja

        return site(ledgers_of_request, _require_reader(), os.environ.get(METRICS_TOKEN, ""))


def _require_reader() -> Callable[..., Any]:
    """Airflow's own check, by its cookie or a token.

    Airflow mounts a plugin's application outside of its login: without this anybody could read. The
    pages show what the runs' XComs and logs show, so whoever may read those may read them.
    """
    # This is not part of Airflow's public interface; nothing else of ours uses it.
    from airflow.api_fastapi.auth.managers.models.resource_details import (  # noqa: PLC0415
        DagAccessEntity,
    )
    from airflow.api_fastapi.core_api.security import requires_access_dag  # noqa: PLC0415

    return requires_access_dag("GET", DagAccessEntity.RUN, LIFECYCLE)


@contextmanager
def ledgers_of_request() -> Iterator[Any]:
    """Opens the ledgers as a command does that starts no JVM, and closes the control ledger.

    Raises:
        SetupMissing: The API server does not know where `meltline.yaml` is, or `meltline init` has
            not been run.
        ConfigInvalid: There is no such file, or it is wrong.
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
