"""Where the pages are in Airflow, and the links that tasks have to theirs."""

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
"""Under which Airflow's API server mounts the site."""


class PlansLink(BaseOperatorLink):
    """From a task to the plans of its run: of the kind that it is about, and of its batch."""

    @property
    def name(self) -> str:
        """On the button of the task's page."""
        return "Plans and gates"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """The address, from the host's root on: people may know the host by another name."""
        chosen: dict[str, str | int] = {}
        if kind := next((step.kind for step in EVERY_STEP if step.name == operator.task_id), None):
            chosen["kind"] = str(kind)
        if ti_key.map_index is not None and ti_key.map_index >= 0:
            chosen["batch"] = ti_key.map_index + 1  # batches count from 1
        query = f"?{urlencode(chosen)}" if chosen else ""
        run = quote(run_id_in_ledger(ti_key.dag_id, ti_key.run_id), safe="")
        return f"{airflow_root()}{PREFIX}/runs/{run}{query}#gates"


def airflow_root() -> str:
    """The path under which a proxy shows Airflow; mostly none."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
