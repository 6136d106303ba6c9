"""Meltline's pages, links and macros, where Airflow looks for plugins."""

from meltline.airflow.pages.plugin import MeltlinePlugin

__all__ = ["MeltlinePlugin"]
