"""The Airflow plugin: pages, links to them, macros for templates."""
