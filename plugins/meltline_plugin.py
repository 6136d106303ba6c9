"""Registers Meltline's pages, links and macros in Airflow's plugins folder.

An installed package registers them by its entry point, and Airflow reports a second registration as
an error. So this file registers them only if Meltline runs from a checkout.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="meltline"):
    from meltline.airflow.pages.plugin import MeltlinePlugin

    __all__ = ["MeltlinePlugin"]
