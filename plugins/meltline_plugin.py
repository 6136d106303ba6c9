"""What Airflow must load of Meltline: Iceberg's words for times and sizes, for templates.

`{{ macros.meltline.format_instant(dag_run.run_after) }}`, `{{ macros.meltline.format_size(n) }}`
write them in notifications as the command and the reports do.
"""

from airflow.plugins_manager import AirflowPlugin

from meltline.domain.units import format_instant, format_size


class MeltlinePlugin(AirflowPlugin):
    """Registers the macros."""

    name = "meltline"
    macros = [format_instant, format_size]  # noqa: RUF012 - Airflow's own type is a plain list
