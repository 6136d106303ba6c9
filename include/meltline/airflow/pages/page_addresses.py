"""Addresses of the pages in Airflow, and the links from tasks to them.

The operators and the plugin use them. The pages themselves work without Airflow.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from meltline.airflow.requests.request import run_id_in_ledger
from meltline.app.run.steps import EVERY_STEP

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/meltline"
"""The path at which Airflow's API server mounts the site."""


class PlansLink(BaseOperatorLink):
    """Links a task to the plans of its run, filtered by its kind and its batch."""

    @property
    def name(self) -> str:
        """The label of the button on the task's page."""
        return "Plans and gates"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Returns the address without the host: users may reach it by another name."""
        chosen: dict[str, str | int] = {}
        if kind := next((step.kind for step in EVERY_STEP if step.name == operator.task_id), None):
            chosen["kind"] = str(kind)
        if ti_key.map_index is not None and ti_key.map_index >= 0:
            chosen["batch"] = ti_key.map_index + 1  # batches count from 1
        query = f"?{urlencode(chosen)}" if chosen else ""
        run = quote(run_id_in_ledger(ti_key.dag_id, ti_key.run_id), safe="")
        return f"{airflow_root()}{PREFIX}/runs/{run}{query}#gates"


def airflow_root() -> str:
    """Returns the path at which a proxy shows Airflow; usually empty."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
