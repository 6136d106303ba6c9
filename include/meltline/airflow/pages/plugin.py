"""The plugin class that Airflow loads: the pages, and macros for templates.

The entry Meltline under Browse shows runs with their gates' findings, plans, and storage by stage.
`{{ macros.meltline.format_instant(dag_run.run_after) }}`, `{{ macros.meltline.format_size(n) }}`
format times and sizes in notifications like the command and the reports.
"""

from airflow.plugins_manager import AirflowPlugin

from meltline.airflow.pages.late_pages import LatePages
from meltline.airflow.pages.page_addresses import PREFIX, PlansLink
from meltline.domain.units import format_instant, format_size


class MeltlinePlugin(AirflowPlugin):
    """Registers the macros, the pages with their menu entry, and the links to them."""

    # Airflow's own types are plain lists.
    name = "meltline"
    macros = [format_instant, format_size]  # noqa: RUF012
    operator_extra_links = [PlansLink()]  # noqa: RUF012
    fastapi_apps = [  # noqa: RUF012
        {"app": LatePages(), "url_prefix": PREFIX, "name": "Meltline"}
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Meltline",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "meltline",
        }
    ]
