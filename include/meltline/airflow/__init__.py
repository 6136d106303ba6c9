"""Meltline in Airflow 3: what the DAG files in `dags/` use, and the plugin.

`meltline airflow init DIR` writes these files into a DAGs folder.
"""
