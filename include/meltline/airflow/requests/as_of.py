"""The one rule by which an Airflow run, of whatever kind, comes to its `as_of` (PX-6, PX-7).

It reads nothing but the task's context and environment, so that the UI, the schedule, backfills
and the command line cannot come to different answers.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from meltline.app.run_request import INSTANT
from meltline.domain.clock import NOW, resolve_as_of


def as_of(context: Mapping[str, Any], environ: Mapping[str, str]) -> datetime:
    """The logical date of a run.

    1. What the parameter `as_of` says, when it is given.
    2. Else the end of the data interval, when there is one that is not empty: runs by schedule,
       backfills, and manual runs with a logical date.
    3. Else now, which is when the run was due; in a sandbox, the simulated now.

    What follows from an interval or from the run is never later than the wall clock.

    Args:
        context: The task's context; `params` and `dag_run` are always there, the interval is not.
        environ: The task's environment, for the simulated clock of a sandbox (`MELTLINE_NOW`).

    Raises:
        AsOfInFuture: The parameter names a time to come, and this is no dry run.
        UsageInvalid: The parameter or the simulated clock is not an instant with an offset.
    """
    params, run = context["params"], context["dag_run"]
    simulated = INSTANT.read(environ[NOW], NOW) if environ.get(NOW) else None
    if text := params.get("as_of"):
        wall = simulated or datetime.now(UTC)
        return resolve_as_of(INSTANT.read(text, "as_of"), wall, dry_run=bool(params.get("dry_run")))
    # The wall clock of a run is when it started: all its steps, and their retries, agree on that.
    wall = simulated or _plain(run.start_date or datetime.now(UTC))
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is not None and end is not None and start < end:
        return min(_plain(end), wall)
    return simulated or min(_plain(run.run_after), wall)


def _plain(moment: datetime) -> datetime:
    """Airflow's moments are Pendulum's, with their own ideas of formatting."""
    return datetime.fromisoformat(moment.isoformat()).astimezone(UTC)
