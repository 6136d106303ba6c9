"""A run's note in Airflow's UI, where a site lets Meltline write it.

A task has no way to write notes of its own run; the public API has, with a login. Who wants notes
makes the connection `meltline_airflow_api`; without it nothing is done and nothing is missing, for
the same words are in the log and the XCom of `verdict`.
"""

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

_LOG = logging.getLogger(__name__)

CONNECTION = "meltline_airflow_api"
_LONGEST = 1000
"""Characters that Airflow takes for a note."""
_SECONDS = 10.0


def note_run(run: Any, sentences: Sequence[str]) -> bool:
    """Writes the note of a run; a note that cannot be written is a warning and never a failure.

    Args:
        run: The `dag_run` of a task's context.
        sentences: What it is to say.

    Returns:
        Whether it was written.
    """
    try:
        connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return False
    try:
        _write(_address(connection), connection, run, _shortened("\n\n".join(sentences)))
    except Exception as error:  # whatever a server answers: the run has ended as it has ended
        _LOG.warning("no note was written for %s: %s", run.run_id, error)
        return False
    return True


def _address(connection: Connection) -> str:
    host = connection.host or "localhost"
    base = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    return f"{base}:{connection.port}" if connection.port else base


def _write(address: str, connection: Connection, run: Any, note: str) -> None:
    import httpx  # noqa: PLC0415 - only where there is such a connection

    login = {"username": connection.login, "password": connection.password}
    with httpx.Client(base_url=address, timeout=_SECONDS) as client:
        token = client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        path = f"/api/v2/dags/{quote(run.dag_id, '')}/dagRuns/{quote(run.run_id, '')}"
        client.patch(
            path,
            params={"update_mask": "note"},
            json={"note": note},
            headers={"Authorization": f"Bearer {token}"},
        ).raise_for_status()


def _shortened(note: str) -> str:
    return note if len(note) <= _LONGEST else f"{note[: _LONGEST - 1]}…"
